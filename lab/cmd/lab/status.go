package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/lab/cluster"
)

func statusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the lab: its guests on standard error, its exports on standard output; exit 1 if none is up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := folder(*dir)
			if err != nil {
				return err
			}
			description, err := cluster.ReadDescription(path)
			if err != nil {
				return err
			}
			// Errors come out at Flush.
			out := tabwriter.NewWriter(cmd.ErrOrStderr(), 0, 0, 2, ' ', 0)
			_, _ = fmt.Fprintln(out, "NODE\tROLE\tVM\tSSH")
			for _, node := range description.Nodes {
				_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t127.0.0.1:%d\n", node.Name, node.Role, node.VMID, node.SSHPort)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			return description.WriteExports(cmd.OutOrStdout())
		},
	}
}
