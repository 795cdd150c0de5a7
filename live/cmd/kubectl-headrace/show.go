package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/headrace-dev/headrace/live/kube"
)

const (
	// redraw is how often the table is drawn on a terminal, report how often a line
	// is written elsewhere.
	redraw = time.Second
	report = 10 * time.Second
	// reasonLines is how many reasons the table shows.
	reasonLines = 4
	// lineWidth cuts lines that would wrap.
	lineWidth = 118
)

// show draws what happens until the context ends.
func show(ctx context.Context, out io.Writer, s *kube.Scheduler, l *load) {
	file, isFile := out.(*os.File)
	onTerminal := isFile && term.IsTerminal(int(file.Fd()))
	every := report
	if onTerminal {
		every = redraw
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var before kube.Figures
	drawn := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		f := s.Figures()
		lines := table(&f, l, float64(f.Decisions-before.Decisions)/every.Seconds())
		before = f
		if !onTerminal {
			fmt.Fprintln(out, strings.Join(lines, " | "))
			continue
		}
		if drawn > 0 {
			fmt.Fprintf(out, "\x1b[%dA", drawn)
		}
		for _, line := range lines {
			fmt.Fprintf(out, "\x1b[2K%s\n", line)
		}
		for range drawn - len(lines) {
			fmt.Fprint(out, "\x1b[2K\n")
		}
		drawn = max(drawn, len(lines))
	}
}

// table returns the lines to show.
func table(f *kube.Figures, l *load, perSecond float64) []string {
	percent := 0
	if f.GPUs > 0 {
		percent = f.GPUsHeld * 100 / f.GPUs
	}
	lines := []string{
		fmt.Sprintf("pods   %5d created  %5d waiting  %5d bound  %5d finished", l.created.Load(), f.Waiting+f.Paused+f.Held, f.Bound+f.Placing, l.finished.Load()),
		fmt.Sprintf("GPUs   %5d of %d held (%d %%) on %d of %d nodes", f.GPUsHeld, f.GPUs, percent, f.NodesReady, f.Nodes),
		fmt.Sprintf("work   %5d decisions  %5.1f per second  %5d refused  %5d cycles", f.Decisions, perSecond, f.Refused, f.Cycles),
	}
	for _, r := range f.Reasons[:min(len(f.Reasons), reasonLines)] {
		lines = append(lines, fmt.Sprintf("%6d wait: %s", r.Count, r.Says))
	}
	for i, line := range lines {
		if runes := []rune(line); len(runes) > lineWidth {
			lines[i] = string(runes[:lineWidth-1]) + "…"
		}
	}
	return lines
}
