package preflight

import "testing"

func TestLimits(t *testing.T) {
	t.Parallel()
	free, ten := Allowance{Used: 8, Added: 4}, int64(10)
	for name, c := range map[string]struct {
		cpus, mib Allowance
		unread    string
		want      Verdict
	}{
		"no limits":                 {free, free, "", Pass},
		"just enough":               {Allowance{8, &ten, 2}, free, "", Pass},
		"too many CPUs":             {Allowance{8, &ten, 3}, free, "", Fail},
		"too much memory":           {free, Allowance{8, &ten, 3}, "", Fail},
		"over already, and no more": {Allowance{12, &ten, 0}, free, "", Pass},
		"not known":                 {Allowance{8, &ten, 3}, free, "denied", Unknown},
	} {
		if got := Limits("account a", c.cpus, c.mib, c.unread); got.Verdict != c.want || got.Evidence == "" || (got.Verdict == Fail) != (got.Remedy != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
