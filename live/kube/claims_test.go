package kube

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/dra"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// drawTruth is a truth with devices of a driver, and claims.
type drawTruth struct {
	*truth
	slices map[string][]*resourceapi.ResourceSlice // by node
	claims map[string]*resourceapi.ResourceClaim
	shares int
}

func newDrawTruth(t *testing.T, nodes, cards int) *drawTruth {
	w := &drawTruth{truth: newTruth(t), slices: make(map[string][]*resourceapi.ResourceSlice), claims: make(map[string]*resourceapi.ResourceClaim)}
	w.books.classSeen(dra.Class, dra.ClassOf(""))
	for i := range nodes {
		name := fmt.Sprint("n-", i)
		var list []world.Device
		for k := range cards {
			list = append(list, world.Device{Model: fmt.Sprint("M", k%2), Memory: 80 * quantity.GiB, Island: int32(k / 2), NUMA: int32(k / 2), Sharing: cluster.SharingSlices})
		}
		w.addNode(name, dra.SliceOf(name, list))
	}
	return w
}

// addNode adds a node with what drivers publish of it.
func (w *drawTruth) addNode(name string, published ...*resourceapi.ResourceSlice) {
	w.slices[name] = published
	for _, s := range published {
		w.books.sliceSeen(s)
	}
	w.putNode(name, 1000, 0, "", true)
}

// tellClaim has the informers tell of a claim as it is now.
func (w *drawTruth) tellClaim(name string) {
	c := w.claims[name]
	if c == nil {
		return
	}
	w.untold = append(w.untold, func() { w.books.claimSeen(c) })
}

// write stores a claim under a new version.
func (w *drawTruth) write(c *resourceapi.ResourceClaim) {
	c.ResourceVersion = w.stamp()
	w.claims[c.Namespace+"/"+c.Name] = c
	w.tellClaim(c.Namespace + "/" + c.Name)
}

func (w *drawTruth) createClaim(name string, spec resourceapi.ResourceClaimSpec) {
	w.uids++
	w.write(&resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("claim-", w.uids))}, Spec: spec})
}

// createUser creates a pod that needs claims.
func (w *drawTruth) createUser(name string, claims ...string) {
	w.uids++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(fmt.Sprint("uid-", w.uids))},
		Spec:       corev1.PodSpec{SchedulerName: DefaultName, Containers: []corev1.Container{{}}},
	}
	for i := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprint("c-", i), ResourceClaimName: &claims[i]})
	}
	w.writePod(p)
}

// drawAll writes the claims of a bind as the actor does: with the version as a
// precondition, and reservations on what there is.
func (w *drawTruth) drawAll(b *Bind) (written []*resourceapi.ResourceClaim, err error) {
	for i := range b.Draws {
		d := &b.Draws[i]
		if len(d.Uses) > 0 {
			written = append(written, w.makeFor(b, d))
			continue
		}
		name := d.Claim.Namespace + "/" + d.Claim.Name
		now := w.claims[name]
		if now == nil || d.Result != nil && now.ResourceVersion != d.Claim.ResourceVersion || d.Result == nil && now.Status.Allocation == nil {
			return written, errConflict
		}
		now = now.DeepCopy()
		if d.Result != nil {
			now.Status.Allocation = d.Result.DeepCopy()
			dra.Name(now.Status.Allocation, func() types.UID { w.shares++; return types.UID(fmt.Sprint("share-", w.shares)) })
		}
		_, name, _ = strings.Cut(b.Key, "/")
		now.Status.ReservedFor = append(now.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(b.UID)})
		w.write(now)
		written = append(written, now)
	}
	return written, nil
}

