package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cks-trueup/trueup/lab/artifacts"
	"github.com/cks-trueup/trueup/lab/cluster"
)

// labFlags are those that `up` hands on to the daemon.
type labFlags struct {
	control, workers, pods int
	status                 time.Duration
}

func (f *labFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.control, "control", 1, "control-plane nodes")
	cmd.Flags().IntVar(&f.workers, "workers", 2, "workers; two cores carry three or four nodes in all")
	cmd.Flags().IntVar(&f.pods, "pods", 4, "pods of a Deployment that is there to be left alone")
	cmd.Flags().DurationVar(&f.status, "status-frequency", 2*time.Second, "how often kubelets post their status; Kubernetes' own default is 10s")
}

func (f *labFlags) arguments() []string {
	return []string{
		"--control", strconv.Itoa(f.control), "--workers", strconv.Itoa(f.workers),
		"--pods", strconv.Itoa(f.pods), "--status-frequency", f.status.String(),
	}
}

func upCommand(dir *string) *cobra.Command {
	var flags labFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build what is missing, start a lab that stays, and print what to export",
		Long: `Builds what is missing (the first time 10 to 15 minutes: Kubernetes from source, then a guest image), starts a lab that
stays when this command has ended, and prints shell exports on standard output. A lab that was killed is cleaned up first.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return up(cmd, *dir, flags) },
	}
	flags.add(cmd)
	return cmd
}

func up(cmd *cobra.Command, dir string, flags labFlags) error {
	dir, err := folder(dir)
	if err != nil {
		return err
	}
	switch running, err := cluster.ReadDescription(dir); {
	case err == nil:
		cmd.PrintErrln("A lab is up already, as it was started; these are its exports.")
		return running.WriteExports(cmd.OutOrStdout())
	case !errors.Is(err, cluster.ErrNotUp):
		return err
	}
	if err := spawn(cmd, dir, flags); err != nil {
		return err
	}
	description, err := cluster.ReadDescription(dir)
	if err != nil {
		return err
	}
	return description.WriteExports(cmd.OutOrStdout())
}

// spawn builds in the foreground, where progress can be seen, and then starts this program once more as the daemon.
func spawn(cmd *cobra.Command, dir string, flags labFlags) error {
	set, err := artifacts.Build(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	argv := append([]string{self, "serve", "--dir", dir, "--kubernetes", set.Kubernetes, "--image", set.Image}, flags.arguments()...)
	return cluster.Spawn(cmd.Context(), dir, argv, cmd.ErrOrStderr())
}

func serveCommand(dir *string) *cobra.Command {
	var flags labFlags
	var set artifacts.Set
	cmd := &cobra.Command{
		Use:    "serve",
		Short:  "Run a lab until SIGTERM, with progress on file descriptor 3: what up starts",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cluster.Serve(cmd.Context(), cluster.Options{
				Dir: *dir, Control: flags.control, Workers: flags.workers, Pods: flags.pods, Status: flags.status,
				Artifacts: set, Progress: os.NewFile(3, "progress"),
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&set.Kubernetes, "kubernetes", "", "folder of the Kubernetes programs")
	cmd.Flags().StringVar(&set.Image, "image", "", "folder of the guest image")
	return cmd
}

// folder is the given one or the default, absolute.
func folder(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := artifacts.CacheDir()
	return filepath.Join(cache, "lab"), err
}
