package measure

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is all that was measured.
type Report struct {
	Machine Machine `json:"machine"`
	Options Options `json:"options"`
	Rows    []Row   `json:"rows"`
	Runs    []Run   `json:"runs"`
}

// Machine is where it was measured.
type Machine struct {
	CPUs        int    `json:"cpus"`
	Model       string `json:"model,omitempty"`
	System      string `json:"system"`
	Go          string `json:"go"`
	Kubernetes  string `json:"kubernetes"`
	LoadAverage string `json:"load_average_before,omitempty"`
}

// Row is one line of the table: the median over the rounds, figure by figure.
// Ratios are taken within a round, against the mean of the two baselines at its
// ends, before the median.
type Row struct {
	Nodes int    `json:"nodes"`
	Arm   string `json:"arm"`
	Title string `json:"title"`
	// Measured is in how many runs all pods were bound.
	Measured int    `json:"measured"`
	Failure  string `json:"failure,omitempty"`

	PerSecond           float64 `json:"bound_per_s,omitempty"`
	Ratio               float64 `json:"bound_per_s_ratio,omitempty"`
	RatioMin            float64 `json:"bound_per_s_ratio_min,omitempty"`
	RatioMax            float64 `json:"bound_per_s_ratio_max,omitempty"`
	TotalPerSecond      float64 `json:"total_bound_per_s,omitempty"`
	TotalRatio          float64 `json:"total_bound_per_s_ratio,omitempty"`
	SchedulerCPUms      float64 `json:"scheduler_cpu_ms_per_pod,omitempty"`
	SchedulerCPUTotalMs float64 `json:"scheduler_cpu_total_ms_per_pod,omitempty"`
	ServerCPUms         float64 `json:"server_cpu_ms_per_pod,omitempty"`
	ServerCPURatio      float64 `json:"server_cpu_ratio,omitempty"`
	SchedulerMiB        float64 `json:"scheduler_peak_mib,omitempty"`
	ServerMiB           float64 `json:"server_peak_mib,omitempty"`

	CreatedPerSecond float64 `json:"steady_created_per_s,omitempty"`
	P50ms            float64 `json:"steady_p50_ms,omitempty"`
	P50Ratio         float64 `json:"steady_p50_ratio,omitempty"`
	P99ms            float64 `json:"steady_p99_ms,omitempty"`
	P99Ratio         float64 `json:"steady_p99_ratio,omitempty"`
	SteadyCPUms      float64 `json:"steady_scheduler_cpu_ms_per_pod,omitempty"`
}

// A figure is read out of a run; false when the run does not have it.
type figure func(*Run) (float64, bool)

func ofDrain(get func(*Drain) float64) figure {
	return func(r *Run) (float64, bool) {
		if r.Drain == nil {
			return 0, false
		}
		return get(r.Drain), true
	}
}

func ofSteady(get func(*Steady) float64) figure {
	return func(r *Run) (float64, bool) {
		if r.Steady == nil {
			return 0, false
		}
		return get(r.Steady), true
	}
}

// rows returns the lines of the table.
func rows(o *Options, all []arm, runs []Run) []Row {
	var out []Row
	for _, nodes := range o.Nodes {
		for i := range all {
			out = append(out, rowOf(nodes, &all[i], runs))
		}
	}
	return out
}

func rowOf(nodes int, a *arm, runs []Run) Row {
	row := Row{Nodes: nodes, Arm: a.name, Title: a.title}
	var mine, bases []*Run
	for i := range runs {
		r := &runs[i]
		if r.Nodes != nodes {
			continue
		}
		if r.Arm == baseline {
			bases = append(bases, r)
		}
		if r.Arm == a.name {
			mine = append(mine, r)
			if r.Drain != nil {
				row.Measured++
			}
			if r.Failure != "" {
				row.Failure = r.Failure
			}
		}
	}
	var ratios []float64
	perSecond := ofDrain(func(d *Drain) float64 { return d.PerSecond })
	row.PerSecond, ratios = summary(mine, bases, perSecond)
	row.Ratio = median(ratios)
	if len(ratios) > 0 {
		row.RatioMin, row.RatioMax = slices.Min(ratios), slices.Max(ratios)
	}
	with := func(f figure) (float64, float64) {
		value, ratios := summary(mine, bases, f)
		return value, median(ratios)
	}
	row.TotalPerSecond, row.TotalRatio = with(ofDrain(func(d *Drain) float64 { return d.TotalPerSecond }))
	row.SchedulerCPUms, _ = with(ofDrain(func(d *Drain) float64 { return d.SchedulerCPUms }))
	row.SchedulerCPUTotalMs, _ = with(ofDrain(func(d *Drain) float64 { return d.SchedulerCPUTotalMs }))
	row.ServerCPUms, row.ServerCPURatio = with(ofDrain(func(d *Drain) float64 { return d.ServerCPUms }))
	row.SchedulerMiB, _ = with(func(r *Run) (float64, bool) { return r.SchedulerMiB, r.Drain != nil })
	row.ServerMiB, _ = with(func(r *Run) (float64, bool) { return r.ServerMiB, r.Drain != nil })
	row.CreatedPerSecond, _ = with(ofSteady(func(s *Steady) float64 { return s.CreatedPerSecond }))
	row.P50ms, row.P50Ratio = with(ofSteady(func(s *Steady) float64 { return s.P50ms }))
	row.P99ms, row.P99Ratio = with(ofSteady(func(s *Steady) float64 { return s.P99ms }))
	row.SteadyCPUms, _ = with(ofSteady(func(s *Steady) float64 { return s.SchedulerCPUms }))
	return row
}

