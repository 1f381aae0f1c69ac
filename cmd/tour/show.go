package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/cks-trueup/trueup/internal/cli"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// elsewhere is how long CloudStack's own scale is given, in the cluster's time.
const elsewhere = 6 * time.Second

func (g *guide) say(format string, args ...any) { fmt.Fprintf(g.out, format+"\n", args...) }

// views shows how big each node is by the views of CloudStack, guest and Kubernetes.
func (g *guide) views() {
	g.say("")
	t := tabwriter.NewWriter(g.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "  NODE\tINSTANCE\tGUEST\tNODE'S CAPACITY\tSCHEDULABLE")
	for _, m := range g.world.Members() {
		s := m.Seen
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%t\n", s.Target.Name, s.Instance.Size(), s.Guest.Size(), s.Node.Size(), !s.Node.Unschedulable)
	}
	_ = t.Flush() // to a person: nothing to be done where it fails
}

func (g *guide) plan(p rollout.Plan) {
	for i, n := range p.Nodes {
		g.say("%d. %s", i+1, n.Target.Name)
		for _, m := range n.Moves {
			g.say("   %-8s %s", m.Move, m.Sentence)
		}
	}
	g.say("")
}

func (g *guide) walk(ctx context.Context, p rollout.Plan, command string) error {
	shown := cli.NewProgress(g.out, p, g.clock.Now)
	defer shown.Close()
	r := g.world.Run()
	r.Watcher = shown.Event
	_, err := r.Perform(ctx, p, command)
	return err
}
