package metrics

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"

	"github.com/cks-trueup/trueup/internal/rollout"
)

var update = flag.Bool("update", false, "write the list of metrics into docs/metrics.md")

const (
	rulesFile     = "../../../packaging/prometheus/trueup.rules.yml"
	rulesTestFile = "../../../packaging/prometheus/trueup.rules.test.yml"
	dashboardFile = "../../../packaging/grafana/trueup.json"
	pageFile      = "../../../docs/metrics.md"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []alert `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

// exist are the names of all series that the server shows, those of the runtime included.
func exist(t *testing.T) map[string]bool {
	t.Helper()
	all, err := busy(&clock{noon}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, f := range all {
		names[f.GetName()] = true
		if f.GetType() == dto.MetricType_HISTOGRAM {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				names[f.GetName()+suffix] = true
			}
		}
	}
	return names
}

var metricName = regexp.MustCompile(`\b(trueup|go|process)_[a-z0-9_]+`)

func searchUnknown(t *testing.T, where, expr string) {
	t.Helper()
	names := metricName.FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s names no metric: %s", where, expr)
	}
	there := exist(t)
	for _, name := range names {
		if !there[name] {
			t.Errorf("%s names %s, which the server does not show", where, name)
		}
	}
}

func TestAlerts(t *testing.T) {
	page := read(t, pageFile)
	for _, a := range alerts(t) {
		searchUnknown(t, a.Alert, a.Expr)
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s says nothing to a person", a.Alert)
		}
		if want := "https://github.com/cks-trueup/trueup/blob/main/docs/metrics.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %q, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !strings.Contains(page, "\n### "+a.Alert+"\n") {
			t.Errorf("docs/metrics.md does not say what to do about %s", a.Alert)
		}
	}
}

// Each alert is shown by promtool's tests to fire, and not to.
func TestAlertsAreTested(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string            `json:"alertname"`
				Expected []json.RawMessage `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesTestFile)), &file); err != nil {
		t.Fatal(err)
	}
	fires, silent := map[string]int{}, map[string]int{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert]++
			} else {
				silent[c.Alert]++
			}
		}
	}
	for _, a := range alerts(t) {
		if fires[a.Alert] == 0 || silent[a.Alert] < 2 {
			t.Errorf("%s is shown to fire %d times and to be silent %d times, want at least 1 and 2", a.Alert, fires[a.Alert], silent[a.Alert])
		}
	}
}

// A move that is within its bound is not stuck, whichever it is.
func TestStuckIsPastEveryBound(t *testing.T) {
	for _, a := range alerts(t) {
		if a.Alert != "TrueupStuck" {
			continue
		}
		_, bound, _ := strings.Cut(a.Expr, ">")
		seconds, err := strconv.ParseFloat(strings.TrimSpace(bound), 64)
		limits := reflect.ValueOf(rollout.DefaultLimits())
		for i := range limits.NumField() {
			if d, is := reflect.TypeAssert[time.Duration](limits.Field(i)); is && (err != nil || seconds <= d.Seconds()) {
				t.Errorf("stuck is after %s s (%v), and the bound %s is %v", bound, err, limits.Type().Field(i).Name, d)
			}
		}
		return
	}
	t.Error("there is no TrueupStuck")
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		Expr       string `json:"expr"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
	} `json:"targets"`
}

func TestDashboard(t *testing.T) {
	var dashboard struct {
		UID        string `json:"uid"`
		Templating struct {
			List []struct {
				Name       string `json:"name"`
				Definition string `json:"definition"`
			} `json:"list"`
		} `json:"templating"`
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || len(dashboard.Templating.List) != 2 {
		t.Errorf("uid %q, variables %v; want a uid, and datasource and cluster", dashboard.UID, dashboard.Templating.List)
	}
	searchUnknown(t, "variable cluster", dashboard.Templating.List[1].Definition)
	taken := map[[2]int]string{}
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			searchUnknown(t, p.Title, target.Expr)
			if target.Datasource.UID != "${datasource}" {
				t.Errorf("%s asks %q instead of the chosen data source", p.Title, target.Datasource.UID)
			}
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %q or past the edge", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// What is shown and nobody looks at is either not needed or forgotten in the dashboard.
func TestEveryMetricIsUsed(t *testing.T) {
	used := read(t, dashboardFile) + read(t, rulesFile)
	for _, f := range families(t, busy(&clock{noon})) {
		// For people who want to know how long ago.
		if !strings.Contains(used, f.GetName()) && f.GetName() != "trueup_cluster_nodes" && f.GetName() != "trueup_config_last_reload_success_timestamp_seconds" {
			t.Errorf("neither dashboard nor alerts use %s", f.GetName())
		}
	}
}

const (
	tableBegin = "<!-- metrics:begin, written by `go test ./internal/server/metrics -update` -->\n"
	tableEnd   = "<!-- metrics:end -->\n"
)

func TestPageListsEveryMetric(t *testing.T) {
	page := read(t, pageFile)
	before, rest, began := strings.Cut(page, tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !began || !ended {
		t.Fatal("docs/metrics.md has lost the marks around the list")
	}
	want := before + tableBegin + table(families(t, busy(&clock{noon}))) + tableEnd + after
	if *update {
		if err := os.WriteFile(pageFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != want {
		t.Error("docs/metrics.md does not list the metrics as they are: run go test ./internal/server/metrics -update")
	}
}

// table is the list of metrics for people.
func table(all []*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range all {
		labels := map[string]bool{}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp())
	}
	return b.String()
}
