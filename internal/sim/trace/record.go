package trace

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// formatVersion is the version of Headrace's own format that this package reads
// and writes.
const formatVersion = 1

// A header is the first line of a file of JSON lines.
type header struct {
	version int64
	name    string
	timed   bool
	warmUp  moment.Span
}

// headerFields, nodeFields, queueFields and podFields are the format: docs/trace-format.md
// says the same in words, and a test holds the two together. They are functions
// because no package variable holds what could be changed.
func headerFields() []field[header] {
	return []field[header]{
		number("headrace_trace", formatVersion, formatVersion, func(h *header) *int64 { return &h.version }).need(),
		text("name", func(h *header) *string { return &h.name }),
		truth("timed", func(h *header) *bool { return &h.timed }),
		number("warm_up_us", 0, MaxTime, func(h *header) *moment.Span { return &h.warmUp }),
	}
}

func nodeFields() []field[Node] {
	return []field[Node]{
		text("name", func(n *Node) *string { return &n.Name }).need(),
		number("cpu_milli", 0, MaxCPU, func(n *Node) *quantity.MilliCPU { return &n.CPU }).need(),
		number("memory_bytes", 0, MaxMemory, func(n *Node) *quantity.Bytes { return &n.Memory }).need(),
		number("pods", 1, MaxPods, func(n *Node) *int64 { return &n.Pods }),
		number("gpus", 0, MaxGPUs, func(n *Node) *int { return &n.GPUs }),
		word("model", func(n *Node) *string { return &n.Model }),
		number("gpu_memory_bytes", 0, MaxMemory, func(n *Node) *quantity.Bytes { return &n.GPUMemory }),
		places("gpu_island", func(n *Node) *[]int32 { return &n.Island }),
		places("gpu_numa", func(n *Node) *[]int32 { return &n.NUMA }),
		text("rack", func(n *Node) *string { return &n.Rack }),
		text("zone", func(n *Node) *string { return &n.Zone }),
		labels("labels", func(n *Node) *map[string]string { return &n.Labels }),
		truth("whole", func(n *Node) *bool { return &n.Whole }),
	}
}

func queueFields() []field[Queue] {
	return []field[Queue]{
		text("name", func(q *Queue) *string { return &q.Name }).need(),
		number("deserved_milli", 0, maxDeserved, func(q *Queue) *quantity.MilliGPU { return &q.Deserved }),
	}
}

func podFields() []field[Pod] {
	return []field[Pod]{
		text("name", func(p *Pod) *string { return &p.Name }).need(),
		text("kind", func(p *Pod) *string { return &p.Kind }),
		text("queue", func(p *Pod) *string { return &p.Queue }),
		number("priority", math.MinInt32, math.MaxInt32, func(p *Pod) *int32 { return &p.Priority }),
		number("cpu_milli", 0, MaxCPU, func(p *Pod) *quantity.MilliCPU { return &p.CPU }).need(),
		number("memory_bytes", 0, MaxMemory, func(p *Pod) *quantity.Bytes { return &p.Memory }).need(),
		number("gpus", 0, MaxGPUs, func(p *Pod) *int { return &p.GPUs }),
		number("gpu_milli", 0, quantity.WholeGPU, func(p *Pod) *quantity.MilliGPU { return &p.Milli }),
		number("gpu_memory_bytes", 0, MaxMemory, func(p *Pod) *quantity.Bytes { return &p.GPUMemory }),
		words("models", func(p *Pod) *[]string { return &p.Models }),
		number("arrival_us", 0, moment.Instant(MaxTime), func(p *Pod) *moment.Instant { return &p.Arrival }),
		number("duration_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Duration }),
		number("sla_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.SLA }),
		text("group", func(p *Pod) *string { return &p.Group }),
		number("checkpoint_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Checkpoint }),
		number("save_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Save }),
		number("restart_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Restart }),
		truth("service", func(p *Pod) *bool { return &p.Service }),
		number("use_gpu_memory_bytes", 0, MaxMemory, func(p *Pod) *quantity.Bytes { return &p.Use.GPUMemory }),
		number("load_busy_milli", 0, quantity.One, func(p *Pod) *quantity.Milli { return &p.Use.LoadBusy }),
		number("compute_busy_milli", 0, quantity.One, func(p *Pod) *quantity.Milli { return &p.Use.ComputeBusy }),
		number("load_phase_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Use.LoadPhase }),
		number("compute_phase_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Use.ComputePhase }),
		number("image_bytes", 0, MaxMemory, func(p *Pod) *quantity.Bytes { return &p.Use.Image }),
		number("weights_bytes", 0, MaxMemory, func(p *Pod) *quantity.Bytes { return &p.Use.Weights }),
		number("warm_up_us", 0, MaxTime, func(p *Pod) *moment.Span { return &p.Use.WarmUp }),
	}
}
