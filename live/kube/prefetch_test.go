package kube

import (
	"fmt"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/quantity"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// wanted is a truth of two nodes, one of which has an image that pods often need.
func wanted(t *testing.T) *truth {
	w := warmTruth(t, &Prefetching{})
	for _, name := range []string{"a", "b"} {
		w.putNode(name, 8, 1, "", true)
		w.stock(name)
	}
	w.stock("a", "img=20")
	w.tellAll()
	w.books.adoptFetches()
	w.arriveOften("k", "img")
	return w
}

// arriveOften has pods of a kind come and go for three hours, four an hour.
func (w *truth) arriveOften(kind, image string) {
	for i := range 12 {
		name := fmt.Sprint(kind, "-", i)
		w.createKind(name, kind, image)
		w.settleAll()
		w.deletePod("ns/" + name)
		w.tellAll()
		w.pass(15 * time.Minute)
	}
}

// review runs a review, and returns what it has fetched.
func (w *truth) review() []FetchOrder {
	w.books.watchFetches()
	w.books.believeArrivals()
	w.books.decide(decision.CycleReview)
	orders, _ := w.books.takeFetches()
	return orders
}

// fetchPod is the pod of an order as the API server tells of it.
func fetchPod(o *FetchOrder) *corev1.Pod {
	f := fetcher{Scheduler: New(Config{Prefetch: &Prefetching{}})}
	p := f.podOf(o)
	p.UID = "u"
	return p
}

// What comes often is fetched ahead to a second node; it has come when the pod that mounts
// it runs, which is deleted then.
func TestFetchesAhead(t *testing.T) {
	w := wanted(t)
	orders := w.review()
	if len(orders) != 1 || orders[0].Node != "b" || orders[0].Image != "docker.io/library/img:latest" || orders[0].Delete {
		t.Fatalf("orders %+v, want the image to be fetched to b", orders)
	}
	if more := w.review(); len(more) != 0 {
		t.Errorf("again: %+v, want nothing more", more)
	}
	o := &orders[0]
	w.books.fetchOrdered(o, "u", nil)
	p := fetchPod(o)
	w.writePod(p)
	w.tellAll()
	if got := w.held("b"); got != nil {
		t.Errorf("the pod does not run yet, and b has %v", got)
	}
	p = p.DeepCopy()
	p.Status.Phase = corev1.PodRunning
	w.writePod(p)
	w.tellAll()
	orders, ended := w.books.takeFetches()
	if len(orders) != 1 || !orders[0].Delete || orders[0].Key != o.Key || len(ended) != 1 || ended[0].Why != "" || ended[0].Size != 20*gig {
		t.Errorf("orders %+v, ended %+v, want the pod deleted, and 20 GiB fetched", orders, ended)
	}
	w.stock("b", "other=1") // which has not looked yet
	w.tellAll()
	if got := w.held("b"); len(got) != 1 {
		t.Errorf("b has %v, want the image, as it came just now", got)
	}
	w.books.fetchOrdered(&orders[0], "", nil)
	w.deletePod(facts.Key(p))
	w.tellAll()
	w.pass(newlyCame)
	w.books.watchFetches()
	w.stock("b")
	w.tellAll()
	if got := w.held("b"); got != nil || len(w.books.fetching.fetches) != 0 || len(w.books.fetching.arrived) != 0 {
		t.Errorf("b lists nothing, and the world has %v; %d fetches are remembered, %d arrived", got, len(w.books.fetching.fetches), len(w.books.fetching.arrived))
	}
	if more := w.review(); len(more) != 0 {
		t.Errorf("b has dropped it just now: %+v, want it left alone", more)
	}
	w.pass(firstBar)
	if more := w.review(); len(more) != 1 {
		t.Errorf("a minute later: %+v, want it fetched again", more)
	}
	w.balanced("all")
}

// How fast nodes fetch is learned from fetches that are large enough: as the middle of the
// last ones, once there are a few, and only if that is news.
func TestRateOfFetchesIsLearned(t *testing.T) {
	w := warmTruth(t, &Prefetching{})
	w.putNode("n", 8, 1, "", true)
	w.stock("n")
	w.tellAll()
	rate := func() int64 { return int64(w.books.cacheOf("n").Rates[cluster.ArtifactImage]) }
	fetch := func(size quantity.Bytes, seconds int) {
		began := w.books.instant()
		w.pass(time.Duration(seconds) * time.Second)
		w.books.timed(&image{size: size}, began)
	}
	for range 3 {
		fetch(10*gig, 200)
	}
	fetch(1<<20, 200) // says nothing
	fetch(10*gig, 0)
	if got := rate(); got != int64(DefaultImageRate) {
		t.Errorf("after three fetches: %d per second, want %d as said", got, DefaultImageRate)
	}
	fetch(10*gig, 2)
	if got, want := rate(), int64(10*gig/200); got != want {
		t.Errorf("after four: %d per second, want %d", got, want)
	}
	for range ratesKept {
		fetch(10*gig, 180)
	}
	if got, want := rate(), int64(10*gig/200); got != want {
		t.Errorf("a tenth faster: %d per second, want %d as before", got, want)
	}
	w.balanced("all")
}

// An image that does not come is left alone for longer each time; so is one that takes too
// long, and one whose pod is gone. What works for it is tried again then.
func TestFetchesBackOff(t *testing.T) {
	w := wanted(t)
	fail := []func(o *FetchOrder){
		func(o *FetchOrder) { w.books.fetchOrdered(o, "", errConflict) },
		func(o *FetchOrder) {
			p := fetchPod(o)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such tag"}}}}
			w.writePod(p)
			w.tellAll()
			w.deletePod(facts.Key(p))
			w.tellAll()
		},
		func(o *FetchOrder) {
			p := fetchPod(o)
			w.writePod(p)
			w.tellAll()
			w.deletePod(facts.Key(p))
			w.tellAll()
		},
		func(*FetchOrder) { w.pass(longestBar); w.books.watchFetches() },
	}
	for i, how := range fail {
		orders := w.review()
		if len(orders) != 1 || orders[0].Delete {
			t.Fatalf("try %d: orders %+v, want one", i, orders)
		}
		how(&orders[0])
		gone, ended := w.books.takeFetches()
		if len(ended) != 1 || ended[0].Why == "" || len(gone) != 1 || !gone[0].Delete {
			t.Fatalf("try %d: ended %+v, orders %+v, want it in vain, and its pod deleted", i, ended, gone)
		}
		w.books.fetchOrdered(&gone[0], "", nil)
		w.pass(firstBar<<i - time.Second)
		if more := w.review(); len(more) != 0 {
			t.Fatalf("try %d: %+v right before the pause is over", i, more)
		}
		w.pass(time.Second)
	}
	w.balanced("all")
}

// What pods bring secrets for is fetched only with secrets of our own, and what is never
// pulled not at all.
func TestWhatIsNotFetched(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*corev1.Pod)
		secrets []string
		want    int
	}{
		"public":          {func(*corev1.Pod) {}, nil, 1},
		"private":         {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }, nil, 0},
		"private, we may": {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} }, []string{"ours"}, 1},
		"local":           {func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever }, []string{"ours"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := warmTruth(t, &Prefetching{PullSecrets: c.secrets})
			for _, name := range []string{"a", "b"} {
				w.putNode(name, 8, 1, "", true)
				w.stock(name)
			}
			w.stock("a", "img=20")
			w.createKind("one", "k", "img")
			c.change(w.pods["ns/one"])
			w.tellAll()
			w.books.adoptFetches()
			w.arriveOften("k", "img")
			if orders := w.review(); len(orders) != c.want {
				t.Errorf("orders %+v, want %d", orders, c.want)
			}
		})
	}
}

