package goodput

import "math"

// Limits of the search. The published fits end after some 20 to 60 steps.
const (
	mostSteps   = 80
	mostHalves  = 25
	enough      = 1e-7 // improvement of the objective below which it stops
	gentleSlope = 1e-5
)

// minimise is a quasi-Newton search (BFGS) within bounds. Times are searched on a
// logarithmic scale: they span eight orders of magnitude.
func (f *fitting) minimise() [params]float64 {
	y := f.start
	for i := range gamma {
		y[i] = math.Log(y[i])
	}
	low, high := f.bounds()
	at := func(y *[params]float64, slope *[params]float64) float64 {
		x := *y
		for i := range gamma {
			x[i] = math.Exp(y[i])
		}
		v := f.value(&x, slope)
		for i := range params {
			if i < gamma {
				slope[i] *= x[i]
			}
			if f.pinned[i] {
				slope[i] = 0
			}
		}
		return v
	}
	var slope, trial, next [params]float64
	var inverse [params][params]float64
	reset(&inverse)
	value, small := at(&y, &slope), 0
	for range mostSteps {
		free := f.free(&y, &slope, &low, &high)
		step := direction(&inverse, &slope, free)
		down := dot(&step, &slope)
		if down > -1e-14 {
			reset(&inverse)
			step = direction(&inverse, &slope, free)
			if down = dot(&step, &slope); down > -gentleSlope*gentleSlope {
				break
			}
		}
		length, better, moved := 1.0, false, 0.0
		limit(&step)
		for range mostHalves {
			moved = 0
			for i := range trial {
				trial[i] = math.Min(math.Max(y[i]+length*step[i], low[i]), high[i])
				moved += (trial[i] - y[i]) * slope[i]
			}
			if v := at(&trial, &next); v <= value+1e-4*moved && moved < 0 {
				better = true
				if value-v < enough {
					small++
				} else {
					small = 0
				}
				value = v
				break
			}
			length /= 2
		}
		if !better {
			if small >= 100 {
				break
			}
			small += 100 // once more along the plain slope
			reset(&inverse)
			continue
		}
		update(&inverse, &y, &trial, &slope, &next)
		y, slope = trial, next
		if small >= 3 {
			break
		}
	}
	for i := range gamma {
		if f.pinned[i] {
			y[i] = f.start[i]
		} else {
			y[i] = math.Exp(y[i])
		}
	}
	return y
}

func (f *fitting) bounds() (low, high [params]float64) {
	for i := range gamma {
		low[i], high[i] = math.Log(tiny), math.Log(1e6)
	}
	low[gamma], high[gamma] = 1, mostGamma
	return low, high
}

// free tells the parameters that are not pinned and not held at a bound.
func (f *fitting) free(y, slope, low, high *[params]float64) (free [params]bool) {
	for i := range free {
		held := y[i] <= low[i] && slope[i] > 0 || y[i] >= high[i] && slope[i] < 0
		free[i] = !f.pinned[i] && !held
	}
	return free
}

func reset(inverse *[params][params]float64) {
	*inverse = [params][params]float64{}
	for i := range params {
		inverse[i][i] = 1
	}
}

func direction(inverse *[params][params]float64, slope *[params]float64, free [params]bool) (step [params]float64) {
	for i := range params {
		if !free[i] {
			continue
		}
		for k := range params {
			if free[k] {
				step[i] -= inverse[i][k] * slope[k]
			}
		}
	}
	return step
}

// limit keeps a step within a factor of e² or so.
func limit(step *[params]float64) {
	const longest = 2
	most := 0.0
	for _, s := range step {
		most = math.Max(most, math.Abs(s))
	}
	if most > longest {
		for i := range step {
			step[i] *= longest / most
		}
	}
}

func dot(a, b *[params]float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// update is the BFGS update of the inverse curvature.
func update(inverse *[params][params]float64, y, next, slope, nextSlope *[params]float64) {
	var s, d, hd [params]float64
	for i := range params {
		s[i], d[i] = next[i]-y[i], nextSlope[i]-slope[i]
	}
	sd := dot(&s, &d)
	if sd <= 1e-12 {
		return
	}
	for i := range params {
		for k := range params {
			hd[i] += inverse[i][k] * d[k]
		}
	}
	scale := (1 + dot(&d, &hd)/sd) / sd
	for i := range params {
		for k := range params {
			inverse[i][k] += scale*s[i]*s[k] - (hd[i]*s[k]+s[i]*hd[k])/sd
		}
	}
}
