package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/pflag"
)

// profiles are files for Go's profiles of this call of the program. See docs/performance.md.
type profiles struct {
	cpu, memory string

	running *os.File // the CPU profile that is being written, nil if there is none
}

func (p *profiles) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.cpu, "cpu-profile", "", "write a CPU profile of trueup itself to `file`")
	flags.StringVar(&p.memory, "memory-profile", "", "write a memory profile of trueup itself to `file`, at its end")
	for _, name := range []string{"cpu-profile", "memory-profile"} {
		_ = flags.MarkHidden(name) // for those who work on trueup
	}
}

// start begins the CPU profile, if one is asked for.
func (p *profiles) start() (err error) {
	if p.cpu == "" {
		return nil
	}
	if p.running, err = os.Create(p.cpu); err != nil {
		return usageErrorf("--cpu-profile: %w", err)
	}
	return pprof.StartCPUProfile(p.running)
}

// finish completes what is asked for. It is called once, when the command has ended, however it did.
func (p *profiles) finish() error {
	var cpu error
	if p.running != nil {
		pprof.StopCPUProfile()
		cpu = p.running.Close()
	}
	return errors.Join(cpu, p.writeMemory())
}

// writeMemory writes what is in use and all that was ever allocated.
func (p *profiles) writeMemory() error {
	if p.memory == "" {
		return nil
	}
	file, err := os.Create(p.memory)
	if err != nil {
		return usageErrorf("--memory-profile: %w", err)
	}
	runtime.GC() // so that what is in use is exact
	if err := errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close()); err != nil {
		return fmt.Errorf("--memory-profile: %w", err)
	}
	return nil
}
