package preflight

import "fmt"

// Allowance is one resource of the cluster's owner: what is used, what is allowed (nil: no limit), and what the change adds.
type Allowance struct {
	Used  int64
	Most  *int64
	Added int64
}

// Limits is the check whether the limits of an account or project leave room for what is added. Unread says why they are not known, empty if they are.
func Limits(of string, cpus, mib Allowance, unread string) Check {
	out := Check{ID: "account-limits", Name: "limits of the owner", Verdict: Pass}
	if unread != "" {
		out.Verdict, out.Evidence = Unknown, unread
		return out
	}
	out.Evidence = fmt.Sprintf("%s: %s; %s", of, cpus.say("CPUs"), mib.say("MiB"))
	if cpus.over() || mib.over() {
		out.Verdict = Fail
		out.Remedy = "CloudStack would fail the change of a node in the middle: ask an administrator to raise the limit (updateResourceLimit, resourcetype 8 for CPUs and 9 for memory), or change fewer nodes"
	}
	return out
}

func (a Allowance) over() bool { return a.Most != nil && a.Added > 0 && a.Used+a.Added > *a.Most }

func (a Allowance) say(unit string) string {
	most := "no limit"
	if a.Most != nil {
		most = fmt.Sprintf("limit %d", *a.Most)
	}
	return fmt.Sprintf("%d %s used, %d more, %s", a.Used, unit, a.Added, most)
}
