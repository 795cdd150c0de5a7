package trace

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Columns of the compact form of Microsoft's Philly trace.
const (
	phillyTime    = "timestamp"
	phillyRun     = "duration"
	phillyGPUs    = "num_gpus"
	phillyGPUTime = "gpu_time"
	phillyCluster = "cluster"
)

const (
	// phillyClock is how the trace writes an instant, to the second.
	phillyClock = "2006-01-02 15:04:05"
	// MaxJobGPUs is the most GPUs of a job that is read. The largest of the trace
	// has 128.
	MaxJobGPUs = 65_536
	// MaxClusterNodes is the most nodes of a cluster that is made for a trace.
	MaxClusterNodes = 100_000
)

// Cluster is one that is made for a trace that has none.
type Cluster struct{ Nodes, GPUs int }

// PhillySetting says what the compact form of the trace leaves open.
type PhillySetting struct {
	Cluster
	// Checkpoint, Restart and WarmUp go to the jobs and to the workload.
	Checkpoint, Restart, WarmUp moment.Span
}

// DefaultPhilly is the setting of docs/results.md: the offered load is 90 % of the
// 416 GPUs. The first two weeks have 22 jobs, which fill a third of the cluster:
// they are the warm-up.
func DefaultPhilly() PhillySetting {
	return PhillySetting{
		Cluster:    Cluster{Nodes: 52, GPUs: 8},
		Checkpoint: 30 * moment.Minute, Restart: moment.Minute, WarmUp: 14 * moment.Day,
	}
}

// Philly reads the compact form of Microsoft's Philly trace (one row for each job:
// when it was submitted, how long it ran, on how many GPUs, in which virtual
// cluster), as it is or compressed by gzip. Rows may stand in any order.
//
// A virtual cluster is a queue. What it deserves is in proportion to its GPU-time,
// but not less than its largest job takes; together they deserve the cluster. A
// job of more GPUs than a node has is a group of pods that fill nodes, and one
// that takes the rest.
func Philly(path string, set PhillySetting) (Workload, error) {
	file, err := os.Open(path)
	if err != nil {
		return Workload{}, err
	}
	defer file.Close()
	in, err := uncompressed(file)
	if err != nil {
		return Workload{}, fmt.Errorf("%s: %w", path, err)
	}
	return readPhilly(source{path, in}, set)
}

// uncompressed looks into a file that gzip may have written.
func uncompressed(file io.Reader) (io.Reader, error) {
	in := bufio.NewReader(file)
	if magic, err := in.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return in, nil // a short file is no error here: reading it says what is missing
	}
	return gzip.NewReader(in)
}

// phillyJob is one row.
type phillyJob struct {
	line    int
	at      time.Time
	run     moment.Span
	gpus    int
	cluster string
}

func readPhilly(s source, set PhillySetting) (Workload, error) {
	if set.Nodes < 1 || set.Nodes > MaxClusterNodes || set.GPUs < 1 || set.GPUs > MaxGPUs {
		return Workload{}, fmt.Errorf("%s: a cluster of %d nodes with %d GPUs: want 1 to %d nodes with 1 to %d GPUs",
			s.name, set.Nodes, set.GPUs, MaxClusterNodes, MaxGPUs)
	}
	jobs, err := phillyJobs(s)
	if err != nil {
		return Workload{}, err
	}
	slices.SortStableFunc(jobs, func(a, b phillyJob) int { return a.at.Compare(b.at) })
	w := Workload{Name: workloadName(s.name), Timed: true, WarmUp: set.WarmUp}
	for i := range set.Nodes {
		w.Nodes = append(w.Nodes, Node{Name: fmt.Sprintf("node-%0*d", len(strconv.Itoa(set.Nodes-1)), i), Pods: KubeletPods, GPUs: set.GPUs, Model: "GPU"})
	}
	w.Queues = deserved(jobs, int64(w.GPUCapacity()))
	for i := range jobs {
		at := jobs[i].at.Sub(jobs[0].at)
		if at > time.Duration(MaxTime)*time.Microsecond {
			return Workload{}, s.badCell(jobs[i].line, "column", problem{phillyTime, jobs[i].at.Format(phillyClock), "want no more than 100 years after the first job"})
		}
		w.Pods = appendJob(w.Pods, &jobs[i], moment.Instant(at.Microseconds()), set)
	}
	return w, nil
}

