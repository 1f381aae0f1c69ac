package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
)

// fakeQEMU greets and then answers each command with the lines that answer gives for its name and id.
func fakeQEMU(t *testing.T, answer func(command string, id int) []string) *QMP {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() {
		fmt.Fprintln(theirs, `{"QMP": {"version": {}, "capabilities": []}}`)
		requests := bufio.NewScanner(theirs)
		for requests.Scan() {
			var request struct {
				Execute string `json:"execute"`
				ID      int    `json:"id"`
			}
			if json.Unmarshal(requests.Bytes(), &request) != nil {
				return
			}
			lines := []string{fmt.Sprintf(`{"return": {}, "id": %d}`, request.ID)}
			if request.Execute != "qmp_capabilities" {
				lines = answer(request.Execute, request.ID)
			}
			for _, line := range lines {
				fmt.Fprintln(theirs, line)
			}
			if lines == nil {
				theirs.Close()
			}
		}
	}()
	q, err := newQMP(ours)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQMPSkipsEventsAndOtherAnswers(t *testing.T) {
	q := fakeQEMU(t, func(command string, id int) []string {
		return []string{
			`{"event": "ACPI_DEVICE_OST", "data": {}}`,
			fmt.Sprintf(`{"return": {"value": 1}, "id": %d}`, id-1),
			fmt.Sprintf(`{"return": {"value": 2}, "id": %d}`, id),
		}
	})
	for range 2 {
		var got struct{ Value int }
		if err := q.Execute("query-something", nil, &got); err != nil || got.Value != 2 {
			t.Errorf("got %d, %v, want 2", got.Value, err)
		}
	}
}

func TestQMPError(t *testing.T) {
	q := fakeQEMU(t, func(command string, id int) []string {
		return []string{fmt.Sprintf(`{"error": {"class": "GenericError", "desc": "no slot"}, "id": %d}`, id)}
	})
	err := q.Execute("device_add", map[string]any{"driver": "pc-dimm"}, nil)
	var said *QMPError
	if !errors.As(err, &said) || *said != (QMPError{Command: "device_add", Class: "GenericError", Desc: "no slot"}) {
		t.Errorf("got %#v", err)
	}
}

func TestQMPEnd(t *testing.T) {
	q := fakeQEMU(t, func(string, int) []string { return nil })
	if err := q.Execute("quit", nil, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that the connection ended", err)
	}
}
