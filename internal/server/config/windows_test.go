package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t *testing.T, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestWindows(t *testing.T) {
	for _, row := range []struct{ window, at, next string }{ // next: with + if it is open at that time
		{"{days: [fri], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-01-02T21:00:00Z", "+2026-01-03T03:00:00Z"},
		{"{days: [fri], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-01-03T02:59:59Z", "+2026-01-03T03:00:00Z"},
		{"{days: [fri], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-01-03T03:00:00Z", "2026-01-09T21:00:00Z"},
		{"{days: [fri], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-01-02T02:00:00Z", "2026-01-02T21:00:00Z"},  // Friday morning belongs to Thursday
		{"{days: [sat], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-03-28T21:00:00Z", "+2026-03-29T02:00:00Z"}, // one hour less
		{"{days: [sat], from: '22:00', to: '04:00', zone: Europe/Berlin}", "2026-10-24T20:00:00Z", "+2026-10-25T03:00:00Z"}, // one hour more
		{"{days: [sun], from: '02:15', to: '02:45', zone: Europe/Berlin}", "2026-03-28T12:00:00Z", "2026-04-05T00:15:00Z"},  // there is none on March 29
		{"{days: [sun], from: '02:15', to: '02:45', zone: Europe/Berlin}", "2026-10-25T00:50:00Z", "2026-10-25T01:15:00Z"},  // it comes twice
		{"{from: '00:00', to: '24:00'}", "2026-10-25T00:50:00Z", "+never"},
		{"{days: [mon-sun], from: '10:00', to: '24:00'}", "2026-10-25T00:50:30.5Z", "2026-10-25T10:00:00Z"},
		{"{days: [sat-mon], from: '10:00', to: '11:00'}", "2026-12-07T11:00:00Z", "2026-12-12T10:00:00Z"},
	} {
		c, err := parse(t, "endpoints: [{name: a, profile: p, clusters: [{windows: ["+row.window+"]}]}]")
		if err != nil {
			t.Fatal(err)
		}
		w := c.Endpoints[0].Rules[0].Windows
		at, _ := time.Parse(time.RFC3339, row.at)
		got := "never"
		if next := w.Next(at); !next.IsZero() {
			got = next.UTC().Format(time.RFC3339)
		}
		if w.Open(at) {
			got = "+" + got
		}
		if got != row.next {
			t.Errorf("%s at %s: %s, want %s", row.window, row.at, got, row.next)
		}
	}
	if none := (Windows)(nil); !none.Open(time.Now()) || !none.Next(time.Now()).IsZero() {
		t.Error("without windows it is always open")
	}
}

// TestWindowsAgreeWithAClock steps minute by minute, asks the clock on the wall, and finds the change where Next says it is.
func TestWindowsAgreeWithAClock(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/St_Johns"), zone(t, "Australia/Lord_Howe"), zone(t, "America/Sao_Paulo"), zone(t, "Asia/Kathmandu")}
	// Changes of the clock in these zones, and an ordinary day.
	around := []time.Time{at(2026, 3, 29, 1), at(2026, 10, 25, 1), at(2026, 3, 8, 5), at(2026, 11, 1, 4), at(2026, 4, 4, 15), at(2026, 10, 3, 15), at(2018, 11, 4, 3), at(2026, 6, 1, 0)}
	rapid.Check(t, func(t *rapid.T) {
		var w Windows
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			one := Window{From: rapid.IntRange(0, minutesOfDay-1).Draw(t, "from"), To: rapid.IntRange(0, minutesOfDay).Draw(t, "to"), Zone: rapid.SampledFrom(zones).Draw(t, "zone")}
			if one.From == one.To {
				one.To++
			}
			days := rapid.IntRange(1, 127).Draw(t, "days")
			for i := range one.Days {
				one.Days[i] = days>>i&1 == 1
			}
			w = append(w, one)
		}
		start := rapid.SampledFrom(around).Draw(t, "around").Add(time.Duration(rapid.IntRange(-3*86400, 86400).Draw(t, "seconds")) * time.Second)
		now, next := oracle(w, start), w.Next(start)
		if w.Open(start) != now {
			t.Fatalf("%v at %v: open %v, the clock says %v", w, start, !now, now)
		}
		for minute := start.Truncate(time.Minute).Add(time.Minute); minute.Sub(start) < 16*day; minute = minute.Add(time.Minute) {
			if oracle(w, minute) != now {
				if !next.Equal(minute) {
					t.Fatalf("%v from %v: next %v, the clock says %v", w, start, next, minute)
				}
				return
			}
		}
		if !next.IsZero() {
			t.Fatalf("%v from %v: next %v, the clock says never", w, start, next)
		}
	})
}

func at(year int, month time.Month, day, hour int) time.Time {
	return time.Date(year, month, day, hour, 0, 0, 0, time.UTC)
}

// oracle reads the clock as text, and compares texts.
func oracle(w Windows, t time.Time) bool {
	for _, one := range w {
		shows := t.In(one.Zone).Format("15:04")
		today, _ := time.Parse("2006-01-02", t.In(one.Zone).Format("2006-01-02"))
		from, to := clockText(one.From), clockText(one.To)
		first, second := one.Days[today.Weekday()], one.Days[today.AddDate(0, 0, -1).Weekday()]
		if from < to && first && from <= shows && shows < to || from > to && (first && from <= shows || second && shows < to) {
			return true
		}
	}
	return false
}