// land carries out the i-th bind in flight, or loses it before or after its claims.
func (w *drawTruth) land(i, fails int) {
	b := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	if fails == 1 {
		w.books.outcome(&Outcome{Bind: b, Err: errConflict})
		return
	}
	written, err := w.drawAll(&b)
	if err == nil {
		err = errConflict
		if fails == 0 {
			err = w.bindPod(b.Key, b.UID, b.Node)
		}
	}
	if err != nil {
		var gone []*resourceapi.ResourceClaim
		for k := len(written) - 1; k >= 0; k-- {
			c := written[k]
			if len(b.Draws[k].Uses) > 0 {
				w.deleteClaim(c)
				gone, written = append(gone, c), slices.Delete(written, k, k+1)
				continue
			}
			back := c.DeepCopy()
			back.Status.ReservedFor = slices.DeleteFunc(back.Status.ReservedFor, func(u resourceapi.ResourceClaimConsumerReference) bool { return string(u.UID) == b.UID })
			if len(back.Status.ReservedFor) == 0 {
				back.Status.Allocation = nil
			}
			w.write(back)
			written[k] = back
		}
		w.books.outcome(&Outcome{Bind: b, Err: err, Claims: written, Gone: gone})
		return
	}
	w.books.outcome(&Outcome{Bind: b, Claims: written})
}

// makeFor makes the claim behind an extended resource, and tells the pod.
func (w *drawTruth) makeFor(b *Bind, d *Draw) *resourceapi.ResourceClaim {
	w.uids++
	c := d.Claim.DeepCopy()
	c.Name, c.UID = fmt.Sprint(c.GenerateName, w.uids), types.UID(fmt.Sprint("claim-", w.uids))
	c.Status.Allocation = d.Result.DeepCopy()
	dra.Name(c.Status.Allocation, func() types.UID { w.shares++; return types.UID(fmt.Sprint("share-", w.shares)) })
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: c.OwnerReferences[0].Name, UID: types.UID(b.UID)}}
	w.write(c)
	if p := w.pods[b.Key]; p != nil && string(p.UID) == b.UID {
		p = p.DeepCopy()
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{RequestMappings: d.Uses, ResourceClaimName: c.Name}
		w.writePod(p)
	}
	return c
}

func (w *drawTruth) deleteClaim(c *resourceapi.ResourceClaim) {
	name := c.Namespace + "/" + c.Name
	delete(w.claims, name)
	w.untold = append(w.untold, func() { w.books.claimGone(name, c.UID) })
}

// leave deletes a pod; its claims are given back by the controller, as in a cluster.
func (w *drawTruth) leave(key string) {
	p := w.pods[key]
	if p == nil {
		return
	}
	w.deletePod(key)
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		c := w.claims[name].DeepCopy()
		users := len(c.Status.ReservedFor)
		c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(u resourceapi.ResourceClaimConsumerReference) bool { return u.UID == p.UID })
		if len(c.Status.ReservedFor) < users {
			if len(c.Status.ReservedFor) == 0 {
				c.Status.Allocation = nil
			}
			w.write(c)
		}
		if owner := metav1.GetControllerOf(c); owner != nil && owner.UID == p.UID {
			w.deleteClaim(c)
		}
	}
}

// taken is what all allocations but one hold, as upstream's allocator takes it.
func (w *drawTruth) taken(except string) structured.AllocatedState {
	out := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.NewConsumedCapacityCollection(),
	}
	for name, c := range w.claims { // order: sets and sums
		if name == except || c.Status.Allocation == nil {
			continue
		}
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			if r.ShareID == nil {
				out.AllocatedDevices.Insert(id)
				continue
			}
			out.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			out.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
	return out
}

type classes struct{}

func (classes) List() ([]*resourceapi.DeviceClass, error) {
	return []*resourceapi.DeviceClass{dra.ClassOf(""), anything()}, nil
}

func (classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if name == dra.Class {
		return dra.ClassOf(""), nil
	}
	return anything(), nil
}

var expressions = cel.NewCache(64, cel.Features{EnableConsumableCapacity: true}) // const: a cache of pure values

// possible asks upstream's allocator whether a claim can be allocated on a node, with
// the devices that only names, or with all where that is nil.
func (w *drawTruth) possible(name, node string, only []string, state structured.AllocatedState) bool {
	w.Helper()
	var published []*resourceapi.ResourceSlice
	for _, s := range w.slices[node] {
		s = s.DeepCopy()
		held := func(d resourceapi.Device) bool { // by others: it takes counters, and it is not free
			return state.AllocatedDevices.Has(structured.MakeDeviceID(s.Spec.Driver, s.Spec.Pool.Name, d.Name))
		}
		if only != nil {
			s.Spec.Devices = slices.DeleteFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return !slices.Contains(only, d.Name) && !held(d) })
		}
		published = append(published, s)
	}
	features := structured.Features{ConsumableCapacity: true, PrioritizedList: true, DeviceTaints: true, PartitionableDevices: true}
	a, err := structured.NewAllocator(w.Context(), features, state, classes{}, published, expressions)
	if err != nil {
		w.Fatal(err)
	}
	c := w.claims[name].DeepCopy()
	c.Status = resourceapi.ResourceClaimStatus{}
	results, err := a.Allocate(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, []*resourceapi.ResourceClaim{c})
	if err != nil {
		w.Fatal(err)
	}
	return len(results) == 1
}

