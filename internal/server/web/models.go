package web

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/preflight"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// What the pages show. A status is a word with a mark; its colour only repeats it.

// status is how something is.
type status struct {
	Kind string // ok, warn, bad, busy or idle: the mark and the colour
	Text string
}

type fleetPage struct {
	Clusters                        []fleetRow
	Nodes, Drifting, Blind, Waiting int
	Working                         int
}

type fleetRow struct {
	Cluster

	Status status
	Drifts []drifting
}

type drifting struct {
	View  capacity.View
	Nodes int
}

func newFleet(clusters []Cluster) fleetPage {
	var p fleetPage
	for _, c := range clusters {
		row := fleetRow{Cluster: c, Status: statusOf(c), Drifts: drifts(c)}
		p.Nodes += c.Nodes
		p.Drifting += count(lags(c))
		p.Blind += count(!c.Readable)
		p.Waiting += count(c.Waiting != "")
		p.Working += count(c.Now != nil && c.Now.Phase != PhaseUnfinished)
		p.Clusters = append(p.Clusters, row)
	}
	slices.SortStableFunc(p.Clusters, func(a, b fleetRow) int { return rank(a.Status) - rank(b.Status) })
	return p
}

// rank puts first what a person should look at.
func rank(s status) int { return slices.Index([]string{"bad", "warn", "busy", "idle", "ok"}, s.Kind) }

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func drifts(c Cluster) (out []drifting) {
	for _, v := range capacity.AllViews() {
		if n := c.Drift[v]; n > 0 {
			out = append(out, drifting{v, n})
		}
	}
	return out
}

// lags reports whether a view of a node lags. A record is nothing wrong with the nodes.
func lags(c Cluster) bool { return c.Drift[capacity.ViewGuest]+c.Drift[capacity.ViewNode] > 0 }

func statusOf(c Cluster) status {
	switch {
	case c.Waiting != "":
		return status{"bad", "waits for a person"}
	case !c.Readable:
		return status{"bad", "can't be read"}
	case c.Now != nil && c.Now.Phase != PhaseUnfinished && c.Now.Phase != PhaseEnded:
		return status{"busy", "rollout " + phaseText(c.Now.Phase)}
	case c.Now != nil && c.Now.Phase == PhaseUnfinished:
		return status{"warn", "rollout unfinished"}
	case lags(c):
		return status{"warn", "drift"}
	case c.Drift[capacity.ViewRecord] > 0:
		return status{"idle", "record differs"}
	}
	return status{"ok", "in agreement"}
}

func phaseText(p Phase) string {
	if p == PhaseElsewhere {
		return "by another holder"
	}
	return string(p)
}

type clusterPage struct {
	Detail

	Status  status
	Drifts  []drifting
	Rows    []nodeRow
	Checks  []checkGroup
	Failing int
	Runs    []runRow
	Roles   []roleChoice
	Can     steering
}

type roleChoice struct {
	Role      rollout.Role
	Nodes     int
	Offerings []capacity.Offering
}

// steering says which buttons make sense.
type steering struct{ Plan, Reconcile, Pause, Resume, Release bool }

func steeringOf(c Cluster) steering {
	phase := PhaseEnded
	if c.Now != nil {
		phase = c.Now.Phase
	}
	unfinished := phase == PhaseUnfinished
	return steering{Plan: phase == PhaseEnded && c.Readable, Reconcile: phase == PhaseEnded && c.Readable && lags(c), Pause: phase == PhaseRunning, Resume: unfinished, Release: unfinished}
}

type nodeRow struct {
	survey.Node

	Status       status
	CPUs, Memory []bar
	Ready        string
	Cordoned     bool
}

// bar is one view's figure beside the others.
type bar struct {
	View    capacity.View
	Width   string // in percent of the largest of the cluster
	Text    string // empty: not read, or there is none
	Missing string // why
	Lags    bool
}

func newClusterPage(d Detail, runs []Rollout) clusterPage {
	p := clusterPage{Detail: d, Status: statusOf(d.Cluster), Drifts: drifts(d.Cluster), Checks: groupChecks(d.Preflight), Can: steeringOf(d.Cluster)}
	members := make([]memberDocument, 0, len(d.Members))
	var cpus, memory float64
	for _, m := range d.Members {
		doc := newMember(m)
		for _, v := range doc.Views {
			if v != nil {
				cpus, memory = max(cpus, v.CPUs), max(memory, float64(v.MemoryBytes))
			}
		}
		members = append(members, doc)
	}
	for i, m := range d.Members {
		p.Rows = append(p.Rows, newNodeRow(m, members[i], cpus, memory))
	}
	for _, c := range d.Preflight {
		p.Failing += count(c.Verdict == preflight.Fail)
	}
	for _, r := range runs[:min(len(runs), 10)] {
		p.Runs = append(p.Runs, runRow{r, runStatus(r)})
	}
	for _, role := range rollout.Roles() {
		n := 0
		for _, m := range d.Members {
			n += count(m.Target.Role == role)
		}
		if n > 0 {
			p.Roles = append(p.Roles, roleChoice{role, n, d.Offerings})
		}
	}
	return p
}

