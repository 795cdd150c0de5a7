package trace

import (
	"errors"
	"math/big"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Defaults of a Resampling.
const (
	// DefaultArrivals is the number of pods that arrive after the start.
	DefaultArrivals = 10_000
	// DefaultLongest is the longest duration. In openb 1 % of the pods run longer
	// than a day, up to the 149 days of the trace, and have 91 % of the GPU-time:
	// uncapped, a few pods decide the run and no steady state is reached.
	DefaultLongest = moment.Day
	// warmUpPart is the part of a run that is its warm-up, one in so many. The
	// cluster starts full, so only the queue has to form.
	warmUpPart = 4
	// maxInitial bounds the pods that are there at the start.
	maxInitial = 1_000_000
)

// Resampling says how Resample draws.
type Resampling struct {
	// Load is the GPU-time that arrives per time, as a part of the capacity.
	Load quantity.Milli
	Seed int64
	// Arrivals is how many pods arrive after the start; 0 is DefaultArrivals.
	Arrivals int
	// Longest caps durations; 0 is DefaultLongest.
	Longest moment.Span
}

// Resample makes a workload in steady state out of a timed one: its pods, drawn
// with replacement, arrive as a Poisson stream with their own durations.
//
// The run is so long that the GPU-time of the pods drawn for the stream is Load
// times the capacity, exactly: a few long pods have most of the GPU-time, and
// left to the draw the load would vary by a tenth. Since the cluster never
// empties, it does not start empty either: at instant 0 there are as many pods
// as would run at once if none had to wait, each drawn from the stream with a
// chance in proportion to its duration and with a uniform rest of it to run (what
// an observer finds who looks at a random time). WarmUp marks the first quarter,
// in which the queue forms.
//
// One generator is consumed in this order: a pod for each arrival, two numbers
// for each pod at the start, the instants of the arrivals.
func Resample(w Workload, r Resampling) (Workload, error) {
	if r.Arrivals <= 0 {
		r.Arrivals = DefaultArrivals
	}
	if r.Longest <= 0 {
		r.Longest = DefaultLongest
	}
	switch {
	case !w.Timed || len(w.Pods) == 0:
		return Workload{}, errors.New("resample: the workload has no times")
	case r.Load <= 0 || r.Load > 100*quantity.One:
		return Workload{}, errors.New("resample: want a load above 0 and up to 100")
	case slices.ContainsFunc(w.Pods, func(p Pod) bool { return p.Group != "" }):
		return Workload{}, errors.New("resample: pods are drawn one by one, and the workload has jobs of several pods")
	case r.Arrivals > MaxRows:
		return Workload{}, errors.New("resample: too many arrivals")
	}
	random := chance.New(r.Seed)
	drawn := make([]Pod, r.Arrivals)
	for i := range drawn {
		drawn[i] = w.Pods[random.Below(int64(len(w.Pods)))]
		drawn[i].Duration = min(drawn[i].Duration, r.Longest)
	}
	d := newDurations(drawn)
	length, initial := d.stream(w.GPUCapacity(), r.Load)
	if length <= 0 {
		return Workload{}, errors.New("resample: the pods drawn have no GPU-time, or the cluster has no GPU")
	}
	if initial > maxInitial {
		return Workload{}, errors.New("resample: too many pods would run at once; the workload hardly uses GPUs")
	}

	w.Pods, w.Missing, w.WarmUp = make([]Pod, 0, int(initial)+r.Arrivals), nil, length/warmUpPart
	add := func(p Pod, at moment.Instant, duration moment.Span) {
		p.Arrival, p.Duration = at, duration
		p.Name = drawnName(p.Name, len(w.Pods)+1)
		w.Pods = append(w.Pods, p)
	}
	for range initial {
		p := drawn[d.pick(random)]
		add(p, 0, 1+moment.Span(random.Below(int64(p.Duration))))
	}
	// Given their number, the arrivals of a Poisson stream are independent and
	// uniform. So no logarithm is needed, and every machine draws the same.
	arrivals := make([]moment.Instant, r.Arrivals)
	for i := range arrivals {
		arrivals[i] = moment.Instant(random.Below(int64(length)))
	}
	slices.Sort(arrivals)
	for i, at := range arrivals {
		add(drawn[i], at, drawn[i].Duration)
	}
	return w, nil
}

// durations are sums over the durations of pods.
type durations struct {
	upTo    []int64  // upTo[i] is the sum over the pods 0..i
	gpuTime *big.Int // sum of GPU demand × duration, in milli-GPU microseconds
}

func newDurations(pods []Pod) durations {
	d := durations{upTo: make([]int64, len(pods)), gpuTime: new(big.Int)}
	var sum int64
	for i := range pods {
		sum = quantity.AddSaturating(sum, int64(pods[i].Duration))
		d.upTo[i] = sum
		d.gpuTime.Add(d.gpuTime, product(int64(pods[i].GPUDemand()), int64(pods[i].Duration)))
	}
	return d
}

// stream returns how long the pods take to arrive, and how many run at once:
//
//	length  = their GPU-time / (load × capacity)
//	at once = their durations / length
func (d durations) stream(capacity quantity.MilliGPU, load quantity.Milli) (moment.Span, int64) {
	if capacity == 0 {
		return 0, 0
	}
	length := new(big.Int).Mul(d.gpuTime, big.NewInt(int64(quantity.One)))
	length.Quo(length, product(int64(capacity), int64(load)))
	if length.Sign() == 0 || !length.IsInt64() || length.Int64() > int64(MaxTime) {
		return 0, 0
	}
	return moment.Span(length.Int64()), d.upTo[len(d.upTo)-1] / length.Int64()
}

// pick draws a pod with a chance in proportion to its duration.
func (d durations) pick(random *chance.Source) int {
	at := random.Below(d.upTo[len(d.upTo)-1])
	i, found := slices.BinarySearch(d.upTo, at)
	if !found {
		return i
	}
	// upTo[i] = at belongs to the next pod that has a duration.
	for d.upTo[i] == at {
		i++
	}
	return i
}

func product(a, b int64) *big.Int {
	return new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
}
