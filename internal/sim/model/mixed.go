package model

import (
	"fmt"
	"math"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

// mixedName is the scenario whose cluster and work both come from the seed: fresh
// ground for a placement rule (docs/adr/0005).
const mixedName = "mixed"

// lot draws the numbers of one mixed workload.
type lot struct{ *chance.Source }

// share is uniform over 0..1.
func (l lot) share() float64 { return (float64(l.Uint64()>>11) + 0.5) / (1 << 53) }

// exponential has mean 1.
func (l lot) exponential() float64 { return -math.Log(l.share()) }

func (l lot) below(n int) int { return int(l.Below(int64(n))) }

func (l lot) pick(from ...int) int { return from[l.below(len(from))] }

// ask is a kind of request with its part of the GPU demand, or, without GPUs, of
// the CPU demand.
type ask struct {
	cores  float64
	ratio  int // GiB per core
	gpus   int
	milli  quantity.MilliGPU
	weight float64
}

func (a *ask) demand() float64 { return float64(a.gpus) * float64(a.milli) / 1000 }

// mixedNode is a class of nodes.
type mixedNode struct {
	node  trace.Node
	cores int
}

// mixed draws a cluster of 3 to 7 classes with 1 to 8 GPUs and 4 to 48 cores per
// GPU, and a stream of shares, whole cards, several cards and none, whose CPU
// demand is 55 to 105 % of the cores when its GPU demand fills the GPUs. Every
// third seed binds some pods to a model.
func mixed(seed int64) trace.Workload {
	l := lot{chance.New(seed*7919 + 13)}
	w := trace.Workload{Name: mixedName}
	classes := l.cluster(&w)
	gpus, cores := 0.0, 0.0
	for i := range w.Nodes {
		gpus += float64(w.Nodes[i].GPUs)
		cores += float64(w.Nodes[i].CPU) / 1000
	}
	asks, plain, cpuPerGPU := l.asks(classes, cores/gpus)
	bound := 0.0
	if seed%3 == 0 {
		bound = 0.1 + 0.35*l.share()
	}
	l.stream(&w, classes, asks, plain, (0.6+0.9*l.share())*gpus, cpuPerGPU, bound)
	return w
}

// cluster draws the classes, one of them dominant, and adds their nodes.
func (l lot) cluster(w *trace.Workload) []mixedNode {
	count, goal := 3+l.below(5), float64(1200+l.below(800))
	main, mainShare := l.below(count), 0.4+0.35*l.share()
	rest, sum := make([]float64, count), 0.0
	for k := range rest {
		if k != main {
			rest[k] = l.exponential() + 0.1
			sum += rest[k]
		}
	}
	var classes []mixedNode
	for k := range count {
		gpus, perGPU, part := l.pick(1, 2, 2, 4, 8, 8), l.pick(4, 6, 8, 12, 12, 16, 24, 48), (1-mainShare)*rest[k]/sum
		if k == main {
			gpus, perGPU, part = l.pick(2, 4, 8, 8, 8), l.pick(8, 12, 12, 16), mainShare
		}
		c := mixedNode{cores: min(perGPU*gpus, 192)}
		c.node = trace.Node{
			CPU: quantity.MilliCPU(c.cores) * 1000, Memory: quantity.Bytes(c.cores*l.pick(4, 5, 6, 8)) * quantity.GiB,
			Pods: trace.OpenBPods, GPUs: gpus, Model: fmt.Sprintf("M%d", k),
		}
		classes = append(classes, c)
		for range max(1, int(part*goal/float64(gpus))) {
			n := c.node
			n.Name = fmt.Sprintf("n%05d", len(w.Nodes))
			w.Nodes = append(w.Nodes, n)
		}
	}
	return classes
}

// asks draws the kinds of request: those with GPUs first, plain of them, then
// those of cores only. cpuPerGPU is how many cores the latter take per GPU of
// demand.
func (l lot) asks(classes []mixedNode, coresPerGPU float64) (asks []ask, plain int, cpuPerGPU float64) {
	pressure := 0.55 + 0.5*l.share()
	multi := 0.5 * l.share() * l.share()
	if l.below(4) == 0 {
		multi = 0
	}
	shares := (0.15 + 0.85*l.share()) * (1 - multi)
	coresOnly := 0.1 + 0.3*l.share()
	if l.share() < 0.08 {
		coresOnly = 0
	}
	perGPU := pressure * (1 - coresOnly) * coresPerGPU
	grid, size := l.pick(10, 10, 10, 5, 50), 0
	spread := 3 + l.below(12)
	asks = l.family(asks, shares, spread+l.below(2*spread), func() ask {
		if size == 0 || l.below(2) == 0 {
			size = max(50, min(950, grid*(1+l.below(1000/grid-1))))
		}
		return ask{cores: perGPU * (0.3 + 0.7*float64(size)/1000) * (0.3 + 0.7*l.exponential()), gpus: 1, milli: quantity.MilliGPU(size)}
	})
	asks = l.family(asks, max(0, 1-multi-shares), 3+l.below(8), func() ask {
		return ask{cores: perGPU * (0.3 + 0.7*l.exponential()), gpus: 1, milli: quantity.WholeGPU}
	})
	if multi > 0 {
		asks = l.family(asks, multi, 2+l.below(6), func() ask {
			n := l.pick(2, 4, 8, 8)
			return ask{cores: perGPU * float64(n) * (0.4 + 0.6*l.share()), gpus: n, milli: quantity.WholeGPU}
		})
	}
	scaleCores(asks, perGPU)
	plain = len(asks)
	if coresOnly > 0 {
		asks = l.family(asks, 1, 2+l.below(5), func() ask { return ask{cores: 2 + 20*l.share()} })
	}
	for i := range asks {
		asks[i].shrink(classes)
	}
	return asks, plain, coresOnly * pressure * coresPerGPU
}

// family adds n kinds with very uneven weights that sum to total.
func (l lot) family(asks []ask, total float64, n int, draw func() ask) []ask {
	weights, sum := make([]float64, n), 0.0
	for i := range weights {
		weights[i] = l.exponential() * l.exponential()
		sum += weights[i]
	}
	for i := range weights {
		a := draw()
		a.ratio, a.weight = 1+l.below(4), total*weights[i]/sum
		asks = append(asks, a)
	}
	return asks
}

// scaleCores makes the mean cores per GPU of demand as drawn.
func scaleCores(asks []ask, perGPU float64) {
	mean := 0.0
	for i := range asks {
		mean += asks[i].weight * asks[i].cores / asks[i].demand()
	}
	for i := range asks {
		asks[i].cores *= perGPU / mean
	}
}

// shrink makes a kind small enough for some node, in half cores.
func (a *ask) shrink(classes []mixedNode) {
	for try := 0; !a.fitsSome(classes); try++ {
		a.cores *= 0.9
		if try > 60 && a.gpus > 1 {
			a.gpus /= 2
		}
		if try > 20 {
			a.ratio = min(a.ratio, 4)
		}
	}
	a.cores = max(0.5, math.Floor(a.cores*2)/2)
}

func (a *ask) fitsSome(classes []mixedNode) bool {
	for k := range classes {
		if a.fits(&classes[k]) {
			return true
		}
	}
	return false
}

func (a *ask) fits(c *mixedNode) bool {
	return a.cores <= float64(c.cores) && a.cores*float64(a.ratio) <= float64(c.node.Memory/quantity.GiB) && a.gpus <= c.node.GPUs
}

// wholeNodeOneIn is how rare requests for a whole node are.
const wholeNodeOneIn = 1500

// stream draws pods until their GPU demand reaches length.
func (l lot) stream(w *trace.Workload, classes []mixedNode, asks []ask, plain int, length, cpuPerGPU, bound float64) {
	var upTo []float64
	total := 0.0
	for i := range asks[:plain] {
		total += asks[i].weight / asks[i].demand()
		upTo = append(upTo, total)
	}
	for gpus, cores := 0.0, 0.0; gpus < length; {
		x, i := l.share()*total, 0
		for upTo[i] < x {
			i++
		}
		a, models := asks[i], []string(nil)
		if l.share() < bound {
			models = l.bind(&a, classes)
		}
		if l.below(wholeNodeOneIn) == 0 {
			c := &classes[l.below(len(classes))]
			a, models = ask{cores: math.Floor(float64(c.cores) * 0.9), ratio: 1, gpus: c.node.GPUs, milli: quantity.WholeGPU}, nil
		}
		add(w, &a, models)
		for gpus += a.demand(); len(asks) > plain && cores < cpuPerGPU*gpus; {
			b := asks[plain+l.below(len(asks)-plain)]
			add(w, &b, nil)
			cores += b.cores
		}
	}
}

// bind picks one model whose nodes hold the kind.
func (l lot) bind(a *ask, classes []mixedNode) []string {
	var able []string
	for k := range classes {
		if a.fits(&classes[k]) {
			able = append(able, classes[k].node.Model)
		}
	}
	return []string{able[l.below(len(able))]}
}

func add(w *trace.Workload, a *ask, models []string) {
	p := trace.Pod{
		Name: fmt.Sprintf("p%06d", len(w.Pods)), CPU: quantity.MilliCPU(a.cores * 1000),
		Memory: quantity.Bytes(math.Floor(a.cores)) * quantity.Bytes(a.ratio) * quantity.GiB, GPUs: a.gpus, Models: models,
	}
	if a.gpus > 0 {
		p.Milli = a.milli
	}
	w.Pods = append(w.Pods, p)
}
