package inventory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube/dra"
	"github.com/headrace-dev/headrace/live/kube/facts"
	"github.com/headrace-dev/headrace/live/share"
)

// What a scenario says of a node is what the scheduler reads back from it.
func TestNodesReadBack(t *testing.T) {
	for _, name := range model.Names() {
		w, err := model.Scenario(name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w.Nodes {
			n := &w.Nodes[i]
			got := facts.NodeOf(inventory.NodeOf(n), inventory.GPUResource, facts.DefaultLevels()).Added
			if got.Name != n.Name || got.CPU != n.CPU || got.Memory != n.Memory || got.Pods != n.Pods || len(got.Devices) != n.GPUs {
				t.Fatalf("%s: node %s came back as %+v", name, n.Name, got)
			}
			for _, d := range got.Devices {
				if d.Model != n.Model || d.Memory/quantity.GiB != n.GPUMemory/quantity.GiB {
					t.Fatalf("%s: a card of node %s is %s with %v, want %s with %v", name, n.Name, d.Model, d.Memory, n.Model, n.GPUMemory)
				}
			}
			if want := strings.TrimRight(fmt.Sprintf("/region-0/%s/%s", n.Zone, n.Rack), "/"); got.Domain != want {
				t.Fatalf("%s: node %s is in %q, want %q", name, n.Name, got.Domain, want)
			}
		}
	}
}

// Fewer or more nodes are mixed as the given ones, and have names of their own.
func TestScaled(t *testing.T) {
	given := []trace.Node{{Name: "a", Rack: "r"}, {Name: "b", Rack: "r"}, {Name: "c", Rack: "s"}, {Name: "d", Rack: "s"}}
	for _, c := range []struct {
		n    int
		want []string
	}{
		{0, []string{"a", "b", "c", "d"}},
		{2, []string{"a", "c"}},
		{4, []string{"a", "b", "c", "d"}},
		{6, []string{"a", "b", "c", "d", "a-1", "b-1"}},
	} {
		var got []string
		for _, n := range inventory.Scaled(slices.Clone(given), c.n) {
			got = append(got, n.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%d of 4 (-want +got):\n%s", c.n, diff)
		}
	}
}

// A share of a card is asked for as a whole one, on the models it may use.
func TestPodOf(t *testing.T) {
	p := inventory.PodOf(&trace.Pod{Name: "p", Kind: "k", CPU: 1500, Memory: quantity.GiB, GPUs: 2, Milli: 400, Models: []string{"L4", "T4"}}, "s", 90*time.Second)
	got := facts.PodOf(p, "s", inventory.GPUResource).Added
	r := got.Request
	if got.Kind != "k" || r.CPU != 1500 || r.Memory != quantity.GiB || len(r.Devices) != 1 || r.Devices[0].Count != 2 || r.Devices[0].Milli != quantity.WholeGPU {
		t.Errorf("the pod reads back as %+v, want 1.5 cores, 1 GiB and 2 whole cards", got)
	}
	if len(r.Selector) != 1 || r.Selector[0][0].Key != facts.ProductLabel || !slices.Equal(r.Selector[0][0].Values, []string{"L4", "T4"}) {
		t.Errorf("its selector is %+v, want the two models", r.Selector)
	}
	if run := p.Annotations[inventory.RunFor]; run != "1m30s" {
		t.Errorf("it runs for %q, want 1m30s", run)
	}
}

// What a scenario says of a node with shared cards is what the scheduler reads back
// from its slice; the kubelet offers none beside it.
func TestDRANodesReadBack(t *testing.T) {
	w, err := model.Scenario("hetero", 0)
	if err != nil {
		t.Fatal(err)
	}
	pools := dra.NewPools()
	for i := range w.Nodes {
		n := &w.Nodes[i]
		node, slice := inventory.DRANodeOf(n)
		if _, offers := node.Status.Allocatable[inventory.GPUResource]; offers {
			t.Fatalf("node %s offers %s beside its slice", n.Name, inventory.GPUResource)
		}
		if slice == nil {
			continue
		}
		pools.Put(slice)
		devices, managed := pools.Devices(n.Name)
		if !managed || len(devices) != n.GPUs {
			t.Fatalf("node %s has %d devices, want %d", n.Name, len(devices), n.GPUs)
		}
		for k, d := range devices {
			if d.World.Model != n.Model || d.World.Memory != n.GPUMemory || d.World.Sharing != cluster.SharingSlices || d.World.NUMA < 0 {
				t.Fatalf("card %d of node %s reads back as %+v", k, n.Name, d.World)
			}
			want := n.GPUs >= 4
			if len(n.Island) > 0 {
				want = n.Island[k] != cluster.None
			}
			if linked := d.World.Island != cluster.None; linked != want {
				t.Fatalf("card %d of %d of node %s is on island %d", k, n.GPUs, n.Name, d.World.Island)
			}
		}
	}
}

// A card with MIG is offered whole and in each of its partitions, seven of the smallest
// at once; other cards are shared as before.
func TestPartsNodesReadBack(t *testing.T) {
	pools := dra.NewPools()
	for _, n := range []trace.Node{
		{Name: "mig", GPUs: 8, Model: "H100", GPUMemory: 80 * quantity.GiB},
		{Name: "plain", GPUs: 2, Model: "T4", GPUMemory: 16 * quantity.GiB},
		{Name: "none"},
	} {
		node, slices := inventory.PartsNodeOf(&n)
		if _, offers := node.Status.Allocatable[inventory.GPUResource]; offers {
			t.Errorf("node %s offers %s beside its slices", n.Name, inventory.GPUResource)
		}
		for _, s := range slices {
			pools.Put(s)
		}
		devices, _ := pools.Devices(n.Name)
		if len(devices) != n.GPUs {
			t.Fatalf("node %s has %d cards, want %d", n.Name, len(devices), n.GPUs)
		}
		for _, d := range devices {
			profiles, smallest := len(d.World.Profiles), 0
			for _, p := range d.World.Profiles {
				if p.Consumes["compute-slices"] == 1 && p.Consumes["media-engines"] == 0 && p.Memory == n.GPUMemory/8 {
					smallest++
				}
			}
			want := [3]int{0, 0, int(cluster.SharingSlices)}
			if n.Name == "mig" {
				want = [3]int{25, 7, int(cluster.SharingPartition)}
			}
			if got := [3]int{profiles, smallest, int(d.World.Sharing)}; got != want {
				t.Errorf("node %s: a card has %d parts, %d of the smallest, shared as %d; want %v", n.Name, got[0], got[1], got[2], want)
			}
		}
	}
}

// A share is asked for by annotation, and admission has nothing against it.
func TestDRAPodOf(t *testing.T) {
	p := inventory.DRAPodOf(&trace.Pod{Name: "p", GPUs: 1, Milli: 460, CPU: 1000}, "s", time.Second)
	wishes, faults := share.Of(p)
	if len(faults) > 0 || len(wishes) != 1 || wishes[0].Ask.Milli != 460 || wishes[0].Ask.Count != 1 {
		t.Errorf("the pod wishes %+v, with faults %v", wishes, faults)
	}
	if _, asks := p.Spec.Containers[0].Resources.Requests[inventory.GPUResource]; asks {
		t.Error("the pod asks for whole cards too")
	}
}

// A pod of a kind that says how large image and weights are runs the one and mounts the
// other, and tells simulated nodes their sizes; what cannot be read of these is left out.
func TestImagesOfPods(t *testing.T) {
	load := trace.Pod{Name: "p", Kind: "Llama-8B", Use: trace.Use{Image: 5, Weights: 7}}
	p := inventory.PodOf(&load, "headrace", time.Minute)
	image, weights := "headrace.invalid/llama-8b/image:latest", "headrace.invalid/llama-8b/weights:latest"
	if got, want := facts.ImagesOf(p), []string{weights, image}; !slices.Equal(got, want) {
		t.Errorf("it needs %v, want %v", got, want)
	}
	if diff := cmp.Diff(inventory.ImageSizesOf(p), map[string]int64{image: 5, weights: 7}); diff != "" {
		t.Errorf("sizes, - got, + want:\n%s", diff)
	}
	p.Annotations[inventory.ImageSizes] = "a=1Gi, b=-1,c=much,=5,d"
	if diff := cmp.Diff(inventory.ImageSizesOf(p), map[string]int64{"docker.io/library/a:latest": 1 << 30}); diff != "" {
		t.Errorf("sizes, - got, + want:\n%s", diff)
	}
}
