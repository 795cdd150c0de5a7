package share

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSizings makes a problem whose rates rise with GPUs, and rise less and less.
func drawSizings(t *rapid.T, most int) ([]int64, []Sizing) {
	classes := rapid.IntRange(1, 3).Draw(t, "classes")
	var room []int64
	for range classes {
		room = append(room, int64(rapid.IntRange(1, 12).Draw(t, "room")))
	}
	free := slices.Clone(room)
	var jobs []Sizing
	for i := range rapid.IntRange(1, most).Draw(t, "jobs") {
		j := Sizing{
			Key: uint64(i) * 7919 % 101, Now: -1, Restart: int64(rapid.IntRange(0, 250).Draw(t, "restart")) * 1000,
			Left: int64(rapid.IntRange(0, 100_000).Draw(t, "left")) * 1000, Done: int64(rapid.IntRange(0, 100_000).Draw(t, "done")) * 1000,
			Age: int64(rapid.IntRange(0, 100_000).Draw(t, "age")) * 1000, Lasted: int64(rapid.IntRange(0, 5000).Draw(t, "lasted")) * 1000,
		}
		for class := range classes {
			rate := int64(rapid.IntRange(100, 4000).Draw(t, "rate"))
			for gpus, step := int32(1), rate; gpus <= 8; gpus *= 2 {
				j.Ways = append(j.Ways, Way{int32(class), gpus, rate})
				step = step * int64(rapid.IntRange(0, 19).Draw(t, "scaling")) / 10
				rate += step
			}
		}
		if now := rapid.IntRange(-1, len(j.Ways)-1).Draw(t, "now"); now >= 0 && int64(j.Ways[now].GPUs) <= free[j.Ways[now].Class] {
			j.Now, j.Fixed = now, rapid.Bool().Draw(t, "fixed")
			free[j.Ways[now].Class] -= int64(j.Ways[now].GPUs)
		}
		jobs = append(jobs, j)
	}
	return room, jobs
}

// TestSizesKeepRoom: nobody gets more than there is, what is fixed stays, and the
// order of the jobs does not matter.
func TestSizesKeepRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		room, jobs := drawSizings(t, 12)
		chosen := Sizes(room, jobs, DefaultSizeRules())
		left := slices.Clone(room)
		for j, way := range chosen {
			if way != nobody {
				left[jobs[j].Ways[way].Class] -= int64(jobs[j].Ways[way].GPUs)
			}
			if jobs[j].Fixed && way != jobs[j].Now {
				t.Fatalf("job %d is fixed at way %d and gets %d", j, jobs[j].Now, way)
			}
		}
		for class, n := range left {
			if n < 0 {
				t.Fatalf("class %d is overdrawn by %d: %+v", class, -n, chosen)
			}
		}
		order := rapid.Permutation(jobs).Draw(t, "order")
		again := Sizes(room, order, DefaultSizeRules())
		for j := range order {
			at := slices.IndexFunc(jobs, func(s Sizing) bool { return s.Key == order[j].Key })
			if again[j] != chosen[at] {
				t.Fatalf("job %d gets way %d, and %d in another order", at, chosen[at], again[j])
			}
		}
	})
}

// bestWorth is the oracle: the most worth of all combinations.
func bestWorth(room []int64, worth [][]int64, jobs []Sizing) int64 {
	if len(jobs) == 0 {
		return 0
	}
	best := bestWorth(room, worth[1:], jobs[1:])
	for i, w := range jobs[0].Ways {
		if room[w.Class] < int64(w.GPUs) {
			continue
		}
		room[w.Class] -= int64(w.GPUs)
		best = max(best, worth[0][i]+bestWorth(room, worth[1:], jobs[1:]))
		room[w.Class] += int64(w.GPUs)
	}
	return best
}

