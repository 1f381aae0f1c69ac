package kube

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
)

// A watch that lived this long was sound: the next one starts without a penalty.
const soundWatch = 30 * time.Second

// Watch wakes its reader whenever the Node may have changed. A broken watch is made anew, with growing pauses of up to
// 5 s; since a change may be missed meanwhile, its making wakes the reader, and so does its failing, because then the reader's own
// look says why. The error is that of the first watch.
func (c *Client) Watch(ctx context.Context, name string) (<-chan struct{}, error) {
	first, err := c.watch(ctx, name)
	if err != nil {
		return nil, err
	}
	woken := make(chan struct{}, 1)
	go c.keepWatching(ctx, name, first, woken)
	return woken, nil
}

// keepWatching owns the channel and closes it when ctx ends.
func (c *Client) keepWatching(ctx context.Context, name string, w watch.Interface, woken chan struct{}) {
	defer close(woken)
	pause := watchBackoff()
	for {
		began := time.Now()
		if w != nil {
			forward(ctx, w, woken)
		}
		if time.Since(began) >= soundWatch {
			pause = watchBackoff()
		}
		if !sleep(ctx, pause.Step()) {
			return
		}
		w, _ = c.watch(ctx, name) // the reader's look reports the same error, if it lasts
		wake(woken)
	}
}

func watchBackoff() wait.Backoff {
	return wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 5 * time.Second}
}

// forward turns the watch's events into wake-ups until the watch or ctx ends.
func forward(ctx context.Context, w watch.Interface, woken chan<- struct{}) {
	defer w.Stop()
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Error {
				return
			}
			wake(woken)
		case <-ctx.Done():
			return
		}
	}
}

// wake never blocks: one wake-up that was not yet taken stands for all.
func wake(woken chan<- struct{}) {
	select {
	case woken <- struct{}{}:
	default:
	}
}

// openedWatch is a watch together with the context of its stream.
type openedWatch struct {
	watch.Interface

	cancel context.CancelFunc
}

// Stop ends the watch and lets go of its stream.
func (w openedWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// watch starts a watch at the present state, which the server sends first. So there is no resourceVersion to grow too old.
func (c *Client) watch(ctx context.Context, name string) (watch.Interface, error) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return c.openWatch(ctx, call{verb: "watch", resource: "nodes", name: name}, func(stream context.Context) (watch.Interface, error) {
		return c.core.Nodes().Watch(stream, metav1.ListOptions{FieldSelector: selector})
	})
}

// openWatch begins a watch. The attempt's own bound is for the answer's header only; the stream lives as long as ctx.
func (c *Client) openWatch(ctx context.Context, what call, begin func(stream context.Context) (watch.Interface, error)) (watch.Interface, error) {
	var made openedWatch
	err := c.read(ctx, what, func(attempt context.Context) error {
		stream, cancel := context.WithCancel(ctx)
		release := context.AfterFunc(attempt, cancel)
		w, err := begin(stream)
		release()
		if err != nil {
			cancel()
			return err
		}
		made = openedWatch{Interface: w, cancel: cancel}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}
