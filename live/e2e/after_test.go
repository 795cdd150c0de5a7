package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/engine"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

func noted(notes ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = make(map[string]string)
		for i := 0; i < len(notes); i += 2 {
			p.Annotations[notes[i]] = notes[i+1]
		}
	}
}

// ends writes how a pod ended, as a kubelet does.
func (r *rig) ends(name string, phase corev1.PodPhase) {
	r.Helper()
	r.eventually("pod "+name+" ends", func() string {
		p, err := client.CoreV1().Pods(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		began := metav1.NewTime(time.Now().Add(-time.Minute))
		p.Status.Phase, p.Status.StartTime = phase, &began
		_, err = client.CoreV1().Pods(r.namespace).UpdateStatus(r.Context(), p, metav1.UpdateOptions{})
		return text(err)
	})
}

// eventOf waits for an event about a pod.
func (r *rig) eventOf(pod, reason, note string) {
	r.Helper()
	r.eventually(fmt.Sprintf("an event %s about %s", reason, pod), func() string {
		list, err := client.EventsV1().Events(r.namespace).List(r.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Name == pod && e.Reason == reason && strings.Contains(e.Note, note) {
				return ""
			}
		}
		return fmt.Sprintf("none of %d", len(list.Items))
	})
}

// Work waits for work of a name, says so, and starts when that has ended well; what comes
// after work that failed never starts. It stays so when the scheduler is started again.
func TestWorkComesAfterWork(t *testing.T) {
	r := newRig(t)
	_, stop := r.scheduleAs(kube.Config{Client: client})
	r.node("n", 8)
	r.create(podOf("b", 1, noted(facts.AfterWork, "a")))
	r.create(podOf("d", 1, noted(facts.AfterWork, "c, a=start")))
	r.create(podOf("round", 1, noted(facts.AfterWork, "about")))
	r.create(podOf("about", 1, noted(facts.AfterWork, "round")))
	r.waits("b", "waits for the success of job "+r.namespace+"/a, which does not exist yet")
	r.create(podOf("a", 1))
	r.create(podOf("c", 1))
	r.bound("a")
	r.bound("c")
	r.waits("b", "waits for the success of job "+r.namespace+"/a; waiting for a change")
	r.eventually("the circle is named", func() string {
		for _, name := range []string{"round", "about"} {
			p, err := client.CoreV1().Pods(r.namespace).Get(r.Context(), name, metav1.GetOptions{})
			if err == nil && len(p.Status.Conditions) > 0 && strings.Contains(p.Status.Conditions[0].Message, "they would wait for each other") {
				return ""
			}
		}
		return "not yet"
	})
	stop()
	r.ends("a", corev1.PodSucceeded)
	r.ends("c", corev1.PodFailed)
	_, stop = r.scheduleAs(kube.Config{Client: client})
	r.bound("b")
	r.waits("d", "waits for the success of job "+r.namespace+"/c, which has failed; never, unless that is submitted again")
	r.ok(client.CoreV1().Pods(r.namespace).Delete(t.Context(), "c", *metav1.NewDeleteOptions(0)))
	then := time.Now()
	r.eventually("a second has passed, since creation times are whole ones", func() string {
		if time.Since(then) < time.Second {
			return "not yet"
		}
		return ""
	})
	r.create(podOf("c", 1))
	r.bound("c")
	r.waits("d", "waits for the success of job "+r.namespace+"/c; waiting for a change")
	r.ends("c", corev1.PodSucceeded)
	r.bound("d")
	stop()
}

// Who waits is told when it is expected to start, and that a deadline cannot be met; who
// is placed in room that is reserved says until when on itself.
func TestStartTimesAreTold(t *testing.T) {
	r := newRig(t)
	s, _ := r.scheduleAs(kube.Config{Client: client, StartTimes: true, Reserve: engine.ReserveHead})
	r.node("n", 2)
	r.create(podOf("first", 1, noted(facts.ExpectedDuration, "2h")))
	r.bound("first")
	r.create(podOf("big", 2, noted(facts.ExpectedDuration, "1h", facts.DeadlineAt, time.Now().Add(30*time.Minute).UTC().Format(time.RFC3339), facts.SLAClass, "batch")))
	r.eventually("big is told when it starts", func() string {
		p, err := s.ExplainPod(t.Context(), r.namespace, "big")
		if err != nil {
			return err.Error()
		}
		if p.Starts == nil || p.Starts.Likely == nil || p.Reserved == nil || p.Deadline == nil || p.SLAClass != "batch" {
			return fmt.Sprintf("starts %+v, reserved %+v, deadline %+v, class %q", p.Starts, p.Reserved, p.Deadline, p.SLAClass)
		}
		if in := time.Until(*p.Starts.Likely); in < 110*time.Minute || in > 2*time.Hour {
			return fmt.Sprintf("it starts in %v", in)
		}
		return ""
	})
	r.eventOf("big", "DeadlineCannotBeMet", "cannot be met, the earliest end is")
	line, err := s.ExplainQueue(t.Context(), 10)
	r.ok(err)
	var out strings.Builder
	line.Text(&out)
	if len(line.Pods) != 1 || line.Pods[0].Starts == nil || !strings.Contains(out.String(), "STARTS") {
		t.Errorf("the line: %s", out.String())
	}
	r.create(podOf("small", 1, noted(facts.ExpectedDuration, "1h")))
	r.bound("small")
	p, err := client.CoreV1().Pods(r.namespace).Get(t.Context(), "small", metav1.GetOptions{})
	r.ok(err)
	if _, err := time.Parse(time.RFC3339Nano, p.Annotations[facts.GoneBy]); err != nil {
		t.Errorf("small is to be gone by %q", p.Annotations[facts.GoneBy])
	}
}
