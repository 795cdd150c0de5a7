package learn

import "cmp"

// window is how many of the last runs a forecast rests on.
const window = 16

// recent keeps the last runs of each key. The zero value has seen nothing.
type recent[K comparable, T any] struct {
	last map[K][]T // rings
	seen map[K]int
	size int // of a ring; 0: window
}

func (r *recent[K, T]) add(key K, run T) {
	if r.last == nil {
		r.last, r.seen = make(map[K][]T), make(map[K]int)
	}
	size := cmp.Or(r.size, window)
	if ring := r.last[key]; len(ring) < size {
		r.last[key] = append(ring, run)
	} else {
		ring[r.seen[key]%size] = run
	}
	r.seen[key]++
}
