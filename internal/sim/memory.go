package sim

import (
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/world"
)

// A card gives memory to who asks first. Where pods are charged with less than they
// declare, it may be used up when one starts: that one fails, waits again, and its kind is
// from then on charged with what it declares.

// shortOfMemory lists the pods that use more memory than they are charged with, on cards
// that have not got enough for one that starts; none where all have.
func (a *actor) shortOfMemory(index int32) []int32 {
	l := &a.lives[index]
	if a.learner == nil || a.learner.needs.Charge == 0 || len(l.cards) == 0 {
		return nil
	}
	var out []int32
	for _, c := range l.cards {
		var who []int32
		var used []quantity.Bytes
		for _, pod := range a.devices[c].pods {
			if pod != index && a.lives[pod].state == running {
				who, used = append(who, pod), append(used, model.UsedMemory(a.lives[pod].pod))
			}
		}
		who, used = append(who, index), append(used, model.UsedMemory(l.pod))
		if _, failed := model.OutOfMemory(a.Workload.Nodes[l.node].GPUMemory, used); !failed {
			continue
		}
		for i, pod := range who {
			if used[i] > a.chargedMemory(pod) {
				out = append(out, pod)
			}
		}
	}
	return out
}

// chargedMemory is what a pod holds of the memory of each of its cards.
func (a *actor) chargedMemory(index int32) quantity.Bytes {
	id, known := a.world.Pod(a.lives[index].pod.Name)
	if !known {
		return 0
	}
	held := quantity.Bytes(0)
	for _, g := range a.world.View().Pod(id).Placement.Grants {
		held = max(held, g.Memory)
	}
	return held
}

// failForMemory lets a pod that found no memory wait again. The kinds of those who took
// more than they were charged with need what they declare from now on.
func (a *actor) failForMemory(index int32, took []int32) error {
	l := &a.lives[index]
	a.memoryFailures++
	a.planCycle()
	if err := a.lost(l.pod.Name); err != nil {
		return err
	}
	if err := a.apply(a.now, world.Lost{Name: l.pod.Name}); err != nil {
		return err
	}
	for _, pod := range took {
		p := a.lives[pod].pod
		a.learner.needs.Observe(a.world.Symbol(p.Kind), p.GPUMemory, 0)
	}
	a.learner.beliefs.Needs = a.learner.needs.Table()
	return a.tell()
}