// TestSizesOracle: on small problems the sum of worths is at least half of
// the best there is, and 99.9 % over all.
func TestSizesOracle(t *testing.T) {
	got, want := int64(0), int64(0)
	rapid.Check(t, func(t *rapid.T) {
		room, jobs := drawSizings(t, 5)
		for j := range jobs {
			jobs[j].Fixed = false
		}
		rules := DefaultSizeRules()
		chosen := Sizes(room, jobs, rules)
		weighed := rules.weighing(room, len(jobs))
		var worth [][]int64
		sum := int64(0)
		for j := range jobs {
			w := weighed.worths(&jobs[j])
			worth = append(worth, w)
			if chosen[j] != nobody {
				sum += w[chosen[j]]
			}
		}
		best := bestWorth(slices.Clone(room), worth, jobs)
		got, want = got+sum, want+best
		if sum*2 < best {
			t.Fatalf("room %v, jobs %+v: chosen %v is worth %d, the best %d", room, jobs, chosen, sum, best)
		}
	})
	t.Logf("worth %d of the best %d", got, want)
	if got*1000 < want*999 {
		t.Errorf("worth %d of the best %d", got, want)
	}
}

// one is a job on one class, with the rates of 1, 2, 4 and 8 GPUs.
func one(key uint64, left int64, now int, rates ...int64) Sizing {
	s := Sizing{Key: key, Now: now, Left: left * 1000, Restart: 30_000, Lasted: 3_600_000}
	for i, rate := range rates {
		s.Ways = append(s.Ways, Way{0, 1 << i, rate})
	}
	return s
}

func TestSizes(t *testing.T) {
	for _, test := range []struct {
		name string
		room int64
		jobs []Sizing
		want []int
	}{
		{"a job alone grows as far as it gains", 8, []Sizing{one(1, 10_000, 0, 1000, 1900, 3600, 3610)}, []int{2}},
		{"two equal jobs share", 8, []Sizing{one(1, 10_000, -1, 1000, 1900, 3400, 5000), one(2, 10_000, -1, 1000, 1900, 3400, 5000)}, []int{2, 2}},
		{"who scales gets more", 5, []Sizing{one(1, 10_000, -1, 1000, 1100), one(2, 10_000, -1, 1000, 1990, 3900, 7000)}, []int{0, 2}},
		{"who is nearer to the end goes first", 1, []Sizing{one(1, 100_000, -1, 1000), one(2, 100, -1, 1000)}, []int{-1, 0}},
		{"a move that does not pay for its restart is not made", 8, []Sizing{one(1, 60, 0, 1000, 1400)}, []int{0}},
		{"the same move pays with more to do", 8, []Sizing{one(1, 6000, 0, 1000, 1400)}, []int{1}},
		{"the last GPU goes to one of two alike by key", 1, []Sizing{one(2, 100, -1, 1000), one(1, 100, -1, 1000)}, []int{-1, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Sizes([]int64{test.room}, test.jobs, DefaultSizeRules()); !slices.Equal(got, test.want) {
				t.Errorf("ways %v, want %v", got, test.want)
			}
		})
	}
}

// TestSizesHysteresis: a job that was moved often stays where one that was left
// alone moves.
func TestSizesHysteresis(t *testing.T) {
	calm, restless := one(1, 60_000, 0, 1000, 1300), one(1, 60_000, 0, 1000, 1300)
	restless.Lasted = 60_000
	rules := DefaultSizeRules()
	if got := Sizes([]int64{4}, []Sizing{calm}, rules)[0]; got != 1 {
		t.Errorf("the calm job gets way %d, want 1", got)
	}
	if got := Sizes([]int64{4}, []Sizing{restless}, rules)[0]; got != 0 {
		t.Errorf("the restless job gets way %d, want 0", got)
	}
}

func TestSquareRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64Range(0, 1<<63).Draw(t, "x")
		if r := squareRoot(x); r*r > x || (r+1)*(r+1) <= x {
			t.Fatalf("root of %d: %d", x, r)
		}
	})
}

func TestFifthRoot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Int64Range(0, mostTime).Draw(t, "x")
		below, above := new(big.Int), new(big.Int)
		scaled, grain := new(big.Int).Lsh(big.NewInt(x), 30), int64(1)
		if x >= 1<<33 {
			grain = 8
		}
		r := fifthRoot(x)
		below.Exp(big.NewInt(r), big.NewInt(5), nil)
		above.Exp(big.NewInt(r+grain), big.NewInt(5), nil)
		if below.Cmp(scaled) > 0 || above.Cmp(scaled) <= 0 {
			t.Fatalf("64 times the fifth root of %d: %d", x, r)
		}
	})
}

