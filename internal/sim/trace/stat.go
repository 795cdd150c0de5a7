package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// mostShapes is how many of the most frequent requests Stat lists.
const mostShapes = 10

// Stats is what a workload consists of.
type Stats struct {
	Name  string
	Timed bool

	Nodes, CPUNodes int // CPUNodes have no GPU
	GPUs            []ModelCount
	Pods            []KindCount // by kind of request, in a fixed order
	CPU, Memory     Balance     // in milli-CPU and bytes
	GPU             Balance     // in milli-GPU

	// Durations is empty for an untimed workload.
	Durations []Quantile
	Shapes    []Shape // most frequent first
	// Jobs of more than one pod, and their pods.
	Groups, Members int
	Queues          []Queue
	// Load is the GPU-time that arrives, as a part of what the cluster has from the
	// first arrival to the last; 0 where that is not known.
	Load float64
}

// ModelCount counts the GPUs of one model.
type ModelCount struct {
	Model string
	GPUs  int
}

// KindCount counts the pods of one kind of request and the GPU they ask for.
type KindCount struct {
	Kind   string
	Pods   int
	Demand quantity.MilliGPU
}

// Balance sets what all pods ask for together against what the nodes have.
type Balance struct{ Demand, Capacity int64 }

// Quantile is the duration that a part of the pods does not exceed.
type Quantile struct {
	Name  string
	Value moment.Span
}

// Shape is a request that many pods make alike.
type Shape struct {
	CPU    quantity.MilliCPU
	Memory quantity.Bytes
	GPUs   int
	Milli  quantity.MilliGPU
	Models string // allowed models, joined by vertical bars
	Pods   int
}

// Kinds of request in the order of Stats.Pods.
const (
	cpuOnly = iota
	share
	whole
	several
)

func requestKind(p *Pod) int {
	switch {
	case p.GPUs == 0:
		return cpuOnly
	case p.GPUs > 1:
		return several
	case p.Milli < quantity.WholeGPU:
		return share
	}
	return whole
}

// Stat counts what a workload consists of.
func Stat(w Workload) Stats {
	s := Stats{Name: w.Name, Timed: w.Timed, Nodes: len(w.Nodes)}
	s.Pods = []KindCount{cpuOnly: {Kind: "CPU only"}, share: {Kind: "GPU share"}, whole: {Kind: "one GPU"}, several: {Kind: "several GPUs"}}
	s.countNodes(w.Nodes)
	shapes := map[Shape]int{}
	for i := range w.Pods {
		p := &w.Pods[i]
		kind := &s.Pods[requestKind(p)]
		kind.Pods++
		kind.Demand += p.GPUDemand()
		s.CPU.Demand += int64(p.CPU)
		s.Memory.Demand = quantity.AddSaturating(s.Memory.Demand, int64(p.Memory))
		s.GPU.Demand += int64(p.GPUDemand())
		shapes[Shape{CPU: p.CPU, Memory: p.Memory, GPUs: p.GPUs, Milli: p.Milli, Models: strings.Join(p.Models, "|")}]++
	}
	s.countJobs(w)
	for shape, n := range shapes { // order: sorted below.
		shape.Pods = n
		s.Shapes = append(s.Shapes, shape)
	}
	slices.SortFunc(s.Shapes, compareShapes)
	s.Shapes = s.Shapes[:min(len(s.Shapes), mostShapes)]
	if w.Timed {
		s.Durations = quantiles(w.Pods)
	}
	return s
}

func (s *Stats) countJobs(w Workload) {
	s.Queues, s.Load = w.Queues, w.OfferedLoad()
	groups := map[string]bool{}
	for i := range w.Pods {
		if group := w.Pods[i].Group; group != "" {
			groups[group] = true
			s.Members++
		}
	}
	s.Groups = len(groups)
}

func (s *Stats) countNodes(nodes []Node) {
	gpus := map[string]int{}
	for i := range nodes {
		n := &nodes[i]
		if n.GPUs == 0 {
			s.CPUNodes++
		} else {
			gpus[n.Model] += n.GPUs
		}
		s.CPU.Capacity += int64(n.CPU)
		s.Memory.Capacity = quantity.AddSaturating(s.Memory.Capacity, int64(n.Memory))
		s.GPU.Capacity += int64(n.GPUs) * int64(quantity.WholeGPU)
	}
	for _, model := range slices.Sorted(maps.Keys(gpus)) {
		s.GPUs = append(s.GPUs, ModelCount{Model: model, GPUs: gpus[model]})
	}
	slices.SortStableFunc(s.GPUs, func(a, b ModelCount) int { return cmp.Compare(b.GPUs, a.GPUs) })
}

