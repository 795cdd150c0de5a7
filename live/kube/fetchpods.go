package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// fetchReply is what became of an order.
type fetchReply struct {
	order FetchOrder
	uid   string
	err   error
}

// fetcher makes and deletes the pods that fetch images, one after the other. Such a pod
// belongs to the pod of the scheduler: when that is deleted, it goes with it.
type fetcher struct {
	*Scheduler
	owner *metav1.OwnerReference // nil: not asked for yet, or there is none
}

// fetchAll carries out orders until the context ends. It begins with what an instance
// before has left behind that is over: informers do not tell of that.
func (f *fetcher) fetchAll(ctx context.Context) {
	for err := f.sweep(ctx); err != nil && ctx.Err() == nil; err = f.sweep(ctx) {
		f.config.Log.Warn("pods that fetched images, and are over, were not deleted", "because", err)
		if !pause(ctx, deleteAgain) {
			return
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-f.orders:
			r := fetchReply{order: o}
			if o.Delete {
				r.err = f.remove(ctx, o.Key, o.UID)
			} else {
				r.uid, r.err = f.makePod(ctx, &o)
			}
			if r.err != nil && ctx.Err() == nil {
				f.config.Log.Warn("a pod that fetches an image was not written", "pod", o.Key, "delete", o.Delete, "because", r.err)
			}
			select {
			case f.replies <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

// sweep deletes the pods of this scheduler that are over.
func (f *fetcher) sweep(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := f.config.Client.CoreV1().Pods(f.config.Namespace).List(call, metav1.ListOptions{LabelSelector: facts.PrefetchLabel})
	if err != nil {
		return fmt.Errorf("list pods that fetch images: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if !over || p.DeletionTimestamp != nil || p.Annotations[facts.PrefetchBy] != f.config.Name {
			continue
		}
		if err := f.remove(ctx, facts.Key(p), string(p.UID)); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a pod; one that is gone, or another of the name, is deleted already.
func (f *fetcher) remove(ctx context.Context, key, uid string) error {
	namespace, name := split(key)
	options := metav1.DeleteOptions{}
	if uid != "" {
		u := types.UID(uid)
		options.Preconditions = &metav1.Preconditions{UID: &u}
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := f.config.Client.CoreV1().Pods(namespace).Delete(call, name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// makePod makes the pod of an order, and returns its UID.
func (f *fetcher) makePod(ctx context.Context, o *FetchOrder) (string, error) {
	if err := f.mayWrite(); err != nil {
		return "", fmt.Errorf("make %s: %w", o.Key, err)
	}
	p := f.podOf(o)
	if err := f.ask(ctx); err != nil {
		return "", fmt.Errorf("make %s: %w", o.Key, err)
	}
	if f.owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*f.owner}
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made, err := f.config.Client.CoreV1().Pods(p.Namespace).Create(call, p, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make %s: %w", o.Key, err)
	}
	return string(made.UID), nil
}

// ask finds out which pod the scheduler itself runs in, if it runs in one, and that is in
// the namespace of those it makes.
func (f *fetcher) ask(ctx context.Context) error {
	if f.owner != nil || f.presence == nil || f.presence.Pod == "" || f.presence.Namespace != f.config.Namespace {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	p, err := f.config.Client.CoreV1().Pods(f.presence.Namespace).Get(call, f.presence.Pod, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the scheduler's own pod: %w", err)
	}
	f.owner = &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	return nil
}

// podOf is the pod that has a node fetch an image: it mounts it, so that nothing of it is
// ever run, and runs the pause image. It asks for nothing, may nothing, and is over in time
// whoever forgets it.
func (f *fetcher) podOf(o *FetchOrder) *corev1.Pod {
	yes, no := true, false
	seconds, grace, user := int64(o.Until/time.Second), int64(0), int64(65535)
	namespace, name := split(o.Key)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{facts.PrefetchLabel: ""},
			Annotations: map[string]string{facts.PrefetchBy: f.config.Name, facts.PrefetchImage: o.Image, facts.PrefetchDecision: o.Decision},
		},
		Spec: corev1.PodSpec{
			NodeName: o.Node, RestartPolicy: corev1.RestartPolicyNever,
			ActiveDeadlineSeconds: &seconds, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Tolerations:     []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Volumes: []corev1.Volume{{Name: "image", VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: o.Image, PullPolicy: corev1.PullIfNotPresent},
			}}},
			Containers: []corev1.Container{{
				Name: "pause", Image: f.pause(), ImagePullPolicy: corev1.PullIfNotPresent,
				VolumeMounts: []corev1.VolumeMount{{Name: "image", MountPath: "/image", ReadOnly: true}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	for _, secret := range f.config.Prefetch.PullSecrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return p
}

func (f *fetcher) pause() string {
	if f.config.Prefetch.Pause != "" {
		return f.config.Prefetch.Pause
	}
	return DefaultPause
}

// fetchesBeat does once a second what is due about images that are fetched.
func (o *owner) fetchesBeat() {
	o.books.watchFetches()
	orders, ended := o.books.takeFetches()
	o.dueOrders = append(o.dueOrders, orders...)
	for i := range ended {
		e := &ended[i]
		o.config.Metrics.prefetched(e)
		if e.Why != "" {
			o.config.Log.Warn("an image was not fetched ahead", "node", e.Node, "image", e.Image, "because", e.Why)
		}
	}
}
