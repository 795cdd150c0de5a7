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

// starving is one table in the making, row by row: a row of CPU rests on rows of
// less CPU only.
type starving struct {
	fillers       []filler
	rows, columns int
	perStep       float64 // what a stranded step of CPU costs, in milli-GPU
	regret        *[8192]float64
	unused        []float64
	least         []float64 // of a row: the least that any filler with GPU leaves unused
	sum, rate     []float64
}

func (t *starving) fill() [][]int64 {
	t.unused = make([]float64, t.rows*t.columns)
	t.least, t.sum, t.rate = make([]float64, t.columns), make([]float64, t.columns), make([]float64, t.columns)
	table := make([][]int64, t.rows)
	for c := range t.rows {
		t.row(c)
		table[c] = make([]int64, t.columns)
		for g, unused := range t.unused[c*t.columns : (c+1)*t.columns] {
			table[c][g] = round(unused * 1000)
		}
	}
	return table
}

// row is, for each amount of GPU, the mean over what may come next, and over
// giving up now.
func (t *starving) row(c int) {
	for g := range t.least {
		t.least[g], t.sum[g], t.rate[g] = math.Inf(1), 0, 0
	}
	fitting := 0.0
	for i := range t.fillers {
		if f := &t.fillers[i]; f.cores <= c && f.tenths > 0 {
			fitting += f.weight
			after := t.after(c, f)
			for g := range t.least {
				t.least[g] = min(t.least[g], after[max(0, g-f.tenths)])
			}
		}
	}
	for i := range t.fillers {
		if f := &t.fillers[i]; f.cores <= c {
			t.add(f, t.after(c, f))
		}
	}
	for g := range t.sum {
		end := float64(g)*100 + float64(t.perStep*float64(c))
		impatience := nodeGivesUp
		if g > 0 {
			impatience = float64(nodeGivesUp * max(0, 1-fitting))
		}
		sum, rate := t.sum[g]+float64(impatience*end), t.rate[g]+impatience
		if rate > 0 {
			end = sum / rate
		}
		t.unused[c*t.columns+g] = end
	}
}

// after is the row that a filler leaves.
func (t *starving) after(c int, f *filler) []float64 {
	return t.unused[(c-f.cores)*t.columns : (c-f.cores+1)*t.columns]
}

// add weighs one filler in, for every amount of GPU that it can come to.
func (t *starving) add(f *filler, after []float64) {
	first := min(f.tenths, 1) // a filler with GPU does not come where there is none
	for g := first; g < t.columns; g++ {
		unused, weight := after[max(0, g-f.tenths)], f.weight
		if regret := unused - t.least[g]; regret > 0 {
			weight *= t.regret[int(min(regret, float64(len(t.regret)-1)))]
		}
		t.sum[g] += float64(weight * unused)
		t.rate[g] += weight
	}
}
