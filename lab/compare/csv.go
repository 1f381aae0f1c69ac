package compare

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"
)

// WriteRuns writes one line per run, all times in seconds.
func WriteRuns(w io.Writer, trials []Trial) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"round", "contender", "wall_s", "cpu_s", "peak_mib", "ssh_connections", "cloudstack_requests", "kubernetes_requests", "bytes"}}
	for _, t := range trials {
		lines = append(lines, []string{strconv.Itoa(t.Round), t.Contender, seconds(t.Wall), seconds(t.CPU), fmt.Sprintf("%.1f", t.PeakMiB),
			strconv.Itoa(t.SSHConnections), strconv.Itoa(t.CloudStackRequests), strconv.Itoa(t.KubernetesRequests), strconv.FormatInt(t.Bytes, 10)})
	}
	return out.WriteAll(lines)
}

// WriteNodes writes one line per node of each run, all times in seconds, with the phases in their order.
func WriteNodes(w io.Writer, trials []Trial) error {
	out := csv.NewWriter(w)
	var lines [][]string
	for _, t := range trials {
		for _, n := range t.Nodes {
			if lines == nil {
				lines = append(lines, nodeHeader(n))
			}
			line := []string{strconv.Itoa(t.Round), t.Contender, n.Node, seconds(n.Wall), seconds(n.Added), seconds(n.Cordoned), seconds(n.NotReady), strconv.Itoa(n.KubeletRestarts)}
			for _, p := range n.Phases {
				line = append(line, seconds(p.Took))
			}
			lines = append(lines, line)
		}
	}
	return out.WriteAll(lines)
}

func nodeHeader(n NodeTrial) []string {
	header := []string{"round", "contender", "node", "wall_s", "added_s", "cordoned_s", "not_ready_s", "kubelet_restarts"}
	for _, p := range n.Phases {
		header = append(header, p.Name)
	}
	return header
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) }

// ofSeconds is the inverse of Duration.Seconds.
func ofSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
