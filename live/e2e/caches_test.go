package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

const imageSize = 20 << 30

// keeps gives a node room for images.
func keeps(n *corev1.Node) { n.Annotations = map[string]string{facts.ImageCache: "100Gi"} }

// lists has a node list images, as kubelets do. By the resource mark, which it offers from
// then on, a pod tells that the scheduler has heard of that.
func (r *rig) lists(node string, images ...string) (mark func(*corev1.Pod)) {
	r.Helper()
	name, one := corev1.ResourceName("example.com/mark-"+node+"-"+fmt.Sprint(time.Now().UnixNano())), resource.MustParse("1")
	n, err := client.CoreV1().Nodes().Get(r.Context(), node, metav1.GetOptions{})
	r.ok(err)
	n.Status.Images = nil
	n.Status.Capacity[name], n.Status.Allocatable[name] = one, one
	for _, image := range images {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{image}, SizeBytes: imageSize})
	}
	_, err = client.CoreV1().Nodes().UpdateStatus(r.Context(), n, metav1.UpdateOptions{})
	r.ok(err)
	return func(p *corev1.Pod) {
		q := &p.Spec.Containers[0].Resources
		q.Requests[name], q.Limits[name] = one, one
	}
}

// runs has a pod run an image.
func runs(image string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
}

// The second pod with an image goes where the first one ran, all else equal; so does one
// that mounts it as a volume.
func TestSecondPodGoesWhereTheImageIs(t *testing.T) {
	r := newRig(t)
	for i := range 8 {
		r.node(fmt.Sprint("n-", i), 1, keeps)
	}
	r.schedule()
	for i, second := range []func(*corev1.Pod){runs("model:v1"), runs("model:v2"), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "w", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "model:v3"}}}}
	}} {
		image := fmt.Sprint("docker.io/library/model:v", i+1)
		first := fmt.Sprint("first-", i)
		r.create(podOf(first, 1, runs(image)))
		node := r.bound(first)
		r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), first, *metav1.NewDeleteOptions(0)))
		mark, name := fmt.Sprint("mark-", i), fmt.Sprint("second-", i)
		r.create(podOf(mark, 0, r.lists(node, image)))
		r.bound(mark)
		r.create(podOf(name, 1, second))
		if got := r.bound(name); got != node {
			t.Errorf("%s went to %s, want %s, which has the image", name, got, node)
		}
		r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)))
		r.lists(node)
	}
}

// expects writes down what a scheduler before this one has learned: pods with an image come
// 48 times an hour.
func (r *rig) expects(space, image string) {
	r.Helper()
	epoch := int64(15 * moment.Minute)
	data, err := beliefs.Encode(&beliefs.Beliefs{
		At: time.Now().UnixMicro(),
		Arrivals: &beliefs.Arrivals{
			Epoch: time.Now().UnixMicro() / epoch, Epochs: 4_000_000, Images: []beliefs.Image{{Name: image, Size: imageSize}},
			Kinds: []beliefs.Arriving{{Kind: "k", Count: 48_000_000, Images: []int{0}, Request: world.Request{
				CPU: 1000, Memory: quantity.GiB, Devices: []world.DeviceRequest{{Count: 1, Milli: quantity.WholeGPU}},
			}}},
		},
	})
	r.ok(err)
	maps := client.CoreV1().ConfigMaps(space)
	err = maps.Delete(r.Context(), kube.BeliefsName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.Fatal(err)
	}
	_, err = maps.Create(r.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kube.BeliefsName}, BinaryData: map[string][]byte{"beliefs": data}}, metav1.CreateOptions{})
	r.ok(err)
}

// prefetches are the pods that fetch images, and run or wait.
func (r *rig) prefetches(space string) []corev1.Pod {
	r.Helper()
	list, err := client.CoreV1().Pods(space).List(r.Context(), metav1.ListOptions{LabelSelector: facts.PrefetchLabel})
	r.ok(err)
	return list.Items
}

// prefetching waits until a pod fetches an image.
func (r *rig) prefetching(space string) *corev1.Pod {
	r.Helper()
	var out *corev1.Pod
	r.eventually("an image is fetched", func() string {
		list := r.prefetches(space)
		if len(list) != 1 {
			return fmt.Sprintf("%d pods fetch one", len(list))
		}
		out = &list[0]
		return ""
	})
	return out
}

// noPrefetch waits until no pod fetches an image.
func (r *rig) noPrefetch(space string) {
	r.Helper()
	r.eventually("no pod fetches an image", func() string {
		if n := len(r.prefetches(space)); n > 0 {
			return fmt.Sprintf("%d do", n)
		}
		return ""
	})
}

