// Command lab keeps a lab running for people to try trueup on: a CKS cluster with real Kubernetes parts in QEMU guests,
// behind a CloudStack that is played. It needs a checkout of trueup, as it builds what it runs.
//
//	eval "$(go run ./cmd/lab up --workers 2)"
//	go run ./cmd/lab status
//	go run ./cmd/lab down
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "lab",
		Short:         "A CKS cluster to try trueup on: real Kubernetes in QEMU guests, behind a CloudStack that is played",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	var dir string
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "the lab's folder (default: lab in trueup's cache folder)")
	cmd.AddCommand(buildCommand(), upCommand(&dir), serveCommand(&dir), downCommand(&dir), statusCommand(&dir))
	return cmd
}