func phillyJobs(s source) ([]phillyJob, error) {
	var jobs []phillyJob
	start := func(sh *sheet) error {
		return sh.require(phillyTime, phillyRun, phillyGPUs, phillyGPUTime, phillyCluster)
	}
	err := s.eachRow(start, func(sh *sheet) error {
		r := &cells{sheet: sh}
		j := phillyJob{
			line: sh.line, at: r.clock(phillyTime), run: r.seconds(phillyRun),
			gpus: int(r.number(phillyGPUs, 1, MaxJobGPUs)), cluster: sh.cell(phillyCluster),
		}
		if j.run == 0 {
			r.bad(phillyRun, "want more than 0 seconds")
		}
		if !validText(j.cluster) {
			r.bad(phillyCluster, allowedText)
		}
		r.product(phillyGPUTime, &j)
		jobs = append(jobs, j)
		return r.err
	})
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("%s: the file has a header and no jobs", s.name)
	}
	return jobs, err
}

// clock reads an instant to the second.
func (r *cells) clock(column string) time.Time {
	at, err := time.Parse(phillyClock, r.cell(column))
	if err != nil {
		r.bad(column, "want a time as 2017-10-09 07:01:55")
	}
	return at
}

// product checks the column that says again what two others say.
func (r *cells) product(column string, j *phillyJob) {
	if r.err != nil {
		return
	}
	is, err := strconv.ParseFloat(r.cell(column), 64)
	want := float64(j.gpus) * float64(j.run) / float64(moment.Second)
	if err != nil || !(math.Abs(is-want) <= 1) {
		r.bad(column, fmt.Sprintf("want %s × %s, which is %.1f", phillyRun, phillyGPUs, want))
	}
}

// appendJob adds the pods of a job. Its name is that of its line in the file.
func appendJob(pods []Pod, j *phillyJob, at moment.Instant, set PhillySetting) []Pod {
	p := Pod{
		Name: fmt.Sprintf("job-%d", j.line), Kind: j.cluster + " " + SizeClass(j.gpus), Queue: j.cluster, GPUs: j.gpus, Milli: quantity.WholeGPU,
		Arrival: at, Duration: j.run, Checkpoint: set.Checkpoint, Restart: set.Restart,
	}
	if j.gpus <= set.GPUs {
		return append(pods, p)
	}
	name := p.Name
	p.Group = name
	for rest, i := j.gpus, 0; rest > 0; rest, i = rest-p.GPUs, i+1 {
		p.Name, p.GPUs = fmt.Sprintf("%s/%d", name, i), min(rest, set.GPUs)
		pods = append(pods, p)
	}
	return pods
}

// SizeClass names a class of jobs by their GPUs: the classes that waiting is told
// of by size.
func SizeClass(gpus int) string {
	for _, c := range SizeClasses() {
		if gpus <= c.Most {
			return c.Name
		}
	}
	return ">16 GPUs"
}

// Size is a class of jobs of up to so many GPUs.
type Size struct {
	Name string
	Most int
}

// SizeClasses lists the classes, the smallest first; the last has no bound.
func SizeClasses() []Size {
	return []Size{{"1 GPU", 1}, {"2-4 GPUs", 4}, {"5-8 GPUs", 8}, {"9-16 GPUs", 16}, {">16 GPUs", math.MaxInt}}
}

// deserved shares a capacity out by GPU-time, to nobody less than its largest job
// takes. Where those alone are more than there is, each deserves its largest job.
func deserved(jobs []phillyJob, capacity int64) []Queue {
	type claim struct{ time, least int64 } // GPU-milliseconds, milli-GPU
	claims := make(map[string]*claim)
	var names []string
	for i := range jobs {
		c := claims[jobs[i].cluster]
		if c == nil {
			c = new(claim)
			claims[jobs[i].cluster] = c
			names = append(names, jobs[i].cluster)
		}
		c.time = quantity.AddSaturating(c.time, quantity.MulDiv(int64(jobs[i].run), int64(jobs[i].gpus), int64(moment.Millisecond)))
		c.least = max(c.least, int64(jobs[i].gpus)*int64(quantity.WholeGPU))
	}
	slices.Sort(names)
	// Those whose part would be less than their largest job take that much out of the
	// common pool; then the parts of the others shrink, and more may fall below.
	floored := make(map[string]bool)
	part := func(name string) int64 { return 0 }
	for again := true; again; {
		again = false
		pool, sum := capacity, int64(0)
		for _, name := range names {
			if floored[name] {
				pool -= claims[name].least
			} else {
				sum = quantity.AddSaturating(sum, claims[name].time)
			}
		}
		part = func(name string) int64 { return quantity.MulDiv(max(pool, 0), claims[name].time, max(sum, 1)) }
		for _, name := range names {
			if !floored[name] && part(name) < claims[name].least {
				floored[name], again = true, true
			}
		}
	}
	queues := make([]Queue, len(names))
	for i, name := range names {
		queues[i] = Queue{Name: name, Deserved: quantity.MilliGPU(claims[name].least)}
		if !floored[name] {
			queues[i].Deserved = quantity.MilliGPU(part(name))
		}
	}
	return queues
}
