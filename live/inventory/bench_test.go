package inventory_test

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube/dra"
)

// BenchmarkSelector judges all cards and partitions of nodes of eight cards under a
// selector that is new.
func BenchmarkSelector(b *testing.B) {
	const nodes = 1000
	pools := dra.NewPools()
	for i := range nodes {
		_, slices := inventory.PartsNodeOf(&trace.Node{Name: fmt.Sprint("n-", i), GPUs: 8, Model: "H100", GPUMemory: 80 * quantity.GiB})
		for _, s := range slices {
			pools.Put(s)
		}
	}
	classes := func(string) *resourceapi.DeviceClass { return dra.PartClassOf() }
	n := 0
	for b.Loop() {
		n++
		claim := &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "a", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: dra.PartClass, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
					Expression: fmt.Sprintf("device.attributes[%q].profile == '1g.10gb' && %d > 0", dra.Driver, n),
				}}},
			},
		}}}}}
		need, why := dra.NeedOf(claim, classes, pools)
		if why != "" || !need.Choices[0][0].World.Parts {
			b.Fatalf("the request is read as %+v, %q", need, why)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes/8/26, "ns/device")
}