// summary returns the median of a figure, and its ratios to the baselines of the
// same round.
func summary(mine, bases []*Run, f figure) (float64, []float64) {
	var values, ratios []float64
	for _, r := range mine {
		v, ok := f(r)
		if !ok {
			continue
		}
		values = append(values, v)
		sum, n := 0.0, 0.0
		for _, b := range bases {
			if w, ok := f(b); ok && b.Round == r.Round {
				sum, n = sum+w, n+1
			}
		}
		if sum > 0 {
			ratios = append(ratios, v/(sum/n))
		}
	}
	return median(values), ratios
}

// median returns 0 for nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Print writes the report: for each size of the cluster a table of the backlog,
// and one of what came steadily.
func (r *Report) Print(w io.Writer) error {
	m, o := &r.Machine, &r.Options
	fmt.Fprintf(w, "%d CPUs (%s), %s, %s, Kubernetes %s, load average before %s; %s\n",
		m.CPUs, m.Model, m.System, m.Go, m.Kubernetes, m.LoadAverage, rounds(o.Repeats))
	for _, nodes := range o.Nodes {
		fmt.Fprintf(w, "\n%d nodes x %d GPUs, backlog of %d pods of 1 GPU, groups of %d\n", nodes, gpusPerNode, o.Pods, o.Group)
		head := "bound/s\tof binds\tfrom\tto\twith start\tof binds\tCPU ms/pod\twith start\tMiB\tserver ms/pod\tof binds\tserver MiB"
		if err := r.table(w, nodes, head, (*Row).drainCells); err != nil {
			return err
		}
		if o.Rate > 0 {
			fmt.Fprintf(w, "\n%d nodes x %d GPUs, %d pods per second for %v\n", nodes, gpusPerNode, o.Rate, o.For)
			head := "p50 ms\tof binds\tp99 ms\tof binds\tcreated/s\tCPU ms/pod"
			if err := r.table(w, nodes, head, (*Row).steadyCells); err != nil {
				return err
			}
		}
		for i := range r.Rows {
			if row := &r.Rows[i]; row.Nodes == nodes && row.Failure != "" {
				fmt.Fprintf(w, "%s: %s\n", row.Title, row.Failure)
			}
		}
	}
	return nil
}

// titleWidth fits the longest title of an arm.
const titleWidth = 38

func (r *Report) table(w io.Writer, nodes int, head string, cells func(*Row) []string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%-*s\t%s\t\n", titleWidth, "", head)
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Nodes == nodes {
			fmt.Fprintf(t, "%-*s\t%s\t\n", titleWidth, row.Title, strings.Join(cells(row), "\t"))
		}
	}
	return t.Flush()
}

func (r *Row) drainCells() []string {
	return []string{
		cell("%.0f", r.PerSecond), cell("%.2f", r.Ratio), cell("%.2f", r.RatioMin), cell("%.2f", r.RatioMax),
		cell("%.0f", r.TotalPerSecond), cell("%.2f", r.TotalRatio),
		cell("%.2f", r.SchedulerCPUms), cell("%.2f", r.SchedulerCPUTotalMs), cell("%.0f", r.SchedulerMiB),
		cell("%.2f", r.ServerCPUms), cell("%.2f", r.ServerCPURatio), cell("%.0f", r.ServerMiB),
	}
}

func (r *Row) steadyCells() []string {
	return []string{
		cell("%.1f", r.P50ms), cell("%.1f", r.P50Ratio), cell("%.1f", r.P99ms), cell("%.1f", r.P99Ratio),
		cell("%.0f", r.CreatedPerSecond), cell("%.2f", r.SteadyCPUms),
	}
}

// cell is a dash for what was not measured.
func cell(form string, v float64) string {
	if v == 0 {
		return "-"
	}
	return fmt.Sprintf(form, v)
}

func rounds(n int) string {
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("medians of %d rounds", n)
}

func machine() Machine {
	return Machine{
		CPUs: runtime.NumCPU(), Model: processor(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Kubernetes: kubernetesVersion(), LoadAverage: loadAverage(),
	}
}

// kubernetesVersion returns which Kubernetes is in this binary.
func kubernetesVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == "k8s.io/kubernetes" {
			return m.Version
		}
	}
	return "unknown"
}

// processor returns the name of the processor; empty where /proc does not tell.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// loadAverage returns how many threads ran or wanted to in the last minute;
// empty where /proc does not tell.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