func newNodeRow(n survey.Node, doc memberDocument, cpus, memory float64) nodeRow {
	row := nodeRow{Node: n, Ready: doc.Ready, Cordoned: doc.Unschedulable, Status: nodeStatus(n, doc)}
	for _, v := range capacity.AllViews() {
		c, m := bar{View: v, Width: "0%"}, bar{View: v, Width: "0%"}
		c.Lags = slices.ContainsFunc(n.Drifts, func(d capacity.Drift) bool { return d.View == v })
		m.Lags = c.Lags
		if d := doc.Views[string(v)]; d != nil {
			c.Width, c.Text = percent(d.CPUs, cpus), trim(d.CPUs)
			m.Width, m.Text = percent(float64(d.MemoryBytes), memory), gib(d.MemoryBytes)
		} else {
			c.Missing = missing(n, v)
			m.Missing = c.Missing
		}
		row.CPUs, row.Memory = append(row.CPUs, c), append(row.Memory, m)
	}
	return row
}

// missing says why a view has no figure.
func missing(n survey.Node, v capacity.View) string {
	if v == capacity.ViewNode && !n.Target.Role.HasNode() {
		return "no Node"
	}
	if v == capacity.ViewRecord {
		return "not set"
	}
	return "not read"
}

func nodeStatus(n survey.Node, doc memberDocument) status {
	lag := slices.ContainsFunc(n.Drifts, func(d capacity.Drift) bool { return d.View != capacity.ViewRecord })
	switch {
	case n.Claim != nil && n.Claim.Phase != "":
		return status{"bad", "claimed, stopped"}
	case n.Claim != nil:
		return status{"busy", "claimed"}
	case len(n.Problems) > 0:
		return status{"bad", "not fully read"}
	case lag:
		return status{"warn", "lags"}
	case doc.Ready != "" && doc.Ready != "True":
		return status{"bad", "not Ready"}
	case len(n.Drifts) > 0:
		return status{"idle", "record differs"}
	}
	return status{"ok", "agrees"}
}

func percent(part, whole float64) string {
	if whole <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.1f%%", 100*part/whole)
}

func trim(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", f), "0"), ".")
}

func gib(b int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(b)/(1<<30)), ".0") + " GiB"
}

type checkGroup struct {
	Topic  string
	Checks []checkRow
}

type checkRow struct {
	Check

	Status status
}

// groupChecks puts the checks of the cluster first, then those of each node, what failed first in each.
func groupChecks(checks []Check) (out []checkGroup) {
	for _, c := range checks {
		topic := cmp.Or(c.Node, "The cluster")
		i := slices.IndexFunc(out, func(g checkGroup) bool { return g.Topic == topic })
		if i < 0 {
			i = len(out)
			out = append(out, checkGroup{Topic: topic})
		}
		out[i].Checks = append(out[i].Checks, checkRow{c, verdict(c.Verdict)})
	}
	for _, g := range out {
		slices.SortStableFunc(g.Checks, func(a, b checkRow) int { return rank(a.Status) - rank(b.Status) })
	}
	return out
}

func verdict(v preflight.Verdict) status {
	kinds := map[preflight.Verdict]string{preflight.Pass: "ok", preflight.Warn: "warn", preflight.Fail: "bad", preflight.Unknown: "idle", preflight.Ignored: "warn"}
	return status{cmp.Or(kinds[v], "idle"), string(v)}
}

type runRow struct {
	Rollout

	Status status
}

func runStatus(r Rollout) status {
	if r.Phase != PhaseEnded {
		if r.Phase == PhaseUnfinished {
			return status{"warn", "unfinished"}
		}
		return status{"busy", phaseText(r.Phase)}
	}
	switch r.Result {
	case "done":
		return status{"ok", "done"}
	case "interrupted":
		return status{"warn", "paused"}
	}
	return status{"bad", cmp.Or(r.Result, "ended")}
}

type rolloutPageData struct {
	Cluster Cluster
	Rollout Rollout
	Status  status
	Turns   []turn
	Notes   []string
	Can     steering
	Latest  string
	Took    time.Duration
}

func newRolloutPage(c Cluster, one told, now time.Time) rolloutPageData {
	p := rolloutPageData{Cluster: c, Rollout: one.Rollout, Status: runStatus(one.Rollout), Turns: turns(one, now), Notes: one.notes}
	if c.Now != nil && c.Now.Run == one.Run {
		p.Can = steeringOf(c)
	}
	if n := len(one.events); n > 0 {
		p.Latest = one.events[n-1].Target.Name + ": " + lineOf(one.events[n-1]).Text
	}
	if !one.Began.IsZero() {
		end := one.Ended
		if end.IsZero() {
			end = now
		}
		p.Took = end.Sub(one.Began)
	}
	return p
}
