package chance_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/headrace-dev/headrace/internal/core/chance"
)

// The vectors are those of the authors' splitmix64.c.
func TestKnownVectorsOfSplitMix64(t *testing.T) {
	for _, c := range []struct {
		seed int64
		want []uint64
	}{
		{seed: 0, want: []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec}},
		{seed: 1234567, want: []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821}},
	} {
		source := chance.New(c.seed)
		var got []uint64
		for range c.want {
			got = append(got, source.Uint64())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", c.seed, diff)
		}
	}
}

func TestZeroSourceIsTheStreamOfSeedZero(t *testing.T) {
	var zero chance.Source
	seeded := chance.New(0)
	for i := range 10 {
		if a, b := zero.Uint64(), seeded.Uint64(); a != b {
			t.Fatalf("number %d: zero value gives %d, seed 0 gives %d", i, a, b)
		}
	}
}

// Below is uniform: over many draws every value comes up about equally often.
func TestBelowIsUniform(t *testing.T) {
	const draws = 120_000
	for _, n := range []int64{1, 2, 3, 6, 7, 10, 64, 100} {
		source, counts := chance.New(n), make([]int64, n)
		for range draws {
			x := source.Below(n)
			if x < 0 || x >= n {
				t.Fatalf("Below(%d): got %d", n, x)
			}
			counts[x]++
		}
		// Chi squared has mean n-1 and deviation √(2(n-1)); six deviations.
		square, expected := 0.0, float64(draws)/float64(n)
		for _, c := range counts {
			square += (float64(c) - expected) * (float64(c) - expected) / expected
		}
		if limit := float64(n-1) + 6*math.Sqrt(2*float64(n-1)); square > limit+1e-9 {
			t.Errorf("Below(%d): chi squared %.1f above %.1f: counts %v", n, square, limit, counts)
		}
	}
}

// A bound just above 2^62 rejects nearly half of all draws: the mean of what is
// left must still be the middle.
func TestBelowIsUniformAtLargeBounds(t *testing.T) {
	const draws = 20_000
	for _, n := range []int64{1<<62 + 1, math.MaxInt64, 3 << 61} {
		source, mean := chance.New(9), 0.0
		for range draws {
			x := source.Below(n)
			if x < 0 || x >= n {
				t.Fatalf("Below(%d): got %d", n, x)
			}
			mean += float64(x) / float64(n) / draws
		}
		if math.Abs(mean-0.5) > 0.02 {
			t.Errorf("Below(%d): mean %.3f of the bound, want 0.5", n, mean)
		}
	}
}

func TestBelowPanicsWithoutRoom(t *testing.T) {
	for _, n := range []int64{0, -1, math.MinInt64} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Below(%d): no panic", n)
				}
			}()
			chance.New(1).Below(n)
		}()
	}
}

// A permutation holds each of 0..n-1 once.
func TestPermutationsArePermutations(t *testing.T) {
	source := chance.New(3)
	for n := range 70 {
		p := source.Permutation(n)
		for i, x := range slices.Sorted(slices.Values(p)) {
			if int(x) != i {
				t.Fatalf("Permutation(%d): got %v", n, p)
			}
		}
		if len(p) != n {
			t.Fatalf("Permutation(%d): %d entries", n, len(p))
		}
	}
}

// All permutations of four come up about equally often.
func TestPermutationsAreUniform(t *testing.T) {
	const draws = 48_000
	source, counts := chance.New(11), map[[4]int32]int{}
	for range draws {
		counts[[4]int32(source.Permutation(4))]++
	}
	if len(counts) != 24 {
		t.Fatalf("%d of 24 permutations seen", len(counts))
	}
	for p, c := range counts {
		if c < draws/24*8/10 || c > draws/24*12/10 {
			t.Errorf("permutation %v: %d times, want about %d", p, c, draws/24)
		}
	}
}

// Hash depends on each word and on their order.
func TestHashSeesEveryWordAndTheirOrder(t *testing.T) {
	seen := map[uint64]string{}
	add := func(name string, h uint64) {
		t.Helper()
		if other, dup := seen[h]; dup {
			t.Errorf("%s and %s have the same hash %#x", name, other, h)
		}
		seen[h] = name
	}
	add("nothing", chance.Hash())
	add("0", chance.Hash(0))
	add("0 0", chance.Hash(0, 0))
	add("1 2", chance.Hash(1, 2))
	add("2 1", chance.Hash(2, 1))
	add("1 2 0", chance.Hash(1, 2, 0))
	for i := range 64 {
		add("bit", chance.Hash(1<<i, 5))
		add("bit behind", chance.Hash(5, 1<<i))
	}
	if a, b := chance.Hash(1, 2, 3), chance.Fold(chance.Hash(1, 2), 3); a != b {
		t.Errorf("Hash(1, 2, 3): got %#x, Fold of Hash(1, 2) gives %#x", a, b)
	}
}

func TestHashString(t *testing.T) {
	// FNV-1a of "a" is 0xaf63dc4c8601ec8c.
	if got, want := chance.HashString("a"), chance.Mix(0xaf63dc4c8601ec8c); got != want {
		t.Errorf("HashString(a): got %#x, want %#x", got, want)
	}
	if chance.HashString("ab") == chance.HashString("ba") {
		t.Error("HashString does not see the order of bytes")
	}
}
