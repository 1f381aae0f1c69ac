package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/internal/history"
)

type historyDocument struct {
	header

	Path  string          `json:"path"`
	Items []history.Entry `json:"items"`
}

func (a *app) historyCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "history [CLUSTER]",
		Short: "Show what was done from this machine, with evidence",
		Long: `Show the rollouts that were run from this machine by this user: who, what,
when, with which result. -o json has the evidence of each node: readings
before and after, job id, boot id, kubelet's InvocationID before the restart
and at the end. The history is a file of JSON lines that is only appended to;
nothing in trueup reads it to decide anything.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.showHistory(strings.Join(args, ""), output)
		},
	}
	addOutput(c, &output, "table", "json", "yaml")
	return c
}

func (a *app) showHistory(cluster, output string) error {
	file := a.history()
	entries, unreadable, err := file.Read()
	if err != nil {
		return err
	}
	doc := historyDocument{header: kind("History"), Path: file.Path(), Items: []history.Entry{}}
	for _, e := range entries {
		if cluster == "" || e.Cluster == cluster || e.ClusterID == cluster {
			doc.Items = append(doc.Items, e)
		}
	}
	if unreadable > 0 {
		fmt.Fprintf(a.Err, "%s of %s can't be read: cut by a crash, or written by a newer version.\n", plural(unreadable, "line"), file.Path())
	}
	if machine(output) {
		return printDocument(a.Out, output, doc)
	}
	if len(doc.Items) == 0 {
		fmt.Fprintf(a.Err, "No rollout%s is recorded in %s.\n", of(cluster), file.Path())
		return nil
	}
	columns := []column{{"TIME", 0}, {"CLUSTER", 3}, {"COMMAND", 0}, {"NODE", 0}, {"RESULT", 0}, {"TOOK", 4}, {"ACTOR", 2}, {"RUN", 1}}
	return a.printTable(columns, historyRows(doc.Items), "; -o json has all")
}

func of(cluster string) string {
	if cluster == "" {
		return ""
	}
	return " of " + cluster
}

func historyRows(entries []history.Entry) [][]string {
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		row := []string{e.Time.UTC().Format(time.RFC3339), e.Cluster, e.Command, "-", string(e.Kind), "-", e.Actor, e.Run[:min(8, len(e.Run))]}
		switch {
		case e.Node != nil:
			row[3], row[4], row[5] = e.Node.Target.Name, string(e.Node.Outcome), fmt.Sprintf("%.1fs", e.Node.Took.Seconds())
			if n := len(e.Node.Warnings); n > 0 {
				row[4] += ", " + plural(n, "note")
			}
		case e.Kind == history.KindEnd:
			row[4] = e.Result
		}
		rows = append(rows, row)
	}
	return rows
}
