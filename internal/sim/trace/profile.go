package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// PlainGPU is the GPU model whose tables the Pollux artefact writes without a
// suffix: "placements.csv" there is "placements-aws.csv" in the Sia artefact.
const PlainGPU = "aws"

// Limits of profiles. The largest shape measured has 16 nodes, the largest batch
// 32,768.
const (
	maxProfileNodes = 4_096
	maxProfileBatch = 100_000_000
	maxStep         = 1e6 // seconds
	maxStatistic    = 1e18
)

// StepRow is one measurement of one training step: on a shape (GPUs on each node,
// a digit a node) or, where that is empty, on so many nodes and GPUs; with so many
// examples on each GPU. Sync is the part of Step that is spent on communication.
type StepRow struct {
	Shape       string
	Nodes, GPUs int
	Local       int
	Step, Sync  float64 // seconds
}

// StepTable is what was measured of one kind of training on one GPU model.
type StepTable struct {
	GPU string
	// Shapes are the rows of the placements table, Scale those of the scalability
	// table.
	Shapes, Scale []StepRow
	// Points and Simplices are the triangulation for shapes that are not in the
	// table; both may be empty.
	Points    []StepRow
	Simplices [][4]int
}

// EpochRow is the state of training at the end of an epoch.
type EpochRow struct{ Progress, GradSqr, GradVar float64 }

// BatchRun is a measured training run with one total batch, an entry an epoch.
type BatchRun struct {
	Batch  int
	Epochs []EpochRow
}

// Profile is what was measured of one kind of training.
type Profile struct {
	Kind string
	Runs []BatchRun  // by ascending batch
	GPUs []StepTable // in the order asked for
}

// Profiles reads the measured profiles of kinds of training on GPU models, from
// the folders of the Pollux and Sia artefacts: one folder a kind, holding
// placements, scalability, validation-BATCH and interp files, with the GPU's name
// as a suffix or, of aws, without. A file that one folder lacks is looked for in
// the next.
func Profiles(dirs, kinds, gpus []string) ([]Profile, error) {
	var out []Profile
	for _, kind := range kinds {
		p := Profile{Kind: kind}
		var err error
		if p.Runs, err = batchRuns(dirs, kind); err != nil {
			return nil, err
		}
		for _, gpu := range gpus {
			t, err := stepTable(dirs, kind, gpu)
			if err != nil {
				return nil, err
			}
			p.GPUs = append(p.GPUs, t)
		}
		out = append(out, p)
	}
	return out, nil
}

func batchRuns(dirs []string, kind string) ([]BatchRun, error) {
	const head, tail = "validation-", ".csv"
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, kind, head+"*"+tail))
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			continue
		}
		var runs []BatchRun
		for _, path := range paths {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), head), tail)
			batch, err := strconv.Atoi(name)
			if err != nil || batch < 1 || batch > maxProfileBatch {
				return nil, fmt.Errorf("%s: batch %q in the file's name: %s", path, name, allowedNumber(1, maxProfileBatch))
			}
			run := BatchRun{Batch: batch}
			if err := readFile(path, func(s source) error { return s.epochs(&run) }); err != nil {
				return nil, err
			}
			runs = append(runs, run)
		}
		slices.SortFunc(runs, func(a, b BatchRun) int { return a.Batch - b.Batch })
		return runs, nil
	}
	return nil, fmt.Errorf("no %sBATCH%s for the application %q in %s", head, tail, kind, strings.Join(dirs, ", "))
}

// readFile opens a file and reads it.
func readFile(path string, read func(source) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, err := uncompressed(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return read(source{path, in})
}

func (s source) epochs(run *BatchRun) error {
	start := func(sh *sheet) error { return sh.require("progress", "grad_sqr", "grad_var") }
	return s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		e := EpochRow{
			Progress: r.real("progress", 0, maxStatistic),
			GradSqr:  r.real("grad_sqr", 0, maxStatistic), GradVar: r.real("grad_var", 0, maxStatistic),
		}
		run.Epochs = append(run.Epochs, e)
		return r.err
	})
}

