// Command program waits until it is told to end: what the lab's pods and pod sandboxes run.
//
// As the first process of a pod sandbox it is the parent of orphans; none appear in
// the lab, so it does not reap them.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
