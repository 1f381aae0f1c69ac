package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// weekdays are the days as they are written, in the order of time.Weekday.
func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

func (v value) windows(into *Windows) {
	v.list(func(_ int, v value) {
		w := Window{Days: [7]bool{true, true, true, true, true, true, true}, Zone: time.UTC}
		found := v.mapping(keys{
			"days": func(v value) { v.days(&w.Days) },
			"from": func(v value) { v.clock(&w.From) },
			"to":   func(v value) { v.clock(&w.To) },
			"zone": func(v value) { v.zone(&w.Zone) },
		})
		v.need(found, "from", "to")
		_, from := found["from"]
		_, to := found["to"]
		if from && w.From == minutesOfDay {
			found["from"].problem("24:00 is the end of a day: a window begins at 00:00 of the next one")
		}
		if from && to && w.From == w.To {
			v.problem("from and to are equal; a whole day is from \"00:00\" to \"24:00\"")
		}
		*into = append(*into, w)
	})
	if v.kind() == "a list" && len(v.node.Content) == 0 {
		v.problem("is empty: without windows, changes may begin at any time; say so by leaving the key out")
	}
}

func (v value) days(into *[7]bool) {
	*into = [7]bool{}
	var texts []string
	v.texts(&texts, func(v value, text string) {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		from, to := slices.Index(weekdays(), first), slices.Index(weekdays(), last)
		if from < 0 || to < 0 {
			v.problem("%s is no day: expected mon, tue, wed, thu, fri, sat or sun, or a range like mon-fri", quote(text))
			return
		}
		for day := from; ; day = (day + 1) % 7 {
			into[day] = true
			if day == to {
				return
			}
		}
	})
}

func daysText(days [7]bool) string {
	var out []string
	for i := range days {
		if day := (i + 1) % 7; days[day] { // Monday first
			out = append(out, weekdays()[day])
		}
	}
	if len(out) == len(days) {
		return "every day"
	}
	return strings.Join(out, ",")
}

// clockForm is 00:00 to 23:59, or 24:00.
var clockForm = regexp.MustCompile(`^(?:([01][0-9]|2[0-3]):([0-5][0-9])|24:00)$`)

func (v value) clock(into *int) {
	var text string
	if !v.text(&text) {
		return
	}
	parts := clockForm.FindStringSubmatch(text)
	switch {
	case parts == nil:
		v.problem("%s: expected a time of day in quotes, \"00:00\" to \"24:00\"", quote(text))
	case parts[1] == "":
		*into = minutesOfDay
	default:
		hour, _ := strconv.Atoi(parts[1])
		minute, _ := strconv.Atoi(parts[2])
		*into = hour*60 + minute
	}
}

func (v value) zone(into **time.Location) {
	var text string
	if !v.text(&text) {
		return
	}
	zone, err := time.LoadLocation(text)
	if err != nil || text == "Local" {
		v.problem("%s is no time zone: expected a name like Europe/Berlin or UTC", quote(text))
		return
	}
	*into = zone
}
