package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
)

// What is plugged, what has a directory and what trueup itself may use says nothing about the CPUs that are online.
func TestProbeCountsNothingButOnlineCPUs(t *testing.T) {
	m := newMachine(t)
	for cpu := range 11 { // offline CPUs have directories, too
		m.write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/online", cpu), "1")
	}
	m.write("sys/devices/system/cpu/online", "0-3,5-7")
	m.write("sys/devices/system/cpu/present", "0-8")
	got, err := m.guest(m.config()).Probe(t.Context())
	must(t, err)
	if got.CPUsOnline != 7 || got.CPUsPresent != 9 {
		t.Errorf("%d online, %d present; want 7 and 9", got.CPUsOnline, got.CPUsPresent)
	}
}

// A memory block that arrives while CPUs are brought up is brought up as well: the blocks have had their turn, so it takes another pass.
func TestOnlineLooksAgainForWhatArrivedMeanwhile(t *testing.T) {
	byEachWay(t, func(t *testing.T, enter func(*machine) *guest) {
		m := newMachine(t)
		const block, cpu = "sys/devices/system/memory/memory50/state", "sys/devices/system/cpu/cpu2/online"
		m.write(filepath.Join(filepath.Dir(cpu), "uevent"), "")
		m.fifo(cpu) // a CPU that is slow: who looks at it waits for the test
		var brought atomic.Bool
		answer := func(text string) {
			err := os.WriteFile(filepath.Join(m.tree, cpu), []byte(text), 0)
			if err != nil && !errors.Is(err, syscall.EPIPE) { // who asked has had its answer already: the next one gets another
				t.Error(err)
			}
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			answer("0\n")
			m.write(block, "offline")
			if wrote, err := os.ReadFile(filepath.Join(m.tree, cpu)); err != nil || string(wrote) != "1\n" {
				t.Errorf("wrote %q, %v", wrote, err)
			}
			for !brought.Load() {
				answer("1\n")
			}
		}()
		must(t, enter(m).Online(t.Context()))
		brought.Store(true)
		if got := m.read(block); got != "online" {
			t.Errorf("memory50/state = %q", got)
		}
		end, err := os.OpenFile(filepath.Join(m.tree, cpu), os.O_RDWR, 0) // lets the last answer go
		must(t, err)
		<-done
		must(t, end.Close())
	})
}
