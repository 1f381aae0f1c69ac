package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// at is a moment, in seconds after the program's start.
func at(seconds float64) time.Time { return time.Unix(1e9, 0).Add(ofSeconds(seconds)) }

func way() timeline {
	return timeline{node: "w1", begin: at(0), cordoned: at(1), jobBegan: at(1.5), jobEnded: at(3.5), plugged: at(4), started: at(6), fresh: at(9), given: at(10), end: at(10.5)}
}

func TestTimeline(t *testing.T) {
	w := way()
	if err := w.check(); err != nil {
		t.Fatal(err)
	}
	var total time.Duration
	for _, p := range w.phases() {
		total += p.Took
	}
	if total != w.wall() || w.wall() != 10500*time.Millisecond {
		t.Errorf("phases take %s, the whole way %s; want 10.5 s both", total, w.wall())
	}
	if want := 5 * time.Second; w.added() != want { // 1 + 0.5 + 2 + 1 + 0.5
		t.Errorf("added: %s, want %s", w.added(), want)
	}
	w.plugged = at(3) // memory may be there before CloudStack's job has ended
	if total := w.phases()[3]; total.Took != 0 {
		t.Errorf("%s: %s, want none", total.Name, total.Took)
	}
}

func TestTimelineThatIsNone(t *testing.T) {
	for name, spoil := range map[string]func(*timeline){
		"never cordoned":                  func(w *timeline) { w.cordoned = time.Time{} },
		"never fresh":                     func(w *timeline) { w.fresh = time.Time{} },
		"given back before it was fresh":  func(w *timeline) { w.given = at(7) },
		"resized before it was cordoned":  func(w *timeline) { w.jobBegan = at(0.5) },
		"restarted before all was online": func(w *timeline) { w.plugged = at(7) },
	} {
		w := way()
		spoil(&w)
		if w.check() == nil {
			t.Errorf("%s: taken for a measurement", name)
		}
	}
}

// sight is a Node with so many CPUs, at a moment.
func sight(seconds float64, cpus int64, ready, unschedulable bool) cluster.Sight {
	node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
	if ready {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	return cluster.Sight{At: at(seconds), Node: node}
}

func TestReadSights(t *testing.T) {
	var w timeline
	w.read([]cluster.Sight{sight(0, 2, true, false), sight(1, 2, true, true), sight(5, 3, false, true), sight(7, 3, true, true), sight(8, 3, true, false)}, 3)
	want := timeline{cordoned: at(1), fresh: at(7), given: at(8), notReady: 2 * time.Second}
	if diff := cmp.Diff(want, w, cmp.AllowUnexported(timeline{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSpread(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   spread
	}{
		"none": {nil, spread{}},
		"odd":  {[]float64{3, 1, 2}, spread{1, 2, 3}},
		"even": {[]float64{4, 1, 2, 3}, spread{1, 2.5, 4}},
	} {
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func trials() []Trial {
	w := way()
	node := NodeTrial{Node: "w1", Phases: w.phases(), Wall: w.wall(), Added: w.added(), Cordoned: 9 * time.Second, KubeletRestarts: 1}
	return []Trial{{Round: 1, Contender: "trueup", Wall: w.wall(), SSHConnections: 2, Bytes: 2048, Nodes: []NodeTrial{node}}}
}

func TestFiles(t *testing.T) {
	for name, c := range map[string]struct {
		write func(io.Writer, []Trial) error
		want  [][]string
	}{
		"runs": {WriteRuns, [][]string{
			{"round", "contender", "wall_s", "cpu_s", "peak_mib", "ssh_connections", "cloudstack_requests", "kubernetes_requests", "bytes"},
			{"1", "trueup", "10.50", "0.00", "0.0", "2", "0", "0", "2048"}}},
		"nodes": {WriteNodes, [][]string{
			{"round", "contender", "node", "wall_s", "added_s", "cordoned_s", "not_ready_s", "kubelet_restarts", "look", "ask CloudStack", "CloudStack's job", "guest plugs", "notice, restart", "kubelet's start", "verify, give back", "end"},
			{"1", "trueup", "w1", "10.50", "5.00", "9.00", "0.00", "1", "1.00", "0.50", "2.00", "0.50", "2.00", "3.00", "1.00", "0.50"}}},
	} {
		var out bytes.Buffer
		if err := c.write(&out, trials()); err != nil {
			t.Fatal(err)
		}
		got, err := csv.NewReader(&out).ReadAll()
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestSummary(t *testing.T) {
	var out strings.Builder
	if err := WriteSummary(&out, trials()); err != nil {
		t.Fatal(err)
	}
	if want := "| of it not the machine's own, s per node | 5.0 (5.0–5.0) |"; !strings.Contains(out.String(), want) {
		t.Errorf("the table does not say %q:\n%s", want, &out)
	}
}

// TestPlot: the drawing is well-formed, and has a part for each phase.
func TestPlot(t *testing.T) {
	var out bytes.Buffer
	if err := WritePlot(&out, trials()); err != nil {
		t.Fatal(err)
	}
	var titles []string
	for in := xml.NewDecoder(&out); ; {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "title" {
			var text string
			if err := in.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			titles = append(titles, text)
		}
	}
	want := []string{"look: 1.0 s", "ask CloudStack: 0.5 s", "CloudStack's job: 2.0 s", "guest plugs: 0.5 s", "notice, restart: 2.0 s", "kubelet's start: 3.0 s", "verify, give back: 1.0 s", "end: 0.5 s"}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Errorf("parts of the bar (-want +got):\n%s", diff)
	}
}

// TestRelay: what passes is counted, both ways, and the end of a stream is handed on.
func TestRelay(t *testing.T) {
	echo, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go func() {
		conn, err := echo.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(conn, conn)
	}()
	r, err := newRelay(t.Context(), echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.address())
	if err != nil {
		t.Fatal(err)
	}
	const said = "a few words"
	if _, err := io.WriteString(conn, said); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	heard, err := io.ReadAll(conn)
	_ = conn.Close()
	r.close()
	r.open.Wait()
	if err != nil || string(heard) != said || r.bytes.Load() != int64(2*len(said)) || r.connections.Load() != 1 {
		t.Errorf("heard %q (%v), counted %d bytes in %d connections; want %q, %d, 1", heard, err, r.bytes.Load(), r.connections.Load(), said, 2*len(said))
	}
}
