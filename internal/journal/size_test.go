package journal_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/journal"
	"github.com/headrace-dev/headrace/internal/rivals"
	"github.com/headrace-dev/headrace/internal/world"
)

// TestReplayOfSizes: what elastic jobs tell and measure, and what is decided of them,
// replays digest for digest.
func TestReplayOfSizes(t *testing.T) {
	var out bytes.Buffer
	record, w := journal.NewWriter(&out), world.New()
	policy := engine.Headrace().Sizing(engine.DefaultSizes())
	now := moment.Instant(0)
	tell := func(e world.Event) {
		t.Helper()
		if err := w.Apply(now, e); err != nil {
			t.Fatal(err)
		}
		record.Event(now, e)
	}
	record.Begin(policy, rivals.Side{})
	node := world.NodeAdded{Name: "n", CPU: 64_000, Memory: 1 << 40, Pods: 100, Life: cluster.LifeReady, Authority: cluster.AuthorityAgent}
	for range 4 {
		node.Devices = append(node.Devices, world.Device{Model: "A100", Memory: 80 * quantity.GiB, Island: -1, NUMA: -1})
	}
	tell(node)
	f := world.JobFacts{Expected: 10 * moment.Hour}
	for n := range int32(3) {
		f.Configurations = append(f.Configurations, world.Configuration{Model: "A100", Workers: n + 2, Rate: 950 * int64(n+2)})
	}
	tell(world.JobAdded{Name: "j", JobFacts: f})
	tell(world.GroupAdded{Name: "j", Minimum: 2, Job: "j"})
	for i := range 4 {
		tell(world.PodAdded{
			Name: fmt.Sprint("w", i), Job: "j", Group: "j",
			Request: world.Request{CPU: 1000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}}},
		})
	}
	scaled, cycles := 0, uint64(0)
	for range 3 {
		now = now.Add(20 * moment.Minute)
		cycles++
		snapshot, plan := decided(record, w, policy, decision.Cycle{Number: cycles, Now: now, Kind: decision.CycleReview})
		for _, bundle := range plan.Bundles() {
			tell(world.Acceptance(bundle))
			for i := range bundle {
				switch d := &bundle[i]; d.Action {
				case cluster.ActionScale:
					scaled++
				case cluster.ActionEvict:
					tell(world.Evicted{Name: snapshot.Pod(d.Pod).Spec.Name})
				case cluster.ActionBind:
					tell(world.Bound{Name: snapshot.Pod(d.Pod).Spec.Name})
				}
			}
		}
		for range 5 {
			tell(world.JobMeasured{Name: "j", Sync: 400, Progress: 10, Busy: []world.WorkerBusy{{Pod: "w0", Busy: 700}}})
		}
	}
	if err := record.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := journal.Replay("j", &out, func(journal.Head) (*engine.Policy, error) { return policy, nil })
	if err != nil || got.Cycles != int(cycles) || got.Differing != 0 || scaled != 3 {
		t.Errorf("%d sizes decided, replayed %+v, %v; want 3 and %d cycles as recorded", scaled, got, err, cycles)
	}
}
