package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headrace-dev/headrace/live/usage"
)

// controlName is the socket at which a running cluster listens for down.
const controlName = "control.sock"

// downWithin is how long down waits for the cluster to be gone.
const downWithin = 40 * time.Second

// refuseSecond says that a cluster runs in the directory already, if so.
func refuseSecond(dir string) error {
	c, err := net.Dial("unix", filepath.Join(dir, controlName))
	if err != nil {
		return nil
	}
	c.Close()
	return fmt.Errorf("a cluster runs in %s already; headrace down stops it", dir)
}

// listenForDown calls stop when down connects. It listens until the context ends.
func listenForDown(ctx context.Context, dir string, stop func()) error {
	path := filepath.Join(dir, controlName)
	_ = os.Remove(path) // left by one that was killed
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("listen for headrace down: %w", err)
	}
	context.AfterFunc(ctx, func() { l.Close() })
	// Ends with ctx. The connection stays open until this process has gone: that is
	// what down waits for.
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if word, _ := io.ReadAll(io.LimitReader(c, int64(len(downWord)))); string(word) == downWord {
				stop()
				continue
			}
			c.Close()
		}
	}()
	return nil
}

// downWord is what down says.
const downWord = "down"

func downCommand() *cobra.Command {
	dir := ""
	c := &cobra.Command{
		Use: "down", Short: "stop the cluster that up started", Args: usage.NoArgumentsTo,
		RunE: func(c *cobra.Command, _ []string) error { return down(dir, c.OutOrStdout()) },
	}
	c.Flags().StringVar(&dir, "dir", defaultDir(), "where the cluster lies")
	return c
}

func down(dir string, out io.Writer) error {
	c, err := net.Dial("unix", filepath.Join(dir, controlName))
	if err != nil {
		fmt.Fprintf(out, "no cluster runs in %s\n", dir)
		return nil
	}
	defer c.Close()
	if _, err := io.WriteString(c, downWord); err != nil {
		return fmt.Errorf("tell the cluster in %s to stop: %w", dir, err)
	}
	if err := c.SetReadDeadline(time.Now().Add(downWithin)); err != nil {
		return fmt.Errorf("wait for the cluster in %s: %w", dir, err)
	}
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the cluster in %s has not stopped after %v", dir, downWithin)
	}
	fmt.Fprintf(out, "the cluster in %s has stopped\n", dir)
	return nil
}
