package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/inventory"
	"github.com/headrace-dev/headrace/live/kube/dra"
)

// mig creates a node of H100s that are offered whole and in MIG partitions, with the
// classes of both.
func (r *rig) mig(name string, cards int) {
	r.Helper()
	ctx := context.Background()
	for _, class := range []*resourceapi.DeviceClass{dra.ClassOf(""), dra.PartClassOf()} {
		if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			r.ok(err)
		}
	}
	r.cards(name, 0, func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = name + "-none" }) // what is cleared in the end
	_, published := inventory.PartsNodeOf(&trace.Node{Name: name, GPUs: cards, Model: "H100", GPUMemory: 80 * quantity.GiB})
	for _, s := range published {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
		r.ok(err)
	}
}

// profile asks for MIG partitions of one profile.
func profile(name string, count int64) resourceapi.ResourceClaimSpec {
	return asking(count, func(q *resourceapi.ExactDeviceRequest) {
		q.DeviceClassName = dra.PartClass
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].profile == %q", dra.Driver, name),
		}}}
	})
}

// published returns all slices.
func (r *rig) published() []*resourceapi.ResourceSlice {
	r.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
	r.ok(err)
	var out []*resourceapi.ResourceSlice
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// countersHold fails where the devices of all claims take more of a counter than there
// is.
func (r *rig) countersHold() {
	r.Helper()
	left := make(map[string]resource.Quantity)
	devices := make(map[string]*resourceapi.Device)
	for _, s := range r.published() {
		for _, set := range s.Spec.SharedCounters {
			for name, c := range set.Counters {
				left[s.Spec.Pool.Name+"/"+set.Name+"/"+name] = c.Value.DeepCopy()
			}
		}
		for i := range s.Spec.Devices {
			devices[s.Spec.Pool.Name+"/"+s.Spec.Devices[i].Name] = &s.Spec.Devices[i]
		}
	}
	for _, c := range r.claims() {
		if c.Status.Allocation == nil {
			continue
		}
		for _, result := range c.Status.Allocation.Devices.Results {
			for _, taken := range devices[result.Pool+"/"+result.Device].ConsumesCounters {
				for name, amount := range taken.Counters {
					key := result.Pool + "/" + taken.CounterSet + "/" + name
					sum := left[key]
					sum.Sub(amount.Value)
					if left[key] = sum; sum.Sign() < 0 {
						r.Errorf("counter %s is overdrawn by %s, by claim %s for one", key, sum.String(), c.Name)
					}
				}
			}
		}
	}
}

// classes are those of cards and of parts, for upstream's allocator.
type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{dra.ClassOf(""), dra.PartClassOf()}, nil
}

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if name == dra.PartClass {
		return dra.PartClassOf(), nil
	}
	return dra.ClassOf(""), nil
}

// upstreamAgrees asks kube-scheduler's allocator about all claims: each that is
// allocated is possible on its devices beside the others, and none that waits is.
func (r *rig) upstreamAgrees(node string) {
	r.Helper()
	all := r.claims()
	for i := range all {
		own := &all[i]
		state := structured.AllocatedState{
			AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity: structured.NewConsumedCapacityCollection(),
		}
		given := sets.New[string]()
		for k := range all {
			if all[k].Status.Allocation == nil {
				continue
			}
			for _, result := range all[k].Status.Allocation.Devices.Results {
				if k == i {
					given.Insert(result.Device)
				} else {
					state.AllocatedDevices.Insert(structured.MakeDeviceID(result.Driver, result.Pool, result.Device))
				}
			}
		}
		published := r.published()
		for _, s := range published {
			var devices []resourceapi.Device
			for _, d := range s.Spec.Devices {
				if given.Len() == 0 || given.Has(d.Name) || state.AllocatedDevices.Has(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name)) {
					devices = append(devices, d)
				}
			}
			s.Spec.Devices = devices
		}
		features := structured.Features{ConsumableCapacity: true, PrioritizedList: true, DeviceTaints: true, PartitionableDevices: true}
		a, err := structured.NewAllocator(r.Context(), features, state, classes{}, published, cel.NewCache(8, cel.Features{EnableConsumableCapacity: true}))
		r.ok(err)
		asked := own.DeepCopy()
		asked.Status = resourceapi.ResourceClaimStatus{}
		results, err := a.Allocate(r.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, []*resourceapi.ResourceClaim{asked})
		r.ok(err)
		if possible := len(results) == 1; possible != (own.Status.Allocation != nil) {
			r.Errorf("claim %s: upstream finds room: %v; it is given %v", own.Name, possible, sets.List(given))
		}
	}
}

// given lists the devices that are given, sorted.
func (r *rig) given() string {
	out := sets.New[string]()
	for _, c := range r.claims() {
		if c.Status.Allocation != nil {
			for _, result := range c.Status.Allocation.Devices.Results {
				out.Insert(result.Device)
			}
		}
	}
	return strings.Join(sets.List(out), " ")
}

// Of two cards in MIG partitions exactly as many are given as the counters allow; a whole
// card waits, with its reason, until all parts of one have left; a scheduler that
// starts in between goes on from there. kube-scheduler's allocator agrees throughout.
func TestPartsOfCards(t *testing.T) {
	r := newRig(t)
	r.mig("n", 2)
	r.template("small", profile("1g.10gb", 1))
	r.template("half", profile("3g.40gb", 2))
	r.template("card", asking(1))
	_, stop := r.schedule()
	var pods []*corev1.Pod
	for i := range 17 {
		pods = append(pods, podOf(fmt.Sprint("small-", i), 0, from("small")))
	}
	r.create(pods...)
	r.eventually("14 small partitions are given", func() string {
		if n := r.sound(); n != 14 || r.running() != 14 {
			return fmt.Sprintf("%d are given, %d pods run", n, r.running())
		}
		return ""
	})
	r.countersHold()
	r.create(podOf("whole", 0, from("card")))
	r.waits("whole", "needs 1 idle device on one node, the most idle is 0")
	for _, p := range r.pods() {
		if p.Spec.NodeName == "" && p.Name != "whole" {
			r.waits(p.Name, "needs room for 1 partition on one node, there is room for 0 (too little is left of ")
		}
	}
	r.upstreamAgrees("n")
	stop()
	// Six leave while no scheduler is there, so that three others have room and no card
	// is free.
	gone := 0
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" && gone < 6 {
			gone++
			r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), p.Name, *metav1.NewDeleteOptions(0)))
		}
	}
	_, stop = r.schedule()
	defer stop()
	r.eventually("the other three are given a partition", func() string {
		if n := r.sound(); n != 11 || r.running() != 11 {
			return fmt.Sprintf("%d are given, %d pods run: %s", n, r.running(), r.given())
		}
		return ""
	})
	r.countersHold()
	r.waits("whole", "needs 1 idle device")
	r.upstreamAgrees("n")
	for _, p := range r.pods() {
		if p.Name != "whole" {
			r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), p.Name, *metav1.NewDeleteOptions(0)))
		}
	}
	r.bound("whole")
	// Two halves of one card for one pod, beside the whole card.
	r.create(podOf("halves", 0, from("half")))
	r.bound("halves")
	r.eventually("a card and two halves of the other are given", func() string {
		if n := r.sound(); n != 3 {
			return fmt.Sprintf("%d devices are given: %s", n, r.given())
		}
		return ""
	})
	r.countersHold()
	r.upstreamAgrees("n")
}
