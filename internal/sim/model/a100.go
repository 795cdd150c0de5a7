package model

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/catalogue"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// The cluster of a100-8x8: eight servers of the HGX A100 kind.
const (
	a100ModelName = "A100-SXM4-40GB"
	a100Count     = 8
	// The size of a p4d.24xlarge: 96 vCPU and 1152 GiB.
	a100CPU    quantity.MilliCPU = 96_000
	a100Memory                   = 1152 * quantity.GiB
	// a100PerRack follows from power: four servers of 6.5 kW fill a rack of 26 kW.
	a100PerRack = 4
	// a100Pods makes the demand in whole cards reach the 64 cards in the peak
	// hours; docs/scenarios-built-in.md has the calibration.
	a100Pods = 3090
)

func a100Nodes() []trace.Node {
	var nodes []trace.Node
	for i := range a100Count {
		n := server(fmt.Sprintf("a100-%d", i), a100ModelName, 8, a100CPU, a100Memory)
		n.Rack = fmt.Sprintf("rack-%d", i/a100PerRack)
		nodes = append(nodes, n)
	}
	return nodes
}

// server is a node with GPUs. Those with NVLink are one island: in a server of
// eight, NVSwitch links all to all. The first half of the GPUs is on NUMA node 0.
func server(name, model string, gpus int, cpu quantity.MilliCPU, memory quantity.Bytes) trace.Node {
	facts, ok := catalogue.Lookup(model)
	if !ok {
		panic("model: the catalogue has no " + model)
	}
	n := trace.Node{
		Name: name, CPU: cpu, Memory: memory, Pods: trace.KubeletPods,
		GPUs: gpus, Model: facts.Name, GPUMemory: facts.Memory, Zone: "zone-0",
		Labels: map[string]string{"nvidia.com/gpu.product": facts.Name},
	}
	for g := range gpus {
		island, numa := int32(0), int32(0)
		if facts.Link == "none" {
			island = -1
		}
		if g >= (gpus+1)/2 {
			numa = 1
		}
		n.Island, n.NUMA = append(n.Island, island), append(n.NUMA, numa)
	}
	return n
}

// a100Work is the table of work. In every family the load phases keep the
// declared share busy near 30 %, the compute phases near 90 %; what differs is how
// long the phases are. A share of 500 that computes at 900 ‰ keeps 450 ‰ of the
// card busy.
func a100Work() []family {
	serving := func(name string, kinds, parts int64) family {
		return family{
			name: name, queue: "serving", priority: 100, kinds: kinds, parts: parts, hours: office(), gpus: 1,
			cpu: between{3, 4}, memory: between{16, 32}, usesMemory: between{450, 700},
			load: between{270, 330}, compute: between{870, 930}, loadPhase: between{20, 40}, computePhase: between{30, 55},
			image: between{9, 11}, weights: between{13, 18}, warmUp: between{19, 25},
			sla: 1500, slack: 5 * moment.Minute,
		}
	}
	answering := func(name string, kinds, parts int64) family {
		f := serving(name, kinds, parts)
		f.service = true
		return f
	}
	training := func(name string, gpus int, kinds, parts int64) family {
		return family{
			name: name, queue: "research", priority: 10, kinds: kinds, parts: parts, hours: office(), gpus: gpus,
			milli: between{1000, 1000}, gpuMemory: between{40, 40}, cpu: between{6, 10}, memory: between{48, 96}, usesMemory: between{400, 800},
			load: between{270, 330}, compute: between{870, 930}, loadPhase: between{30, 60}, computePhase: between{50, 150},
			image: between{9, 11}, weights: between{13, 18}, warmUp: between{19, 25},
			sla: 2500, slack: 30 * moment.Minute,
		}
	}

	chat := answering("infer-chat", 24, 310)
	chat.milli, chat.gpuMemory, chat.run = between{400, 600}, between{16, 24}, minutes(3, 6, 9, 13, 20)
	vision := answering("infer-vision", 16, 200)
	vision.milli, vision.gpuMemory, vision.run = between{300, 450}, between{8, 14}, minutes(3, 5, 7, 11, 18)
	embed := answering("infer-embed", 8, 130)
	embed.milli, embed.gpuMemory, embed.run = between{300, 400}, between{8, 10}, minutes(2, 4, 6, 9, 15)

	batch := serving("batch-score", 12, 110)
	batch.queue, batch.priority, batch.hours = "batch", 0, flat()
	batch.milli, batch.gpuMemory, batch.run = between{400, 600}, between{12, 20}, minutes(5, 8, 12, 17, 28)
	batch.sla, batch.slack = 4000, moment.Hour
	notebook := serving("notebook", 12, 90)
	notebook.queue, notebook.priority = "research", 50
	notebook.milli, notebook.gpuMemory, notebook.run = between{300, 500}, between{8, 16}, minutes(6, 11, 16, 24, 44)
	notebook.loadPhase, notebook.computePhase = between{120, 300}, between{20, 60}
	notebook.sla, notebook.slack = 1500, 10*moment.Minute

	one := training("train-1", 1, 16, 92)
	one.run = minutes(8, 13, 18, 26, 44)
	two := training("train-2", 2, 8, 30)
	two.run = minutes(10, 15, 20, 28, 46)
	four := training("train-4", 4, 6, 16)
	four.run = minutes(10, 16, 22, 30, 46)
	eight := training("train-8", 8, 4, 6)
	eight.run = minutes(12, 18, 24, 30, 42)

	// Every night all models are trained anew on the day's data: one job for each
	// node, at once, with the data prefetched.
	nightly := training("nightly", 8, 8, 0)
	nightly.run = minutes(38, 39, 40, 41, 42)
	nightly.loadPhase, nightly.computePhase = between{10, 10}, between{290, 290}
	nightly.compute = between{930, 930}
	nightly.sla, nightly.slack = 0, 3*moment.Hour
	for range a100Count {
		nightly.at = append(nightly.at, 4*moment.Hour)
	}
	return []family{chat, vision, embed, batch, notebook, one, two, four, eight, nightly}
}
