package kube

import (
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/headrace-dev/headrace/internal/core/moment"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

// owners play the controllers of a few Deployments and Jobs.
type owners struct {
	*mover
	r        *rand.Rand
	replicas map[string]int32 // by name of the Deployment, as in its spec
	serial   int
	scaled   int // up, by surges
	done     int // down again, with the old pod to go
}

var errBusy = errors.New("the API server is busy")

// control makes and takes away pods, at most one of each owner at a time.
func (o *owners) control() {
	for _, name := range slices.Sorted(maps.Keys(o.replicas)) {
		var mine []string
		for _, key := range slices.Sorted(maps.Keys(o.pods)) {
			if p := o.pods[key]; p.Labels["app"] == name && p.DeletionTimestamp == nil {
				mine = append(mine, key)
			}
		}
		switch n := int32(len(mine)); {
		case n < o.replicas[name]:
			o.serial++
			key := fmt.Sprintf("%s-h-%d", name, o.serial)
			o.createPod(key, DefaultName, 1, 1)
			p, yes := o.pods["ns/"+key], true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-h", UID: types.UID("uid-of-" + name), Controller: &yes}}
			p.Labels, p.Annotations = map[string]string{"app": name, "pod-template-hash": "h"}, map[string]string{facts.Surge: "true"}
		case n > o.replicas[name]:
			slices.SortStableFunc(mine, func(a, b string) int { return rankOf(o.pods[a]) - rankOf(o.pods[b]) })
			o.goes(mine[0])
		}
	}
}

// rankOf is low for pods that go first.
func rankOf(p *corev1.Pod) int {
	switch {
	case p.Status.Phase != corev1.PodRunning:
		return 0
	case p.Annotations[corev1.PodDeletionCost] != "":
		return 1
	}
	return 2
}

// goes tells a pod to go; one without a node is gone.
func (o *owners) goes(key string) {
	if o.pods[key].Spec.NodeName == "" {
		o.deletePod(key)
		return
	}
	o.change(key, func(p *corev1.Pod) { now := metav1.NewTime(o.now); p.DeletionTimestamp = &now })
}

// scale carries out the steps that are due, or refuses them.
func (o *owners) scale(refuse bool) {
	for _, t := range o.books.takeSteps() {
		out := SurgeOutcome{Pod: t.Pod.Key, Step: t.Step}
		has := o.replicas[t.Deployment]
		mark := func(r Ref) {
			if p := o.pods[r.Key]; p != nil && string(p.UID) == r.UID {
				o.change(r.Key, func(p *corev1.Pod) {
					p.Annotations = map[string]string{facts.Surge: "true", corev1.PodDeletionCost: firstToGo}
				})
			}
		}
		switch {
		case refuse:
			out.Err = errBusy
		case t.Step == surgeLook:
			out.Replicas = has
		case t.Step == surgeUp && has == t.Replicas:
			o.replicas[t.Deployment]++
			o.scaled++
		case t.Step == surgeDown && has == t.Replicas+1:
			mark(t.Pod)
			o.replicas[t.Deployment]--
			o.done++
		case t.Step == surgeUndo:
			mark(t.Heir)
			if has == t.Replicas+1 {
				o.replicas[t.Deployment]--
			}
		default:
			out.Err = otherNumber{has: has, want: t.Replicas}
		}
		o.books.surged(&out)
	}
}

// Whatever happens in whatever order to pods that move, and to the Deployments that are
// scaled for it, the books balance; the journal replays; and in the end nothing is kept, and
// each Deployment has as many replicas as its author said.
func TestMovesFollowTheTruth(t *testing.T) {
	scaled, done, kept := 0, 0, 0
	for seed := range int64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			o := &owners{mover: newMover(t), r: r, replicas: map[string]int32{"web": 2, "shop": 1, "chat": 1}}
			rules := o.books.turns[0].Policy.Tidies
			rules.Rest, rules.PerHour, rules.Price = moment.Minute, 0, 1
			path := filepath.Join(t.TempDir(), "j")
			var err error
			if o.books.record, err = record(path, DefaultRecordLimit, o.books.turns[0].Policy); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				o.putNode(fmt.Sprint("node-", i), 8, 2+i%2, "", true)
			}
			for range 600 {
				what := o.step()
				o.leaving = append(o.leaving, o.books.takeEvictions()...)
				kept += len(o.books.world.View().Legacies())
				o.balanced(what)
			}
			scaled, done = scaled+o.scaled, done+o.done
			for _, key := range slices.Sorted(maps.Keys(o.pods)) { // nobody waits any more, and nobody moves
				if o.pods[key].Labels["app"] == "" {
					o.deletePod(key)
				}
			}
			for range 60 {
				o.scale(false)
				o.control()
				o.finishAll()
				o.serveAll()
				o.pass(time.Minute)
				o.books.forgo()
				o.books.followSurges()
				o.books.resume()
				o.review()
			}
			o.tellAll()
			o.balanced("settling")
			if n := len(o.books.world.View().Legacies()); n != 0 || len(o.books.surges) != 0 {
				t.Errorf("in the end %d places are kept, surges %v; want none", n, o.books.surges)
			}
			if want := map[string]int32{"web": 2, "shop": 1, "chat": 1}; !maps.Equal(o.replicas, want) {
				t.Errorf("in the end the Deployments have %v replicas, want %v", o.replicas, want)
			}
			if err := o.books.record.end(); err != nil {
				t.Fatal(err)
			}
			if got := replayed(t, path); got.Differing != 0 || got.Cycles != int(o.books.cycle) {
				t.Errorf("replayed to %+v, want %d cycles and no difference", got, o.books.cycle)
			}
		})
	}
	t.Logf("%d times scaled up, %d of them to the end, %d places kept after a step", scaled, done, kept)
	if scaled == 0 || done == 0 || kept == 0 {
		t.Error("nothing was shown")
	}
}

