//go:build unix

package devcluster

import (
	"os"
	"syscall"
)

// lockFile locks a file for this process, or says that another has it.
func lockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
