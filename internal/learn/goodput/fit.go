package goodput

import "math"

// Sample is one measured step.
type Sample struct {
	Nodes, GPUs int
	Local       int     // examples on each GPU in one pass
	Step, Sync  float64 // seconds; Sync is the part of Step spent on communication
}

// Params are the parameters of the model, times in seconds.
type Params struct {
	PassConst, PassEach float64 // a pass: constant, and for each example
	NodeConst, NodeEach float64 // communication across nodes, and for each GPU beyond two
	LinkConst, LinkEach float64 // the same within one node
	Overlap             float64 // 1: none; 10: the longer one hides the shorter
}

const (
	tiny       = 1e-8 // least value of a time
	mostGamma  = 10
	gammaPull  = 1e-3 // weight of (gamma - 1)²
	growthPull = 1e-2 // weight of (each/const)²
	params     = 7
	gamma      = params - 1
)

// Indices of parameters in a vector: in pairs of constant and slope.
const (
	passAt = 0
	nodeAt = 2
	linkAt = 4
)

// passTime is the time of one pass over a batch on each GPU.
func (p *Params) passTime(local int) float64 { return p.PassConst + p.PassEach*float64(local) }

func (p *Params) syncTime(nodes, gpus int) float64 {
	beyond := math.Max(float64(gpus-2), tiny)
	switch {
	case nodes > 1:
		return p.NodeConst + p.NodeEach*beyond
	case gpus > 1:
		return p.LinkConst + p.LinkEach*beyond
	}
	return tiny
}

// StepTime is the expected time of a step with passes accumulated beyond the first.
func (p *Params) StepTime(nodes, gpus, local, passes int) float64 {
	pass, sync := p.passTime(local), p.syncTime(nodes, gpus)
	return float64(passes)*pass + blend(pass, sync, math.Log(sync), p.Overlap)
}

// blend is (x^g + y^g)^(1/g), without overflow; logY is the logarithm of y.
func blend(x, y, logY, g float64) float64 {
	if g == 1 {
		return x + y
	}
	logX := math.Log(x)
	more, less := math.Max(logX, logY), math.Min(logX, logY)
	return math.Exp(more + math.Log1p(math.Exp(g*(less-more)))/g)
}

// Fit finds the parameters that explain the samples best: the root mean square of
// the logarithmic errors of pass and step, with a pull towards little overlap and
// little growth. What was not observed is pinned low, so that the model expects
// much of what was not tried.
func Fit(samples []Sample) Params {
	f := newFitting(samples)
	x := f.minimise()
	p := Params{x[0], x[1], x[2], x[3], x[4], x[5], x[6]}
	if !f.acrossNodes {
		// Nodes are never closer than the GPUs of one.
		p.NodeConst = math.Max(p.NodeConst, p.LinkConst*1.1)
		p.NodeEach = math.Max(p.NodeEach, p.LinkEach*1.1)
	}
	return p
}

// fitting is one problem: a vector of parameters, of which some are pinned.
type fitting struct {
	logPass, logStep []float64
	local            []float64
	beyond           []float64 // GPUs beyond two
	term             []int     // nodeAt, linkAt, or -1: no communication
	acrossNodes      bool
	start            [params]float64
	pinned           [params]bool
}

func newFitting(samples []Sample) *fitting {
	f := &fitting{start: [params]float64{1e-1, 1e-2, 1e-1, 1e-2, 1e-1, 1e-2, 1 + 1e-3}}
	oneBatch, withinNode, many, meanPass := true, false, false, 0.0
	for _, s := range samples {
		pass := math.Max(s.Step-s.Sync, tiny)
		f.logPass = append(f.logPass, math.Log(pass))
		f.logStep = append(f.logStep, math.Log(math.Max(s.Step, tiny)))
		f.local = append(f.local, float64(s.Local))
		f.beyond = append(f.beyond, math.Max(float64(s.GPUs-2), tiny))
		meanPass += pass / float64(len(samples))
		oneBatch = oneBatch && s.Local == samples[0].Local
		many = many || s.GPUs > 2
		switch {
		case s.Nodes > 1:
			f.term = append(f.term, nodeAt)
			f.acrossNodes = true
		case s.GPUs > 1:
			f.term = append(f.term, linkAt)
			withinNode = true
		default:
			f.term = append(f.term, -1)
		}
	}
	pin := func(at int, value float64) { f.start[at], f.pinned[at] = value, true }
	if oneBatch {
		pin(passAt, meanPass/2) // as much constant as growth, where one batch cannot tell
	}
	if !f.acrossNodes {
		pin(nodeAt, tiny)
	}
	if !withinNode {
		pin(linkAt, tiny)
	}
	if !f.acrossNodes || !many {
		pin(nodeAt+1, tiny)
	}
	if !withinNode || !many {
		pin(linkAt+1, tiny)
	}
	return f
}

// overlap is the logarithm of (x^g + y^g)^(1/g) of two logarithms, and how it moves
// with each.
func overlap(logX, logY, g float64) (log, partX, partY float64) {
	const nothing = -36 // exp of it is below the last digit of 1
	apart := g * (logY - logX)
	switch {
	case apart < nothing:
		return logX, 1, 0
	case -apart < nothing:
		return logY, 0, 1
	case apart <= 0:
		e := math.Exp(apart)
		return logX + math.Log1p(e)/g, 1 / (1 + e), e / (1 + e)
	}
	e := math.Exp(-apart)
	return logY + math.Log1p(e)/g, e / (1 + e), 1 / (1 + e)
}

// smooth keeps the root of a mean square differentiable where the fit is perfect.
const smooth = 1e-12

// value is the objective and its slope in all parameters.
func (f *fitting) value(x *[params]float64, slope *[params]float64) float64 {
	n := float64(len(f.local))
	var sumPass, sumStep float64
	var dPass, dStep [params]float64
	g := x[gamma]
	for i, local := range f.local {
		pass := x[passAt] + x[passAt+1]*local
		logPass := math.Log(pass)
		sync, term := tiny, f.term[i]
		if term >= 0 {
			sync = x[term] + x[term+1]*f.beyond[i]
		}
		logSync := math.Log(sync)
		logStep, partPass, partSync := overlap(logPass, logSync, g)

		e1, e2 := logPass-f.logPass[i], logStep-f.logStep[i]
		sumPass += e1 * e1
		sumStep += e2 * e2
		dPass[passAt] += e1 / pass
		dPass[passAt+1] += e1 * local / pass
		dStep[passAt] += e2 * partPass / pass
		dStep[passAt+1] += e2 * partPass * local / pass
		if term >= 0 {
			dStep[term] += e2 * partSync / sync
			dStep[term+1] += e2 * partSync * f.beyond[i] / sync
		}
		dStep[gamma] += e2 * (partPass*logPass + partSync*logSync - logStep) / g
	}
	rootPass, rootStep := math.Sqrt(sumPass/n+smooth), math.Sqrt(sumStep/n+smooth)
	for i := range slope {
		slope[i] = dPass[i]/(n*rootPass) + dStep[i]/(n*rootStep)
	}
	out := rootPass + rootStep + gammaPull*(g-1)*(g-1)
	slope[gamma] += 2 * gammaPull * (g - 1)
	for _, at := range []int{nodeAt, linkAt} {
		ratio := x[at+1] / x[at]
		out += growthPull * ratio * ratio
		slope[at] -= 2 * growthPull * ratio * ratio / x[at]
		slope[at+1] += 2 * growthPull * ratio / x[at]
	}
	return out
}
