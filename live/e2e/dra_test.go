package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/dra"
)

// cards creates a node whose cards a driver publishes, four to an NVLink island and
// to a NUMA node, and the class of such cards.
func (r *rig) cards(name string, count int, change ...func(*resourceapi.ResourceSlice)) {
	r.Helper()
	ctx := context.Background()
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, dra.ClassOf(""), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		r.ok(err)
	}
	var devices []world.Device
	for i := range count {
		devices = append(devices, world.Device{
			Name: fmt.Sprintf("GPU-%s-%d", name, i), Model: "H100", Memory: 80 * quantity.GiB,
			Island: int32(i / 4), NUMA: int32(i / 4), Sharing: cluster.SharingSlices,
		})
	}
	s := dra.SliceOf(name, devices)
	for _, c := range change {
		c(s)
	}
	_, err = client.ResourceV1().ResourceSlices().Create(ctx, s, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() {
		r.ok(client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		list, err := client.ResourceV1().ResourceClaims(r.namespace).List(ctx, metav1.ListOptions{})
		r.ok(err)
		for i := range list.Items { // so that nothing is held by what is gone
			c := &list.Items[i]
			_ = client.ResourceV1().ResourceClaims(r.namespace).Delete(ctx, c.Name, metav1.DeleteOptions{})
		}
	})
	r.node(name, 0)
}

// asking is a claim's content: one request for some cards.
func asking(count int64, change ...func(*resourceapi.ExactDeviceRequest)) resourceapi.ResourceClaimSpec {
	q := &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, c := range change {
		c(q)
	}
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: q}}}}
}

// part asks for a part of each card.
func part(milli int64, memory string) func(*resourceapi.ExactDeviceRequest) {
	return func(q *resourceapi.ExactDeviceRequest) {
		q.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			dra.ComputeName: *resource.NewQuantity(milli, resource.DecimalSI), dra.MemoryName: resource.MustParse(memory),
		}}
	}
}

func (r *rig) claim(name string, spec resourceapi.ResourceClaimSpec) {
	r.Helper()
	_, err := client.ResourceV1().ResourceClaims(r.namespace).Create(r.Context(), &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	r.ok(err)
}

func (r *rig) template(name string, spec resourceapi.ResourceClaimSpec) {
	r.Helper()
	_, err := client.ResourceV1().ResourceClaimTemplates(r.namespace).Create(r.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceClaimTemplateSpec{Spec: spec},
	}, metav1.CreateOptions{})
	r.ok(err)
}

// with gives a pod a claim by name; from one that is made from a template.
func with(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "c", ResourceClaimName: &claim})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "c"})
	}
}

func from(template string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "t", ResourceClaimTemplateName: &template})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: "t"})
	}
}

// claims returns all claims of the rig.
func (r *rig) claims() []resourceapi.ResourceClaim {
	r.Helper()
	list, err := client.ResourceV1().ResourceClaims(r.namespace).List(context.Background(), metav1.ListOptions{})
	r.ok(err)
	return list.Items
}

// sound fails when a card has given more than it has, or was given whole and to
// somebody else too; it returns how many devices are given in all. Every bound pod's
// claims are allocated to its node and reserved for it.
func (r *rig) sound() int {
	r.Helper()
	pods := r.pods() // first: what is bound now was allocated before
	slices, err := client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{})
	r.ok(err)
	offered := make(map[dra.ID]*resourceapi.Device)
	for i := range slices.Items {
		s := &slices.Items[i]
		for k := range s.Spec.Devices {
			offered[dra.ID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: s.Spec.Devices[k].Name}] = &s.Spec.Devices[k]
		}
	}
	type given struct {
		whole, parts int
		taken        map[resourceapi.QualifiedName]resource.Quantity
	}
	all := make(map[dra.ID]*given)
	byName := make(map[string]*resourceapi.ResourceClaim)
	total := 0
	list := r.claims()
	for i := range list {
		c := &list[i]
		byName[c.Name] = c
		if c.Status.Allocation == nil {
			continue
		}
		for _, result := range c.Status.Allocation.Devices.Results {
			id := dra.ID{Driver: result.Driver, Pool: result.Pool, Name: result.Device}
			if offered[id] == nil {
				r.Errorf("claim %s has device %v, which nobody offers", c.Name, id)
				continue
			}
			total++
			g := all[id]
			if g == nil {
				g = &given{taken: make(map[resourceapi.QualifiedName]resource.Quantity)}
				all[id] = g
			}
			if result.ShareID == nil {
				g.whole++
				continue
			}
			g.parts++
			for name, amount := range result.ConsumedCapacity {
				sum := g.taken[name]
				sum.Add(amount)
				g.taken[name] = sum
			}
		}
	}
	for id, g := range all {
		if g.whole > 1 || g.whole > 0 && g.parts > 0 {
			r.Errorf("device %v is given whole %d times and in %d parts", id, g.whole, g.parts)
		}
		for name, sum := range g.taken {
			if has := offered[id].Capacity[name].Value; sum.Cmp(has) > 0 {
				r.Errorf("device %v: %s of %s are given, it has %s", id, sum.String(), name, has.String())
			}
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName == "" {
			continue
		}
		for _, ref := range p.Spec.ResourceClaims {
			name := ptr.Deref(ref.ResourceClaimName, "")
			for _, s := range p.Status.ResourceClaimStatuses {
				if s.Name == ref.Name {
					name = ptr.Deref(s.ResourceClaimName, "")
				}
			}
			c := byName[name]
			switch {
			case c == nil || c.Status.Allocation == nil:
				r.Errorf("pod %s is bound, its claim %q is not allocated", p.Name, name)
			case c.Status.Allocation.Devices.Results[0].Pool != p.Spec.NodeName:
				r.Errorf("pod %s is on %s, its claim on %s", p.Name, p.Spec.NodeName, c.Status.Allocation.Devices.Results[0].Pool)
			case !reservedFor(c, &p):
				r.Errorf("pod %s is bound, its claim %s is reserved for %v", p.Name, name, c.Status.ReservedFor)
			}
		}
	}
	return total
}

