package measure

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/headrace-dev/headrace/live/kube"
)

// look is how often something is looked at again.
const look = 100 * time.Millisecond

// load is the pods of one phase of one arm.
type load struct {
	*plant
	arm arm
	// run sets the names of the phase apart from all others: pod i is run-i.
	run  string
	pods int
	size int // of a group; a pod of an arm without groups stands alone
}

// batch is how many pods are created as one: a group, or a pod.
func (l *load) batch() int {
	if l.arm.grouped {
		return l.size
	}
	return 1
}

// create creates the pods from first on, as many as a batch has, and the group
// around them.
func (l *load) create(ctx context.Context, first int, sent func(i int)) error {
	group := ""
	if l.arm.grouped {
		group = fmt.Sprintf("%s-g%d", l.run, first/l.size)
		_, err := l.client.SchedulingV1beta1().PodGroups(namespace).Create(ctx, &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Name: group},
			Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
				Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(l.size)},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create group %s: %w", group, err)
		}
	}
	for i := first; i < first+l.batch(); i++ {
		if sent != nil {
			sent(i)
		}
		if _, err := l.client.CoreV1().Pods(namespace).Create(ctx, l.pod(i, group), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod %d: %w", i, err)
		}
	}
	return nil
}

// createAll creates all pods as fast as the API server takes them.
func (l *load) createAll(ctx context.Context) error {
	return each(ctx, l.pods/l.batch(), func(i int) error { return l.create(ctx, i*l.batch(), nil) })
}

// createAt creates all pods at a rate per second, and notes when each was sent. A
// batch that is late does not delay the next: the rate is kept as long as fewer
// than writers are under way.
func (l *load) createAt(ctx context.Context, rate int, sent func(i int)) error {
	every := time.Second * time.Duration(l.batch()) / time.Duration(rate)
	started := time.Now()
	return each(ctx, l.pods/l.batch(), func(i int) error {
		select {
		case <-time.After(time.Until(started.Add(every * time.Duration(i)))):
		case <-ctx.Done():
			return ctx.Err()
		}
		return l.create(ctx, i*l.batch(), sent)
	})
}

func (l *load) pod(i int, group string) *corev1.Pod {
	gpu := resource.MustParse("1")
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), kube.DefaultGPU: gpu}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", l.run, i)},
		Spec: corev1.PodSpec{
			SchedulerName: prefix + l.arm.name,
			Containers: []corev1.Container{{
				Name: "work", Image: "headrace.invalid/work",
				Resources: corev1.ResourceRequirements{Requests: requests, Limits: corev1.ResourceList{kube.DefaultGPU: gpu}},
			}},
		},
	}
	if group != "" {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
	}
	return p
}

// clear deletes the pods of the load and its groups, and waits until they have
// gone. A collection is deleted one by one by the API server, so workers do it.
func (l *load) clear(ctx context.Context) error {
	pods := l.client.CoreV1().Pods(namespace)
	err := each(ctx, l.pods, func(i int) error {
		return gone(pods.Delete(ctx, fmt.Sprintf("%s-%d", l.run, i), *metav1.NewDeleteOptions(0)))
	})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	if l.arm.grouped {
		err := each(ctx, l.pods/l.size, func(i int) error {
			return gone(l.client.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, fmt.Sprintf("%s-g%d", l.run, i), metav1.DeleteOptions{}))
		})
		if err != nil {
			return fmt.Errorf("delete the groups: %w", err)
		}
	}
	return until(ctx, func() (bool, error) {
		left, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, fmt.Errorf("look for pods that are left: %w", err)
		}
		if len(left.Items) > 0 || !l.arm.grouped {
			return len(left.Items) == 0, nil
		}
		groups, err := l.client.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return false, fmt.Errorf("look for groups that are left: %w", err)
		}
		return len(groups.Items) == 0, nil
	})
}

// gone makes deleting what is gone succeed.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// each calls do for 0 to n-1, in order, some at the same time, until the first
// error.
func each(ctx context.Context, n int, do func(i int) error) error {
	group, until := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := 0; i < n && until.Err() == nil; i++ {
		group.Go(func() error { return do(i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// follow watches the pods that a field selector takes, from a version on. A watch
// that the API server ends, as it does with watchers that are slow, is begun
// again where it stood.
func follow(ctx context.Context, client kubernetes.Interface, selector, from string) (watch.Interface, error) {
	w, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch the pods with %s: %w", selector, err)
	}
	return w, nil
}

// until looks again and again until something is so.
func until(ctx context.Context, so func() (bool, error)) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		yes, err := so()
		if yes || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
