package cluster

import "slices"

// Dim names one countable resource of a node.
type Dim int32

// The dimensions every node has. Extended resources are interned behind them.
const (
	DimCPU       Dim = iota // MilliCPU
	DimMemory               // Bytes
	DimPods                 // pods, each takes one
	DimEphemeral            // Bytes of ephemeral storage
	DimHuge2Mi              // Bytes in 2 MiB pages
	DimHuge1Gi              // Bytes in 1 GiB pages
	DimExtended             // the first extended resource
)

// inlineDims is how many dimensions a Vector holds without a slice. Nodes with
// more than two extended resources besides devices are rare.
const inlineDims = 8

// Vector is an amount in every dimension; absent ones are zero. It is a value:
// the slice behind it is never changed in place.
type Vector struct {
	inline [inlineDims]int64
	extra  []int64
}

// MakeVector returns a vector with the given amounts.
func MakeVector(cpu, memory, pods int64) Vector {
	return Vector{inline: [inlineDims]int64{cpu, memory, pods}}
}

// At returns the amount in one dimension.
func (v *Vector) At(d Dim) int64 {
	if d < inlineDims {
		return v.inline[d]
	}
	if int(d)-inlineDims < len(v.extra) {
		return v.extra[d-inlineDims]
	}
	return 0
}

// With returns v with one dimension set.
func (v Vector) With(d Dim, amount int64) Vector {
	if d < inlineDims {
		v.inline[d] = amount
		return v
	}
	extra := make([]int64, max(len(v.extra), int(d)-inlineDims+1))
	copy(extra, v.extra)
	extra[d-inlineDims] = amount
	v.extra = extra
	return v
}

// Dims returns one more than the highest dimension v may be non-zero in.
func (v *Vector) Dims() Dim { return Dim(inlineDims + len(v.extra)) }

// Plus returns v + w.
func (v Vector) Plus(w *Vector) Vector {
	for d := range v.inline {
		v.inline[d] += w.inline[d]
	}
	if len(w.extra) > 0 {
		v.extra = combine(v.extra, w.extra, 1)
	}
	return v
}

// Minus returns v - w.
func (v Vector) Minus(w *Vector) Vector {
	for d := range v.inline {
		v.inline[d] -= w.inline[d]
	}
	if len(w.extra) > 0 {
		v.extra = combine(v.extra, w.extra, -1)
	}
	return v
}

// times returns v once, or taken away.
func (v Vector) times(sign int64) Vector {
	if sign > 0 {
		return v
	}
	var zero Vector
	return zero.Minus(&v)
}

func combine(a, b []int64, sign int64) []int64 {
	out := make([]int64, max(len(a), len(b)))
	copy(out, a)
	for i, amount := range b {
		out[i] += sign * amount
	}
	return out
}

// ShortOf returns the first dimension in which v is less than need, where need
// is positive there.
func (v *Vector) ShortOf(need *Vector) (Dim, bool) {
	for d := range need.inline {
		if need.inline[d] > v.inline[d] && need.inline[d] > 0 {
			return Dim(d), true
		}
	}
	for i, amount := range need.extra {
		if d := Dim(inlineDims + i); amount > 0 && amount > v.At(d) {
			return d, true
		}
	}
	return 0, false
}

// Equal says whether both hold the same amounts.
func (v *Vector) Equal(w *Vector) bool {
	return v.inline == w.inline && slices.Equal(trimmed(v.extra), trimmed(w.extra))
}

func trimmed(extra []int64) []int64 {
	for len(extra) > 0 && extra[len(extra)-1] == 0 {
		extra = extra[:len(extra)-1]
	}
	return extra
}
