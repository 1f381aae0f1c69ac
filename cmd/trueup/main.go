// Command trueup gives running CKS nodes more CPU and memory, until Kubernetes can use it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // windows name time zones, which a small machine may not have

	"github.com/cks-trueup/trueup/internal/cli"
)

// version is set by the build: -ldflags "-X main.version=…".
var version = "dev"

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	os.Exit(cli.Main(context.Background(), cli.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.LookupEnv, Interrupts: interrupts, Version: version,
	}, os.Args[1:]))
}
