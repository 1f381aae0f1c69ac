package cloudstack

import (
	"context"
	"fmt"
	"strconv"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
)

// Limit is one resource of an account or a project.
type Limit struct {
	Used int64 `json:"used"`
	// Most is the limit; nil where there is none.
	Most *int64 `json:"most,omitempty"`
}

// Limits are what an account or a project may have of CPUs and memory (MiB). The limits of its domains are not shown to it.
type Limits struct {
	// Of names the account or project.
	Of              string
	CPUs, MemoryMiB Limit
}

// Limits reads the limits of the cluster's owner: its project, else its account.
func (c *Client) Limits(ctx context.Context, cluster Cluster) (Limits, error) {
	if cluster.ProjectID != "" {
		return c.projectLimits(ctx, cluster.ProjectID)
	}
	var reply *sdk.ListAccountsResponse
	_, err := c.read(ctx, "listAccounts", func(cs *sdk.CloudStackClient) (err error) {
		params := cs.Account.NewListAccountsParams()
		params.SetName(cluster.Account)
		params.SetListall(true)
		reply, err = cs.Account.ListAccounts(params)
		return err
	})
	if err != nil {
		return Limits{}, err
	}
	if len(reply.Accounts) != 1 { // names are unique in a domain alone, and which domain it is stands nowhere
		return Limits{}, fmt.Errorf("listAccounts shows %d accounts of the name %s", len(reply.Accounts), cluster.Account)
	}
	a := reply.Accounts[0]
	return newLimits("account "+a.Name, a.Cputotal, a.Memorytotal, a.Cpulimit, a.Memorylimit)
}

func (c *Client) projectLimits(ctx context.Context, id string) (Limits, error) {
	var reply *sdk.ListProjectsResponse
	_, err := c.read(ctx, "listProjects", func(cs *sdk.CloudStackClient) (err error) {
		params := cs.Project.NewListProjectsParams()
		params.SetId(id)
		params.SetListall(true)
		reply, err = cs.Project.ListProjects(params)
		return err
	})
	if err != nil {
		return Limits{}, err
	}
	if len(reply.Projects) != 1 {
		return Limits{}, fmt.Errorf("listProjects does not show project %s", id)
	}
	p := reply.Projects[0]
	return newLimits("project "+p.Name, p.Cputotal, p.Memorytotal, p.Cpulimit, p.Memorylimit)
}

// unlimited is CloudStack's word for no limit; in numbers it is -1.
const unlimited = "Unlimited"

func newLimits(of string, cpus, mib int64, mostCPUs, mostMiB string) (Limits, error) {
	l := Limits{Of: of, CPUs: Limit{Used: cpus}, MemoryMiB: Limit{Used: mib}}
	for text, into := range map[*string]*Limit{&mostCPUs: &l.CPUs, &mostMiB: &l.MemoryMiB} {
		if *text == unlimited || *text == "-1" || *text == "" {
			continue
		}
		most, err := strconv.ParseInt(*text, 10, 64)
		if err != nil {
			return Limits{}, fmt.Errorf("%s has a limit that is no number: %q", of, *text)
		}
		into.Most = &most
	}
	return l, nil
}
