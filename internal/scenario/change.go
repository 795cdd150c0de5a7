package scenario

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

func changeStatements() []statement {
	return []statement{
		{"change-pod", form{
			usage: "NAME [priority=N] [preemptible=no] [labels=…] [cpu=N] …", least: 1, most: 1, flags: linkFlags(),
			fields: append(requestFields(), "priority", "preemptible", "never-preempts", "sla", "expected", "labels"),
		}, false, (*interp).changePod},
		{"scale", form{usage: "GROUP|JOB [min=N] [wished=N] [pods=N]", least: 1, most: 1, fields: []string{"min", "wished", "pods"}}, false, (*interp).scale},
	}
}

// changePod changes the fields that are said; what is not said stays. Cards are said all
// at once.
func (in *interp) changePod(c *call) ([]string, error) {
	name := c.args[0]
	if _, err := in.pod(name); err != nil {
		return nil, err
	}
	r, spec := c.reader("change-pod "+name), in.specs[name]
	spec.Priority = int32(r.number("priority", int64(spec.Priority), math.MinInt32, math.MaxInt32))
	if r.has("preemptible") {
		spec.Protected = r.oneOf("preemptible", "yes", []string{"yes", "no"}) == 1
	}
	if r.has("never-preempts") {
		spec.PreemptNever = r.oneOf("never-preempts", "no", []string{"no", "yes"}) == 1
	}
	spec.SLATotal, spec.Expected = r.span("sla", spec.SLATotal), r.span("expected", spec.Expected)
	q := spec.Request
	q.CPU, q.Memory = r.cpu("cpu", q.CPU), r.bytes("memory", q.Memory)
	if slices.ContainsFunc(append(deviceFields(), linkFlags()...), r.has) {
		q.Devices = in.devices(r)
	}
	if r.has("select") {
		q.Selector = r.selector()
	}
	if r.has("tolerate") {
		q.Tolerations = r.tolerations()
	}
	spec.Request = q
	labels := r.labels()
	if r.err != nil {
		return nil, r.err
	}
	if len(in.selectors) > 0 {
		if err := in.tellFacts(); err != nil {
			return nil, err
		}
	}
	if err := in.apply(spec.Change()); err != nil {
		return nil, err
	}
	in.specs[name] = spec
	if !r.has("labels") || maps.Equal(labels, spec.Labels) {
		return nil, nil
	}
	return in.relabelTo(name, labels)
}

// relabelTo gives a pod other labels.
func (in *interp) relabelTo(name string, labels map[string]string) ([]string, error) {
	if err := in.apply(world.PodLabelled{Name: name, Labels: labels}); err != nil {
		return nil, err
	}
	spec := in.specs[name]
	spec.Labels = labels
	in.specs[name] = spec
	return nil, nil
}

// scale says how many pods a group needs, or wishes for, or has; a job is scaled by its
// only group.
func (in *interp) scale(c *call) ([]string, error) {
	id, err := in.scaled(c.args[0])
	if err != nil {
		return nil, err
	}
	v := in.view()
	g := *v.Group(id)
	e := world.GroupChanged{
		Name: g.Name, Minimum: g.Minimum, Wished: g.Wished, Hold: g.Hold, Groups: g.Groups, Topology: g.Topology, Comm: g.Comm,
	}
	if g.Parent != cluster.None {
		e.Parent = v.Group(g.Parent).Name
	}
	r := c.reader("scale " + c.args[0])
	e.Minimum = int32(r.number("min", int64(e.Minimum), 0, math.MaxInt32))
	e.Wished = int32(r.number("wished", int64(e.Wished), 0, math.MaxInt32))
	pods := r.number("pods", int64(g.Members), 0, maxCount)
	if r.err != nil {
		return nil, r.err
	}
	if len(c.fields) == 0 {
		return nil, fmt.Errorf("scale %s: no fields: want min, wished or pods", c.args[0])
	}
	if err := in.apply(e); err != nil {
		return nil, err
	}
	return nil, in.resizeGroup(id, int(pods))
}

// scaled finds the group that is meant.
func (in *interp) scaled(name string) (cluster.GroupID, error) {
	v := in.view()
	if id, named := in.world.Group(name); named && v.Group(id).Known {
		return id, nil
	}
	job, err := in.job(name)
	if err != nil {
		return cluster.None, fmt.Errorf("scale: %q: no such group or job", name)
	}
	var groups []string
	found := cluster.GroupID(cluster.None)
	for i := range v.Groups.Len() {
		if g := v.Group(cluster.GroupID(i)); g.Known && g.Job == job {
			groups, found = append(groups, g.Name), cluster.GroupID(i)
		}
	}
	if len(groups) != 1 {
		slices.SortFunc(groups, compareNames)
		return cluster.None, fmt.Errorf("scale: job %s has %d groups (%s): name the one that is meant", name, len(groups), strings.Join(groups, ", "))
	}
	return found, nil
}

// resizeGroup deletes the last pods of a group, by name, or adds ones like the last, as
// whoever owns them would.
func (in *interp) resizeGroup(id cluster.GroupID, pods int) error {
	v := in.view()
	var names []string
	for pod := range v.Members(id) {
		names = append(names, v.Pod(pod).Spec.Name)
	}
	slices.SortFunc(names, compareNames)
	for len(names) > pods {
		last := len(names) - 1
		if err := in.remove(names[last]); err != nil {
			return err
		}
		names = names[:last]
	}
	if len(names) == pods {
		return nil
	}
	if len(names) == 0 {
		return fmt.Errorf("scale %s: field pods: value %d: it has no pod that others could be like", v.Group(id).Name, pods)
	}
	like := names[len(names)-1]
	spec, stem := in.specs[like], strings.TrimRight(like, "0123456789")
	for n := 1; len(names) < pods; n++ {
		name := fmt.Sprintf("%s%d", stem, n)
		if _, taken := in.world.Pod(name); taken {
			continue
		}
		spec.Name = name
		if spec.Ranked {
			spec.Rank++
		}
		if err := in.addOne(spec, in.guards[like], in.stops[like]); err != nil {
			return err
		}
		names = append(names, name)
	}
	return nil
}
