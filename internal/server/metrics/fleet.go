package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cks-trueup/trueup/internal/capacity"
)

// series describes what is shown of each cluster.
type series struct {
	nodes, drifted, claimed, abandoned, readable, waiting, read, took, move, rollouts, restarts *prometheus.Desc
}

func describe() series {
	d := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("trueup_cluster_"+name, help, append([]string{"cluster_id", "cluster"}, more...), nil)
	}
	return series{
		nodes:     d("nodes", "Nodes of the cluster."),
		drifted:   d("drifted_nodes", "Nodes with this view lagging.", "view"),
		claimed:   d("claimed_nodes", "Nodes that carry a claim of trueup."),
		abandoned: d("abandoned_cordons", "Nodes that trueup cordoned while nobody holds the cluster's Lease now."),
		readable:  d("readable", "1 if the last scan could read the cluster, else 0: the other figures are of the last one that could."),
		waiting:   d("waiting", "1 if nothing goes on in the cluster without a person, else 0."),
		read:      d("last_scan_timestamp_seconds", "When the cluster was last read, in Unix seconds; absent until then."),
		took:      d("scan_duration_seconds", "Time that the last scan of the cluster took."),
		move:      d("move_seconds", "For how long the present move of a rollout by this server has lasted; absent while there is none.", "move"),
		rollouts:  d("rollouts_total", "Rollouts by this server that ended, by result.", "result"),
		restarts:  d("kubelet_restarts_total", "Restarts of kubelet that this server asked for, counted at the end of each rollout."),
	}
}

// fleet shows the clusters. It is a collector of its own because ages are true at the moment of asking, and a cluster that goes takes
// all its series with it.
type fleet struct {
	*Metrics
	series
}

// Describe implements prometheus.Collector.
func (f *fleet) Describe(to chan<- *prometheus.Desc) {
	s := f.series
	for _, d := range []*prometheus.Desc{s.nodes, s.drifted, s.claimed, s.abandoned, s.readable, s.waiting, s.read, s.took, s.move, s.rollouts, s.restarts} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (f *fleet) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clusters {
		f.show(c, to)
	}
}

func (f *fleet) show(c *Cluster, to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, append([]string{c.id, c.name}, more...)...)
	}
	for _, r := range results() { // all from the start, so that the first failure is an increase
		send(f.rollouts, prometheus.CounterValue, float64(c.results[r]), string(r))
	}
	send(f.restarts, prometheus.CounterValue, float64(c.restarts))
	if c.move != "" {
		send(f.move, prometheus.GaugeValue, max(0, f.now().Sub(c.since).Seconds()), string(c.move))
	}
	if !c.scanned {
		return
	}
	send(f.readable, prometheus.GaugeValue, number(c.scan.Readable))
	send(f.took, prometheus.GaugeValue, c.scan.Took.Seconds())
	if c.read.IsZero() {
		return
	}
	send(f.read, prometheus.GaugeValue, float64(c.read.UnixMilli())/1000)
	send(f.waiting, prometheus.GaugeValue, number(c.scan.Waiting))
	send(f.nodes, prometheus.GaugeValue, float64(c.scan.Nodes))
	send(f.claimed, prometheus.GaugeValue, float64(c.scan.Claimed))
	send(f.abandoned, prometheus.GaugeValue, float64(c.scan.Abandoned))
	for _, v := range capacity.AllViews() {
		send(f.drifted, prometheus.GaugeValue, float64(c.scan.Drift[v]), string(v))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
