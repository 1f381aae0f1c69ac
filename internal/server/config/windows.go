package config

import (
	"fmt"
	"time"
)

// Windows are times of the week in which a change may begin. None: always.
type Windows []Window

// Window is open while a clock on the wall in its zone shows a time from From to To, on its days. So in the hour that a change to summer time leaves out
// it is never open, and the hour that comes twice when summer time ends counts twice.
type Window struct {
	// Days are those on which it opens, Sunday first. Where From is later than To, it lasts into the following day.
	Days [7]bool
	// From and To are minutes of the day; To may be 1440. To itself is outside.
	From, To int
	Zone     *time.Location
}

const minutesOfDay = 24 * 60

// Open tells whether a change may begin.
func (w Windows) Open(t time.Time) bool {
	for _, one := range w {
		if one.open(t) {
			return true
		}
	}
	return len(w) == 0
}

func (w Window) open(t time.Time) bool {
	local := t.In(w.Zone)
	minute, today := local.Hour()*60+local.Minute(), int(local.Weekday())
	if w.From < w.To {
		return w.Days[today] && w.From <= minute && minute < w.To
	}
	return w.Days[today] && w.From <= minute || w.Days[(today+6)%7] && minute < w.To
}

// furthest is how far ahead a change is looked for: a weekly window may fall out once, where summer time begins or a zone skips a day.
const furthest = 22 * day

// Next is when Open next gives another answer than at t: until when it is open, or when it opens. The zero time means never.
func (w Windows) Next(t time.Time) time.Time {
	if len(w) == 0 {
		return time.Time{}
	}
	now := w.Open(t)
	for at := w.edge(t); at.Sub(t) < furthest; at = w.edge(at) {
		if w.Open(at) != now {
			return at
		}
	}
	return time.Time{}
}

// edge is the first time after t at which any of the windows may open or close.
func (w Windows) edge(t time.Time) (first time.Time) {
	for _, one := range w {
		if at := one.edge(t); first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// edge is the first time after t at which the clock on the wall shows From, To or midnight, or is set.
func (w Window) edge(t time.Time) time.Time {
	local := t.In(w.Zone)
	_, set := local.ZoneBounds()
	// What the clock shows, as if it were never set: until it is, the differences are those of real time.
	midnight := local.Add(-time.Duration(local.Hour())*time.Hour - time.Duration(local.Minute())*time.Minute -
		time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond()))
	first := set
	for _, minute := range []int{w.From, w.To, minutesOfDay} {
		at := midnight.Add(time.Duration(minute) * time.Minute)
		if at.After(t) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// String prints the window like tue-fri 22:00-04:00 Europe/Berlin.
func (w Window) String() string {
	return fmt.Sprintf("%s %s-%s %s", daysText(w.Days), clockText(w.From), clockText(w.To), w.Zone)
}

func clockText(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