// TestWeight falls with what is left, by half for 32 times as much, and with the
// speed that the job can have, to its power of 3/10: by half for ten times as much.
func TestWeight(t *testing.T) {
	rules := DefaultSizeRules()
	rules.Late = 0
	w := rules.weighing([]int64{64}, 1)
	for left := int64(10); left < 1<<30; left *= 32 {
		near, far := one(1, left, -1, 1000), one(1, 32*left, -1, 1000)
		if a, b := w.weight(&near), w.weight(&far); a < 2*b-a/50 || a > 2*b+a/50+2 {
			t.Errorf("weight of %d s: %d, of 32 times as much: %d", left, a, b)
		}
	}
	slow, fast := one(1, 1000, -1, 1000), one(1, 1000, -1, 10_000)
	if a, b := w.weight(&slow), w.weight(&fast); a < 2*b-a/50 || a > 2*b+a/50 {
		t.Errorf("weight of speed 1: %d, of speed 10: %d", a, b)
	}
}

// TestLate: who waited longer than its share would have let it goes before one that
// is nearer to its end; and lateness counts a share of a GPU as a part of its time.
func TestLate(t *testing.T) {
	waited, fresh := one(1, 1000, -1, 1000), one(2, 600, -1, 1000)
	waited.Age = 4_000_000
	if got := Sizes([]int64{1}, []Sizing{waited, fresh}, DefaultSizeRules()); !slices.Equal(got, []int{0, -1}) {
		t.Errorf("ways %v, want the one that waited", got)
	}
	// With half of the GPU it needs 2000 s, and will have taken 4000 + 2000.
	rules := DefaultSizeRules()
	if got := rules.weighing([]int64{1}, 2).lateness(&waited); got != 3000 {
		t.Errorf("lateness %d, want 3000", got)
	}
	rules.Late = 0
	if got := Sizes([]int64{1}, []Sizing{waited, fresh}, rules); !slices.Equal(got, []int{-1, 0}) {
		t.Errorf("ways %v without lateness, want the one that is nearer to its end", got)
	}
}

// TestThrift: GPUs that hardly help are left, the more of them the more jobs there
// are; at no price they are taken.
func TestThrift(t *testing.T) {
	alone := one(1, 10_000, 0, 1000, 1900, 3400, 3500)
	rules := DefaultSizeRules()
	if got := Sizes([]int64{8}, []Sizing{alone}, rules)[0]; got != 2 {
		t.Errorf("way %d, want 4 GPUs", got)
	}
	for _, test := range []struct{ jobs, part int64 }{{1, 250}, {4, 500}, {9, 750}, {16, 1000}, {40, 1000}} {
		if got := rules.weighing([]int64{24, 40}, int(test.jobs)).crowded(); got != test.part {
			t.Errorf("%d jobs on 64 GPUs: %d thousandths of the price, want %d", test.jobs, got, test.part)
		}
	}
	rules.Thrift, rules.Crowd = 0, 0
	if got := Sizes([]int64{8}, []Sizing{alone}, rules)[0]; got != 3 {
		t.Errorf("way %d at no price, want 8 GPUs", got)
	}
}

func BenchmarkSizes(b *testing.B) {
	for _, size := range []struct {
		name       string
		gpus, jobs int
	}{{"gpus=64/jobs=30", 64, 30}, {"gpus=2048/jobs=2000", 2048, 2000}} {
		b.Run(size.name, func(b *testing.B) {
			var jobs []Sizing
			for i := range size.jobs {
				s := Sizing{Key: uint64(i)*2654435761 + 1, Now: -1, Restart: 30_000, Left: int64(i*i%97+1) * 300_000, Lasted: 600_000}
				for class := range 3 {
					rate := int64(1000 * (class + 1))
					for gpus := int32(1); gpus <= 64; gpus *= 2 {
						s.Ways = append(s.Ways, Way{int32(class), gpus, rate})
						rate = rate * int64(150+i%40) / 100
					}
				}
				jobs = append(jobs, s)
			}
			third := int64(size.gpus / 3)
			for b.Loop() {
				if chosen := Sizes([]int64{third, third, third}, jobs, DefaultSizeRules()); !slices.ContainsFunc(chosen, func(w int) bool { return w >= 0 }) {
					b.Fatal("nobody got anything")
				}
			}
		})
	}
}
