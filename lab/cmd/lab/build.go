package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/lab/artifacts"
)

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build what is missing and start nothing; prints the folders of the Kubernetes programs and of the guest image",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := artifacts.Build(cmd.Context(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", set.Kubernetes, set.Image)
			return err
		},
	}
}
