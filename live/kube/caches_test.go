package kube

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

const gig = 1 << 30

// warmTruth is a truth whose books look at images and fetch some ahead.
func warmTruth(t *testing.T, p *Prefetching) *truth {
	w := newTruth(t)
	c := New(Config{Prefetch: p, Namespace: "headrace-system"}).config
	w.books.caches, w.books.fetching = newCaches(Caching{}), newFetching(p, c.Name, c.Namespace)
	w.books.turns[0].Policy = c.Policy
	return w
}

// stock has a node list images, given as NAME=GiB, and keep 100 GiB of them.
func (w *truth) stock(node string, images ...string) {
	n := w.nodes[node].DeepCopy()
	n.Annotations = map[string]string{facts.ImageCache: "100Gi"}
	n.Status.Images = nil
	for _, text := range images {
		name, size, _ := strings.Cut(text, "=")
		q := resource.MustParse(size + "Gi")
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: q.Value()})
	}
	w.writeNode(n)
}

// createKind creates a pod of a kind that runs an image.
func (w *truth) createKind(name, kind, image string) {
	w.createPod(name, DefaultName, 1, 1)
	p := w.pods["ns/"+name]
	p.Labels = map[string]string{facts.KindLabel: kind}
	p.Spec.Containers[0].Image = image
	p.CreationTimestamp = metav1.NewTime(w.now)
}

// held is what the world has on a node, by name.
func (w *truth) held(node string) (out []string) {
	c, v := w.books.cacheOf(node), w.books.world.View()
	if c == nil {
		return nil
	}
	for i := range c.Held {
		out = append(out, v.Artifact(c.Held[i].Artifact).Name)
	}
	slices.Sort(out)
	return out
}

// A pod goes where its image is, where all else is as good; one that waited since before
// anybody knew how large the image is, too.
func TestPodsGoWhereTheirImageIs(t *testing.T) {
	w := warmTruth(t, nil)
	w.putNode("full", 8, 1, "", true)
	w.createPod("first", DefaultName, 1, 1)
	w.settleAll() // it takes the only card
	w.createKind("second", "k", "img")
	w.settleAll()
	for i := range 6 {
		w.putNode(fmt.Sprint("n-", i), 8, 1, "late", true)
	}
	w.tellAll()
	if got := w.books.pods["ns/second"].entered.Artifacts; got != nil {
		t.Errorf("nobody has told of the image, and the pod has artifacts %v", got)
	}
	w.stock("n-4", "docker.io/library/img:latest=20")
	w.stock("n-2", "other=20")
	for i := range 6 {
		n := w.nodes[fmt.Sprint("n-", i)].DeepCopy()
		n.Spec.Taints = nil
		w.writeNode(n)
	}
	w.settleAll()
	if got := w.pods["ns/second"].Spec.NodeName; got != "n-4" {
		t.Errorf("bound to %s, want n-4, which has the image", got)
	}
	want := &explain.Images{SavedSeconds: 20 * gig / 125e6, Each: []explain.Image{{Name: "docker.io/library/img:latest", Bytes: 20 * gig, There: true, Nodes: 1}}}
	if diff := cmp.Diff(w.books.pods["ns/second"].story.chosen.Images, want, cmpopts.EquateApprox(0, 1e-3)); diff != "" {
		t.Errorf("why: - got, + want:\n%s", diff)
	}
	w.balanced("settling")
}

// Where as few cards as will do are to be in use, a pod goes to a node in use rather than to
// an idle one that has its image.
func TestDenseFillsNodesInUse(t *testing.T) {
	for _, dense := range []bool{false, true} {
		w := warmTruth(t, nil)
		w.books.turns[0].Policy = New(Config{Caching: Caching{Dense: dense}}).config.Policy
		w.putNode("used", 8, 8, "", true)
		w.tellAll()
		w.createPod("other", DefaultName, 1, 6)
		w.settleAll()
		w.putNode("idle", 8, 8, "", true)
		w.createKind("first", "k", "img")
		w.tellAll()
		w.stock("idle", "docker.io/library/img:latest=2")
		w.settleAll()
		want := map[bool]string{false: "idle", true: "used"}[dense]
		w.createKind("p", "k", "img")
		w.settleAll()
		if got := w.pods["ns/p"].Spec.NodeName; got != want {
			t.Errorf("dense %v: bound to %s, want %s", dense, got, want)
		}
	}
}