// A pod waits without a place while what it lacks is fetched, and is placed as soon as it
// has come; where it does not come, or may not be fetched, it goes at once. What a pod that
// has its place pulls is not fetched besides.
func TestPodsWaitForWhatIsFetched(t *testing.T) {
	for name, c := range map[string]struct {
		private bool
		phase   corev1.PodPhase
		waits   bool
	}{
		"it comes":         {phase: corev1.PodRunning, waits: true},
		"it does not come": {phase: corev1.PodFailed, waits: true},
		"private":          {private: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := warmTruth(t, &Prefetching{First: true})
			w.putNode("library", 8, 0, "", true)
			w.stock("library", "img=20")
			w.putNode("n", 8, 4, "", true)
			w.stock("n")
			w.tellAll()
			w.books.adoptFetches()
			w.createKind("p", "k", "img")
			if c.private {
				w.pods["ns/p"].Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}}
			}
			w.tellAll()
			w.decide()
			orders, _ := w.books.takeFetches()
			if c.waits != (len(orders) == 1) || c.waits != (len(w.flying) == 0) {
				t.Fatalf("orders %+v, binds %v, want it to wait: %v", orders, w.flying, c.waits)
			}
			if !c.waits {
				return
			}
			said, reason := w.books.said(w.books.pods["ns/p"])
			if reason != fetchingImages || !strings.Contains(said.sentence, "fetched to node n first") {
				t.Errorf("it says %s: %s, want that an image is fetched", reason, said.sentence)
			}
			w.decide()
			if more, _ := w.books.takeFetches(); len(more)+len(w.flying) != 0 {
				t.Errorf("while it is fetched: orders %+v, binds %v, want none", more, w.flying)
			}
			p := fetchPod(&orders[0])
			w.writePod(p)
			if c.phase == corev1.PodRunning {
				p = p.DeepCopy()
				p.Status.Phase = c.phase
				w.writePod(p)
			} else {
				w.deletePod(facts.Key(p)) // to informers it is
			}
			w.tellAll()
			if !w.books.stirred {
				t.Error("the fetch has ended, and no cycle is due")
			}
			w.books.takeFetches()
			w.decide()
			if more, _ := w.books.takeFetches(); len(w.flying) != 1 || w.flying[0].Node != "n" || len(more) != 0 {
				t.Errorf("binds %v, orders %+v, want it bound to n, and nothing fetched", w.flying, more)
			}
			w.balanced("all")
		})
	}
}

