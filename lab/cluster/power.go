package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cks-trueup/trueup/internal/cloudstack/standin"
)

// Unprepare boots the node's machine anew without room to grow, as a machine is that was started before CloudStack could scale it: its
// flag says that it can be scaled while it runs, and its domain has neither maxima nor memory slots. It returns when the Node is Ready.
func (l *Lab) Unprepare(ctx context.Context, node *Node) error {
	model, id := l.Cloud.Model, node.VMID()
	if err := model.StopVM(ctx, id); err != nil {
		return err
	}
	model.UpdateVM(id, func(vm *standin.VM) { vm.DynamicallyScalable = false })
	err := model.StartVM(ctx, id)
	model.UpdateVM(id, func(vm *standin.VM) { vm.DynamicallyScalable = true })
	if err != nil {
		return err
	}
	return l.WaitBooted(ctx, node)
}

// WaitBooted waits until a guest that was started again answers, and its Node is Ready in this very boot.
func (l *Lab) WaitBooted(ctx context.Context, node *Node) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if err := node.WaitSSH(ctx); err != nil {
		return err
	}
	boot, err := node.Run(ctx, "cat /proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	boot = strings.TrimSpace(boot)
	err = l.waitNode(ctx, node, func(seen *corev1.Node) bool { return NodeReady(seen) && seen.Status.NodeInfo.BootID == boot })
	if err != nil {
		return fmt.Errorf("boot %s: %w", boot, err)
	}
	return nil
}
