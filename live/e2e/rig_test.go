package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/upstream"
)

const (
	// patience is how long a test waits for what should take a second or two.
	patience = time.Minute
	poll     = 50 * time.Millisecond
	beat     = 250 * time.Millisecond // of schedulers, so that tests wait less
	review   = 2 * time.Second
	// writers create and delete at the same time.
	writers = 16
)

// rig is one test's namespace on the cluster. Tests run one after another, so
// that the nodes of a rig are all there are.
type rig struct {
	*testing.T
	namespace string
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t}
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + "-"
	space, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name}}, metav1.CreateOptions{})
	r.ok(err)
	r.namespace = space.Name
	r.eventually("the namespace has a service account", func() string {
		_, err := client.CoreV1().ServiceAccounts(r.namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return text(err)
	})
	t.Cleanup(r.clear)
	return r
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// clear takes away all pods and nodes.
func (r *rig) clear() {
	ctx := context.Background()
	var names []string
	for _, p := range r.pods() {
		names = append(names, p.Name)
	}
	each(names, func(name string) {
		if err := client.CoreV1().Pods(r.namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
			r.Errorf("delete pod %s: %v", name, err)
		}
	})
	r.ok(client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
}

// each calls do for all names, some at the same time.
func each[T any](items []T, do func(T)) {
	var group sync.WaitGroup
	next := make(chan T)
	for range writers {
		// Ends when next is closed.
		group.Go(func() {
			for item := range next {
				do(item)
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	group.Wait()
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// eventually waits until state is empty: it says what is still amiss.
func (r *rig) eventually(what string, state func() string) {
	r.Helper()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	deadline := time.After(patience)
	for {
		amiss := state()
		if amiss == "" {
			return
		}
		select {
		case <-deadline:
			r.Fatalf("after %v not yet: %s: %s", patience, what, amiss)
		case <-ticker.C:
		}
	}
}

// schedule starts a scheduler, and returns it with a function that stops it.
func (r *rig) schedule() (*kube.Scheduler, func()) {
	r.Helper()
	return r.scheduleBy(client)
}

// scheduleBy starts a scheduler that talks to the cluster through a client of its
// own.
func (r *rig) scheduleBy(client kubernetes.Interface) (*kube.Scheduler, func()) {
	r.Helper()
	return r.scheduleAs(kube.Config{Client: client})
}

// scheduleAs starts a scheduler with a configuration of its own, but for the log.
func (r *rig) scheduleAs(config kube.Config) (*kube.Scheduler, func()) {
	r.Helper()
	level := slog.LevelError
	if testing.Verbose() {
		level = slog.LevelWarn
	}
	config.Dynamic = objects
	config.Beat, config.Review = beat, review
	config.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	if config.Check == nil {
		config.Check = upstream.Check
	}
	s := kube.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with ctx
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				r.Errorf("the scheduler: %v", err)
			}
		})
	}
	r.Cleanup(stop)
	r.eventually("the scheduler has rebuilt its world", func() string {
		if s.Ready() {
			return ""
		}
		return "not ready"
	})
	return s, stop
}

// node creates a ready node.
func (r *rig) node(name string, gpus int, change ...func(*corev1.Node)) {
	r.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	if gpus > 0 {
		capacity[kube.DefaultGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(n)
	}
	_, err := client.CoreV1().Nodes().Create(r.Context(), n, metav1.CreateOptions{})
	r.ok(err)
}

// podOf returns a pod that asks for one core and some GPUs.
func podOf(name string, gpus int, change ...func(*corev1.Pod)) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	limits := corev1.ResourceList{}
	if gpus > 0 {
		requests[kube.DefaultGPU] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
		limits[kube.DefaultGPU] = requests[kube.DefaultGPU]
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: kube.DefaultName,
			Containers:    []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func (r *rig) create(pods ...*corev1.Pod) {
	r.Helper()
	each(pods, func(p *corev1.Pod) {
		if _, err := client.CoreV1().Pods(r.namespace).Create(r.Context(), p, metav1.CreateOptions{}); err != nil {
			r.Errorf("create pod %s: %v", p.Name, err)
		}
	})
}

func (r *rig) pod(name string) *corev1.Pod {
	r.Helper()
	p, err := client.CoreV1().Pods(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
	r.ok(err)
	return p
}

func (r *rig) pods() []corev1.Pod {
	r.Helper()
	list, err := client.CoreV1().Pods(r.namespace).List(context.Background(), metav1.ListOptions{})
	r.ok(err)
	return list.Items
}

// bound waits until a pod is bound, and returns to which node.
func (r *rig) bound(name string) string {
	r.Helper()
	node := ""
	r.eventually("pod "+name+" is bound", func() string {
		p := r.pod(name)
		node = p.Spec.NodeName
		if node == "" {
			return "it waits: " + reason(p)
		}
		return ""
	})
	return node
}

// reason returns what a pod's condition says about why it waits.
func reason(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

// waits waits until a pod says that it waits for a reason.
func (r *rig) waits(name, want string) {
	r.Helper()
	r.eventually(fmt.Sprintf("pod %s waits because %q", name, want), func() string {
		p := r.pod(name)
		if p.Spec.NodeName != "" {
			return "it is bound to " + p.Spec.NodeName
		}
		if got := reason(p); !strings.Contains(got, want) {
			return fmt.Sprintf("it says %q", got)
		}
		return ""
	})
}

// allBound waits until all pods are bound.
func (r *rig) allBound() {
	r.Helper()
	r.eventually("all pods are bound", func() string {
		n, last := 0, ""
		for _, p := range r.pods() {
			if p.Spec.NodeName == "" {
				n++
				last = p.Name + ": " + reason(&p)
			}
		}
		if n > 0 {
			return fmt.Sprintf("%d wait, one is %s", n, last)
		}
		return ""
	})
}

// inBounds fails when a node holds more than it has, and returns how many GPUs
// are held in all.
func (r *rig) inBounds() int {
	r.Helper()
	nodes, err := client.CoreV1().Nodes().List(r.Context(), metav1.ListOptions{})
	r.ok(err)
	held := make(map[string]corev1.ResourceList)
	gpus := int64(0)
	for _, p := range r.pods() {
		if p.Spec.NodeName == "" || finished(&p) {
			continue
		}
		if held[p.Spec.NodeName] == nil {
			held[p.Spec.NodeName] = corev1.ResourceList{}
		}
		requests := resourcehelper.PodRequests(&p, resourcehelper.PodResourcesOptions{})
		requests[corev1.ResourcePods] = resource.MustParse("1")
		for name, amount := range requests {
			sum := held[p.Spec.NodeName][name]
			sum.Add(amount)
			held[p.Spec.NodeName][name] = sum
		}
		asked := requests[kube.DefaultGPU]
		gpus += asked.Value()
	}
	for _, n := range nodes.Items {
		for name, sum := range held[n.Name] {
			if has := n.Status.Allocatable[name]; sum.Cmp(has) > 0 {
				r.Errorf("node %s: %s of %s are held, it has %s", n.Name, sum.String(), name, has.String())
			}
		}
	}
	return int(gpus)
}

// counts waits until the scheduler's own figures say how many GPUs are held.
func (r *rig) counts(s *kube.Scheduler, gpus int) {
	r.Helper()
	r.eventually(fmt.Sprintf("the scheduler counts %d GPUs as held", gpus), func() string {
		if f := s.Figures(); f.GPUsHeld != gpus || f.Placing != 0 {
			return fmt.Sprintf("it counts %d, and %d binds in flight", f.GPUsHeld, f.Placing)
		}
		return ""
	})
}
