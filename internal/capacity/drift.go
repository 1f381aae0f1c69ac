package capacity

import "fmt"

// Drift is one view that lags, and why in words.
type Drift struct {
	View View   `json:"view"`
	Why  string `json:"why"`
}

// Views is what is known about one node. A nil part could not be read, or does not exist for its role.
type Views struct {
	Record   Record   `json:"record"`
	Instance Instance `json:"instance"`
	Guest    *Guest   `json:"guest,omitempty"`
	Node     *Node    `json:"node,omitempty"`
}

// Drifts lists every view that lags. The instance is the measure: CloudStack's record must name its offering, the guest must have
// what the instance has, and the Node what the guest has. An empty list means that all views that were read agree.
func (v Views) Drifts() []Drift {
	var out []Drift
	if d := v.recordDrift(); d != "" {
		out = append(out, Drift{ViewRecord, d})
	}
	if v.Guest == nil {
		return out
	}
	present := Offering{ID: v.Instance.OfferingID, Name: v.Instance.OfferingName, CPUs: v.Instance.CPUs, MemoryMiB: v.Instance.MemoryMiB}
	if c, failed := Failed(CheckGuest(nil, *v.Guest, present)...); failed {
		out = append(out, Drift{ViewGuest, c.String()})
	}
	if v.Node == nil {
		return out
	}
	if c := CheckCapacity(*v.Guest, *v.Node); !c.OK {
		out = append(out, Drift{ViewNode, c.String()})
	}
	return out
}

func (v Views) recordDrift() string {
	switch {
	case !v.Record.Known():
		return ""
	case v.Record.Offering.ID == v.Instance.OfferingID:
		return ""
	}
	return fmt.Sprintf("the cluster record still says %s, so a new node would come up with that, while this one has %s", v.Record.Offering, v.Instance.Size())
}
