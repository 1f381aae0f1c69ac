package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// state puts the cluster's record into a state, now or later.
func (s *stage) state(state standin.ClusterState) {
	s.UpdateCluster(s.cluster.ID, func(c *standin.Cluster) { c.State = state })
}

// scale --wait goes on as soon as CloudStack has finished, and gives up at its bound.
func TestWaitForCloudStack(t *testing.T) {
	for _, c := range []struct {
		name, args string
		state      standin.ClusterState
		ends       standin.ClusterState
		code       int
		took       [2]time.Duration
		says       string
	}{
		{"no wait", "", standin.ClusterScaling, standin.ClusterRunning, ExitRefused, [2]time.Duration{0, time.Second}, "try again when `trueup clusters` shows Running"},
		{"until it runs", "--wait 5m", standin.ClusterScaling, standin.ClusterRunning, ExitOK, [2]time.Duration{time.Minute, 2 * time.Minute}, "Cluster prod is Scaling; waiting for up to 5m0s more"},
		{"Alert that heals", "--wait 5m", standin.ClusterAlert, standin.ClusterRunning, ExitOK, [2]time.Duration{time.Minute, 2 * time.Minute}, "Cluster prod is Alert"},
		{"too long", "--wait 30s", "Upgrading", standin.ClusterRunning, ExitRefused, [2]time.Duration{30 * time.Second, 31 * time.Second}, "cluster prod is Upgrading"},
		{"it ends elsewhere", "--wait 5m", standin.ClusterStopping, "Error", ExitRefused, [2]time.Duration{time.Minute, 90 * time.Second}, "cluster prod is Error"},
		{"a state that nothing leaves", "--wait 5m", "Error", "Error", ExitRefused, [2]time.Duration{0, time.Second}, "cluster prod is Error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, s *stage) {
				s.state(c.state)
				time.AfterFunc(time.Minute, func() { s.state(c.ends) })
				began := time.Now()
				p := s.trueup(t, "scale prod --worker big --yes "+c.args).want(t, c.code).says(t, c.says)
				took := time.Since(began)
				if p := strings.Count(p.err.String(), "waiting for up to"); took < c.took[0] || c.code != ExitOK && took > c.took[1] || p > 12 {
					t.Errorf("after %s, told %d times", took, p)
				}
				time.Sleep(2 * time.Minute) // the timer
			})
		})
	}
}
