package facts

import "k8s.io/apimachinery/pkg/api/resource"

// MostAmount is the most of anything that is counted: 4 PiB of memory, or as many
// thousandths of a core. Whoever asks for more gets nothing either way, and sums
// over all pods of a node stay far from the end of an int64.
const MostAmount = 1 << 52

// Units is a quantity in units, from 0 to MostAmount.
func Units(q *resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(MostAmount) >= 0:
		return MostAmount
	}
	return q.Value()
}

// Thousandths is a quantity in thousandths, from 0 to MostAmount.
func Thousandths(q *resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(MostAmount/1000) >= 0:
		return MostAmount
	}
	return q.MilliValue()
}
