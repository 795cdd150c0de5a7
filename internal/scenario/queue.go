package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/core/share"
	"github.com/headrace-dev/headrace/internal/world"
)

func queueFields() []string { return []string{"parent", "weight", "deserved", "limit"} }

func queueStatements() []statement {
	return []statement{
		{"queue", form{
			usage: "NAME [parent=NAME] [weight=N] [deserved=4gpu] [limit=8gpu,64cpu,1TiB]", least: 1, most: 1, fields: queueFields(),
		}, false, (*interp).addQueue},
		{"change-queue", form{
			usage: "NAME [parent=NAME|none] [weight=N] [deserved=AMOUNTS|none] [limit=AMOUNTS|none]", least: 1, most: 1, fields: queueFields(),
		}, false, (*interp).changeQueue},
		{"remove-queue", form{usage: "NAME", least: 1, most: 1}, false, (*interp).removeQueue},
	}
}

func (in *interp) addQueue(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("queue", name); err != nil {
		return nil, err
	}
	e := world.QueueAdded{Name: name, Weight: quantity.One}
	if err := in.terms(c.reader("queue "+name), &e); err != nil {
		return nil, err
	}
	return nil, in.apply(e)
}

// changeQueue gives a queue other terms; what is not said stays.
func (in *interp) changeQueue(c *call) ([]string, error) {
	name := c.args[0]
	id, known := in.queue(name)
	if !known {
		return nil, in.noQueue("change-queue", name)
	}
	e := in.termsOf(id)
	if err := in.terms(c.reader("queue "+name), &e); err != nil {
		return nil, err
	}
	return nil, in.apply(world.QueueChanged{QueueAdded: e})
}

func (in *interp) removeQueue(c *call) ([]string, error) {
	if _, known := in.queue(c.args[0]); !known {
		return nil, in.noQueue("remove-queue", c.args[0])
	}
	return nil, in.apply(world.QueueRemoved{Name: c.args[0]})
}

func (in *interp) noQueue(statement, name string) error {
	return fmt.Errorf("%s: queue %q: no such queue%s", statement, name, suggestAny(name, in.queueNames()))
}

// terms reads the fields that are there.
func (in *interp) terms(r *reader, e *world.QueueAdded) error {
	if r.has("parent") {
		if e.Parent = r.name("parent"); e.Parent == none {
			e.Parent = ""
		}
	}
	if r.has("weight") {
		e.Weight = quantity.Milli(1000 * r.number("weight", 1, 0, 1_000_000))
	}
	if r.has("deserved") {
		e.DeservedMilli, e.Deserved = r.resources("deserved")
	}
	if r.has("limit") {
		e.LimitMilli, e.Limit = r.resources("limit")
	}
	if r.err != nil {
		return r.err
	}
	if _, known := in.queue(e.Parent); e.Parent != "" && !known {
		return fmt.Errorf("queue %s: field parent: value %q: no such queue%s", e.Name, e.Parent, suggestAny(e.Parent, in.queueNames()))
	}
	return nil
}

// termsOf is what was said of a queue.
func (in *interp) termsOf(id cluster.QueueID) world.QueueAdded {
	v := in.view()
	q := v.Queue(id)
	e := world.QueueAdded{
		Name: q.Name, Weight: q.Weight, DeservedMilli: q.DeservedMilli, LimitMilli: q.LimitMilli,
		Deserved: byName(v, &q.Deserved), Limit: byName(v, &q.Limit),
	}
	if q.Parent != cluster.None {
		e.Parent = v.Queue(q.Parent).Name
	}
	return e
}

// byName is a vector with its dimensions by name.
func byName(v *cluster.View, amounts *cluster.Vector) map[string]int64 {
	out := make(map[string]int64)
	for d := range amounts.Dims() {
		if amount := amounts.At(d); amount > 0 {
			out[v.DimName(d)] = amount
		}
	}
	return out
}

const (
	none = "none" // takes an amount, or a parent, away
	gpu  = "gpu"
)

