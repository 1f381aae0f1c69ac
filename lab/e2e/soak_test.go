//go:build soak

package e2e

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/lab/cluster"
)

// TestSoak kills the program at random moments, SOAK_KILLS times (30), on one lab. SOAK_SEED repeats the choice of nodes, sizes and
// moments; what the machines make of it differs.
func TestSoak(t *testing.T) {
	kills, seed := number32(t, "SOAK_KILLS", 30), uint64(number32(t, "SOAK_SEED", int(time.Now().Unix())))
	t.Logf("SOAK_SEED=%d", seed)
	s := &soak{fixture: start(t, cluster.Options{Workers: 1, Pods: 2}), random: rand.New(rand.NewPCG(seed, 1))}
	for s.killed < kills {
		s.grow(t)
		if t.Failed() {
			t.Fatalf("after %d kills, SOAK_SEED=%d", s.killed, seed)
		}
	}
	t.Logf("%d kills in %d growths", s.killed, s.growths)
}

func number32(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return int(n)
}

type soak struct {
	*fixture

	random          *rand.Rand
	killed, growths int
	shortest        time.Duration // growth that was not disturbed: moments are chosen within two thirds of it, as no two take equally long
}

// mostKills bounds the kills in one growth: guests have room for 22 growths each (6 CPUs, 16 DIMMs).
const mostKills = 3

// grow does one tiny growth with some kills, each followed by a run on another machine.
func (s *soak) grow(t *testing.T) {
	t.Helper()
	s.growths++
	node := s.Nodes[s.random.IntN(len(s.Nodes))]
	g := s.size(t, node)
	goals, args := g.goals(t, s.fixture)
	scale := append([]string{"scale", s.Options.Name, "--yes", settle}, args...)
	before, pods, record := s.read(t), s.pods(t), s.record(t)
	k := &killing{fixture: s.fixture, node: node, before: before[node.Name()], asked: s.changes(t), jobs: len(s.Cloud.Model.Jobs())}

	command, began, killedBefore := scale, time.Now(), s.killed
	for range mostKills {
		if s.shortest == 0 || !s.kill(t, command) {
			break
		}
		if command = scale; s.random.IntN(2) == 0 {
			command = []string{"resume", s.Options.Name, "--yes"}
		}
	}
	// Twice: a resume that found nothing begun has done nothing, and a scale that finds everything done does nothing.
	s.finish(t, command)
	if undisturbed := time.Since(began); s.killed == killedBefore && (s.shortest == 0 || undisturbed < s.shortest) {
		s.shortest = undisturbed
	}
	s.finish(t, scale)
	expectOneAtATime(t, record.stop(t))
	s.expectOnlyNeededRequests(t, s.changes(t).since(k.asked), []string{node.Name()})
	s.expectOneJob(t, k)
	s.expectGrown(t, before, goals)
	s.expectPodsUntouched(t, pods)
	s.expectLeaseFree(t)
}

// size is what the node can still take: a CPU or a DIMM.
func (s *soak) size(t *testing.T, node *cluster.Node) growth {
	t.Helper()
	hardware, err := node.Hardware(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := []growth{{cpus: 1}, {mib: 128}}
	possible := slices.DeleteFunc(all, func(g growth) bool {
		return hardware.VCPUs+g.cpus > hardware.MaxVCPUs || (g.mib > 0 && hardware.DIMMs == hardware.MaxDIMMs)
	})
	if len(possible) == 0 {
		t.Fatalf("%s is full: %+v", node.Name(), hardware)
	}
	g := possible[s.random.IntN(len(possible))]
	g.roles = []string{node.Role()}
	return g
}

// kill starts trueup and kills it after a random time. It reports false if trueup was faster.
func (s *soak) kill(t *testing.T, command []string) bool {
	t.Helper()
	after := time.Duration(s.random.Int64N(int64(s.shortest * 2 / 3)))
	if s.leaseHolder(t) != "" && s.random.IntN(8) > 0 {
		after += takeover // else most kills would meet a run that waits
	}
	s.hastenTakeover(t)
	r := begin(t, s.another(t), command...)
	select {
	case <-r.ended:
		r.expectCode(t, 0)
		return false
	case <-time.After(after): // the moment is what is tested
	}
	_ = r.cmd.Process.Signal(syscall.SIGKILL) // it may have just ended
	if r.wait(); r.code != -1 {
		r.expectCode(t, 0)
		return false
	}
	s.killed++
	t.Logf("kill %d: %s after %s: claims %q", s.killed, r, after.Round(time.Millisecond), s.claims(t))
	return true
}

// takeover is how long a run waits for a holder that died, after hastenTakeover.
const takeover = 21 * time.Second

// finish runs the command to its end.
func (s *soak) finish(t *testing.T, command []string) {
	t.Helper()
	s.hastenTakeover(t)
	begin(t, s.another(t), command...).wait().expectCode(t, 0)
}

// claims says for the log what the nodes carry.
func (s *soak) claims(t *testing.T) (all []string) {
	t.Helper()
	for _, node := range s.Nodes {
		switch c := s.claim(t, node); {
		case c == nil:
			all = append(all, "none")
		case c.Restart != nil:
			all = append(all, "restart announced")
		case c.Resize != nil:
			all = append(all, "resize announced, job "+c.Resize.JobID)
		default:
			all = append(all, "made")
		}
	}
	return all
}