func reservedFor(c *resourceapi.ResourceClaim, p *corev1.Pod) bool {
	for _, user := range c.Status.ReservedFor {
		if user.UID == p.UID {
			return true
		}
	}
	return false
}

// running counts the bound pods of the rig.
func (r *rig) running() int {
	n := 0
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// Whole cards are given by claims: as many as there are, no card twice, islands and
// selectors held; a card that is given back is given again.
func TestClaims(t *testing.T) {
	r := newRig(t)
	r.cards("n-0", 8)
	r.cards("n-1", 8)
	s, _ := r.schedule()
	linked := asking(4)
	linked.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(dra.IslandMatch)}}
	r.template("linked", linked)
	r.template("one", asking(1))
	r.template("h200", asking(1, func(q *resourceapi.ExactDeviceRequest) {
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["` + dra.Driver + `"].productName == "H200"`}}}
	}))
	r.create(podOf("linked-0", 0, from("linked")), podOf("linked-1", 0, from("linked")))
	r.allBound()
	for _, c := range r.claims() {
		islands := make(map[string]bool)
		for _, result := range c.Status.Allocation.Devices.Results {
			islands[result.Pool+fmt.Sprint(result.Device >= "gpu-4")] = true
		}
		if len(islands) != 1 || len(c.Status.Allocation.Devices.Results) != 4 {
			t.Errorf("claim %s has %v, want four cards of one island", c.Name, c.Status.Allocation.Devices.Results)
		}
	}
	var pods []*corev1.Pod
	for i := range 10 {
		pods = append(pods, podOf(fmt.Sprint("one-", i), 0, from("one")))
	}
	r.create(pods...)
	r.create(podOf("other-model", 0, from("h200")))
	r.eventually("all 16 cards are given", func() string {
		if n := r.sound(); n != 16 {
			return fmt.Sprintf("%d are given", n)
		}
		return ""
	})
	r.waits("other-model", "Unschedulable")
	r.counts(s, 16)
	first := ""
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" && len(p.Name) == 5 {
			first = p.Name
		}
	}
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), first, *metav1.NewDeleteOptions(0)))
	r.eventually("the card that was given back is given again", func() string {
		if n := r.running(); n != 10 {
			return fmt.Sprintf("%d pods run, want 10", n)
		}
		return ""
	})
	r.sound()
}

// Shares of cards are never given beyond what there is, whatever comes at once: 40
// pods of 0.3 on 8 cards make 24.
func TestSharesOfCards(t *testing.T) {
	r := newRig(t)
	r.cards("n-0", 4)
	r.cards("n-1", 4)
	r.template("third", asking(1, part(300, "10Gi")))
	s, _ := r.schedule()
	var pods []*corev1.Pod
	for i := range 40 {
		pods = append(pods, podOf(fmt.Sprint("p-", i), 0, from("third")))
	}
	r.create(pods...)
	r.eventually("24 pods run", func() string {
		if n := r.sound(); n < 24 || r.running() < 24 {
			return fmt.Sprintf("%d shares are given, %d pods run", n, r.running())
		}
		return ""
	})
	// Some leave while others wait: as many come.
	gone := 0
	for _, p := range r.pods() {
		if p.Spec.NodeName != "" && gone < 6 {
			gone++
			r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), p.Name, *metav1.NewDeleteOptions(0)))
		}
	}
	r.eventually("24 pods run again", func() string {
		r.sound()
		if n := r.running(); n < 24 {
			return fmt.Sprint(n, " run")
		}
		return ""
	})
	r.counts(s, 8)
	time.Sleep(2 * time.Second) // nothing more may come
	if n, given := r.running(), r.sound(); n != 24 || given != 24 {
		t.Errorf("%d pods run with %d shares, want exactly 24 of each", n, given)
	}
}

// A claim that two pods share is allocated once, and both run where it is.
func TestSharedClaim(t *testing.T) {
	r := newRig(t)
	r.cards("n-0", 2)
	r.cards("n-1", 2)
	s, _ := r.schedule()
	r.claim("shared", asking(2))
	r.create(podOf("a", 0, with("shared")), podOf("b", 0, with("shared")))
	r.allBound()
	if a, b := r.pod("a").Spec.NodeName, r.pod("b").Spec.NodeName; a != b {
		t.Errorf("the pods are on %s and %s, want one node", a, b)
	}
	if n := r.sound(); n != 2 {
		t.Errorf("%d cards are given, want 2", n)
	}
	r.counts(s, 2)
	// One leaves, the other keeps the cards.
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "a", *metav1.NewDeleteOptions(0)))
	r.claim("rest", asking(2))
	r.create(podOf("c", 0, with("rest")))
	r.bound("c")
	if n := r.sound(); n != 4 {
		t.Errorf("%d cards are given, want 4", n)
	}
	r.counts(s, 4)
}

// Schedulers that start and stop in the middle of it give no card twice.
func TestClaimsAcrossRestarts(t *testing.T) {
	r := newRig(t)
	for i := range 4 {
		r.cards(fmt.Sprint("n-", i), 8)
	}
	r.template("half", asking(1, part(500, "20Gi")))
	var group sync.WaitGroup
	group.Go(func() {
		var pods []*corev1.Pod
		for i := range 80 {
			pods = append(pods, podOf(fmt.Sprint("p-", i), 0, from("half")))
		}
		r.create(pods...)
	})
	for range 4 {
		_, stop := r.schedule()
		time.Sleep(400 * time.Millisecond)
		stop()
		r.sound()
	}
	group.Wait()
	s, _ := r.schedule()
	r.eventually("64 halves are given", func() string {
		if n := r.sound(); n != 64 || r.running() != 64 {
			return fmt.Sprintf("%d are given, %d pods run", n, r.running())
		}
		return ""
	})
	r.counts(s, 32)
}

// A pod that asks for GPUs as an extended resource gets them from the driver of the
// node, by a claim that is made for it and told to it, where a class stands behind the
// resource.
func TestExtendedResourceFromDriver(t *testing.T) {
	r := newRig(t)
	r.cards("n", 4)
	ctx := context.Background()
	classes := client.ResourceV1().DeviceClasses()
	r.ok(classes.Delete(ctx, dra.Class, metav1.DeleteOptions{}))
	_, err := classes.Create(ctx, dra.ClassOf(string(kube.DefaultGPU)), metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() { r.ok(classes.Delete(ctx, dra.Class, metav1.DeleteOptions{})) })
	s, _ := r.schedule()
	r.create(podOf("a", 3), podOf("b", 1))
	r.bound("a")
	r.bound("b")
	if n := r.sound(); n != 4 {
		t.Errorf("%d cards are given, want 4", n)
	}
	r.counts(s, 4)
	p := r.pod("a")
	status := p.Status.ExtendedResourceClaimStatus
	if status == nil || len(status.RequestMappings) != 1 || status.RequestMappings[0].ContainerName != "c" {
		t.Fatalf("the pod is told %+v of its claim", status)
	}
	c, err := client.ResourceV1().ResourceClaims(r.namespace).Get(ctx, status.ResourceClaimName, metav1.GetOptions{})
	r.ok(err)
	if !reservedFor(c, p) || len(c.Status.Allocation.Devices.Results) != 3 || c.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		t.Errorf("the claim is %+v", c)
	}
	r.create(podOf("late", 2))
	r.waits("late", "Unschedulable")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(ctx, "a", *metav1.NewDeleteOptions(0)))
	r.bound("late")
	if n := r.sound(); n != 3 {
		t.Errorf("%d cards are given, want 3", n)
	}
}
