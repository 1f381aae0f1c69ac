package rollout

import (
	"context"
	"time"
)

// The only control-plane node, or the only etcd machine, takes the Kubernetes API with it when it is stopped: until it is back there is no Lease to look
// at and no claim to write. Whoever accepts that gets this order: the claim that announces the stop announces all that follows, and says that there
// will be no API; while the instance is not up, CloudStack's own state is looked at before each effect in the place of the Lease, and nobody else can
// have taken it; as soon as the API answers again, the Lease decides as ever. A run that dies meanwhile leaves a stopped instance: it must be started
// by hand before anybody can go on.

// outageCall is how long a call to an API that is away may take.
const outageCall = 5 * time.Second

// outage tells whether the API may be away because of what was announced on this node.
func (w *walk) outage() bool {
	return w.cold() && w.claim.Cold.Outage && w.claim.Cold.Power != nil
}

// fence looks at the Lease. While the machine without which there is no API is not up by our own doing, a Lease that can't be read is no hindrance.
func (w *walk) fence(ctx context.Context) error {
	if !w.outage() {
		return w.Lock.Check(ctx, w.tenure)
	}
	short, cancel := context.WithTimeout(ctx, outageCall)
	defer cancel()
	err := w.Lock.Check(short, w.tenure)
	if err != nil && transient(ctx, err) && !w.seen.Instance.Running() {
		return nil
	}
	return err
}

// readInOutage reads what can be read of Kubernetes. That it does not answer is no failure: what was seen last stays, and is too old for any check that
// the node must pass before it is given back.
func (w *walk) readInOutage(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, outageCall)
	defer cancel()
	err := w.readKubernetes(short)
	if err != nil && transient(ctx, err) {
		w.seen.ControlPlane = "nothing: " + err.Error()
		w.current.node = true
		return nil
	}
	return err
}