// What a pod lacks whose other images have no room on any node is not fetched: it goes at
// once, and its node pulls all of it.
func TestNobodyFetchesAPart(t *testing.T) {
	w := warmTruth(t, &Prefetching{First: true})
	w.putNode("library", 8, 0, "", true)
	w.stock("library", "small=20", "large=90")
	for i := range 3 {
		name := fmt.Sprint("n-", i)
		w.putNode(name, 8, 4, "", true)
		w.stock(name)
	}
	w.tellAll()
	w.books.adoptFetches()
	w.createKind("p", "k", "small")
	w.pods["ns/p"].Spec.Containers = append(w.pods["ns/p"].Spec.Containers, corev1.Container{Image: "large"})
	w.tellAll()
	w.decide()
	if orders, _ := w.books.takeFetches(); len(orders) != 0 || len(w.flying) != 1 {
		t.Errorf("orders %+v, binds %v, want it bound, and nothing fetched", orders, w.flying)
	}
	w.balanced("a cycle")
}

// After a restart what is expected is expected again; a fetch that is under way is gone on
// with, and one that is of no use is ended.
func TestFetchesAfterARestart(t *testing.T) {
	w := wanted(t)
	orders := w.review()
	if len(orders) != 1 {
		t.Fatalf("orders %+v, want one", orders)
	}
	kept := w.kept()
	table := func(w *truth) (out []string) {
		v := w.books.world.View()
		for _, row := range w.books.arrivals.Table().Rows {
			out = append(out, fmt.Sprint(v.Symbols.Text(row.Kind), " ", v.Artifact(row.Artifacts[0]).Name, " ", row.PerHour))
		}
		return out
	}
	for _, useless := range []bool{false, true} {
		again := warmTruth(t, &Prefetching{})
		again.pass(w.now.Sub(again.now))
		if err := again.books.remember(kept); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(table(again), table(w)); diff != "" {
			t.Errorf("arrivals, - after, + before:\n%s", diff)
		}
		for _, n := range w.nodes {
			again.writeNode(n)
		}
		if useless {
			again.stock("b", "img=20")
		}
		p := fetchPod(&orders[0])
		p.CreationTimestamp = metav1.NewTime(w.now)
		again.writePod(p)
		again.tellAll()
		again.books.adoptFetches()
		artifact, _ := again.books.world.Artifact(orders[0].Image)
		awaited := again.books.cacheOf("b").Awaits(artifact) >= 0
		next := again.review()
		if useless && (awaited || len(next) != 1 || !next[0].Delete) {
			t.Errorf("the image is there: awaited %v, orders %+v, want the pod deleted", awaited, next)
		}
		if !useless && (!awaited || len(next) != 0) {
			t.Errorf("awaited %v, orders %+v, want it gone on with", awaited, next)
		}
		again.balanced("a restart")
	}
}

