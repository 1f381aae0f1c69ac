package guest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cks-trueup/trueup/internal/rollout"
)

// OnlineError lists the devices that the guest's kernel refused to bring up.
type OnlineError struct {
	Node    string // the Kubernetes Node's name
	Refused []Refusal
}

// Refusal is one CPU or memory block that stayed offline.
type Refusal struct {
	Device string // "cpu3", "memory40", as in /sys/devices/system
	Reason string // the kernel's error, "Input/output error", "Operation not permitted", …
}

// shownRefusals is how many devices an error names: a DIMM of 4 GiB is 32 blocks, which usually fail for one reason.
const shownRefusals = 4

// Error names the first devices with their reasons.
func (e *OnlineError) Error() string {
	shown := e.Refused[:min(len(e.Refused), shownRefusals)]
	words := make([]string, 0, len(shown))
	for _, r := range shown {
		words = append(words, r.Device+": "+r.Reason)
	}
	more := ""
	if n := len(e.Refused) - len(words); n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return fmt.Sprintf("node %s: the guest's kernel left %d device(s) offline: %s%s", e.Node, len(e.Refused), list(words), more)
}

// parseRefusals reads the answer of the online command: "failed=DEVICE REASON" for each device that stayed offline.
func parseRefusals(lines []string) ([]Refusal, error) {
	var refused []Refusal
	for _, line := range lines {
		text, isFailure := strings.CutPrefix(line, "failed=")
		device, reason, hasReason := strings.Cut(text, " ")
		if !isFailure || !hasReason {
			return nil, fmt.Errorf("unknown answer %q", oneLine(line))
		}
		refused = append(refused, Refusal{Device: oneLine(device), Reason: oneLine(reason)})
	}
	return refused, nil
}

// errExpired: the script had the id only after its time was over.
var errExpired = errors.New("the command was held up on its way for too long: kubelet was not restarted")

// parseRestart reads the answer of the restart command.
func parseRestart(lines []string) (rollout.RestartResult, error) {
	if len(lines) == 0 {
		return 0, errors.New("no result")
	}
	// systemctl itself may print something before; the result is the last line.
	switch line := lines[len(lines)-1]; line {
	case "result=issued":
		return rollout.RestartIssued, nil
	case "result=not-ours":
		return rollout.RestartNotOurs, nil
	case "result=busy":
		return rollout.RestartLockBusy, nil
	case "result=expired":
		return 0, errExpired
	case "result=garbled":
		return 0, errors.New("the InvocationID did not arrive whole: kubelet was not restarted")
	default:
		return 0, fmt.Errorf("unknown answer %q", oneLine(line))
	}
}
