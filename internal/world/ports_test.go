package world

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/cks-trueup/trueup/internal/kube"
	"github.com/cks-trueup/trueup/internal/rollout"
)

// Every method of every port that the engine has goes through the interceptor. The list of ports is read from the Runner itself.
func TestEveryPortMethodIsIntercepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(cluster("w1"))
		defer w.Close()
		r := w.Run()
		engine := reflect.ValueOf(*r.runner("scale", ""))
		var ports []reflect.Value
		for i := range engine.NumField() {
			f := engine.Field(i)
			if f.Kind() == reflect.Interface && engine.Type().Field(i).Name != "Clock" {
				ports = append(ports, f.Elem())
			}
		}
		if len(ports) != 9 {
			t.Fatalf("the engine has %d ports, this world was made for 9", len(ports))
		}
		guest, err := (guestsPort{r, guests{r}}).Guest(t.Context(), w.machines[0].target())
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range append(ports, reflect.ValueOf(guest)) {
			for i := range port.NumMethod() {
				checkIntercepted(t, r, port.Type().Method(i).Name, port.Method(i))
			}
		}
	})
}

// checkIntercepted calls the method and looks for its three boundaries.
func checkIntercepted(t *testing.T, r *Run, name string, method reflect.Value) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.Boundaries = nil
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.Type().NumIn(); i++ {
		arg := reflect.New(method.Type().In(i)).Elem()
		if target, ok := reflect.TypeAssert[*rollout.Target](arg.Addr()); ok {
			*target = r.w.machines[0].target()
		}
		if text, ok := reflect.TypeAssert[*string](arg.Addr()); ok {
			*text = r.w.machines[0].id
		}
		args = append(args, arg)
	}
	method.Call(args)
	points := map[Point]int{}
	for _, b := range r.Boundaries {
		if b.Call.Method == name {
			points[b.Point]++
		}
	}
	if points[Before] != 1 || points[Unreplied] != 1 || points[After] != 1 {
		t.Errorf("%s: boundaries %v", name, points)
	}
}

// The Lease of the world has the times of the real one.
func TestLeaseTimes(t *testing.T) {
	if leaseDuration != kube.LeaseDuration || renewInterval != kube.RenewInterval || effectDeadline != kube.EffectDeadline {
		t.Error("the times of the Lease differ from those of package kube")
	}
}

// A killed program has no effect any more, whatever it calls.
func TestKilledProgramHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(cluster("w1"))
		defer w.Close()
		r := w.Run()
		r.dead = true
		before := w.State()
		_, _ = r.Scale(t.Context(), w.grow())
		_ = guest{r, w.machines[0]}.Online(t.Context())
		_, _ = guest{r, w.machines[0]}.RestartKubelet(t.Context(), w.machines[0].guest.Kubelet.InvocationID)
		_, _ = nodes{r}.Patch(t.Context(), rollout.NodePatch{Name: "w1", UID: w.machines[0].node.UID, ResourceVersion: w.machines[0].node.ResourceVersion})
		if got := w.State(); got != before {
			t.Errorf("changed:\n%s%s", before, got)
		}
	})
}