// What is kept and makes no sense is refused as a whole.
func TestKeptArrivalsAreChecked(t *testing.T) {
	image := beliefs.Image{Name: "docker.io/library/img:latest", Size: 1}
	kind := beliefs.Arriving{Kind: "k", Count: 1, Images: []int{0}}
	for name, bad := range map[string]beliefs.Arrivals{
		"a name":   {Images: []beliefs.Image{{Name: "img", Size: 1}}},
		"no size":  {Images: []beliefs.Image{{Name: image.Name}}},
		"too much": {Images: []beliefs.Image{{Name: image.Name, Size: 1 << 60}}},
		"a sort":   {Images: []beliefs.Image{{Name: image.Name, Size: 1, Sort: 9}}},
		"which":    {Images: []beliefs.Image{image}, Kinds: []beliefs.Arriving{{Kind: "k", Count: 1, Images: []int{1}}}},
		"no kind":  {Images: []beliefs.Image{image}, Kinds: []beliefs.Arriving{{Count: 1, Images: []int{0}}}},
		"twice":    {Images: []beliefs.Image{image}, Kinds: []beliefs.Arriving{kind, kind}},
	} {
		w := warmTruth(t, nil)
		if err := w.books.rememberArrivals(&bad); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	w := warmTruth(t, nil)
	if err := w.books.rememberArrivals(&beliefs.Arrivals{Images: []beliefs.Image{image}, Kinds: []beliefs.Arriving{kind}}); err != nil {
		t.Errorf("what makes sense: %v", err)
	}
}

// kubelet carries out orders, of which calls fail unless all is calm, and moves the pods that
// fetch images on, at random.
func (w *truth) kubelet(r *rand.Rand, calm bool) {
	orders, _ := w.books.takeFetches()
	for i := range orders {
		o := &orders[i]
		switch there := w.pods[o.Key]; {
		case !calm && r.Intn(8) == 0:
			w.books.fetchOrdered(o, "", errConflict)
		case o.Delete:
			w.deletePod(o.Key)
			w.books.fetchOrdered(o, "", nil)
		case there != nil:
			w.books.fetchOrdered(o, "", errConflict)
		default:
			w.uids++
			p := fetchPod(o)
			p.UID = types.UID(fmt.Sprint("fetch-", w.uids))
			w.writePod(p)
			w.books.fetchOrdered(o, string(p.UID), nil)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[key]
		if !strings.HasPrefix(key, "headrace-system/") || r.Intn(3) > 0 {
			continue
		}
		p = p.DeepCopy()
		switch n := r.Intn(4); {
		case n == 0 && !calm:
			w.deletePod(key)
			continue
		case n == 1:
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
		default:
			p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: w.now.Add(-time.Minute)}
		}
		w.writePod(p)
	}
}

// Whatever becomes of nodes, pods and fetches in whatever order, the books balance after
// every step; in the end no pod that fetches an image is left, and the journal of it replays.
func TestFetchesComeToAnEnd(t *testing.T) {
	fetched := 0
	for seed := range int64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w, r := warmTruth(t, &Prefetching{First: seed%2 == 0}), rand.New(rand.NewSource(seed))
			path := filepath.Join(t.TempDir(), "j")
			var err error
			if w.books.record, err = record(path, DefaultRecordLimit, w.books.turns[0].Policy); err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				name := fmt.Sprint("node-", i)
				w.putNode(name, 8, 4, "", true)
				w.stock(name, fmt.Sprintf("i%d=20", i))
			}
			w.tellAll()
			w.books.adoptFetches()
			for range 300 {
				switch r.Intn(8) {
				case 0, 1:
					pod := fmt.Sprint("pod-", r.Intn(20))
					if w.pods["ns/"+pod] == nil {
						i := r.Intn(4)
						w.createKind(pod, fmt.Sprint("k", i), fmt.Sprint("i", i))
					}
				case 2:
					w.kubelet(r, false)
				case 3:
					w.pass(time.Duration(r.Intn(20)) * time.Minute)
					w.books.watchFetches()
					w.books.believeArrivals()
					w.flying = append(w.flying, w.books.decide(decision.CycleReview)...)
				case 4:
					name := fmt.Sprint("node-", r.Intn(4))
					if w.nodes[name] != nil {
						w.stock(name, fmt.Sprintf("i%d=20", r.Intn(4)), fmt.Sprintf("i%d=20", r.Intn(4)))
					}
				default:
					w.balanced(step(w, r))
				}
				w.balanced("a step")
			}
			fetched += len(w.books.fetching.arrived)
			for range 40 {
				w.kubelet(r, true)
				w.settleAll()
				w.books.watchFetches()
			}
			w.balanced("settling")
			w.equal()
			if err := w.books.record.end(); err != nil {
				t.Fatal(err)
			}
			if got := replayed(t, path); got.Differing != 0 || got.Cycles != int(w.books.cycle) {
				t.Errorf("replayed to %+v, want %d cycles and no difference", got, w.books.cycle)
			}
			for key, one := range w.books.fetching.fetches {
				if !one.ended {
					t.Errorf("%s is under way for ever", key)
				}
			}
			for key, p := range w.pods {
				if strings.HasPrefix(key, "headrace-system/") {
					t.Errorf("%s is left, on %s: %s", key, p.Spec.NodeName, p.Status.Phase)
				}
			}
		})
	}
	if fetched == 0 {
		t.Error("nothing was ever fetched")
	}
}