// check asks upstream about everything that was allocated, and about what waits.
func (w *drawTruth) check() {
	w.Helper()
	if err := w.books.audit(); err != nil {
		w.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		c := w.claims[name]
		if c.Status.Allocation == nil {
			continue
		}
		results := c.Status.Allocation.Devices.Results
		var only []string
		for _, r := range results {
			only = append(only, r.Device)
		}
		if !w.possible(name, results[0].Pool, only, w.taken(name)) {
			w.Fatalf("claim %s was given %v, which upstream refuses beside the others", name, results)
		}
	}
}

// settleClaimsAll lets everything arrive.
func (w *drawTruth) settleClaimsAll() {
	for range 30 {
		for len(w.untold) > 0 {
			w.tell()
		}
		for len(w.flying) > 0 {
			w.land(0, 0)
		}
		w.pass(pauseMost + pauseMost/4)
		w.books.resume()
		w.decide()
	}
	for len(w.untold) > 0 {
		w.tell()
	}
	w.books.settleClaims()
}

// randomSpec draws what a claim asks for.
func randomSpec(from *rand.Rand) resourceapi.ResourceClaimSpec {
	q := &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1 + from.Int63n(2)}
	if from.Intn(3) > 0 {
		q.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			dra.ComputeName: *resource.NewQuantity(50*(1+from.Int63n(18)), resource.DecimalSI),
			dra.MemoryName:  *resource.NewQuantity(int64(quantity.GiB)*from.Int63n(50), resource.BinarySI),
		}}
	}
	if from.Intn(4) == 0 {
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes[%q].productName == "M%d"`, dra.Driver, from.Intn(2)),
		}}}
	}
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "a", Exactly: q}}}}
	if from.Intn(4) == 0 {
		spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(dra.IslandMatch)}}
	}
	return spec
}

// Whatever comes in whatever order, upstream's allocator agrees that each allocation
// is possible beside the others; and where all has come to rest, a claim that waits
// finds no room by its rules either.
func TestAllocationsAgainstUpstream(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			from := rand.New(rand.NewSource(int64(seed)))
			w := newDrawTruth(t, 1+from.Intn(3), 4)
			extended := string(DefaultGPU)
			w.books.classSeen(dra.Class, dra.ClassOf(extended))
			for i := range 120 {
				switch from.Intn(13) {
				case 12:
					w.createPod(fmt.Sprint("p-", i), DefaultName, 1, 1+from.Intn(2))
				case 0, 1, 2:
					name := fmt.Sprint("c-", i)
					w.createClaim(name, randomSpec(from))
					w.createUser(fmt.Sprint("p-", i), name)
				case 3:
					if i > 3 { // another user of some claim
						w.createUser(fmt.Sprint("q-", i), fmt.Sprint("c-", from.Intn(i)))
					}
				case 4:
					w.leave(fmt.Sprintf("ns/%s-%d", []string{"p", "q"}[from.Intn(2)], from.Intn(i+1)))
				case 5, 6:
					w.decide()
				case 7, 8:
					if len(w.flying) > 0 {
						w.land(from.Intn(len(w.flying)), from.Intn(3))
					}
				case 9:
					w.pass(pauseFirst + pauseFirst/4)
					w.books.resume()
				default:
					w.tell()
				}
				w.check()
			}
			w.settleClaimsAll()
			w.check()
			w.nobodyWaitsForNothing()
		})
	}
}

// nobodyWaitsForNothing fails where upstream finds room for a claim that waits.
func (w *drawTruth) nobodyWaitsForNothing() {
	w.Helper()
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[key]
		if p.Spec.NodeName != "" {
			continue
		}
		if len(p.Spec.ResourceClaims) == 0 {
			continue
		}
		name := "ns/" + *p.Spec.ResourceClaims[0].ResourceClaimName
		c := w.claims[name]
		if c == nil {
			continue
		}
		if c.Status.Allocation != nil {
			w.Errorf("pod %s waits although its claim is allocated: %s", key, w.books.pods[key].why.sentence)
			continue
		}
		for node := range w.slices { // order: each is judged alone
			if w.possible(name, node, nil, w.taken("")) {
				w.Errorf("pod %s waits (%s); upstream finds room for its claim on %s", key, w.books.pods[key].why.sentence, node)
			}
		}
	}
}

// A pod that goes while its claim is being written does not free the devices before
// it is known what became of the write.
func TestDevicesOfALostWriteStayHeld(t *testing.T) {
	w := newDrawTruth(t, 1, 1)
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}},
	}}}
	w.createClaim("first", spec)
	w.createUser("first", "first")
	w.createClaim("second", spec)
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
	if len(w.flying) != 1 {
		t.Fatalf("%d binds fly, want 1", len(w.flying))
	}
	w.deletePod("ns/first")
	w.createUser("second", "second")
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
	if len(w.flying) != 1 {
		t.Fatal("the card was given twice while the first write was on its way")
	}
	w.land(0, 0)
	w.check()
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
	if len(w.flying) != 1 || w.flying[0].Key != "ns/second" {
		t.Fatalf("after the first write was taken back %v fly, want the second pod", w.flying)
	}
	w.land(0, 0)
	w.check()
	if w.claims["ns/second"].Status.Allocation == nil {
		t.Error("the second claim is not allocated")
	}
}

// A claim that another scheduler allocated is charged, and released when it is given
// back; a node that comes later finds its claims.
func TestForeignAllocations(t *testing.T) {
	w := newDrawTruth(t, 1, 2)
	foreign := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "foreign", UID: "f"}}
	foreign.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "x", Driver: dra.Driver, Pool: "n-0", Device: "gpu-1"},
	}}}
	w.write(foreign)
	for len(w.untold) > 0 {
		w.tell()
	}
	held := func() (n int) {
		w.books.settleClaims()
		v := w.books.world.View()
		for i := range v.Devices.Len() {
			if v.Device(cluster.DeviceID(i)).Holders > 0 && v.Node(v.Device(cluster.DeviceID(i)).Node).Life != cluster.LifeOff {
				n++
			}
		}
		return n
	}
	if n := held(); n != 1 {
		t.Fatalf("%d devices are held, want 1", n)
	}
	w.books.nodeGone("n-0")
	if n := held(); n != 0 {
		t.Fatalf("without the node %d devices are held", n)
	}
	w.books.nodeSeen(facts.NodeOf(w.nodes["n-0"], DefaultGPU, facts.DefaultLevels()))
	if n := held(); n != 1 {
		t.Fatalf("with the node back %d devices are held, want 1", n)
	}
	back := foreign.DeepCopy()
	back.Status.Allocation = nil
	w.write(back)
	for len(w.untold) > 0 {
		w.tell()
	}
	if n := held(); n != 0 {
		t.Errorf("after it was given back %d devices are held", n)
	}
	w.books.claimGone("ns/foreign", "f")
	w.books.settleClaims()
	if len(w.books.draws.claims) != 0 {
		t.Errorf("%d claims are remembered", len(w.books.draws.claims))
	}
}

// An allocation that its only pod cannot follow is given back after a while, and made
// where there is room; one that somebody uses stays.
func TestStuckAllocationIsGivenBack(t *testing.T) {
	w := newDrawTruth(t, 2, 1)
	spec := resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "a", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}},
	}}}
	w.createClaim("c", spec)
	w.createUser("p", "c")
	for len(w.untold) > 0 {
		w.tell()
	}
	w.decide()
	node := w.flying[0].Node
	if _, err := w.drawAll(&w.flying[0]); err != nil { // and then the scheduler stops
		t.Fatal(err)
	}
	w.books.outcome(&Outcome{Bind: w.flying[0], Err: errConflict, Claims: []*resourceapi.ResourceClaim{w.claims["ns/c"]}})
	w.flying = nil
	w.putNode(node, 1000, 0, "", false)
	wait := func(d time.Duration) []Remark {
		for len(w.untold) > 0 {
			w.tell()
		}
		w.pass(d)
		w.books.resume()
		w.decide()
		return w.books.releases()
	}
	if got := wait(releaseAfter / 2); len(got) != 0 {
		t.Fatalf("it is given back at once: %v", got)
	}
	got := wait(releaseAfter)
	if len(got) != 1 || got[0].Key != "ns/p" || got[0].release.Name != "c" {
		t.Fatalf("given back %v, want the claim", got)
	}
	used := w.claims["ns/c"].DeepCopy()
	used.Status.ReservedFor = append(used.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "other", UID: "o"})
	w.write(used)
	if got := wait(2 * releaseAfter); len(got) != 0 {
		t.Fatalf("it is given back although somebody uses it: %v", got)
	}
	back := w.claims["ns/c"].DeepCopy()
	back.Status = resourceapi.ResourceClaimStatus{}
	w.write(back)
	wait(0)
	if len(w.flying) != 1 || w.flying[0].Node == node {
		t.Errorf("%v fly, want a bind to the other node", w.flying)
	}
}

// Pods that ask for GPUs as an extended resource get them from the kubelet's plugin
// where it offers some, and else from a driver, by a claim that is made for them.
func TestExtendedResourceFromDriver(t *testing.T) {
	w := newDrawTruth(t, 1, 4)
	w.putNode("plugin", 1000, 2, "", true)
	w.books.classSeen(dra.Class, dra.ClassOf(string(DefaultGPU)))
	for i := range 4 {
		w.createPod(fmt.Sprint("p-", i), DefaultName, 1, 2)
	}
	w.settleClaimsAll()
	w.check()
	at := make(map[string]int)
	for _, p := range w.pods {
		at[p.Spec.NodeName]++
		made := p.Status.ExtendedResourceClaimStatus != nil
		if made != (p.Spec.NodeName == "n-0") {
			t.Errorf("pod %s on %q has the claim %+v", p.Name, p.Spec.NodeName, p.Status.ExtendedResourceClaimStatus)
		}
	}
	if at["plugin"] != 1 || at["n-0"] != 2 || at[""] != 1 || len(w.claims) != 2 {
		t.Fatalf("pods by node %v with %d claims, want one on the plugin's, two on the driver's, one waiting", at, len(w.claims))
	}
	for key, p := range w.pods {
		if p.Spec.NodeName == "n-0" {
			w.leave(key)
			break
		}
	}
	w.settleClaimsAll()
	w.check()
	for key, p := range w.pods {
		if p.Spec.NodeName == "" {
			t.Errorf("pod %s waits although another has left: %s", key, w.books.pods[key].why.sentence)
		}
	}
}

// Containers that have ended lend their devices to those behind them.
func TestExtendedClaim(t *testing.T) {
	got, uses := extendedClaim("ns", "p", "u", "class", "gpu", []facts.Asked{
		{Container: "small", Index: 0, Short: true, Count: 1},
		{Container: "big", Index: 1, Order: 2, Short: true, Count: 5},
		{Container: "sidecar", Index: 2, Count: 1},
		{Container: "late", Index: 3, Short: true, Count: 4},
		{Container: "main", Index: 4, Order: 1, Count: 2},
	})
	var requests, mapped []string
	for _, r := range got.Spec.Devices.Requests {
		requests = append(requests, fmt.Sprint(r.Name, "=", r.Exactly.Count))
	}
	for _, u := range uses {
		mapped = append(mapped, u.ContainerName+"="+u.RequestName)
	}
	if want := "container-1-request-2=2 container-2-request-0=1 container-4-request-1=2"; strings.Join(requests, " ") != want {
		t.Errorf("requests %v, want %s", requests, want)
	}
	want := "sidecar=container-2-request-0 main=container-4-request-1 small=container-2-request-0 big=container-2-request-0 big=container-4-request-1 late=container-4-request-1 big=container-1-request-2 late=container-1-request-2"
	if strings.Join(mapped, " ") != want {
		t.Errorf("uses %v, want %s", mapped, want)
	}
}
