package web

import (
	"time"

	"github.com/cks-trueup/trueup/internal/capacity"
	"github.com/cks-trueup/trueup/internal/history"
	"github.com/cks-trueup/trueup/internal/rollout"
	"github.com/cks-trueup/trueup/internal/survey"
)

// The documents of the API. They are its own, so that a change inside can't change it; openapi.json describes them.

type clusterDocument struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	Endpoint string           `json:"endpoint"`
	State    string           `json:"state"`
	Policy   Policy           `json:"policy"`
	Paused   bool             `json:"paused"`
	Window   string           `json:"window,omitempty"`
	Readable bool             `json:"readable"`
	Unread   string           `json:"unread,omitempty"`
	Since    time.Time        `json:"since,omitzero"`
	Read     time.Time        `json:"read,omitzero"`
	Nodes    int              `json:"nodes"`
	Drift    map[string]int   `json:"drift"`
	Claimed  int              `json:"claimed"`
	Waiting  string           `json:"waiting,omitempty"`
	Next     string           `json:"next,omitempty"`
	Now      *rolloutDocument `json:"now,omitempty"`
	Last     *rolloutDocument `json:"last,omitempty"`
}

type rolloutDocument struct {
	Run     string       `json:"run"`
	Command string       `json:"command"`
	Actor   string       `json:"actor"`
	Why     string       `json:"why,omitempty"`
	Phase   Phase        `json:"phase"`
	Began   time.Time    `json:"began,omitzero"`
	Ended   time.Time    `json:"ended,omitzero"`
	Node    string       `json:"node,omitempty"`
	Move    rollout.Move `json:"move,omitempty"`
	Done    int          `json:"done"`
	Total   int          `json:"total"`
	Result  string       `json:"result,omitempty"`
	Error   string       `json:"error,omitempty"`
}

type detailDocument struct {
	clusterDocument

	Members   []memberDocument   `json:"members"`
	Offerings []offeringDocument `json:"offerings"`
}

type offeringDocument struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	CPUs      int    `json:"cpus"`
	MemoryMiB int64  `json:"memoryMiB"`
}

// viewDocument is how big one view says that the node is.
type viewDocument struct {
	CPUs        float64 `json:"cpus"`
	MemoryBytes int64   `json:"memoryBytes"`
	Offering    string  `json:"offering,omitempty"`
}

type memberDocument struct {
	Name          string                   `json:"name"`
	Role          rollout.Role             `json:"role"`
	InstanceID    string                   `json:"instanceID"`
	State         string                   `json:"state"`
	Ready         string                   `json:"ready,omitempty"`
	Unschedulable bool                     `json:"unschedulable"`
	Views         map[string]*viewDocument `json:"views"` // null: not read, or there is none
	Drift         []capacity.Drift         `json:"drift"`
	Problems      []survey.Problem         `json:"problems"`
	Claim         *claimDocument           `json:"claim,omitempty"`
}

type claimDocument struct {
	Run      string         `json:"run"`
	Actor    string         `json:"actor"`
	Why      string         `json:"why,omitempty"`
	Since    time.Time      `json:"since"`
	Goal     string         `json:"goal"`
	Cordoned bool           `json:"cordoned"`
	Phase    string         `json:"phase,omitempty"`
	Fault    *rollout.Fault `json:"fault,omitempty"`
}

type checkDocument struct {
	Node     string `json:"node,omitempty"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Verdict  string `json:"verdict"`
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy,omitempty"`
}

type planDocument struct {
	ID        string             `json:"id"`
	ClusterID string             `json:"clusterID"`
	Cluster   string             `json:"cluster"`
	Command   string             `json:"command"`
	Why       string             `json:"why,omitempty"`
	Actor     string             `json:"actor"`
	Made      time.Time          `json:"made"`
	Expires   time.Time          `json:"expires"`
	Changes   bool               `json:"changes"`
	Refused   string             `json:"refused,omitempty"`
	Warnings  []string           `json:"warnings"`
	Preflight []checkDocument    `json:"preflight"`
	Nodes     []rollout.NodePlan `json:"nodes"`
}

type eventDocument struct {
	ID        uint64         `json:"id"`
	ClusterID string         `json:"clusterID"`
	Run       string         `json:"run,omitempty"`
	At        time.Time      `json:"at"`
	Node      string         `json:"node,omitempty"`
	Move      rollout.Move   `json:"move,omitempty"`
	Action    rollout.Action `json:"action,omitempty"`
	Text      string         `json:"text,omitempty"`
	Waits     string         `json:"waits,omitempty"`
	Expected  string         `json:"expected,omitempty"`
	Observed  string         `json:"observed,omitempty"`
	Done      bool           `json:"done,omitempty"`
	Fault     *rollout.Fault `json:"fault,omitempty"`
}

