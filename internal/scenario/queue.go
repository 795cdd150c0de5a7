package scenario

import (
	"fmt"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

func queueStatements() []statement {
	return []statement{
		{"queue", form{
			usage: "NAME [parent=NAME] [limit=4gpu] [deserved=4gpu] [weight=N]", least: 1, most: 1,
			fields: []string{"parent", "limit", "deserved", "weight"},
		}, false, (*interp).addQueue},
	}
}

func (in *interp) addQueue(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("queue", name); err != nil {
		return nil, err
	}
	r := c.reader("queue " + name)
	e := world.QueueAdded{
		Name: name, Parent: r.name("parent"), LimitMilli: r.gpus("limit", 0), DeservedMilli: r.gpus("deserved", 0),
		Weight: quantity.Milli(1000 * r.number("weight", 1, 1, 1_000_000)),
	}
	if r.err != nil {
		return nil, r.err
	}
	if _, known := in.queue(e.Parent); e.Parent != "" && !known {
		return nil, fmt.Errorf("queue %s: field parent: value %q: no such queue%s", name, e.Parent, suggestAny(e.Parent, in.queueNames()))
	}
	return nil, in.apply(e)
}

// queue finds a queue by name.
func (in *interp) queue(name string) (cluster.QueueID, bool) {
	v := in.view()
	for i := range v.Queues.Len() {
		if q := v.Queues.At(int32(i)); q.Name == name && !q.Gone {
			return cluster.QueueID(i), true
		}
	}
	return cluster.None, false
}

func (in *interp) queueNames() []string {
	v := in.view()
	var out []string
	for i := range v.Queues.Len() {
		if q := v.Queues.At(int32(i)); !q.Gone {
			out = append(out, q.Name)
		}
	}
	slices.Sort(out)
	return out
}
