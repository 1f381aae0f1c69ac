package world

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Whole rollouts, as stories that a person can read. A change of the engine shows here as a change of what happens in a cluster.
func TestStories(t *testing.T) {
	cordoned, uplift := cluster("w1", "w2"), cluster("w1")
	cordoned.Nodes[0].CordonedBy = "kubectl-cordon"
	uplift.Nodes[0].AutoCPU, uplift.Nodes[0].AutoMemory, uplift.Nodes[0].Devices = true, true, 2
	killed := boundary(t, "Guest.RestartKubelet w1", Unreplied)
	for _, story := range []struct {
		name string
		cfg  Config
		play func(context.Context, *World)
	}{
		{"growth", cluster("c1", "w1", "w2"), func(ctx context.Context, w *World) { _ = scale(ctx, w, w.Run()) }},
		{"dedicated-etcd", cluster("e1", "e2", "e3"), func(ctx context.Context, w *World) {
			w.At(7*time.Second, func(w *World) { w.BreakEtcd("e3", true) })
			w.At(20*time.Second, func(w *World) { w.BreakEtcd("e3", false) })
			_ = scale(ctx, w, w.Run())
		}},
		{"cold-shrink", cluster("w1", "w2"), func(ctx context.Context, w *World) {
			w.Hold("web-w1", true)
			w.At(8*time.Second, func(w *World) { w.Hold("web-w1", false) })
			_ = shrink(ctx, w, w.Run())
		}},
		{"guest-helps-itself", uplift, func(ctx context.Context, w *World) { _ = scale(ctx, w, w.Run()) }},
		{"foreign-cordon", cordoned, func(ctx context.Context, w *World) { _ = scale(ctx, w, w.Run()) }},
		{"lost-replies", cluster("w1"), func(ctx context.Context, w *World) {
			w.Script(Upset{Call: "CloudStack.Resize", Late: true, Err: ErrReset}, Upset{Call: "Guest.RestartKubelet", Late: true, Err: ErrReset})
			_ = scale(ctx, w, w.Run())
		}},
		{"drift", cluster("w1"), func(ctx context.Context, w *World) {
			w.ScaleElsewhere("w1")
			w.Sleep(time.Minute)
			_ = scale(ctx, w, w.Run())
		}},
		{"partial-attach-and-resume", cluster("w1"), func(ctx context.Context, w *World) {
			w.CloudStack.Script(standin.Fault{Effect: standin.CPUFailure{}})
			_ = scale(ctx, w, w.Run())
			w.Sleep(time.Minute)
			_ = resume(ctx, w, w.Run())
		}},
		{"refused-and-given-back", cluster("w1"), func(ctx context.Context, w *World) {
			w.CloudStack.Script(standin.Fault{Effect: standin.NoCapacity{}})
			_ = scale(ctx, w, w.Run())
		}},
		{"killed-and-taken-over", cluster("w1"), func(ctx context.Context, w *World) {
			r := w.Run()
			r.KillAt = killed
			_ = scale(ctx, w, r)
			w.Sleep(5 * time.Second)
			_ = resume(ctx, w, w.Run())
		}},
		{"management-server-restarts", cluster("w1"), func(ctx context.Context, w *World) {
			w.CloudStack.Script(standin.Fault{Effect: standin.RestartServer{At: standin.AfterMemory, Downtime: 10 * time.Second}})
			_ = scale(ctx, w, w.Run())
			w.Sleep(time.Minute)
			_ = resume(ctx, w, w.Run())
		}},
		{"somebody-recordons", cluster("w1"), func(ctx context.Context, w *World) {
			w.At(10*time.Second, func(w *World) { w.Recordon("w1") })
			_ = scale(ctx, w, w.Run())
		}},
		{"somebody-reboots", cluster("w1"), func(ctx context.Context, w *World) {
			w.At(4*time.Second, func(w *World) { w.Reboot("w1") })
			_ = scale(ctx, w, w.Run())
		}},
		{"stopped-and-taken-over", cluster("w1"), func(ctx context.Context, w *World) {
			r := w.Run()
			w.At(7*time.Second, func(*World) { r.StopFor(5 * time.Minute) })
			done := make(chan struct{})
			w.At(30*time.Second, func(w *World) { defer close(done); _ = resume(ctx, w, w.Run()) })
			_ = scale(ctx, w, r)
			<-done
		}},
		{"kubelet-crash-loops", cluster("w1"), func(ctx context.Context, w *World) {
			w.BreakKubelet("w1", true)
			_ = scale(ctx, w, w.Run())
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			simulate(t, story.cfg, func(t *testing.T, w *World) {
				story.play(t.Context(), w)
				got := w.Story() + "\n" + w.State()
				file := filepath.Join("testdata", story.name+".golden")
				if *update {
					if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// boundary is the number of a boundary in a rollout of w1 without faults.
func boundary(t *testing.T, call string, p Point) (number int) {
	simulate(t, cluster("w1"), func(t *testing.T, w *World) {
		r := w.Run()
		_ = scale(t.Context(), w, r)
		for i, b := range r.Boundaries {
			if number == 0 && b.Call.String() == call && b.Point == p {
				number = i + 1
			}
		}
	})
	if number == 0 {
		t.Fatalf("a rollout does not come by %s, %s", call, p)
	}
	return number
}