type runDocument struct {
	rolloutDocument

	Nodes  []rollout.NodeReport `json:"nodes"`
	Events []eventDocument      `json:"events"`
	Notes  []string             `json:"notes"`
}

type historyDocument struct {
	Items      []history.Entry `json:"items"`
	Unreadable int             `json:"unreadable"`
}

func newCluster(c Cluster) clusterDocument {
	d := clusterDocument{ID: c.ID, Name: c.Name, Endpoint: c.Endpoint, State: c.State, Policy: c.Policy, Paused: c.Paused, Window: c.Window, Readable: c.Readable,
		Unread: c.Unread, Since: c.Since, Read: c.Read, Nodes: c.Nodes, Drift: map[string]int{}, Claimed: c.Claimed, Waiting: c.Waiting, Next: c.Next,
		Now: newRollout(c.Now), Last: newRollout(c.Last)}
	for _, v := range capacity.AllViews() {
		d.Drift[string(v)] = c.Drift[v]
	}
	return d
}

func newRollout(r *Rollout) *rolloutDocument {
	if r == nil {
		return nil
	}
	d := rolloutDocument(*r) // the same fields, with the names that the API gives them
	return &d
}

func newDetail(c Detail) detailDocument {
	d := detailDocument{clusterDocument: newCluster(c.Cluster), Members: []memberDocument{}, Offerings: []offeringDocument{}}
	for _, m := range c.Members {
		d.Members = append(d.Members, newMember(m))
	}
	for _, o := range c.Offerings {
		d.Offerings = append(d.Offerings, offeringDocument{ID: o.ID, Name: o.Name, CPUs: o.CPUs, MemoryMiB: o.MemoryMiB})
	}
	return d
}

func newMember(n survey.Node) memberDocument {
	i := n.Views.Instance
	d := memberDocument{Name: n.Target.Name, Role: n.Target.Role, InstanceID: n.Target.InstanceID, State: i.State, Views: map[string]*viewDocument{},
		Drift: append([]capacity.Drift{}, n.Drifts...), Problems: append([]survey.Problem{}, n.Problems...)}
	for _, v := range capacity.AllViews() {
		d.Views[string(v)] = nil
	}
	if o := n.Views.Record.Offering; n.Views.Record.Known() {
		d.Views["record"] = &viewDocument{CPUs: float64(o.CPUs), MemoryBytes: o.MemoryMiB * capacity.MiB, Offering: o.Name}
	}
	d.Views["instance"] = &viewDocument{CPUs: float64(i.CPUs), MemoryBytes: i.MemoryMiB * capacity.MiB, Offering: i.OfferingName}
	if g := n.Views.Guest; g != nil {
		d.Views["guest"] = &viewDocument{CPUs: float64(g.CPUsOnline), MemoryBytes: g.MemoryOnline()}
	}
	if k := n.Views.Node; k != nil {
		d.Views["node"] = &viewDocument{CPUs: float64(k.CPUs()) / 1000, MemoryBytes: k.Memory()}
		d.Ready, d.Unschedulable = k.Ready.Status, k.Unschedulable
	}
	if c := n.Claim; c != nil {
		d.Claim = &claimDocument{Run: c.Run, Actor: c.Actor, Why: c.Why, Since: c.Since, Goal: c.Goal.String(), Cordoned: c.Cordoned, Phase: c.Phase, Fault: c.Fault}
	}
	return d
}

func newChecks(checks []Check) []checkDocument {
	out := []checkDocument{}
	for _, c := range checks {
		out = append(out, checkDocument{Node: c.Node, ID: c.ID, Name: c.Name, Verdict: string(c.Verdict), Evidence: c.Evidence, Remedy: c.Remedy})
	}
	return out
}

func newPlan(p Plan) planDocument {
	return planDocument{ID: p.ID, ClusterID: p.ClusterID, Cluster: p.ClusterName, Command: p.Request.Command, Why: p.Request.Why, Actor: p.Actor, Made: p.Made,
		Expires: p.Expires, Changes: p.Changes(), Refused: p.Refused, Warnings: append([]string{}, p.Warnings...), Preflight: newChecks(p.Preflight),
		Nodes: append([]rollout.NodePlan{}, p.Nodes...)}
}

func newEvent(e Event) eventDocument {
	return eventDocument{ID: e.ID, ClusterID: e.ClusterID, Run: e.Run, At: e.At, Node: e.Target.Name, Move: e.Move, Action: e.Action, Text: e.Text,
		Waits: e.Check.What, Expected: e.Check.Expected, Observed: e.Check.Observed, Done: e.Done, Fault: e.Fault}
}
