package kube

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// crowd puts low pods on two nodes that hold all of them, and a group of high ones in
// line that needs both.
func (e *evictor) crowd() {
	for i := range 2 {
		e.putNode(fmt.Sprint("n-", i), 16, 2, "", true)
		e.pod(fmt.Sprint("low-", i), 0, 2)
	}
	e.settleAll()
	e.putOwnGroup("g", 2)
	for i := range 2 {
		e.createMember(fmt.Sprint("g-", i), "g", 2)
		priority := int32(10)
		e.change(fmt.Sprint("ns/g-", i), func(p *corev1.Pod) { p.Spec.Priority = &priority })
	}
	e.tellAll()
	e.think()
	if len(e.flying) != 0 || len(e.leaving) != 2 {
		e.Fatalf("%d binds and evictions %+v, want one on each node", len(e.flying), e.leaving)
	}
	e.carry(false)
	e.carry(false)
	e.tellAll()
}

// A group whose room is left node by node is bound when all of it has been, in one
// cycle.
func TestHeldGroupIsBoundTogether(t *testing.T) {
	e := newEvictor(t)
	e.crowd()
	e.deletePod("ns/low-1")
	e.pod("late", 9, 2)
	e.tellAll()
	e.think()
	e.balanced("half of the room is left")
	if len(e.flying) != 0 || len(e.leaving) != 0 {
		t.Fatalf("with half of the room: binds %+v, evictions %+v; want none", e.flying, e.leaving)
	}
	e.deletePod("ns/low-0")
	e.tellAll()
	e.think()
	e.balanced("all of the room is left")
	if len(e.flying) != 2 || e.flying[0].Node == e.flying[1].Node {
		t.Fatalf("binds %+v, want both members, on a node each", e.flying)
	}
	e.settleAll()
	e.equal()
	if len(e.books.holds)+len(e.books.bundles.size) != 0 {
		t.Errorf("holds %v, bundles %v; want none", e.books.holds, e.books.bundles.size)
	}
}

// When a member that holds room goes, the others give theirs back, and others have it.
func TestHeldGroupLosesAMember(t *testing.T) {
	e := newEvictor(t)
	e.crowd()
	e.deletePod("ns/g-0")
	e.deletePod("ns/low-0")
	e.deletePod("ns/low-1")
	e.pod("other", 0, 2)
	e.pod("more", 0, 2)
	e.tellAll()
	e.think()
	e.balanced("a member is gone")
	if len(e.flying) != 2 || e.flying[0].Key[:4] == "ns/g" || e.flying[1].Key[:4] == "ns/g" {
		t.Errorf("binds %+v, want those of other and more", e.flying)
	}
	if len(e.books.holds)+len(e.books.bundles.size) != 0 {
		t.Errorf("holds %v, bundles %v; want none", e.books.holds, e.books.bundles.size)
	}
	if len(e.leaving) != 1 || e.leaving[0].Node != "" || e.leaving[0].Holders[0].Key != "ns/g-1" {
		t.Errorf("evictions %+v, want the node on g-1 taken back", e.leaving)
	}
}

// picky refuses some pods.
type picky struct {
	Checker
	refuses  map[string]bool
	reserved map[string]bool
}

func (c *picky) Reserve(key, _ string) (func(context.Context) error, error) {
	if c.refuses[key] {
		return nil, errVeto
	}
	c.reserved[key] = true
	return nil, nil
}

func (c *picky) Release(key string) { delete(c.reserved, key) }

// A group of which the last check refuses a member is not bound at all, unless enough
// are left, or some of it runs.
func TestVetoOfAMember(t *testing.T) {
	w := newTruth(t)
	c := &picky{reserved: make(map[string]bool)}
	o := owner{Scheduler: New(Config{}), books: w.books, checker: c}
	for i := range 2 {
		w.putNode(fmt.Sprint("n-", i), 16, 4, "", true)
	}
	w.putOwnGroup("g", 3)
	for i := range 4 {
		w.createMember(fmt.Sprint("g-", i), "g", 1)
	}
	w.createPod("single", DefaultName, 1, 1)
	w.tellAll()
	vetted := func(refused ...string) []string {
		t.Helper()
		c.refuses = make(map[string]bool)
		for _, key := range refused {
			c.refuses[key] = true
		}
		w.pass(vetoFor)
		w.books.expire()
		w.flying = o.vet(w.books.decide(decision.CycleArrival))
		w.balanced("the last check")
		var keys []string
		for i := range w.flying {
			keys = append(keys, w.flying[i].Key)
		}
		slices.Sort(keys)
		return keys
	}
	if got := vetted("ns/g-0", "ns/g-1"); !slices.Equal(got, []string{"ns/single"}) {
		t.Fatalf("with two of four refused %v go, want single alone", got)
	}
	if got := slices.Sorted(maps.Keys(c.reserved)); !slices.Equal(got, []string{"ns/single"}) {
		t.Errorf("reserved %v, want single alone", got)
	}
	w.settleAll()
	if got := vetted("ns/g-2"); !slices.Equal(got, []string{"ns/g-0", "ns/g-1", "ns/g-3"}) {
		t.Fatalf("with one of four refused %v go, want the others", got)
	}
	w.settleAll()
	w.deletePod("ns/g-0")
	w.deletePod("ns/g-1")
	for i := 4; i < 6; i++ {
		w.createMember(fmt.Sprint("g-", i), "g", 1)
	}
	w.tellAll()
	if got := vetted("ns/g-2", "ns/g-5"); !slices.Equal(got, []string{"ns/g-4"}) {
		t.Errorf("of a group that has started %v go, want g-4", got)
	}
}

