package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/beliefs"
	"github.com/headrace-dev/headrace/live/kube"
)

// kept waits until what is kept rests on so many pods, and returns the object.
func (r *rig) kept(pods int64) *corev1.ConfigMap {
	r.Helper()
	var object *corev1.ConfigMap
	r.eventually(fmt.Sprintf("what is kept rests on %d pods", pods), func() string {
		var err error
		object, err = client.CoreV1().ConfigMaps(r.namespace).Get(r.Context(), kube.BeliefsName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "nothing is kept"
		}
		r.ok(err)
		b, err := beliefs.Decode(object.BinaryData["beliefs"])
		if err != nil {
			return err.Error()
		}
		sum := int64(0)
		for _, a := range b.Asks {
			sum += a.Pods
		}
		if sum != pods {
			return fmt.Sprintf("it rests on %d", sum)
		}
		return ""
	})
	return object
}

// A scheduler that is started again expects what the one before it expected. What
// is kept is not written while nothing is new, and where it is damaged, learning
// begins anew.
func TestBeliefsOutliveTheScheduler(t *testing.T) {
	r := newRig(t)
	config := kube.Config{Client: client, BeliefsNamespace: r.namespace, BeliefsEvery: 200 * time.Millisecond}
	s, stop := r.scheduleAs(config)
	r.node("n", 8)
	for i := range 30 {
		r.create(podOf(fmt.Sprint("p-", i), i%3, func(p *corev1.Pod) { p.Labels = map[string]string{"headrace.dev/kind": fmt.Sprint("kind-", i%2)} }))
	}
	before := r.kept(30)
	r.eventually("the figures have come", func() string {
		if f := s.Figures(); f.DemandPods != 30 {
			return fmt.Sprintf("they rest on %d pods", f.DemandPods)
		}
		return ""
	})
	want := s.Figures().DemandDigest
	stop()
	s, stop = r.scheduleAs(config)
	expects := func(pods int64) kube.Figures {
		var f kube.Figures
		r.eventually(fmt.Sprintf("it rests on %d pods", pods), func() string {
			if f = s.Figures(); f.Nodes != 1 || f.DemandPods != pods {
				return fmt.Sprintf("it rests on %d", f.DemandPods)
			}
			return ""
		})
		return f
	}
	if f := expects(30); f.DemandDigest != want {
		t.Errorf("the demand table has digest %x, before the start it had %x", f.DemandDigest, want)
	}
	if after := r.kept(30); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("what is kept was written again although nothing is new")
	}
	then := time.Now()
	r.eventually("a second has passed, since creation times are whole ones", func() string {
		if time.Since(then) < time.Second {
			return "not yet"
		}
		return ""
	})
	r.create(podOf("late", 1))
	after := r.kept(31)
	stop()
	after.BinaryData["beliefs"][len(after.BinaryData["beliefs"])-1] ^= 1
	_, err := client.CoreV1().ConfigMaps(r.namespace).Update(t.Context(), after, metav1.UpdateOptions{})
	r.ok(err)
	s, _ = r.scheduleAs(config)
	waiting := int64(0)
	for _, p := range r.pods() {
		if p.Spec.NodeName == "" {
			waiting++
		}
	}
	expects(waiting) // only those that still wait
}
