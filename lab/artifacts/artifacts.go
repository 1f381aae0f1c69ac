// Package artifacts builds what a lab runs: the Kubernetes programs and the guest image.
//
// Invariant: what is built is cached outside the checkout by the hash of its inputs, appears there whole or not at all,
// and is never built twice. The scripts beside this package keep that promise; this package runs them.
package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Set names the folders of what was built.
type Set struct {
	Kubernetes string // etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kubelet
	Image      string // root.qcow2, vmlinuz, initrd
}

// Build builds what is missing; progress goes to the writer.
func Build(ctx context.Context, progress io.Writer) (Set, error) {
	source, err := sourceDir()
	if err != nil {
		return Set{}, err
	}
	if _, err := run(ctx, progress, filepath.Join(source, "deps.sh")); err != nil {
		return Set{}, err
	}
	kubernetes, err := run(ctx, progress, filepath.Join(source, "kubernetes", "build.sh"))
	if err != nil {
		return Set{}, err
	}
	image, err := run(ctx, progress, filepath.Join(source, "image", "build.sh"), kubernetes)
	return Set{Kubernetes: kubernetes, Image: image}, err
}

// run runs a script and returns what it printed on stdout.
func run(ctx context.Context, progress io.Writer, script string, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, script, arguments...)
	cmd.Stderr = progress
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", script, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// modulePath is how the lab's own go.mod begins.
const modulePath = "module github.com/cks-trueup/trueup/lab\n"

// sourceDir finds the lab's module: the working folder, its lab folder, or one above.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for from := dir; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "lab")} {
			body, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(body), modulePath) {
				return candidate, nil
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("the lab is built from its source, which is not in %s or above: run it inside a checkout of trueup", from)
		}
	}
}

// CacheDir is trueup's cache folder, as the build scripts know it.
func CacheDir() (string, error) {
	if dir := os.Getenv("TRUEUP_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "trueup"), err
}