// step lets one thing happen.
func (o *owners) step() string {
	switch o.r.Intn(12) {
	case 0, 1:
		o.control()
		return "the controllers"
	case 2:
		o.scale(o.r.Intn(5) == 0)
		return "a step of a surge"
	case 3:
		if len(o.leaving) > 0 {
			o.carry(o.r.Intn(4) == 0)
		}
		return "an eviction"
	case 4:
		for _, key := range slices.Sorted(maps.Keys(o.pods)) {
			if o.pods[key].DeletionTimestamp != nil {
				o.deletePod(key)
				return "a pod is gone"
			}
		}
	case 5:
		o.serveAll()
		return "pods are ready"
	case 6:
		name := fmt.Sprint("other-", o.r.Intn(8))
		if o.pods["ns/"+name] == nil {
			o.createPod(name, DefaultName, 1, 1+o.r.Intn(2))
		} else if o.r.Intn(2) == 0 {
			o.deletePod("ns/" + name)
		}
		return "another pod"
	case 7:
		o.pass(time.Duration(o.r.Intn(120)) * time.Second)
		o.books.resume()
		o.books.forgo()
		o.books.followSurges()
		return "a beat"
	case 8:
		o.review()
		return "a review"
	case 9:
		keys := slices.Sorted(maps.Keys(o.pods))
		if len(keys) > 0 && o.r.Intn(4) == 0 {
			o.goes(keys[o.r.Intn(len(keys))])
		}
		return "somebody tells a pod to go"
	}
	if o.r.Intn(4) == 0 {
		return step(o.truth, o.r)
	}
	for len(o.flying) > 0 && o.r.Intn(8) > 0 {
		o.land(0, false)
	}
	o.tellAll()
	return "all is told"
}

// serveAll says of bound pods of the Deployments that they are ready.
func (o *owners) serveAll() {
	for _, key := range slices.Sorted(maps.Keys(o.pods)) {
		if p := o.pods[key]; p.Labels["app"] != "" && p.Spec.NodeName != "" && p.Status.Phase == "" && o.r.Intn(3) > 0 {
			o.runs(p.Name)
		}
	}
}