// real reads a number that need not be an integer.
func (r *cells) real(column string, least, most float64) float64 {
	x, err := strconv.ParseFloat(r.cell(column), 64)
	if err != nil || !(x >= least && x <= most) { // NaN fails both comparisons.
		r.bad(column, fmt.Sprintf("want a number from %g to %g", least, most))
		return 0
	}
	return x
}

// profileFile finds a table of a kind on a GPU model. stem and tail stand around
// the GPU's name. It is "" where there is none.
func profileFile(dirs []string, kind, stem, gpu, tail string) string {
	for _, dir := range dirs {
		names := []string{stem + "-" + gpu + tail}
		if gpu == PlainGPU {
			names = append(names, stem+tail)
		}
		for _, name := range names {
			path := filepath.Join(dir, kind, name)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

func stepTable(dirs []string, kind, gpu string) (StepTable, error) {
	t := StepTable{GPU: gpu}
	for _, part := range []struct {
		stem, tail string
		required   bool
		read       func(source) error
	}{
		{"placements", ".csv", true, func(s source) error { return s.steps(&t.Shapes, true) }},
		{"scalability", ".csv", true, func(s source) error { return s.steps(&t.Scale, false) }},
		{"interp", "-points.csv", false, func(s source) error { return s.steps(&t.Points, false) }},
		{"interp", "-simplices.csv", false, func(s source) error { return s.simplices(&t) }},
	} {
		path := profileFile(dirs, kind, part.stem, gpu, part.tail)
		if path == "" {
			if part.required {
				return t, fmt.Errorf("no %s-%s%s for the application %q in %s", part.stem, gpu, part.tail, kind, strings.Join(dirs, ", "))
			}
			continue
		}
		if err := readFile(path, part.read); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (s source) steps(rows *[]StepRow, shaped bool) error {
	where := []string{"num_nodes", "num_replicas"}
	if shaped {
		where = []string{"placement"}
	}
	start := func(sh *sheet) error { return sh.require(append(where, "local_bsz", "step_time", "sync_time")...) }
	return s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		row := StepRow{
			Local: int(r.number("local_bsz", 1, maxProfileBatch)),
			Step:  r.real("step_time", 0, maxStep), Sync: r.real("sync_time", 0, maxStep),
		}
		if row.Step <= row.Sync {
			r.bad("step_time", "want more than sync_time, which is "+sh.cell("sync_time"))
		}
		if shaped {
			row.Shape, row.Nodes, row.GPUs = r.shape("placement")
		} else {
			row.Nodes = int(r.number("num_nodes", 1, maxProfileNodes))
			row.GPUs = int(r.number("num_replicas", int64(row.Nodes), maxProfileNodes*MaxGPUs))
		}
		*rows = append(*rows, row)
		return r.err
	})
}

// shape reads the GPUs on each node, a digit a node.
func (r *cells) shape(column string) (text string, nodes, gpus int) {
	text = r.cell(column)
	for _, digit := range text {
		if digit < '1' || digit > '9' {
			r.bad(column, "want the GPUs on each node, a digit from 1 to 9 for each")
			return "", 0, 0
		}
		gpus += int(digit - '0')
	}
	if text == "" || len(text) > maxProfileNodes {
		r.bad(column, "want the GPUs on each node, a digit from 1 to 9 for each")
	}
	return text, len(text), gpus
}

func (s source) simplices(t *StepTable) error {
	columns := []string{"a", "b", "c", "d"}
	start := func(sh *sheet) error { return sh.require(columns...) }
	return s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		var corners [4]int
		for i, c := range columns {
			corners[i] = int(r.number(c, 0, int64(len(t.Points)-1)))
		}
		t.Simplices = append(t.Simplices, corners)
		return r.err
	})
}