// Whatever happens to groups that others give way to: no member of one that has not
// started is bound without enough others, the books balance, and nobody is left with
// room that never comes.
func TestHeldGroupsFollowTheTruth(t *testing.T) {
	held := 0
	for seed := range int64(40) {
		e, r := newEvictor(t), rand.New(rand.NewSource(seed))
		for i := range 3 {
			e.putNode(fmt.Sprint("n-", i), 16, 4, "", true)
		}
		for range 250 {
			e.pass(time.Duration(r.Intn(400)) * time.Millisecond)
			switch name := fmt.Sprint("g-", r.Intn(3)); r.Intn(9) {
			case 0:
				e.putOwnGroup(name, int64(1+r.Intn(3)))
			case 1, 2:
				if pod := fmt.Sprint("p-", r.Intn(20)); e.pods["ns/"+pod] == nil {
					e.createMember(pod, name, 1+r.Intn(3))
					priority := int32(10 * r.Intn(3))
					e.change("ns/"+pod, func(p *corev1.Pod) { p.Spec.Priority = &priority })
				}
			case 3:
				if pod := fmt.Sprint("s-", r.Intn(20)); e.pods["ns/"+pod] == nil {
					e.pod(pod, int32(5*r.Intn(3)), 1+r.Intn(4))
				}
			case 4:
				if len(e.leaving) > 0 {
					e.carry(r.Intn(5) == 0)
				}
			case 5:
				for _, key := range slices.Sorted(maps.Keys(e.pods)) {
					if e.pods[key].DeletionTimestamp != nil || r.Intn(20) == 0 {
						e.deletePod(key)
						break
					}
				}
			case 6:
				e.books.resume()
				e.decideWhole()
			default:
				e.tell()
				if len(e.flying) > 0 {
					e.land(r.Intn(len(e.flying)), r.Intn(4) == 0)
				}
			}
			e.leaving = append(e.leaving, e.books.takeEvictions()...)
			held += len(e.books.bundles.size)
			e.balanced(fmt.Sprint("a step of seed ", seed))
		}
		for range 50 {
			e.finishAll()
			e.pass(pauseMost)
			e.books.resume()
			e.think()
		}
		e.tellAll()
		e.equal()
		if len(e.books.holds)+len(e.books.bundles.size)+len(e.leaving) != 0 {
			t.Errorf("seed %d: in the end holds %v, bundles %v, evictions %+v; want none", seed, e.books.holds, e.books.bundles.size, e.leaving)
		}
	}
	if held == 0 {
		t.Error("no group held room together: nothing was shown")
	}
}

// Where no driver says what is linked, the label of a node says that all its cards
// are, from when it is there.
func TestLinkedCards(t *testing.T) {
	w := newTruth(t)
	for i := range 2 {
		w.books.sliceSeen(&resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: ptr.To(fmt.Sprint("n-", i)), Pool: resourceapi.ResourcePool{Name: fmt.Sprint("n-", i), ResourceSliceCount: 1},
				Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
			},
		})
	}
	islands := func(labels map[string]string) (out []int32) {
		w.putLabelled("n-0", 0, labels)
		w.putLabelled("n-1", 0, nil)
		for len(w.untold) > 0 {
			w.tell()
		}
		v := w.books.world.View()
		for _, name := range []string{"n-0", "n-1"} {
			id, _ := w.books.world.Node(name)
			for k := range v.Node(id).Spec.DeviceCount {
				out = append(out, v.DeviceOf(v.Node(id), k).Spec.Island)
			}
		}
		return out
	}
	if got := islands(nil); !slices.Equal(got, []int32{cluster.None, cluster.None, cluster.None, cluster.None}) {
		t.Errorf("without the label: islands %v, want none", got)
	}
	if got := islands(map[string]string{facts.IslandLabel: "yes"}); !slices.Equal(got, []int32{0, 0, cluster.None, cluster.None}) {
		t.Errorf("with the label on n-0: islands %v, want one there", got)
	}
}
