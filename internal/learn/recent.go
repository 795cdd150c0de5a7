package learn

// window is how many of the last runs a forecast rests on.
const window = 16

// recent keeps the last runs of each key. The zero value has seen nothing.
type recent[K comparable, T any] struct {
	last map[K][]T // rings
	seen map[K]int
}

func (r *recent[K, T]) add(key K, run T) {
	if r.last == nil {
		r.last, r.seen = make(map[K][]T), make(map[K]int)
	}
	if ring := r.last[key]; len(ring) < window {
		r.last[key] = append(ring, run)
	} else {
		ring[r.seen[key]%window] = run
	}
	r.seen[key]++
}