// becomes writes the status of a pod, as its kubelet would.
func (r *rig) becomes(p *corev1.Pod, phase corev1.PodPhase, waits string) {
	r.Helper()
	p = p.DeepCopy()
	p.Status.Phase = phase
	if waits != "" {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, Image: p.Spec.Containers[0].Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits, Message: "manifest unknown"}},
		}}
	}
	_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(r.Context(), p, metav1.UpdateOptions{})
	r.ok(err)
}

// fetcherAt starts a scheduler, as a process, that fetches images in a namespace.
func (r *rig) fetcherAt(space string, more ...string) *process {
	r.Helper()
	p := r.start(kubeconfig, append([]string{"--prefetch", "--leader-elect-namespace", space}, more...)...)
	p.ready()
	return p
}

// reviews is how many reviews a scheduler has had.
func (p *process) reviews() (n int) {
	p.rig.Helper()
	_, body, err := p.ask("/metrics")
	p.rig.ok(err)
	if _, text, found := strings.Cut(string(body), `headrace_scheduling_cycle_duration_seconds_count{kind="review"} `); found {
		text, _, _ = strings.Cut(text, "\n")
		n, err = strconv.Atoi(text)
		p.rig.ok(err)
	}
	return n
}

// prefetchSpace is a namespace for pods that are held to the strictest standard, and two
// nodes, a with an image and b without.
func (r *rig) prefetchSpace() (space, image string) {
	r.Helper()
	space, image = r.space(), "registry.example/model:v1"
	r.eventually("the namespace has a service account", func() string {
		_, err := client.CoreV1().ServiceAccounts(space).Get(r.Context(), "default", metav1.GetOptions{})
		return text(err)
	})
	r.node("a", 1, keeps, func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: imageSize}}
	})
	r.node("b", 1, keeps, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
	})
	r.expects(space, image)
	return space, image
}

// What comes often is fetched to another node by a pod that mounts it and may nothing; it
// is gone when the image has come.
func TestFetchedAhead(t *testing.T) {
	r := newRig(t)
	space, image := r.prefetchSpace()
	s := r.fetcherAt(space)
	p := r.prefetching(space)
	if p.Spec.NodeName != "b" || len(p.Spec.Volumes) != 1 || p.Spec.Volumes[0].Image == nil || p.Spec.Volumes[0].Image.Reference != image {
		t.Errorf("on %s with volumes %+v, want %s mounted on b", p.Spec.NodeName, p.Spec.Volumes, image)
	}
	if c := p.Spec.Containers; len(c) != 1 || c[0].Image != kube.DefaultPause || len(c[0].Resources.Requests) != 0 {
		t.Errorf("containers %+v, want the pause image alone, which asks for nothing", c)
	}
	if q := p.Spec; q.ActiveDeadlineSeconds == nil || *q.AutomountServiceAccountToken || len(q.ImagePullSecrets) > 0 {
		t.Errorf("deadline %v, token mounted %v, secrets %v, want an end, no token, no secret", q.ActiveDeadlineSeconds, *q.AutomountServiceAccountToken, q.ImagePullSecrets)
	}
	r.becomes(p, corev1.PodRunning, "")
	r.noPrefetch(space)
	r.lists("b", image)
	if n := s.metric(`headrace_prefetches_total{result="fetched"}`); n != 1 {
		t.Errorf("%v fetched, want 1", n)
	}
	if n := s.metric("headrace_prefetched_bytes_total"); n != imageSize {
		t.Errorf("%v bytes fetched, want %d", n, imageSize)
	}
	s.balanced()
}

// An image that does not come is left alone for a while, and its pod is gone at once.
func TestFailedPrefetchBacksOff(t *testing.T) {
	r := newRig(t)
	space, _ := r.prefetchSpace()
	s := r.fetcherAt(space)
	r.becomes(r.prefetching(space), corev1.PodPending, "ErrImagePull")
	r.noPrefetch(space)
	failed := time.Now()
	first := s.reviews()
	r.eventually("two reviews have passed", func() string {
		if n := s.reviews() - first; n < 2 {
			return fmt.Sprintf("%d have", n)
		}
		if n := len(r.prefetches(space)); n > 0 {
			t.Fatalf("%v after it failed it is tried again", time.Since(failed))
		}
		return ""
	})
	if n := s.metric(`headrace_prefetches_total{result="failed"}`); n != 1 {
		t.Errorf("%v failed, want 1", n)
	}
	if !strings.Contains(s.last(), "ErrImagePull: manifest unknown") {
		t.Errorf("the log does not say why:\n%s", s.last())
	}
	if !long() {
		return
	}
	r.eventually("it is tried again", func() string {
		if len(r.prefetches(space)) == 0 {
			return "not yet"
		}
		return ""
	})
	if d := time.Since(failed); d < 55*time.Second {
		t.Errorf("it is tried again after %v, want a minute", d)
	}
}

