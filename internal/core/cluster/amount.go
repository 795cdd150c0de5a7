package cluster

import "github.com/headrace-dev/headrace/internal/core/quantity"

// Amount is what a queue is given or a pod takes: GPU compute, and all else.
type Amount struct {
	Milli quantity.MilliGPU
	Rest  Vector
}

// Ask is what a shape takes of its queue.
func (s *Shape) Ask() Amount { return Amount{Milli: s.Milli(), Rest: s.Need} }

// Plus returns a + b.
func (a Amount) Plus(b *Amount) Amount {
	return Amount{Milli: a.Milli + b.Milli, Rest: a.Rest.Plus(&b.Rest)}
}
