// Command tour shows what trueup does, without any set-up and in under half a minute: the real engine and the real progress display,
// on a simulated cluster whose time runs faster. A cluster with drift, a scale, a fault, a resume.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/world"
)

// faster is how much faster than real time the tour runs: about 80 seconds of a rollout are told in 16.
const faster = 5

func main() {
	if err := tour(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
}

// guide leads through the tour.
type guide struct {
	out   io.Writer
	clock *world.FastClock
	world *world.World
}

func tour(ctx context.Context, out io.Writer) error {
	g := &guide{out: out, clock: world.NewFastClock(faster)}
	g.world = world.New(world.Config{Clock: g.clock, Seed: 1, Nodes: []world.NodeConfig{
		{Name: "control-1", Blip: true}, {Name: "worker-1", Blip: true}, {Name: "worker-2", Blip: true}}})
	defer g.world.Close()

	g.say("A cluster of three nodes, simulated, %d times as fast as real. Somebody has scaled worker-1 in CloudStack. CloudStack calls it done,", faster)
	g.say("but nobody has brought up the new hardware in the guest, and kubelet still advertises the old size:")
	g.world.ScaleElsewhere("worker-1") //nolint:contextcheck // what others do in the world has no context
	g.world.Sleep(elsewhere)
	g.views()

	goal := world.Goal(g.world.Big)
	plan := g.world.PlanScale(map[rollout.Role]rollout.Goal{rollout.RoleWorker: goal, rollout.RoleControl: goal})
	g.say("\n$ trueup scale %s --worker big --control big", world.ClusterName)
	g.plan(plan)
	g.world.CloudStack.Script(standin.Fault{VM: plan.Nodes[1].Target.InstanceID, Effect: standin.CPUFailure{}})
	err := g.walk(ctx, plan, "scale")
	var fault *rollout.Fault
	if !errors.As(err, &fault) {
		return fmt.Errorf("the scripted fault did not come: %w", err)
	}
	g.say("\nOn the host of worker-2 the memory was attached and the CPUs were not. trueup has stopped there, and leaves the node cordoned:")
	g.say("  layer     %s\n  expected  %s\n  observed  %s\n  next      %s", fault.Layer, fault.Expected, fault.Observed, fault.Recover)
	g.views()

	g.say("\nThe host is mended. Somebody else goes on, on another machine; all that is needed is in the cluster itself:")
	g.say("\n$ trueup resume %s", world.ClusterName)
	if err := g.walk(ctx, g.world.PlanResume(), "resume"); err != nil {
		return err
	}
	g.say("\nAll four views agree, every kubelet was restarted once, and no pod was evicted:")
	g.views()
	return nil
}
