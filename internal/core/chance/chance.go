// Package chance is the seeded generator and the hash that break ties.
//
// Same seed, same stream, on every machine. The generator is SplitMix64
// (Steele, Lea, Flood, OOPSLA 2014); the hash is its finaliser over FNV-style
// folding. Neither is meant to resist an adversary.
package chance

import "math/bits"

// Source is a stream of numbers. The zero value is the stream of seed 0.
type Source struct{ state uint64 }

// New returns the stream of a seed.
func New(seed int64) *Source { return &Source{state: uint64(seed)} }

const golden = 0x9e3779b97f4a7c15

// Uint64 returns the next number, uniform over all 64-bit values.
func (s *Source) Uint64() uint64 {
	s.state += golden
	return Mix(s.state)
}

// Below returns a number uniform over 0..n-1. It panics when n is not positive.
func (s *Source) Below(n int64) int64 {
	if n <= 0 {
		panic("chance: Below needs a positive bound")
	}
	// Lemire's multiply-shift with rejection: exact, without a division in the
	// common case.
	bound := uint64(n)
	hi, lo := bits.Mul64(s.Uint64(), bound)
	if lo < bound {
		floor := -bound % bound
		for lo < floor {
			hi, lo = bits.Mul64(s.Uint64(), bound)
		}
	}
	return int64(hi)
}

// Permutation returns 0..n-1 in random order.
func (s *Source) Permutation(n int) []int32 {
	p := make([]int32, n)
	for i := range p {
		j := int(s.Below(int64(i) + 1))
		p[i] = p[j]
		p[j] = int32(i)
	}
	return p
}

// Mix spreads the bits of x over the whole word; it is a bijection.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Hash folds words into one, order mattering.
func Hash(words ...uint64) uint64 {
	h := uint64(golden)
	for _, w := range words {
		h = Fold(h, w)
	}
	return h
}

// Fold adds one word to a running hash.
func Fold(h, word uint64) uint64 { return Mix(h ^ word*golden + 1) }

// HashString hashes the bytes of s.
func HashString(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return Mix(h)
}
