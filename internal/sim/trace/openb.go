package trace

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// OpenBPods is the most pods of a node in the published experiments on the openb
// trace (hkust-adsl/kubernetes-scheduler-simulator, where nodes are made with
// 1001 pods allocatable).
const OpenBPods = 1001

// Columns of the openb files that hold times.
const (
	createdColumn   = "creation_time"
	scheduledColumn = "scheduled_time"
	deletedColumn   = "deletion_time"
)

// OpenB reads Alibaba's GPU-sharing trace of 2023 (cluster-trace-gpu-v2023): a
// file of nodes and one of pods. Both come sorted by name, which is the
// canonical order of the published experiments. The column gpu_spec may be
// missing, and so may the times; the workload is then not timed.
func OpenB(nodesPath, podsPath string) (Workload, error) {
	nodesFile, err := os.Open(nodesPath)
	if err != nil {
		return Workload{}, err
	}
	defer nodesFile.Close()
	podsFile, err := os.Open(podsPath)
	if err != nil {
		return Workload{}, err
	}
	defer podsFile.Close()
	return readOpenB(source{nodesPath, nodesFile}, source{podsPath, podsFile})
}

// RequireTimes returns an error that names the columns of the file at path for
// want of which w has no times. It is nil for a timed workload.
func RequireTimes(w Workload, path string) error {
	if w.Timed {
		return nil
	}
	if len(w.Missing) == 0 {
		return fmt.Errorf("%s: the workload has no times; --mode timed needs them, --mode static does not", path)
	}
	return fmt.Errorf("%s: column %q is missing; --mode timed needs it, --mode static does not", path, w.Missing[0])
}

func readOpenB(nodes, pods source) (Workload, error) {
	w := Workload{Name: workloadName(pods.name)}
	var err error
	if w.Nodes, err = openBNodes(nodes); err != nil {
		return Workload{}, err
	}
	if w.GPUCapacity() == 0 {
		return Workload{}, fmt.Errorf("%s: the cluster has no GPU", nodes.name)
	}
	if err = w.openBPods(pods); err != nil {
		return Workload{}, err
	}
	slices.SortFunc(w.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(w.Pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return w, nil
}

// workloadName is the base name of a file without its ending, and without that of
// gzip.
func workloadName(path string) string {
	base := strings.TrimSuffix(filepath.Base(path), ".gz")
	if stem := strings.TrimSuffix(base, filepath.Ext(base)); validText(stem) {
		return stem
	}
	return "workload"
}

func openBNodes(s source) ([]Node, error) {
	var nodes []Node
	seen := names{}
	start := func(sh *sheet) error { return sh.require("sn", "cpu_milli", "memory_mib", "gpu", "model") }
	err := s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		n := Node{
			Name:   r.name("sn", seen),
			CPU:    quantity.MilliCPU(r.number("cpu_milli", 0, int64(MaxCPU))),
			Memory: quantity.Bytes(r.number("memory_mib", 0, int64(MaxMemory/quantity.MiB))) * quantity.MiB,
			Pods:   OpenBPods,
			GPUs:   int(r.number("gpu", 0, MaxGPUs)),
			Model:  sh.cell("model"),
		}
		if n.Model != "" && !validWord(n.Model) {
			r.bad("model", "want a text without vertical bar and control characters, or nothing")
		}
		if p := checkNode(&n); p.found() {
			r.bad(p.field, p.allowed)
		}
		nodes = append(nodes, n)
		return r.err
	})
	if err == nil && len(nodes) == 0 {
		err = fmt.Errorf("%s: the file has a header and no nodes", s.name)
	}
	return nodes, err
}

func (w *Workload) openBPods(s source) error {
	seen := names{}
	start := func(sh *sheet) error {
		for _, column := range []string{createdColumn, deletedColumn} {
			if !sh.has(column) {
				w.Missing = append(w.Missing, column)
			}
		}
		w.Timed = len(w.Missing) == 0
		return sh.require("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	}
	err := s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		p := Pod{
			Name:   r.name("name", seen),
			CPU:    quantity.MilliCPU(r.number("cpu_milli", 0, int64(MaxCPU))),
			Memory: quantity.Bytes(r.number("memory_mib", 0, int64(MaxMemory/quantity.MiB))) * quantity.MiB,
			GPUs:   int(r.number("num_gpu", 0, MaxGPUs)),
			Milli:  quantity.MilliGPU(r.number("gpu_milli", 0, int64(quantity.WholeGPU))),
			Models: r.models("gpu_spec"),
		}
		if bad := checkPod(&p); bad.found() {
			r.bad(bad.field, bad.allowed)
		}
		if w.Timed {
			p.Arrival, p.Duration = r.times()
		}
		w.Pods = append(w.Pods, p)
		return r.err
	})
	if err == nil && len(w.Pods) == 0 {
		err = fmt.Errorf("%s: the file has a header and no pods", s.name)
	}
	return err
}

// cells reads the cells of a row of a public trace. The first error sticks.
type cells struct {
	*sheet
	err error
}

func (r *cells) bad(column, allowed string) {
	if r.err == nil {
		r.err = r.sheet.bad(problem{column, r.cell(column), allowed})
	}
}

func (r *cells) name(column string, seen names) string {
	name := r.cell(column)
	if !validText(name) {
		r.bad(column, allowedText)
	} else if p := seen.add(name, r.line); p.found() {
		r.bad(column, p.allowed)
	}
	return name
}

func (r *cells) number(column string, least, most int64) int64 {
	n, err := strconv.ParseInt(r.cell(column), 10, 64)
	if err != nil || n < least || n > most {
		r.bad(column, allowedNumber(least, most))
		return 0
	}
	return n
}

func (r *cells) models(column string) []string {
	text := r.cell(column)
	if text == "" {
		return nil
	}
	// In the order of the file: the published target workload tells "A|B" from
	// "B|A".
	models := strings.Split(text, "|")
	if len(models) > MaxList || slices.ContainsFunc(models, func(m string) bool { return !validWord(m) }) {
		r.bad(column, fmt.Sprintf("want at most %d GPU models separated by vertical bars, or nothing", MaxList))
	}
	return models
}

// times gives arrival and duration. A pod that was never scheduled (the column
// is empty) is counted from its creation.
func (r *cells) times() (moment.Instant, moment.Span) {
	created, deleted := r.seconds(createdColumn), r.seconds(deletedColumn)
	started := created
	if r.cell(scheduledColumn) != "" {
		started = r.seconds(scheduledColumn)
	}
	switch {
	case started < created:
		r.bad(scheduledColumn, "want no time before "+createdColumn)
	case deleted < created:
		r.bad(deletedColumn, "want no time before "+createdColumn)
	case deleted < started:
		r.bad(deletedColumn, "want no time before "+scheduledColumn)
	}
	return moment.Instant(created), deleted - started
}

func (r *cells) seconds(column string) moment.Span {
	s, err := strconv.ParseFloat(r.cell(column), 64)
	most := float64(MaxTime / moment.Second)
	if err != nil || !(s >= 0 && s <= most) { // NaN fails both comparisons.
		r.bad(column, fmt.Sprintf("want seconds from 0 to %.0f", most))
		return 0
	}
	return moment.Span(math.Round(s * float64(moment.Second)))
}