// resources reads amounts beside one another: 4gpu,500milli,16cpu,64GiB,10pods.
func (r *reader) resources(name string) (milli quantity.MilliGPU, rest map[string]int64) {
	value := r.text(name, "")
	if value == none {
		return 0, nil
	}
	rest = make(map[string]int64)
	for _, part := range strings.Split(value, ",") {
		unit := strings.TrimLeft(part, "0123456789")
		amount, ok := unsigned(strings.TrimSuffix(part, unit))
		ok = ok && amount <= 1_000_000_000
		resource := unit
		switch unit {
		case "gpu":
			amount, resource = amount*int64(quantity.WholeGPU), gpu
		case "milli":
			resource = gpu
		case "cpu":
			amount *= 1000
			ok = ok && quantity.MilliCPU(amount) <= maxCPU
		case "pods":
		default:
			var size quantity.Bytes
			size, ok = parseBytes(part)
			amount, resource = int64(size), "memory"
		}
		if _, twice := rest[resource]; !ok || twice {
			r.fail(name, value, "amounts of different resources, as in 4gpu,16cpu,64GiB,10pods or 500milli, or none")
			return 0, nil
		}
		rest[resource] = amount
	}
	milli = quantity.MilliGPU(rest[gpu])
	delete(rest, gpu)
	return milli, rest
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

// mostEpochs bounds how many epochs one step of the clock begins: nineteen weeks.
// In longer ones the first of them is longer than the others.
const mostEpochs = 20_000

// beginEpochs begins the quota epochs that lie between now and then.
func (in *interp) beginEpochs(until moment.Instant) error {
	if len(in.queueNames()) == 0 {
		return nil
	}
	epoch := int64(cluster.QuotaEpoch)
	last := int64(until) / epoch
	for n := max(int64(in.now)/epoch+1, last-mostEpochs); n <= last; n++ {
		in.now = moment.Instant(n * epoch)
		if err := in.apply(world.EpochBegan{}); err != nil {
			return err
		}
	}
	return nil
}

// showQueues prints what each queue uses, what it can count on, and what it used
// before.
func (in *interp) showQueues() []string {
	v := in.view()
	standing := share.Survey(v)
	var rows [][]string
	for _, name := range in.queueNames() {
		id, _ := in.queue(name)
		q := v.Queue(id)
		quota, fair := standing.Quota(id), standing.Fair(id)
		stated := statedDims(q)
		rows = append(rows, []string{
			q.Name, in.queueName(q.Parent), amountsOf(v, q.UsedMilli, &q.Used, stated),
			amountsOf(v, quota.Milli, &quota.Rest, statedIn(&q.Deserved)), amountsOf(v, fair.Milli, &fair.Rest, statedIn(&q.Deserved)),
			stating(v, q.DeservedMilli, &q.Deserved), stating(v, q.LimitMilli, &q.Limit),
			gpuHours(q.Usage.LastHour()), gpuHours(q.Usage.History),
		})
	}
	return table("queue|parent|used|quota|fair|deserved|limit|last hour|history", rows)
}

// statedIn lists the dimensions in which there is an amount.
func statedIn(amounts *cluster.Vector) []cluster.Dim {
	var out []cluster.Dim
	for d := range amounts.Dims() {
		if amounts.At(d) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// statedDims lists those in which a queue deserves anything or has a limit.
func statedDims(q *cluster.Queue) []cluster.Dim {
	return slices.Compact(slices.Sorted(slices.Values(append(statedIn(&q.Deserved), statedIn(&q.Limit)...))))
}

// amountsOf prints GPU compute, and what else is asked for.
func amountsOf(v *cluster.View, milli quantity.MilliGPU, rest *cluster.Vector, dims []cluster.Dim) string {
	out := milli.String()
	for _, d := range dims {
		out += " " + amountOf(v, d, rest.At(d))
	}
	return out
}

func amountOf(v *cluster.View, d cluster.Dim, amount int64) string {
	switch d {
	case cluster.DimCPU:
		return quantity.MilliCPU(amount).String()
	case cluster.DimMemory:
		return size(amount)
	}
	return fmt.Sprintf("%d %s", amount, v.DimName(d))
}

// stating prints only what is stated.
func stating(v *cluster.View, milli quantity.MilliGPU, rest *cluster.Vector) string {
	var out []string
	if milli > 0 {
		out = append(out, milli.String())
	}
	for _, d := range statedIn(rest) {
		out = append(out, amountOf(v, d, rest.At(d)))
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, " ")
}

// gpuHours prints milli-GPU seconds as hours of a GPU.
func gpuHours(use int64) string {
	const hour = 3_600_000
	hundredths := quantity.MulDiv(use, 100, hour)
	return fmt.Sprintf("%d.%02d GPUh", hundredths/100, hundredths%100)
}
