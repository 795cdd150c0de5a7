package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/moment"
)

// TrainingJob is one row of a workload of the Pollux and Sia artefacts: a training
// job that may run with any number of GPUs. GPUs and Batch are what its user asked
// for, where a policy does not choose.
type TrainingJob struct {
	Name   string
	Submit float64 // seconds
	Kind   string
	GPUs   int
	Batch  int
}

// Training reads a workload file of the Pollux or Sia artefact, as it is or
// compressed by gzip. The jobs keep the file's order. kinds are the applications
// that may be named.
func Training(path string, kinds []string) ([]TrainingJob, error) {
	var jobs []TrainingJob
	err := readFile(path, func(s source) error {
		var err error
		jobs, err = s.training(kinds)
		return err
	})
	return jobs, err
}

func (s source) training(kinds []string) ([]TrainingJob, error) {
	var jobs []TrainingJob
	seen := names{}
	start := func(sh *sheet) error {
		return sh.require("name", "time", "application", "num_replicas", "batch_size")
	}
	err := s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		j := TrainingJob{
			Name: r.name("name", seen), Submit: r.real("time", 0, float64(MaxTime/moment.Second)),
			Kind: sh.cell("application"), GPUs: int(r.number("num_replicas", 1, MaxJobGPUs)),
			Batch: int(r.number("batch_size", 1, maxProfileBatch)),
		}
		if !slices.Contains(kinds, j.Kind) {
			r.bad("application", "want one of "+strings.Join(kinds, ", "))
		}
		jobs = append(jobs, j)
		return r.err
	})
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("%s: the file has a header and no jobs", s.name)
	}
	return jobs, err
}
