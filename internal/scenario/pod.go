package scenario

import (
	"fmt"
	"math"
	"slices"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// requestFields say what a pod asks for; an alternative may change any of them.
func requestFields() []string {
	return append(deviceFields(), "cpu", "memory", "select", "tolerate")
}

func deviceFields() []string {
	return []string{"gpus", "share", "partition", partName, "gpu-memory", "min-gpu-memory", "model"}
}

func linkFlags() []string { return []string{"same-island", "same-numa"} }

func podStatements() []statement {
	return []statement{
		{"pod", form{
			usage: "NAME [gpus=N] …", least: 1, most: 1, flags: append(linkFlags(), "protected", "never-preempts", "ranks", "surges"),
			fields: append(append(requestFields(), tieFields()...), "count", "priority", "queue", "group", "job", "sla", "kind", "expected", "budget", "stops-in", "rank", "needs", "owner", "heir-of"),
		}, true, (*interp).addPod},
		{"start", form{usage: "NAME…", least: 1, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return in.eachPod(c, func(name string) error { return in.apply(world.Started{Name: name}) })
		}},
		{"finish", form{usage: "NAME…", least: 1, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return in.eachPod(c, in.finish)
		}},
		{"delete", form{usage: "NAME…", least: 1, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return in.eachPod(c, in.remove)
		}},
		{"lose", form{usage: "NAME…", least: 1, most: maxCount}, false, func(in *interp, c *call) ([]string, error) {
			return in.eachPod(c, func(name string) error { return in.apply(world.Lost{Name: name}) })
		}},
	}
}

func (in *interp) addPod(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("pod", name); err != nil {
		return nil, err
	}
	r := c.reader("pod " + name)
	e := world.PodAdded{
		Kind: r.name("kind"), Queue: r.name("queue"), Group: r.name("group"), Job: r.name("job"), SLATotal: r.span("sla", 0), Expected: r.span("expected", 0),
		Priority: int32(r.number("priority", 0, math.MinInt32, math.MaxInt32)), Protected: r.has("protected"), PreemptNever: r.has("never-preempts"), Artifacts: r.list("needs"),
		Owner: r.name("owner"), Surges: r.has("surges"), HeirOf: r.name("heir-of"),
	}
	if r.has("rank") || r.has("ranks") {
		e.Ranked, e.Rank = true, int32(r.number("rank", 0, 0, math.MaxInt32))
	}
	budget, stops := r.name("budget"), r.span("stops-in", 0)
	r.ties(&e)
	names := numbered(name, r.number("count", 1, 1, maxCount))
	requests, err := in.requests(r, c.block)
	if err != nil {
		return nil, err
	}
	e.Request, e.Alternatives = requests[0], requests[1:]
	if in.pods+len(names) > in.rows {
		return nil, fmt.Errorf("pod %s: field count: value %d: at most %d pods in one file", name, len(names), in.rows)
	}
	if _, known := in.queue(e.Queue); e.Queue != "" && !known {
		return nil, fmt.Errorf("pod %s: field queue: value %q: no such queue%s", name, e.Queue, suggestAny(e.Queue, in.queueNames()))
	}
	if !in.hasBudget(budget) {
		return nil, fmt.Errorf("pod %s: field budget: value %q: no such budget", name, budget)
	}
	for _, n := range names {
		if _, dup := in.world.Pod(n); dup {
			return nil, fmt.Errorf("pod %s: it is there already", n)
		}
	}
	if len(in.selectors) > 0 {
		if err := in.tellFacts(); err != nil {
			return nil, err
		}
	}
	for _, n := range names {
		e.Name = n
		if err := in.addOne(e, budget, stops); err != nil {
			return nil, err
		}
		if r.has("ranks") {
			e.Rank++
		}
	}
	return nil, nil
}

// addOne adds one pod, with the budget that its eviction counts against and the time
// that it takes to stop.
func (in *interp) addOne(e world.PodAdded, budget string, stops moment.Span) error {
	if in.pods >= in.rows {
		return fmt.Errorf("pod %s: at most %d pods in one file", e.Name, in.rows)
	}
	if err := in.apply(e); err != nil {
		return err
	}
	in.pods++
	in.specs[e.Name], in.guards[e.Name] = e, budget
	delete(in.stops, e.Name)
	if stops > 0 {
		in.stops[e.Name] = stops
	}
	if budget == "" {
		return nil
	}
	return in.apply(world.Guarded{Name: e.Name, Budget: budget})
}

// maxChoices bounds the indented lines of a pod.
const maxChoices = 16

// requests reads what a pod asks for and, from lines "or …", what else it would
// take, best first. A line "and …" adds devices to the choice above it.
func (in *interp) requests(r *reader, block []blockLine) ([]world.Request, error) {
	out := []world.Request{in.request(r)}
	if r.err != nil {
		return nil, r.err
	}
	if len(block) > maxChoices {
		return nil, fmt.Errorf("%s: %d indented lines: at most %d", r.of, len(block), maxChoices)
	}
	for _, line := range block {
		w := split(line.text)
		sub := &reader{of: r.of + ", " + w.name, w: &w}
		switch w.name {
		case "or":
			if err := w.conform(&form{flags: linkFlags(), fields: requestFields()}); err != nil {
				return nil, fmt.Errorf("%s: %w", r.of, err)
			}
			sub.w = overlaid(r.w, &w)
			out = append(out, in.request(sub))
		case "and":
			if err := w.conform(&form{flags: linkFlags(), fields: deviceFields()}); err != nil {
				return nil, fmt.Errorf("%s: %w", r.of, err)
			}
			last := &out[len(out)-1]
			last.Devices = append(slices.Clone(last.Devices), in.devices(sub)...)
		default:
			return nil, fmt.Errorf("%s: indented line %q: want or …, or and …", r.of, line.text)
		}
		if sub.err != nil {
			return nil, sub.err
		}
	}
	return out, nil
}

// overlaid is the first choice with the fields that an alternative changes.
func overlaid(first, other *words) *words {
	out := &words{name: other.name, fields: slices.Clone(other.fields)}
	for _, f := range first.fields {
		if !slices.ContainsFunc(other.fields, func(o field) bool { return o.name == f.name }) {
			out.fields = append(out.fields, f)
		}
	}
	return out
}

func (in *interp) request(r *reader) world.Request {
	return world.Request{
		CPU: r.cpu("cpu", 0), Memory: r.bytes("memory", 0), Devices: in.devices(r),
		Selector: r.selector(), Tolerations: r.tolerations(),
	}
}

// devices reads how many GPUs, or which part of one. Under a policy for whole
// cards a share is rounded up to a card.
func (in *interp) devices(r *reader) []world.DeviceRequest {
	d := world.DeviceRequest{
		Milli: quantity.MilliGPU(r.number("share", int64(quantity.WholeGPU), 1, int64(quantity.WholeGPU))), Profile: r.name("partition"),
		Memory: r.bytes("gpu-memory", 0), MinMemory: r.bytes("min-gpu-memory", 0), Models: r.list("model"),
		SameIsland: r.has("same-island"), SameNUMA: r.has("same-numa"),
	}
	given := slices.ContainsFunc(r.w.fields, func(f field) bool {
		return f.value != "" && slices.Contains(deviceFields(), f.name) || slices.Contains(linkFlags(), f.name)
	})
	d.Count = int32(r.number("gpus", 1, 0, maxGPUs))
	for _, model := range d.Models {
		if !nameRE.MatchString(model) {
			r.fail("model", model, "letters, digits and . _ / -")
		}
	}
	switch {
	case r.has(partName) && (d.Profile != "" || r.text("share", "") != ""):
		r.fail(partName, r.text(partName, ""), "either a part, or a share, or a partition")
	case r.has(partName):
		d.Selector = in.partSelector(r, d.MinMemory)
		d.Parts, d.Milli, d.Memory, d.MinMemory = true, quantity.WholeGPU, 0, 0
	case d.Profile != "" && r.text("share", "") != "":
		r.fail("share", r.text("share", ""), "either a share or a partition")
	case d.Profile != "":
		d.Milli, d.Memory = 0, 0
	case in.whole:
		d.Milli = quantity.WholeGPU
	}
	if !given || d.Count == 0 {
		return nil
	}
	return []world.DeviceRequest{d}
}

// finish ends the work of a pod that has a place.
func (in *interp) finish(name string) error {
	id, err := in.pod(name)
	if err != nil {
		return err
	}
	if phase := in.view().Pod(id).Phase; phase != cluster.PhaseBound && phase != cluster.PhaseRunning {
		return fmt.Errorf("pod %s: it is %v, not running", name, phase)
	}
	return in.remove(name)
}

func (in *interp) remove(name string) error {
	delete(in.because, name)
	return in.apply(world.PodRemoved{Name: name})
}

// eachPod does the same to all pods named. The first refusal ends it.
func (in *interp) eachPod(c *call, do func(string) error) ([]string, error) {
	for _, name := range c.args {
		if _, err := in.pod(name); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if err := do(name); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil, nil
}
