package main

import (
	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/lab/cluster"
)

func downCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the lab and remove its folder; what was built stays cached",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := folder(*dir)
			if err != nil {
				return err
			}
			existed, err := cluster.Remove(cmd.Context(), path)
			if err == nil && !existed {
				cmd.PrintErrln("There is no lab in", path)
			}
			return err
		},
	}
}