func compareShapes(a, b Shape) int {
	return cmp.Or(
		cmp.Compare(b.Pods, a.Pods), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.Milli, a.Milli),
		cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Memory, a.Memory), cmp.Compare(a.Models, b.Models))
}

// quantiles takes the element of rank floor(q·n) of the sorted durations.
func quantiles(pods []Pod) []Quantile {
	if len(pods) == 0 {
		return nil
	}
	spans := make([]moment.Span, len(pods))
	var sum int64
	for i := range pods {
		spans[i] = pods[i].Duration
		sum = quantity.AddSaturating(sum, int64(spans[i]))
	}
	slices.Sort(spans)
	at := func(permille int) moment.Span { return spans[min(len(spans)*permille/1000, len(spans)-1)] }
	return []Quantile{
		{"least", spans[0]},
		{"25 %", at(250)},
		{"median", at(500)},
		{"75 %", at(750)},
		{"90 %", at(900)},
		{"99 %", at(990)},
		{"most", spans[len(spans)-1]},
		{"mean", moment.Span(sum / int64(len(spans)))},
	}
}

// Percent prints the demand in percent of the capacity, "-" without capacity.
func (b Balance) Percent() string {
	if b.Capacity == 0 {
		return "-"
	}
	tenths := (quantity.MulDiv(b.Demand, 10_000, b.Capacity) + 5) / 10
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// count prints a number of things, whose noun is given in the plural.
func count(n int, nouns string) string {
	if n == 1 {
		nouns = strings.TrimSuffix(nouns, "s")
	}
	return fmt.Sprintf("%d %s", n, nouns)
}

// Rows is the table that String prints: name, value, and what stands beside it.
func (s Stats) Rows() [][3]string {
	var rows [][3]string
	add := func(name, value, beside string) { rows = append(rows, [3]string{name, value, beside}) }

	add("workload", s.Name, "")
	add("nodes", count(s.Nodes, "nodes"), count(s.CPUNodes, "without GPU"))
	for _, m := range s.GPUs {
		add("  "+m.Model, count(m.GPUs, "GPUs"), "")
	}
	total := 0
	for _, k := range s.Pods {
		total += k.Pods
	}
	add("pods", count(total, "pods"), "")
	for _, k := range s.Pods {
		beside := ""
		if k.Demand > 0 {
			beside = Balance{Demand: int64(k.Demand), Capacity: s.GPU.Demand}.Percent() + " of the GPU demand"
		}
		add("  "+k.Kind, count(k.Pods, "pods"), beside)
	}
	if s.Groups > 0 {
		add("jobs of several pods", count(s.Groups, "jobs"), "of "+count(s.Members, "pods"))
	}
	if s.Load > 0 {
		add("offered load", fmt.Sprintf("%.1f %%", 100*s.Load), "GPU-time of all, over capacity × time from first arrival to last")
	}
	for i, q := range s.Queues {
		if i == 0 {
			add("queues", count(len(s.Queues), "queues"), "deserved, of the capacity")
		}
		add("  "+q.Name, q.Deserved.String(), Balance{Demand: int64(q.Deserved), Capacity: s.GPU.Capacity}.Percent())
	}
	add("demand of all pods", "", "of the capacity")
	add("  CPU", quantity.MilliCPU(s.CPU.Demand).String(), s.CPU.Percent())
	add("  memory", quantity.Bytes(s.Memory.Demand).String(), s.Memory.Percent())
	add("  GPU", quantity.MilliGPU(s.GPU.Demand).String(), s.GPU.Percent())
	if s.Timed {
		add("durations", "", "")
		for _, q := range s.Durations {
			add("  "+q.Name, q.Value.String(), "")
		}
	} else {
		add("durations", "no times", "")
	}
	add("most frequent requests", "", "")
	for _, shape := range s.Shapes {
		add("  "+shape.String(), count(shape.Pods, "pods"), "")
	}
	return rows
}

func (s Shape) String() string {
	text := s.CPU.String() + ", " + s.Memory.String()
	switch {
	case s.GPUs == 1:
		text += ", " + s.Milli.String()
	case s.GPUs > 1:
		text += fmt.Sprintf(", %d GPU", s.GPUs)
	}
	if s.Models != "" {
		text += " of " + s.Models
	}
	return text
}

// String prints the rows in columns.
func (s Stats) String() string {
	rows := s.Rows()
	var width [2]int
	for _, row := range rows {
		width[0], width[1] = max(width[0], len(row[0])), max(width[1], len(row[1]))
	}
	var b strings.Builder
	for _, row := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %s", width[0], row[0], width[1], row[1], row[2])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
