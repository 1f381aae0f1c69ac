package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/lab/cluster"
	"github.com/cks-trueup/trueup/lab/guest"
)

// BenchmarkLab measures trueup on 4 nodes; run it with -benchtime 1x. It asserts nothing about time.
func BenchmarkLab(b *testing.B) {
	f := start(b, cluster.Options{Workers: 3})
	b.Run("status of 4 nodes", func(b *testing.B) {
		for b.Loop() {
			f.trueup(b, 0, "status", f.Options.Name)
		}
	})
	b.Run("scale", func(b *testing.B) { benchmarkScale(b, f) })
}

// benchmarkScale scales the workers once, whatever b.N is: nodes only grow.
func benchmarkScale(b *testing.B, f *fixture) {
	offering := f.grown(b, "worker", 1, 1024)
	before, record, boots := f.read(b), f.record(b), map[string]time.Time{}
	for _, node := range f.ofRole("worker") {
		boot, err := node.BootTime(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		boots[node.Name()] = boot
	}
	b.ReportMetric(readingTime(b, f.ofRole("worker")[0]).Seconds(), "guest-reading-s")
	report := f.scale(b, "--worker", offering.Name)
	sights, after := record.stop(b), f.read(b)

	var all []costs
	for _, r := range report.Nodes {
		node := f.node(b, r.Target.Name)
		was, is := before[node.Name()].Guest, after[node.Name()].Guest
		started := boots[node.Name()].Add(is.KubeletStart)
		c := costs{
			wall: r.Took, job: f.resizeJob(b, node), online: span(is.Online[len(was.Online):]),
			stop: is.KubeletStart - stopBegan(b, node), fresh: firstFresh(b, sights, node, offering.CPUs).Sub(started),
		}
		b.Logf("%s: %s; moves by trueup's report: %v", node.Name(), c, r.Moves)
		b.ReportMetric(c.added().Seconds(), node.Name()+"-added-s")
		all = append(all, c)
	}
	reportMeans(b, all)
}

// settleWindow is trueup's default.
const settleWindow = 15 * time.Second

// costs says where the time of one node, or of several, went. All but wall is by the machines' own records.
type costs struct {
	wall   time.Duration // of trueup's report: from its first look at the node until it is given back
	job    time.Duration // CloudStack's, from its creation to its completion
	online time.Duration // from the first CPU or memory block that came up to the last
	stop   time.Duration // of the old kubelet, until the new one was started
	fresh  time.Duration // from kubelet's start to its first status that shows the new CPU count and is Ready
}

// added is what is left: trueup's own looks, its writes, and the time that it needs to learn that something has happened.
// The stop of the old kubelet is in it.
func (c costs) added() time.Duration { return c.wall - c.job - c.online - max(c.fresh, settleWindow) }

func (c costs) String() string {
	return fmt.Sprintf("wall %.2fs, CloudStack job %.2fs, onlining %.2fs, kubelet's stop %.2fs, start to fresh status %.2fs (settle window %s): added by trueup %.2fs",
		c.wall.Seconds(), c.job.Seconds(), c.online.Seconds(), c.stop.Seconds(), c.fresh.Seconds(), settleWindow, c.added().Seconds())
}

func reportMeans(b *testing.B, all []costs) {
	b.Helper()
	for unit, of := range map[string]func(costs) time.Duration{
		"wall-s/node":          func(c costs) time.Duration { return c.wall },
		"job-s/node":           func(c costs) time.Duration { return c.job },
		"online-s/node":        func(c costs) time.Duration { return c.online },
		"kubelet-stop-s/node":  func(c costs) time.Duration { return c.stop },
		"kubelet-fresh-s/node": func(c costs) time.Duration { return c.fresh },
		"added-s/node":         costs.added,
	} {
		var sum time.Duration
		for _, c := range all {
			sum += of(c)
		}
		b.ReportMetric(sum.Seconds()/float64(len(all)), unit)
	}
}

// resizeJob is how long CloudStack's last job for the node's VM took.
func (f *fixture) resizeJob(b *testing.B, node *cluster.Node) (took time.Duration) {
	b.Helper()
	for _, job := range f.Cloud.Model.Jobs() {
		if job.InstanceID == node.VMID() && job.Status == standin.JobSucceeded {
			took = job.Completed.Sub(job.Created)
		}
	}
	return took
}

// readingTime is how long this machine's emulation needs for one reading of a guest over an SSH connection that is open: a yardstick,
// because trueup looks at the guest before each effect.
func readingTime(b *testing.B, node *cluster.Node) time.Duration {
	b.Helper()
	began := time.Now()
	inside(b, node, guestScript)
	return time.Since(began)
}

func span(came []guest.Arrival) time.Duration { return came[len(came)-1].At - came[0].At }

// stopBegan is when systemd last began to stop kubelet, since boot.
func stopBegan(b *testing.B, node *cluster.Node) time.Duration {
	b.Helper()
	began, err := node.Count(b.Context(), "systemctl show --property=ActiveExitTimestampMonotonic --value kubelet", time.Microsecond)
	if err != nil {
		b.Fatal(err)
	}
	return began
}

// firstFresh is when the API server first told of a Ready Node with so many CPUs: only a kubelet that was started after they came up says so.
func firstFresh(b *testing.B, sights []cluster.Sight, node *cluster.Node, cpus int) time.Time {
	b.Helper()
	for _, s := range sights {
		if s.Node.Name == node.Name() && cluster.NodeReady(s.Node) && s.Node.Status.Capacity.Cpu().Value() == int64(cpus) {
			return s.At
		}
	}
	b.Fatalf("%s was never Ready with %d CPUs", node.Name(), cpus)
	return time.Time{}
}
