package fit_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// TestMain sets how many cases properties draw; more when HEADRACE_LONG=1.
func TestMain(m *testing.M) {
	checks := "20000"
	if os.Getenv("HEADRACE_LONG") == "1" {
		checks = "100000"
	}
	// Before flags are parsed, so that the command line has the last word.
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// A rack is a ledger for judging shapes on its nodes.
type rack struct {
	*cluster.Ledger
	names  cluster.Interner
	filler cluster.ShapeID
	kind   int // of drawn devices: how they are shared; -1: any
}

func newRack() *rack {
	r := &rack{Ledger: cluster.NewLedger()}
	r.AddClass(cluster.Class{Name: "any"})
	r.filler = r.AddShape(cluster.Shape{Key: 1})
	return r
}

// node adds a ready node that an agent manages, with 8 CPU, 16 GiB and 10 pods.
func (r *rack) node(devices []*cluster.DeviceSpec, edit ...func(*cluster.NodeSpec)) cluster.NodeID {
	name := fmt.Sprintf("n%d", r.Nodes.Len())
	spec := cluster.NodeSpec{
		Name: name, UID: name, Class: 0, Domain: cluster.None, Authority: cluster.AuthorityAgent,
		Allocatable: cluster.MakeVector(8000, 16<<30, 10),
	}
	for _, f := range edit {
		f(&spec)
	}
	id := r.AddNode(spec, devices, cluster.LifeReady, cluster.None)
	r.SetSymbols(r.names.Symbols())
	return id
}

// gpus returns n devices of 80 GiB that can be cut into slices, two per island
// and NUMA node.
func (r *rack) gpus(n int, model string) []*cluster.DeviceSpec {
	var out []*cluster.DeviceSpec
	for i := range n {
		out = append(out, &cluster.DeviceSpec{
			Name: fmt.Sprint(i), Model: r.names.Intern(model), Memory: 80 * quantity.GiB,
			Island: int32(i / 2), NUMA: int32(i / 2), Sharing: cluster.SharingSlices,
		})
	}
	return out
}

// partitioned makes the devices partitionable: seven slices, profiles of two and
// three, and one that takes more slices than compute.
func (r *rack) partitioned(devices []*cluster.DeviceSpec) []*cluster.DeviceSpec {
	for _, d := range devices {
		d.Sharing = cluster.SharingPartition
		d.Counters = []cluster.Counter{{Name: r.names.Intern("slices"), Total: 7}}
		d.Profiles = []cluster.Profile{
			{Name: r.names.Intern("2g"), Milli: 280, Memory: 20 * quantity.GiB, Consumes: []int64{2}},
			{Name: r.names.Intern("3g"), Milli: 430, Memory: 40 * quantity.GiB, Consumes: []int64{3}},
			{Name: r.names.Intern("wide"), Milli: 100, Memory: 10 * quantity.GiB, Consumes: []int64{4}},
		}
	}
	return devices
}

// shape adds a shape that needs one CPU and 1 GiB besides the devices.
func (r *rack) shape(devices ...cluster.DeviceRequest) cluster.ShapeID {
	return r.AddShape(cluster.Shape{Key: chance.Hash(uint64(r.Shapes.Len())), Need: cluster.MakeVector(1000, 1<<30, 1), Devices: devices})
}

// pod adds a waiting pod that asks for the shape.
func (r *rack) pod(shape cluster.ShapeID) cluster.PodID {
	name := fmt.Sprintf("p%d", r.Pods.Len())
	return r.AddPod(cluster.Pod{
		Spec: &cluster.PodSpec{Name: name, UID: name, Shape: shape, Queue: cluster.None, Group: cluster.None, Job: cluster.None}, Phase: cluster.PhaseWaiting,
		Placement: cluster.Nowhere(), LastNode: cluster.None, Intent: cluster.None,
	}, cluster.None)
}

// fill takes parts of devices away.
func (r *rack) fill(node cluster.NodeID, grants ...cluster.Grant) {
	r.Charge(r.pod(r.filler), cluster.Placement{Node: node, Shape: r.filler, Grants: grants}, cluster.PhaseRunning)
}

func whole(n int32) cluster.DeviceRequest {
	return cluster.DeviceRequest{Count: n, Milli: quantity.WholeGPU}
}

func share(milli quantity.MilliGPU, memory quantity.Bytes) cluster.DeviceRequest {
	return cluster.DeviceRequest{Count: 1, Milli: milli, Memory: memory}
}

// with returns a request after an edit.
func with(r cluster.DeviceRequest, edit func(*cluster.DeviceRequest)) cluster.DeviceRequest {
	edit(&r)
	return r
}
