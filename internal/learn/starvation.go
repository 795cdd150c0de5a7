package learn

import (
	"math"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// cpuSteps is into about how many steps the largest node's CPU is cut.
const cpuSteps = 128

// filler is a kind of pod that fills a node: cores in steps, GPU in tenths.
type filler struct {
	cores, tenths int
	weight        float64
}

// starvation fills in, per class, what a node with c steps of CPU and g tenths of
// usable GPU will leave unused when pods come in the proportions seen, weighted
// towards those that suit the node, until it gives up. A stranded core costs the
// class's CPU price, too. Classes with about the same price share a table.
func (m *mason) starvation(prices []amounts) {
	step := max(1000, (m.maxCPU+cpuSteps-1)/cpuSteps)
	m.out.CPUStep = quantity.MilliCPU(step)
	m.out.Starvation = make([][][]int64, m.view.Classes.Len())
	rows, columns := int((m.maxCPU+step-1)/step)+2, int(m.maxGPU)*10+2
	fillers := m.fillers(step, rows)
	var regret [8192]float64
	for i := range regret {
		regret[i] = exp(max(-40, -float64(choosiness*float64(i))))
	}
	shared := make(map[int64][][]int64)
	for i := range m.classes {
		bucket := round(2 * ln(max(1, float64(crumb*prices[i][0]))))
		table := shared[bucket]
		if table == nil {
			t := starving{fillers: fillers, rows: rows, columns: columns, perStep: exp(float64(bucket)/2) * float64(step) / 1000, regret: &regret}
			table = t.fill()
			shared[bucket] = table
		}
		m.out.Starvation[m.classes[i].id] = table
	}
}

// fillers groups the shapes of at most one device by cores and tenths of a GPU.
func (m *mason) fillers(step int64, rows int) []filler {
	const tenths = 11
	weights := make([]float64, rows*tenths)
	total := 0.0
	for shape, n := range m.demand.count {
		s, devices, milli := m.request(shape)
		cores := int((s.Need.At(cluster.DimCPU) + step - 1) / step)
		if n == 0 || devices > 1 || cores >= rows {
			continue
		}
		if devices == 0 {
			weights[cores*tenths] += float64(n)
		} else {
			weights[cores*tenths+int(milli+50)/100] += float64(n)
			total += float64(n)
		}
	}
	if total == 0 {
		total = 1
	}
	var out []filler
	for i, w := range weights {
		if w > 0 && i >= tenths {
			out = append(out, filler{i / tenths, i % tenths, w / total})
		}
	}
	return out // by cores
}

// starving is one table in the making.
type starving struct {
	fillers       []filler
	rows, columns int
	perStep       float64 // what a stranded step of CPU costs, in milli-GPU
	regret        *[8192]float64
	unused        []float64
	after         []float64 // by filler
}

func (t *starving) fill() [][]int64 {
	t.unused, t.after = make([]float64, t.rows*t.columns), make([]float64, len(t.fillers))
	table := make([][]int64, t.rows)
	for c := range t.rows {
		table[c] = make([]int64, t.columns)
		for g := range t.columns {
			t.unused[c*t.columns+g] = t.cell(c, g)
			table[c][g] = round(t.unused[c*t.columns+g] * 1000)
		}
	}
	return table
}

// cell is the mean over what may come next, and over giving up now.
func (t *starving) cell(c, g int) float64 {
	least, count := math.Inf(1), 0
	for i := range t.fillers {
		f := &t.fillers[i]
		if f.cores > c {
			break
		}
		// What is left unused after this filler.
		unused := t.unused[(c-f.cores)*t.columns+max(0, g-f.tenths)]
		t.after[i] = unused
		if f.tenths > 0 && unused < least {
			least = unused
		}
		count = i + 1
	}
	sum, rate, fitting := 0.0, 0.0, 0.0
	for i, unused := range t.after[:count] {
		f := &t.fillers[i]
		weight := f.weight
		if f.tenths > 0 {
			if g == 0 {
				continue
			}
			fitting += weight
		}
		if regret := unused - least; regret > 0 {
			weight *= t.regret[min(len(t.regret)-1, int(regret))]
		}
		sum += float64(weight * unused)
		rate += weight
	}
	end := float64(g)*100 + float64(t.perStep*float64(c))
	impatience := float64(nodeGivesUp * max(0, 1-fitting))
	sum += float64(impatience * end)
	rate += impatience
	if rate == 0 {
		return end
	}
	return sum / rate
}
