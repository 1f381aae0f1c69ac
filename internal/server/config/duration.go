package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var errDuration = errors.New("no duration")

// parseDuration reads what time.ParseDuration does, with days of 24 hours before it. It has no sign.
func parseDuration(text string) (time.Duration, error) {
	if text == "" || strings.ContainsAny(text, "+-") {
		return 0, errDuration
	}
	number, rest, hasDays := strings.Cut(text, "d")
	if !hasDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return 0, errDuration
	}
	total := time.Duration(days) * day
	if rest == "" {
		return total, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more > math.MaxInt64-total {
		return 0, errDuration
	}
	return total + more, nil
}

// FormatDuration prints a duration as the configuration takes it: 90d, 36h, 1h30m, 2m.
func FormatDuration(d time.Duration) string {
	switch {
	case d > 0 && d%day == 0 && d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d == 0:
		return "0s"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
