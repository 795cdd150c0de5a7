//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach puts a process into a group of its own, so that an interrupt typed at
// the terminal reaches only this one, which stops the other in order.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
