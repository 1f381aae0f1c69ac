package guest

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU is the highest CPU number that is believed. Linux on x86-64 knows at most 8192 CPUs (CONFIG_NR_CPUS).
const maxCPU = 8191

// countCPUs counts the CPUs of a list as the kernel prints it: ascending numbers and ranges, "0-3,8". An empty list has none.
func countCPUs(list string) (int, error) {
	if list == "" {
		return 0, nil
	}
	count, last := 0, -1
	for part := range strings.SplitSeq(list, ",") {
		first, end, isRange := strings.Cut(part, "-")
		if !isRange {
			end = first
		}
		from, err := cpuNumber(first)
		to, err2 := cpuNumber(end)
		if err != nil || err2 != nil || from <= last || to < from {
			return 0, fmt.Errorf("%q is not a list of CPUs", oneLine(list))
		}
		count += to - from + 1
		last = to
	}
	return count, nil
}

func cpuNumber(digits string) (int, error) {
	n, err := strconv.ParseUint(digits, 10, 16)
	if err == nil && n > maxCPU {
		err = strconv.ErrRange
	}
	return int(n), err
}
