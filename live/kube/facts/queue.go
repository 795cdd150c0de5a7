package facts

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// Queue is what there is to know about a tenant's queue.
type Queue struct {
	UID   string
	Added world.QueueAdded
	// Why says what of it cannot be taken as it is; empty: nothing.
	Why string
}

// maxWeight is the most that a queue may weigh.
const maxWeight = 1_000_000

// QueueOf reads a queue. GPUs may be named as such or by the resource gpu.
func QueueOf(q *v1alpha1.Queue, gpu corev1.ResourceName) Queue {
	out := Queue{UID: string(q.UID), Added: world.QueueAdded{Name: q.Name, Parent: q.Spec.Parent, Weight: 1000}}
	if w := q.Spec.Weight; w != nil {
		if *w < 0 || *w > maxWeight {
			out.Why = fmt.Sprintf("weight %d: must be from 0 to %d", *w, maxWeight)
		}
		out.Added.Weight = quantity.Milli(*w) * 1000
	}
	var why [2]string
	out.Added.DeservedMilli, out.Added.Deserved, why[0] = queueAmounts("deserved", q.Spec.Deserved, gpu, 0)
	out.Added.LimitMilli, out.Added.Limit, why[1] = queueAmounts("limit", q.Spec.Limit, gpu, 1)
	for _, w := range why {
		if out.Why == "" {
			out.Why = w
		}
	}
	return out
}

// queueAmounts reads amounts by resource, each at least so many units; of GPUs in
// thousandths, of cpu too.
func queueAmounts(field string, list v1alpha1.ResourceList, gpu corev1.ResourceName, least int64) (milli quantity.MilliGPU, rest map[string]int64, why string) {
	gpus := ""
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		if amount.Sign() < 0 || least > 0 && amount.IsZero() {
			more := map[bool]string{false: "must not be negative", true: "must be more than 0; leave it out for no limit"}[least > 0]
			return 0, nil, fmt.Sprintf("%s %s: %q: %s", field, name, amount.String(), more)
		}
		switch {
		case name == v1alpha1.GPUs || name == string(gpu):
			if gpus != "" {
				return 0, nil, fmt.Sprintf("%s names GPUs twice, as %s and as %s: leave one out", field, gpus, name)
			}
			gpus, milli = name, quantity.MilliGPU(Thousandths(&amount))
		case name == string(corev1.ResourceCPU):
			rest = counted(rest, corev1.ResourceCPU, Thousandths(&amount))
		default:
			rest = counted(rest, corev1.ResourceName(name), Units(&amount))
		}
	}
	return milli, rest, ""
}
