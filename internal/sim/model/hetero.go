package model

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// heteroPods is how many pods arrive in the day of hetero.
const heteroPods = 7500

// heteroNodes is a cluster that grew over the years: 56 nodes, 140 GPUs.
func heteroNodes() []trace.Node {
	var nodes []trace.Node
	add := func(count, perRack int, name, model string, gpus int, cores quantity.MilliCPU, gib quantity.Bytes) {
		for i := range count {
			n := trace.Node{
				Name: fmt.Sprintf("%s-%02d", name, i), CPU: cores * 1000, Memory: gib * quantity.GiB,
				Pods: trace.KubeletPods, Zone: "zone-0",
			}
			if gpus > 0 {
				n = server(n.Name, model, gpus, n.CPU, n.Memory)
			}
			n.Rack = fmt.Sprintf("rack-%s-%d", name, i/perRack)
			nodes = append(nodes, n)
		}
	}
	// Sizes of the usual machines: p4d, p5, g6.12xlarge, g4dn.xlarge, a developer
	// kit with 12 cores, m7i.16xlarge.
	add(4, 4, "a100", "A100-SXM4-40GB", 8, 96, 1152)
	add(4, 2, "h100", "H100-SXM5-80GB", 8, 192, 2048)
	add(12, 12, "l4", "L4", 4, 48, 192)
	add(16, 16, "t4", "T4", 1, 4, 16)
	add(12, 12, "jetson", "Jetson-AGX-Orin-64GB", 1, 12, 64)
	add(8, 8, "cpu", "", 0, 64, 256)
	return nodes
}

// heteroWork says which work may run on what.
func heteroWork() []family {
	const (
		a100   = "A100-SXM4-40GB"
		h100   = "H100-SXM5-80GB"
		jetson = "Jetson-AGX-Orin-64GB"
	)
	base := family{
		queue: "serving", priority: 100, hours: office(), gpus: 1,
		milli: between{300, 500}, gpuMemory: between{6, 12}, cpu: between{1, 3}, memory: between{4, 12}, usesMemory: between{450, 700},
		load: between{270, 330}, compute: between{870, 930}, loadPhase: between{20, 40}, computePhase: between{40, 80},
		image: between{6, 10}, weights: between{2, 8}, warmUp: between{10, 20},
		run: minutes(3, 6, 9, 14, 25), sla: 1500, slack: 5 * moment.Minute,
	}
	with := func(f family, name string, kinds, parts int64, models ...string) family {
		f.name, f.kinds, f.parts, f.models = name, kinds, parts, models
		return f
	}
	training := base
	training.queue, training.priority, training.sla, training.slack = "research", 10, 2500, 30*moment.Minute
	training.milli, training.cpu, training.memory, training.usesMemory = between{1000, 1000}, between{4, 10}, between{32, 96}, between{400, 800}
	training.loadPhase, training.computePhase = between{20, 60}, between{60, 180}
	training.weights, training.warmUp = between{10, 20}, between{19, 25}

	answers := base
	answers.service = true
	small := with(answers, "infer-small", 24, 380, "L4", "T4")
	large := with(answers, "infer-large", 16, 150, a100, h100)
	large.milli, large.gpuMemory, large.cpu, large.memory = between{400, 700}, between{16, 32}, between{3, 5}, between{16, 48}
	large.weights, large.warmUp = between{13, 30}, between{19, 30}
	edge := with(answers, "infer-edge", 8, 100, jetson)
	edge.memory, edge.weights = between{4, 10}, between{1, 3}
	video := with(answers, "video", 8, 90, "L4")
	video.milli, video.run = between{500, 900}, minutes(5, 10, 16, 25, 40)

	one := with(training, "train-1", 16, 56, a100, h100, "L4")
	one.gpuMemory, one.cpu, one.memory, one.run = between{16, 22}, between{4, 8}, between{24, 40}, minutes(10, 16, 24, 35, 60)
	four := with(training, "train-4", 8, 11, a100, h100)
	four.gpus, four.gpuMemory, four.run = 4, between{40, 40}, minutes(15, 22, 32, 45, 75)
	eight := with(training, "train-8", 4, 5, h100)
	eight.gpus, eight.gpuMemory, eight.run = 8, between{70, 80}, minutes(20, 30, 40, 55, 90)

	prepare := with(base, "prepare", 8, 208)
	prepare.queue, prepare.priority, prepare.hours, prepare.gpus = "batch", 0, flat(), 0
	prepare.cpu, prepare.memory, prepare.image, prepare.weights = between{2, 16}, between{4, 64}, between{1, 3}, between{0, 5}
	prepare.warmUp, prepare.run, prepare.sla, prepare.slack = between{1, 3}, minutes(2, 5, 10, 20, 45), 4000, moment.Hour
	return []family{small, large, edge, video, one, four, eight, prepare}
}
