package guest

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strings"
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// guest is one guest behind the way into it. It is a rollout.Guest.
type guest struct {
	target   rollout.Target
	way      way
	timeouts Timeouts
}

// way runs commands as root in one guest.
type way interface {
	// run runs the command within ctx, and returns the lines between its marks.
	run(ctx context.Context, c command, input string) ([]string, error)
}

// run runs the command within the timeout.
func (g *guest) run(ctx context.Context, c command, timeout time.Duration, input string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	return g.way.run(ctx, c, input)
}

// The scripts. They are constants; Go has no embedded ones.
var (
	//go:embed scripts/probe.sh
	probeScript string
	//go:embed scripts/refusals.sh
	refusalsScript string
	//go:embed scripts/inspect.sh
	inspectScript string
	//go:embed scripts/online.sh
	onlineScript string
	//go:embed scripts/restart.sh
	restartScript string
	//go:embed scripts/diagnose.sh
	diagnoseBegin string
	//go:embed scripts/diagnose-kubelet.sh
	diagnoseKubelet string
	//go:embed scripts/diagnose-etcd.sh
	diagnoseEtcd string
	//go:embed scripts/diagnose-kernel.sh
	diagnoseEnd string
	//go:embed scripts/etcd.sh
	etcdScript string
)

// The bounds in the guest are longer than ours, which end first as long as the connection holds. A restart may have to wait
// until systemd kills a kubelet that does not stop (DefaultTimeoutStopSec is 90 s).
func probeCommand() command { return command{"probe", probeScript, 60, 512 << 10} }
func inspectCommand() command {
	return command{"inspect", refusalsScript + inspectScript, 60, 512 << 10}
}
func etcdCommand() command    { return command{"etcd", etcdScript, 60, 64 << 10} }
func onlineCommand() command  { return command{"online", onlineScript, 120, 256 << 10} }
func restartCommand() command { return command{"restart", restartScript, 120, 4 << 10} }

// diagnoseCommand asks about kubelet, or on a dedicated etcd machine about etcd, and about the kernel.
func diagnoseCommand(role rollout.Role) command {
	service := diagnoseKubelet
	if !role.HasNode() {
		service = diagnoseEtcd
	}
	return command{"diagnose", refusalsScript + diagnoseBegin + service + diagnoseEnd, 60, 128 << 10}
}

// Probe reads everything that the checks need, in one command; on a dedicated etcd machine in two.
func (g *guest) Probe(ctx context.Context) (capacity.Guest, error) {
	lines, err := g.run(ctx, probeCommand(), g.timeouts.Probe, "")
	if err != nil {
		return capacity.Guest{}, err
	}
	reading, err := parseProbe(lines)
	if err != nil {
		return capacity.Guest{}, fmt.Errorf("%v: probe: %w", place{target: g.target}, err)
	}
	if !g.target.Role.HasNode() {
		reading.Etcd, err = g.etcd(ctx)
	}
	return reading, err
}

// Online brings up every plugged CPU and memory block that is offline. It is safe to repeat. What the guest's kernel refused is
// an *OnlineError.
func (g *guest) Online(ctx context.Context) error {
	lines, err := g.run(ctx, onlineCommand(), g.timeouts.Online, "")
	if err != nil {
		return err
	}
	refused, err := parseRefusals(lines)
	if err != nil {
		return fmt.Errorf("%v: online: %w", place{target: g.target}, err)
	}
	if len(refused) > 0 {
		return &OnlineError{Node: g.target.Name, Refused: refused}
	}
	return nil
}

// RestartKubelet restarts kubelet if and only if its InvocationID is still the one given, under a guest-wide lock.
// An error that is not rollout.ErrUnreachable or rollout.ErrDenied is systemd's: the restart was asked for and failed.
//
// The comparison and the restart are two requests to systemd: a kubelet that crashes and is started again by systemd in the
// milliseconds between them is restarted once more. systemd has no conditional restart that would close that gap.
func (g *guest) RestartKubelet(ctx context.Context, invocationID string) (rollout.RestartResult, error) {
	if !isHex32(invocationID) {
		return 0, fmt.Errorf("restart: %q is not an InvocationID (32 lower-case hexadecimal digits): nothing was done", invocationID)
	}
	lines, err := g.run(ctx, restartCommand(), g.timeouts.Restart, invocationID+"\n")
	if err != nil {
		return 0, err
	}
	result, err := parseRestart(lines)
	if err != nil {
		return 0, fmt.Errorf("%w: %v: restart: %w", rollout.ErrUnreachable, place{target: g.target}, err)
	}
	return result, nil
}

// Diagnose collects the lines that tell a person why, each with its source in front. Best effort.
func (g *guest) Diagnose(ctx context.Context) ([]string, error) {
	lines, err := g.run(ctx, diagnoseCommand(g.target.Role), g.timeouts.Diagnose, "")
	if err != nil {
		return nil, err
	}
	for i, line := range lines {
		source, text, _ := strings.Cut(line, "=")
		lines[i] = source + ": " + strings.TrimSpace(printable(text))
	}
	return lines, nil
}

// isHex32 reports whether id is 32 lower-case hexadecimal digits, as machine ids and invocation ids are.
func isHex32(id string) bool {
	return len(id) == 32 && strings.Trim(id, "0123456789abcdef") == ""
}
