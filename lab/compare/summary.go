package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// spread is the least, the middle and the most of some measurements.
type spread struct{ least, median, most float64 }

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		middle = (sorted[len(sorted)/2-1] + middle) / 2
	}
	return spread{sorted[0], middle, sorted[len(sorted)-1]}
}

// in formats the spread with so many digits after the point.
func (s spread) in(digits int) string {
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median, digits, s.least, digits, s.most)
}

// row is one line of the summary.
type row struct {
	what   string
	digits int
	of     func(Trial) []float64
}

// ofRun is a figure of a whole run.
func ofRun(of func(Trial) float64) func(Trial) []float64 {
	return func(t Trial) []float64 { return []float64{of(t)} }
}

// ofNodes is a figure of each node.
func ofNodes(of func(NodeTrial) float64) func(Trial) (all []float64) {
	return func(t Trial) (all []float64) {
		for _, n := range t.Nodes {
			all = append(all, of(n))
		}
		return all
	}
}

func rows() []row {
	return []row{
		{"wall, s per node", 1, ofNodes(func(n NodeTrial) float64 { return n.Wall.Seconds() })},
		{"of it not the machine's own, s per node", 1, ofNodes(func(n NodeTrial) float64 { return n.Added.Seconds() })},
		{"cordoned, s per node", 1, ofNodes(func(n NodeTrial) float64 { return n.Cordoned.Seconds() })},
		{"not Ready, s per node", 1, ofNodes(func(n NodeTrial) float64 { return n.NotReady.Seconds() })},
		{"restarts of kubelet per node", 0, ofNodes(func(n NodeTrial) float64 { return float64(n.KubeletRestarts) })},
		{"SSH connections", 0, ofRun(func(t Trial) float64 { return float64(t.SSHConnections) })},
		{"requests to CloudStack", 0, ofRun(func(t Trial) float64 { return float64(t.CloudStackRequests) })},
		{"requests to Kubernetes", 0, ofRun(func(t Trial) float64 { return float64(t.KubernetesRequests) })},
		{"KiB sent and received", 0, ofRun(func(t Trial) float64 { return float64(t.Bytes) / 1024 })},
		{"CPU, s", 2, ofRun(func(t Trial) float64 { return t.CPU.Seconds() })},
		{"peak memory, MiB", 0, ofRun(func(t Trial) float64 { return t.PeakMiB })},
	}
}

// WriteSummary writes a table in Markdown: the median of all rounds, with the least and the most.
func WriteSummary(w io.Writer, trials []Trial) error {
	of := byContender(trials)
	var text strings.Builder
	head, line := []string{""}, []string{"---"}
	for _, c := range Contenders() {
		head, line = append(head, c.Name), append(line, "---")
	}
	writeRow(&text, head)
	writeRow(&text, line)
	for _, r := range rows() {
		cells := []string{r.what}
		for _, c := range Contenders() {
			var values []float64
			for _, t := range of[c.Name] {
				values = append(values, r.of(t)...)
			}
			cells = append(cells, spreadOf(values).in(r.digits))
		}
		writeRow(&text, cells)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func writeRow(w *strings.Builder, cells []string) {
	w.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func byContender(trials []Trial) map[string][]Trial {
	of := map[string][]Trial{}
	for _, t := range trials {
		of[t.Contender] = append(of[t.Contender], t)
	}
	return of
}