// What else is on a node takes from its room; what becomes needed counts as there.
func TestRoomForImages(t *testing.T) {
	w := warmTruth(t, nil)
	w.putNode("n", 8, 1, "", true)
	w.stock("n", "a=10", "b=20")
	w.tellAll()
	if c := w.books.cacheOf("n"); c.Disk != 70*gig || c.Taken != 0 {
		t.Errorf("room for %d, %d taken, want 70 GiB and none", c.Disk, c.Taken)
	}
	w.createKind("p", "k", "b")
	w.tellAll()
	if c := w.books.cacheOf("n"); c.Disk != 90*gig || c.Taken != 20*gig {
		t.Errorf("b is needed: room for %d, %d taken, want 90 and 20 GiB", c.Disk, c.Taken)
	}
	w.stock("n", "a=10", "b=25")
	w.tellAll()
	if c := w.books.cacheOf("n"); c.Taken != 25*gig {
		t.Errorf("b has grown: %d taken, want 25 GiB", c.Taken)
	}
	w.stock("n", "a=10")
	w.tellAll()
	if got := w.held("n"); got != nil {
		t.Errorf("b is not listed any more, and the world has %v", got)
	}
	w.balanced("a change")
}

// What a list that is full does not have may be there all the same, if it is no larger than
// the smallest that is listed.
func TestFullListLeavesOut(t *testing.T) {
	w := warmTruth(t, nil)
	w.putNode("n", 8, 1, "", true)
	w.createKind("p", "k", "small")
	w.createKind("q", "k", "large")
	w.stock("n", "large=3", "small=1")
	w.tellAll()
	var many []string
	for i := range facts.ListedImages {
		many = append(many, fmt.Sprintf("i%d=2", i))
	}
	w.stock("n", many...)
	w.tellAll()
	if got, want := w.held("n"), []string{"docker.io/library/small:latest"}; !slices.Equal(got, want) {
		t.Errorf("held %v, want %v", got, want)
	}
	w.stock("n", many[1:]...)
	w.tellAll()
	if got := w.held("n"); got != nil {
		t.Errorf("the list is not full, and the world has %v", got)
	}
}

// Whatever nodes and pods say in whatever order, the world has on each node what that
// lists of the images that pods need, and nothing is kept of images that nobody lists or
// needs.
func TestCachesFollowTheNodes(t *testing.T) {
	for seed := range int64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w, r := warmTruth(t, nil), rand.New(rand.NewSource(seed))
			for i := range 4 {
				w.putNode(fmt.Sprint("node-", i), 8, 4, "", true)
			}
			for range 200 {
				name := fmt.Sprint("node-", r.Intn(5))
				switch r.Intn(5) {
				case 0:
					if w.nodes[name] != nil {
						var list []string
						for i := range 6 {
							if r.Intn(2) == 0 {
								list = append(list, fmt.Sprintf("i%d=%d", i, 1+r.Intn(3)))
							}
						}
						w.stock(name, list...)
					}
				case 1:
					pod := fmt.Sprint("pod-", r.Intn(20))
					if w.pods["ns/"+pod] == nil {
						w.createKind(pod, "k", fmt.Sprint("i", r.Intn(4)))
					}
				default:
					w.balanced(step(w, r))
				}
			}
			w.settleAll()
			w.balanced("settling")
			w.equal()
			for name, n := range w.nodes {
				var want []string
				for i := range n.Status.Images {
					full := facts.ImageName(n.Status.Images[i].Names[0])
					if im := w.books.caches.images[full]; im != nil && im.wanted {
						want = append(want, full)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(w.held(name), want); diff != "" {
					t.Errorf("%s: - the world has, + want:\n%s", name, diff)
				}
			}
			for name, im := range w.books.caches.images {
				if im.listed == 0 && !im.wanted || im.listed < 0 {
					t.Errorf("image %s is kept, listed by %d", name, im.listed)
				}
			}
		})
	}
}
