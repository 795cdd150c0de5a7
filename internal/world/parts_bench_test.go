package world_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// migNode is a node of eight cards in 25 parts each, as MIG cuts them.
func migNode(name string) world.NodeAdded {
	e := node(name, 8)
	for i := range e.Devices {
		d := &e.Devices[i]
		d.Memory, d.Sharing = 80*quantity.GiB, cluster.SharingPartition
		d.Counters = map[string]int64{"compute": 7, "media": 1}
		for k := range 8 {
			d.Counters[fmt.Sprint("slice-", k)] = 1
		}
		for _, row := range []struct {
			name                 string
			size, compute, media int
			starts               []int
		}{
			{"1g", 1, 1, 0, []int{0, 1, 2, 3, 4, 5, 6}},
			{"1g-me", 1, 1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
			{"1w", 2, 1, 0, []int{0, 2, 4, 6}},
			{"2g", 2, 2, 0, []int{0, 2, 4}},
			{"3g", 4, 3, 0, []int{0, 4}},
			{"4g", 4, 4, 0, []int{0}},
			{"7g", 8, 7, 1, []int{0}},
		} {
			for _, start := range row.starts {
				p := world.Profile{
					Name: fmt.Sprint(row.name, "-", start), Milli: quantity.MilliGPU(125 * row.size), Memory: 10 * quantity.GiB * quantity.Bytes(row.size),
					Consumes: map[string]int64{"compute": int64(row.compute), "media": int64(row.media)},
				}
				for k := range row.size {
					p.Consumes[fmt.Sprint("slice-", start+k)] = 1
				}
				d.Profiles = append(d.Profiles, p)
			}
		}
	}
	return e
}

// BenchmarkParts decides about one pod that asks for one of seven parts of each card,
// with the memory of the cycle before and with none.
func BenchmarkParts(b *testing.B) {
	const nodes = 1000
	for _, count := range []int32{1, 3} {
		for _, warm := range []bool{true, false} {
			b.Run(fmt.Sprintf("nodes=%d/count=%d/warm=%v", nodes, count, warm), func(b *testing.B) {
				w := world.New()
				apply := func(e world.Event) {
					if err := w.Apply(w.Now(), e); err != nil {
						b.Fatal(err)
					}
				}
				for i := range nodes {
					apply(migNode(fmt.Sprint("n-", i)))
				}
				facts := &cluster.Facts{Selected: map[cluster.Symbol][]uint64{}, Parts: map[cluster.Symbol][]uint64{}}
				small := make([]uint64, nodes*8)
				for i := range small {
					small[i] = 1<<7 - 1
				}
				facts.Parts[w.Symbol("small")] = small
				apply(world.FactsKnown{Facts: facts})
				policy, memo := engine.Headrace(), new(engine.Memo)
				number, decided := uint64(0), 0
				var spent time.Duration
				for b.Loop() {
					if number > nodes*8*2 {
						b.Fatal("the cluster is full")
					}
					number++
					apply(asks(fmt.Sprint("p-", number), world.DeviceRequest{Count: count, Milli: 125, Selector: "small", Parts: true}))
					s := w.Snapshot()
					if !warm {
						memo = new(engine.Memo)
					}
					from := time.Now()
					plan := engine.Decide(s, decision.Cycle{Number: number, Now: w.Now()}, policy, memo)
					spent += time.Since(from)
					for i := range plan.Decisions {
						decided++
						apply(world.Accepted{Decision: plan.Decisions[i]})
					}
				}
				if decided != int(number) {
					b.Fatalf("%d of %d pods were placed", decided, number)
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "us/decide")
			})
		}
	}
}
