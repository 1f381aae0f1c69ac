package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// unitStarted is systemd's MESSAGE_ID for "a unit was started" (SD_MESSAGE_UNIT_STARTED in sd-messages.h).
const unitStarted = "39f53479d3a045ac8e11786248231fbf"

// UnitStarts returns the InvocationID of every start of a unit in this boot, oldest first, from the guest's journal:
// what systemd did, whoever asked for it.
func (g *Guest) UnitStarts(ctx context.Context, unit string) ([]string, error) {
	out, err := g.Run(ctx, fmt.Sprintf("sudo journalctl --boot --output=json MESSAGE_ID=%s UNIT=%s", unitStarted, unit))
	if err != nil {
		return nil, err
	}
	var starts []string
	entries := json.NewDecoder(strings.NewReader(out))
	for {
		var entry struct {
			InvocationID string `json:"INVOCATION_ID"`
		}
		switch err := entries.Decode(&entry); err {
		case nil:
			starts = append(starts, entry.InvocationID)
		case io.EOF:
			return starts, nil
		default:
			return nil, fmt.Errorf("guest %s: journal of %s: %w", g.spec.Name, unit, err)
		}
	}
}