// A pod whose image is elsewhere waits without a place while it is fetched, and says so in a
// way that calls no autoscaler; then it is bound to the node.
func TestPodWaitsForItsImage(t *testing.T) {
	r := newRig(t)
	space, image := r.prefetchSpace()
	for _, name := range []string{"a", "b"} {
		r.ok(client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	r.node("library", 0, keeps, func(n *corev1.Node) {
		n.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: imageSize}}
	})
	r.node("n", 4, keeps)
	s := r.fetcherAt(space, "--prefetch-first")
	r.becomes(r.prefetching(space), corev1.PodFailed, "") // ahead: that is not what this is about
	r.noPrefetch(space)
	r.create(podOf("plain", 1))
	r.bound("plain")
	r.create(podOf("early", 1, runs(image)))
	r.bound("early") // the image is left alone, so that it goes at once
	for _, name := range []string{"plain", "early"} {
		r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)))
	}
	s.kill()

	s = r.fetcherAt(space, "--prefetch-first") // which knows nothing of that
	r.create(podOf("p", 1, runs(image)))
	r.waits("p", "FetchingImages: what it needs is fetched to node n first")
	r.becomes(r.prefetching(space), corev1.PodRunning, "")
	if got := r.bound("p"); got != "n" {
		t.Errorf("it is bound to %s, want n", got)
	}
	r.noPrefetch(space)
	s.balanced()
}

// A scheduler that is killed while an image is fetched leaves nothing behind: the next one
// goes on with it, or ends it if it is of no use, and deletes what is over.
func TestKilledWhileFetching(t *testing.T) {
	r := newRig(t)
	space, image := r.prefetchSpace()
	r.fetcherAt(space).kill()
	s := r.fetcherAt(space)
	p := r.prefetching(space)
	s.kill()

	s = r.fetcherAt(space)
	r.eventually("the next one has gone on", func() string {
		if s.reviews() == 0 {
			return "no review yet"
		}
		return ""
	})
	if list := r.prefetches(space); len(list) != 1 || list[0].UID != p.UID {
		t.Errorf("%d pods fetch an image, want the one from before", len(list))
	}
	s.kill()
	r.becomes(p, corev1.PodFailed, "") // as when its deadline is over
	s = r.fetcherAt(space)
	r.eventually("that pod is gone", func() string {
		if slices.ContainsFunc(r.prefetches(space), func(other corev1.Pod) bool { return other.UID == p.UID }) {
			return "it is there"
		}
		return ""
	})
	p = r.prefetching(space) // the next one
	s.kill()
	r.lists("b", image) // it came meanwhile
	s = r.fetcherAt(space)
	r.noPrefetch(space)
	s.balanced()
}

// Only with prefetches may the scheduler make pods, and only where it is.
func TestPrefetchPrivilege(t *testing.T) {
	r := newRig(t)
	space := r.space()
	r.grant(space, map[string]any{"prefetch": map[string]any{"enabled": true, "pullSecrets": []any{"pull"}}})
	account := r.chartPod(space, nil).Spec.ServiceAccountName
	r.eventually("the roles have taken effect", func() string {
		if !r.allows(space, account, may{"create", "", "pods", "", space}) {
			return "making pods is not allowed yet"
		}
		return ""
	})
	for m, want := range map[may]bool{
		{"delete", "", "pods", "p", space}:                   true,
		{"delete", "", "pods", "p", metav1.NamespaceSystem}:  false,
		{"create", "", "pods", "", metav1.NamespaceSystem}:   false,
		{"update", "", "pods", "p", space}:                   false,
		{"get", "", "secrets", "pull", space}:                false,
		{"deletecollection", "", "pods", "", space}:          false,
		{"create", "", "pods", "", metav1.NamespaceDefault}:  false,
		{"delete", "", "pods", "p", metav1.NamespaceDefault}: false,
	} {
		if got := r.allows(space, account, m); got != want {
			t.Errorf("%+v: allowed %v, want %v", m, got, want)
		}
	}
}
