package standin

import "strconv"

// Limit is how much an account or a project may have; 0 is without limit.
type Limit struct{ CPUs, MemoryMiB int }

// SetLimit limits what the owner's VMs may have together.
func (m *Model) SetLimit(o Owner, l Limit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.limits == nil {
		m.limits = map[Owner]Limit{}
	}
	m.limits[limited(o)] = l
}

// limited is who the limit is for: a project has its own.
func limited(o Owner) Owner {
	if o.ProjectID != "" {
		return Owner{ProjectID: o.ProjectID}
	}
	return o
}

// used is what the owner's VMs have together. CloudStack counts stopped ones, too, unless resource.count.running.vms.only is set.
func (m *Model) used(o Owner) (sum size) {
	for _, vm := range m.vms {
		if limited(vm.Owner) == limited(o) {
			s := m.sizeOf(vm)
			sum.CPUs, sum.MemoryMiB = sum.CPUs+s.CPUs, sum.MemoryMiB+s.MemoryMiB
		}
	}
	return sum
}

// checkLimits reserves the growth. That CloudStack does so before the agent is asked was read; with which code and text the job fails was not found, so
// nothing may go by this one.
func (m *Model) checkLimits(vm *VM, goal size) *APIError {
	limit, used, old := m.limits[limited(vm.Owner)], m.used(vm.Owner), m.sizeOf(vm)
	over := func(most, used, growth int) bool { return most > 0 && growth > 0 && used+growth > most }
	if over(limit.CPUs, used.CPUs, goal.CPUs-old.CPUs) || over(limit.MemoryMiB, used.MemoryMiB, goal.MemoryMiB-old.MemoryMiB) {
		return refusedf("Maximum amount of resources of the owner of %s has been exceeded", vm)
	}
	return nil
}

// limitsJSON are the fields of an account or a project about its limits: numbers for what is used, texts for what is allowed.
type limitsJSON struct {
	CPUTotal    int    `json:"cputotal"`
	CPULimit    string `json:"cpulimit"`
	MemoryTotal int    `json:"memorytotal"`
	MemoryLimit string `json:"memorylimit"`
}

func (m *Model) limitsOf(o Owner) limitsJSON {
	limit, used := m.limits[limited(o)], m.used(o)
	text := func(n int) string {
		if n == 0 {
			return "Unlimited"
		}
		return strconv.Itoa(n)
	}
	return limitsJSON{used.CPUs, text(limit.CPUs), used.MemoryMiB, text(limit.MemoryMiB)}
}

type accountJSON struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	limitsJSON
}

// listAccounts shows an ordinary user its own account alone.
func listAccounts(c *call) (any, error) {
	var out []accountJSON
	for _, a := range c.m.accounts {
		if matches(c.str("name"), a.Name) && matches(c.str("id"), a.ID) && (c.account.Admin || a.Name == c.account.Name) {
			out = append(out, accountJSON{a.ID, a.Name, c.m.limitsOf(Owner{Account: a.Name})})
		}
	}
	return listReply(c, "account", out), nil
}

// listProjects shows the projects that the account is a member of.
func listProjects(c *call) (any, error) {
	var out []accountJSON
	for _, id := range c.account.Projects {
		if matches(c.str("id"), id) {
			out = append(out, accountJSON{id, "project-" + id[:min(8, len(id))], c.m.limitsOf(Owner{ProjectID: id})})
		}
	}
	return listReply(c, "project", out), nil
}
