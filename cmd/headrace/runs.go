package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/sim"
)

const gcPercent = 400

// runAll runs all configurations, several at once, and returns the results in
// their order. The first error wins.
func runAll(configs []sim.Config, jobs int, errOut io.Writer) ([]meter.Result, error) {
	// A run makes much short-lived garbage on a small heap: collecting it less
	// often saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	pods := int64(0)
	for i := range configs {
		pods += int64(len(configs[i].Workload.Pods))
	}
	bar := newProgress(pods, len(configs), "pods", errOut)
	defer bar.finish()
	results, errs := make([]meter.Result, len(configs)), make([]error, len(configs))
	each(len(configs), jobs, func(i int) {
		c := configs[i]
		c.Progress = bar.follow()
		results[i], errs[i] = sim.Run(c)
	})
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// each does n things, several at once: so many as there are processors, if jobs is
// 0.
func each(n, jobs int, do func(i int)) {
	if jobs <= 0 {
		jobs = runtime.NumCPU()
	}
	next := atomic.Int64{}
	var workers sync.WaitGroup
	for range min(jobs, n) {
		// A worker ends when nothing is left to do.
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				do(i)
			}
		})
	}
	workers.Wait()
}

// progress is one bar over all runs, counted in pods or jobs. It is silent where stderr
// is no terminal.
type progress struct {
	bar *progressbar.ProgressBar
}

func newProgress(total int64, runs int, word string, errOut io.Writer) *progress {
	file, isFile := errOut.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(errOut),
		progressbar.OptionSetDescription(fmt.Sprintf("%d runs", runs)),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(word),
		progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionEnableColorCodes(false), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))}
}

// follow returns the callback of one run.
func (p *progress) follow() func(done, total int) {
	if p.bar == nil {
		return nil
	}
	last := 0
	return func(done, _ int) {
		_ = p.bar.Add(done - last)
		last = done
	}
}

func (p *progress) finish() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// parseSpan reads a length of time as Go writes it, not negative.
func parseSpan(text string) (moment.Span, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("must be a length of time such as 90s, 12h or 0")
	}
	return moment.Span(d.Microseconds()), nil
}
