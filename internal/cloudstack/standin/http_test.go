package standin

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inner returns what the only envelope of the answer holds.
func inner(t *testing.T, body map[string]any, envelope string) map[string]any {
	t.Helper()
	if keys := slices.Sorted(maps.Keys(body)); len(keys) != 1 || keys[0] != envelope {
		t.Fatalf("envelopes = %v, want only %s", keys, envelope)
	}
	return body[envelope].(map[string]any)
}

func TestErrorAnswers(t *testing.T) {
	b := newBench(t)
	reader := b.AddAccount(Account{Name: "reader", Commands: []string{"listZones"}})
	vm := b.node(1).ID
	for name, tc := range map[string]struct {
		method   string
		values   url.Values
		status   int
		envelope string
	}{
		"unknown command":    {"GET", b.signed(b.owner, "listUnicorns"), 432, "errorresponse"},
		"no command":         {"GET", b.signed(b.owner, ""), 432, "errorresponse"},
		"not permitted":      {"GET", b.signed(reader, "listVirtualMachines"), 432, "listvirtualmachinesresponse"},
		"admins only":        {"GET", b.signed(b.owner, "listConfigurations"), 432, "listconfigurationsresponse"},
		"GET for a change":   {"GET", b.signed(b.owner, "scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID), 405, "scalevirtualmachineresponse"},
		"missing parameter":  {"POST", b.signed(b.owner, "scaleVirtualMachine", "id", vm), 431, "scalevirtualmachineresponse"},
		"unknown offering":   {"POST", b.signed(b.owner, "scaleVirtualMachine", "id", vm, "serviceofferingid", "none"), 431, "scalevirtualmachineresponse"},
		"foreign VM":         {"POST", b.signed(b.stranger, "scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID), 531, "scalevirtualmachineresponse"},
		"malformed number":   {"GET", b.signed(b.owner, "listZones", "page", "one"), 430, "listzonesresponse"},
		"page too big":       {"GET", b.signed(b.owner, "listZones", "pagesize", "501"), 431, "listzonesresponse"},
		"foreign project":    {"GET", b.signed(b.stranger, "listVirtualMachines", "projectid", "11111111-1111-4111-8111-111111111111"), 531, "listvirtualmachinesresponse"},
		"unknown job":        {"GET", b.signed(b.owner, "queryAsyncJobResult", "jobid", "none"), 431, "queryasyncjobresultresponse"},
		"expired":            {"GET", b.signed(b.owner, "listZones", "expires", b.clock.Now().Add(-time.Second).UTC().Format(time.RFC3339)), 401, "listzonesresponse"},
		"expires now":        {"GET", b.signed(b.owner, "listZones", "expires", b.clock.Now().UTC().Format(time.RFC3339)), 401, "listzonesresponse"},
		"no expiry":          {"GET", b.signed(b.owner, "listZones", "expires", ""), 401, "listzonesresponse"},
		"expiry not a time":  {"GET", b.signed(b.owner, "listZones", "expires", "soon"), 401, "listzonesresponse"},
		"no version of sign": {"GET", b.signed(b.owner, "listZones", "signatureversion", "2"), 401, "listzonesresponse"},
		"unknown key":        {"GET", b.signed(b.owner, "listZones", "apiKey", "who"), 401, "listzonesresponse"},
		"other method":       {"DELETE", b.signed(b.owner, "listZones"), 405, "listzonesresponse"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body, _ := b.raw(tc.method, tc.values)
			if resp.StatusCode != tc.status {
				t.Errorf("status = %d, want %d", resp.StatusCode, tc.status)
			}
			e := inner(t, body, tc.envelope)
			if e["errorcode"] != float64(tc.status) || e["errortext"] == "" || len(e["uuidList"].([]any)) != 0 {
				t.Errorf("error body = %v", e)
			}
		})
	}
	if len(b.Jobs()) != 0 {
		t.Errorf("refused calls left jobs: %+v", b.Jobs())
	}
}

func TestTamperedParameterBreaksSignature(t *testing.T) {
	b := newBench(t)
	values := b.signed(b.owner, "scaleVirtualMachine", "id", b.node(1).ID, "serviceofferingid", b.small.ID)
	values.Set("serviceofferingid", b.big.ID)
	if resp, _, _ := b.raw(http.MethodPost, values); resp.StatusCode != 401 {
		t.Errorf("status = %d, want 401", resp.StatusCode)
	}
}

// The worked example of CloudStack's developer guide.
func TestSignatureOfDeveloperGuide(t *testing.T) {
	got := Sign(map[string]string{
		"apikey":  "plgWJfZK4gyS3mOMTVmjUVg-X-jlWlnfaUJ9GAbBbf9EdM-kAYMmAiLqzzq1ElZLYq_u38zCm0bewzGUdP66mg",
		"command": "listUsers", "response": "json",
	}, "VDaACYb0LV9eNjTetIOElcVQkvJck_J_QljX_FcHRj87ZKiy0z0ty0ZsYBkoXkY9b7eq1EhwJaw7FF3akA3KBQ")
	if want := "TTpdDq/7j/J58XCRHomKoQXEQds="; got != want {
		t.Errorf("signature = %q, want %q", got, want)
	}
}

func TestAcceptedCalls(t *testing.T) {
	b := newBench(t)
	for name, tc := range map[string]struct {
		method string
		values url.Values
	}{
		"RFC 3339 expiry":     {"GET", b.signed(b.owner, "listZones", "expires", b.clock.Now().Add(time.Second).UTC().Format(time.RFC3339))},
		"POST for a read":     {"POST", b.signed(b.owner, "listZones")},
		"special letters":     {"GET", b.signed(b.owner, "listZones", "keyword", "zone *~+/&=é 1")},
		"unknown extras":      {"GET", b.signed(b.owner, "listZones", "unicorns", "yes")},
		"command in capitals": {"GET", b.signed(b.owner, "LISTZONES")},
	} {
		t.Run(name, func(t *testing.T) {
			if resp, _, text := b.raw(tc.method, tc.values); resp.StatusCode != 200 {
				t.Errorf("status = %d, want 200: %s", resp.StatusCode, text)
			}
		})
	}
}

func TestWithoutEnforcement(t *testing.T) {
	b := newBench(t)
	b.Set(SettingEnforcePost, "", "false")
	vm := b.node(1).ID
	values := b.signed(b.owner, "scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID, "signatureversion", "2")
	if resp, _, text := b.raw(http.MethodGet, values); resp.StatusCode != 200 {
		t.Errorf("GET for a change, no expiry: status = %d, want 200: %s", resp.StatusCode, text)
	}
}

func TestShapes(t *testing.T) {
	b := newBench(t)
	resp, body, text := b.raw("GET", b.signed(b.owner, "listKubernetesClusters"))
	if got, want := resp.Header.Get("Date"), b.clock.Now().UTC().Format(http.TimeFormat); got != want {
		t.Errorf("Date = %q, want the model's time %q", got, want)
	}
	list := inner(t, body, "listkubernetesclustersresponse")
	if list["count"] != 1.0 {
		t.Errorf("count = %v, want 1", list["count"])
	}
	k := list["kubernetescluster"].([]any)[0].(map[string]any)
	if k["cpunumber"] != "6" || k["memory"] != "6144" || k["created"] != stamp(b.clock.Now()) {
		t.Errorf("cpunumber, memory, created = %v %v %v", k["cpunumber"], k["memory"], k["created"])
	}
	for _, absent := range []string{"workerofferingid", "controlofferingid", "etcdofferingid", "projectid"} {
		if _, ok := k[absent]; ok {
			t.Errorf("%s is there, want it absent: %s", absent, text)
		}
	}
	vm := k["virtualmachines"].([]any)[0].(map[string]any)
	want := []string{"affinitygroup", "displayname", "id", "isetcdnode", "isexternalnode", "kubernetesnodeversion", "name", "nic", "state", "zoneid"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(vm))); diff != "" {
		t.Errorf("keys of a VM in a cluster (-want +got):\n%s", diff)
	}
}

func TestTimeStampIsNotRFC3339(t *testing.T) {
	if got := stamp(time.Date(2022, 4, 18, 6, 21, 58, 0, time.UTC)); got != "2022-04-18T06:21:58+0000" {
		t.Errorf("stamp = %q", got)
	}
}

func TestEmptyListAndPageBehindTheEnd(t *testing.T) {
	b := newBench(t)
	if _, _, text := b.raw("GET", b.signed(b.stranger, "listVirtualMachines")); text != `{"listvirtualmachinesresponse":{}}` {
		t.Errorf("empty list = %s", text)
	}
	if _, _, text := b.raw("GET", b.signed(b.owner, "listVirtualMachines", "page", "2", "pagesize", "3")); text != `{"listvirtualmachinesresponse":{"count":3}}` {
		t.Errorf("page behind the end = %s", text)
	}
}

func TestRateLimit(t *testing.T) {
	b := newBench(t, func(c *Config) { c.RateLimit, c.RateInterval = 2, 10*time.Second })
	for range 2 {
		b.must(b.owner, "listZones")
	}
	b.clock.Advance(1500 * time.Millisecond)
	resp, body, _ := b.raw("GET", b.signed(b.owner, "listZones"))
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "9" {
		t.Errorf("status = %d, Retry-After = %q, want 429 and 9 s", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
	if e := inner(t, body, "listzonesresponse"); e["errorcode"] != 429.0 {
		t.Errorf("error = %v", e)
	}
	b.must(b.stranger, "listZones") // another account has its own count
	b.clock.Advance(10 * time.Second)
	b.must(b.owner, "listZones")
}

func TestOtherPath(t *testing.T) {
	b := newBench(t)
	resp, err := http.Get(strings.TrimSuffix(b.serve(), Path) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 404 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("answer = %s %s", resp.Status, resp.Header.Get("Content-Type"))
	}
}

func TestRequestsAreRecordedWithoutSecrets(t *testing.T) {
	b := newBench(t)
	vm := b.node(1).ID
	b.raw("GET", b.signed(b.owner, "listVirtualMachines", "id", vm))
	b.raw("POST", b.signed(b.owner, "scaleVirtualMachine", "id", vm, "serviceofferingid", b.big.ID))
	b.raw("GET", b.signed(b.owner, "listZones", "apiKey", "who"))
	want := []Request{
		{Time: b.clock.Now(), Method: "GET", Command: "listVirtualMachines", Account: "owner", Params: map[string]string{"id": vm}, Status: 200},
		{Time: b.clock.Now(), Method: "POST", Command: "scaleVirtualMachine", Account: "owner", Params: map[string]string{"id": vm, "serviceofferingid": b.big.ID}, Mutating: true, Status: 200},
		{Time: b.clock.Now(), Method: "GET", Command: "listZones", Params: map[string]string{}, Status: 401},
	}
	if diff := cmp.Diff(want, b.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	b.ForgetRequests()
	if got := b.Requests(); len(got) != 0 {
		t.Errorf("requests after ForgetRequests = %+v", got)
	}
}
