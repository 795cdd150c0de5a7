package scenario

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/decision"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

func showStatements() []statement {
	return []statement{
		{"show", form{usage: "KIND [NODE]", least: 1, most: 2}, false, (*interp).show},
	}
}

// show prints a table of one kind of thing.
func (in *interp) show(c *call) ([]string, error) {
	kinds := []string{"nodes", "pods", "devices", "queues", "jobs", "groups", "waiting", "domains", "intents", "evictions", "classes", "digest", "after", "slas", "caches", "heirs"}
	kind := slices.Index(kinds, c.args[0])
	if kind < 0 {
		return nil, fmt.Errorf("show: kind %q: no such kind%s", c.args[0], suggest(c.args[0], kinds))
	}
	if (c.args[0] == "devices") != (len(c.args) == 2) {
		return nil, fmt.Errorf("show %s: %d arguments: want show devices NODE, or show KIND alone", c.args[0], len(c.args)-1)
	}
	if c.args[0] == "devices" {
		return in.showDevices(c.args[1])
	}
	return [...]func() []string{in.showNodes, in.showPods, nil, in.showQueues, in.showJobs, in.showGroups, in.showWaiting, in.showDomains, in.showIntents, in.showEvictions, in.showClasses, in.showDigest, in.showAfter, in.showSLAs, in.showCaches, in.showHeirs}[kind](), nil
}

// table prints rows in aligned columns under a heading; without rows it says
// that there are none.
func table(heading string, rows [][]string) []string {
	if len(rows) == 0 {
		return []string{"none"}
	}
	rows = slices.Insert(rows, 0, strings.Split(heading, "|"))
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	out := make([]string, len(rows))
	for k, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&b, "%-*s", widths[i]+2, cell)
		}
		out[k] = strings.TrimRight(b.String(), " ")
	}
	return out
}

func (in *interp) showNodes() []string {
	v := in.view()
	var rows [][]string
	for _, id := range in.liveNodes() {
		n := v.Node(id)
		all := &n.Spec.Allocatable
		rows = append(rows, []string{
			n.Spec.Name, n.Life.String(), n.Spec.Authority.String(),
			fmt.Sprintf("%v/%v", cores(n.Free.At(cluster.DimCPU)), cores(all.At(cluster.DimCPU))),
			fmt.Sprintf("%v/%v", size(n.Free.At(cluster.DimMemory)), size(all.At(cluster.DimMemory))),
			fmt.Sprintf("%d/%d", n.Free.At(cluster.DimPods), all.At(cluster.DimPods)),
			fmt.Sprintf("%d/%d", n.IdleDevices, n.Spec.DeviceCount), fmt.Sprint(int64(n.FreeMilli)),
		})
	}
	return table("node|life|authority|cpu free|memory free|pods free|gpus idle|milli free", rows)
}

// cores prints CPU without its unit, for columns.
func cores(milli int64) string {
	return strings.TrimSuffix(quantity.MilliCPU(milli).String(), " CPU")
}

// size prints bytes without the space, for columns.
func size(n int64) string {
	return strings.ReplaceAll(quantity.Bytes(n).String(), " ", "")
}

func (in *interp) showPods() []string {
	v := in.view()
	var rows [][]string
	for _, id := range in.livePods() {
		p := v.Pod(id)
		place := "-"
		if p.Placement.Placed() {
			place = decision.PlaceLine(v, &p.Placement)
		}
		rows = append(rows, []string{
			p.Spec.Name, stationOf(p), in.queueName(p.Spec.Queue), fmt.Sprint(p.Spec.Priority),
			in.now.Since(p.Arrived).String(), fmt.Sprint(p.Attempt + 1), in.lastNode(p), place,
		})
	}
	return table("pod|phase|queue|priority|age|attempt|ran on|place", rows)
}

func (in *interp) lastNode(p *cluster.Pod) string {
	if p.LastNode == cluster.None {
		return "-"
	}
	return in.view().Node(p.LastNode).Spec.Name
}

func (in *interp) queueName(id cluster.QueueID) string {
	if id == cluster.None {
		return "-"
	}
	return in.view().Queues.At(int32(id)).Name
}

func (in *interp) showDevices(name string) ([]string, error) {
	id, err := in.node(name)
	if err != nil {
		return nil, err
	}
	v := in.view()
	n := v.Node(id)
	var rows [][]string
	for i := range n.Spec.DeviceCount {
		d := v.DeviceOf(n, i)
		rows = append(rows, []string{
			fmt.Sprintf("gpu%d", i), v.Symbols.Text(d.Spec.Model), []string{"healthy", "sick"}[d.Health], number(d.Spec.Island), number(d.Spec.NUMA),
			fmt.Sprint(d.Holders), fmt.Sprint(int64(d.FreeMilli)), fmt.Sprintf("%s/%s", size(int64(d.FreeMemory)), size(int64(d.Spec.Memory))),
		})
	}
	return table("gpu|model|health|island|numa|holders|milli free|memory free", rows), nil
}

func number(n int32) string {
	if n == cluster.None {
		return "-"
	}
	return fmt.Sprint(n)
}

func (in *interp) showWaiting() []string {
	v := in.view()
	var rows [][]string
	for _, id := range in.livePods() {
		p, why := v.Pod(id), engine.HeldBack(v, id, in.now)
		if p.Phase != cluster.PhaseWaiting && why.None() {
			continue
		}
		if why.None() {
			why = in.binding(v, id, p.Spec.Shape)
		}
		why = engine.Deadlined(why, v, id, in.now)
		text := "there is room, the next cycle decides"
		if !why.None() {
			text = why.Describe(v) + in.outlook(v, id)
		}
		rows = append(rows, []string{p.Spec.Name, in.now.Since(p.Arrived).String(), text})
	}
	slices.SortFunc(rows, func(a, b []string) int { return compareNames(a[0], b[0]) })
	return table("pod|waits|for", rows)
}

func (in *interp) showDomains() []string {
	v := in.view()
	var rows [][]string
	for _, name := range in.domainNames() {
		id, _ := in.domain(name)
		d := v.Domains.At(int32(id))
		parent := "-"
		if d.Parent != cluster.None {
			parent = v.Domains.At(int32(d.Parent)).Name
		}
		row := append([]string{d.Name, d.Level.String(), parent}, totals(&d.Totals)...)
		rows = append(rows, append(row, in.freeIn(cluster.DomainID(id))...))
	}
	return table("domain|level|parent|nodes ready|gpus idle|milli free|largest block|cpu free|memory free|pods free", rows)
}

// freeIn sums what is free on the ready nodes of a domain: the most idle cards of
// one node, CPU, memory and slots for pods.
func (in *interp) freeIn(domain cluster.DomainID) []string {
	v := in.view()
	block, free := int32(0), [3]int64{}
	for _, id := range in.liveNodes() {
		n := v.Node(id)
		at := n.Spec.Domain
		for at != cluster.None && at != domain {
			at = v.Domains.At(int32(at)).Parent
		}
		if at != domain || n.Life != cluster.LifeReady {
			continue
		}
		block = max(block, n.IdleDevices)
		for i, dim := range [...]cluster.Dim{cluster.DimCPU, cluster.DimMemory, cluster.DimPods} {
			free[i] += n.Free.At(dim)
		}
	}
	return []string{fmt.Sprint(block), cores(free[0]), size(free[1]), fmt.Sprint(free[2])}
}

func totals(t *cluster.Totals) []string {
	return []string{fmt.Sprint(t.Nodes), fmt.Sprintf("%d/%d", t.IdleDevices, t.Devices), fmt.Sprint(int64(t.FreeMilli))}
}

func (in *interp) showClasses() []string {
	v := in.view()
	var rows [][]string
	for i := range v.Classes.Len() {
		c := v.Classes.At(int32(i))
		rows = append(rows, append([]string{c.Name}, totals(&c.Totals)...))
	}
	return table("class|nodes ready|gpus idle|milli free", rows)
}

func (in *interp) showIntents() []string {
	v := in.view()
	var rows [][]string
	for i := range v.Intents.Len() {
		intent := v.Intents.At(int32(i))
		if intent.ID == 0 {
			continue
		}
		rows = append(rows, []string{
			intent.Action.String(), v.Pod(intent.Pod).Spec.Name, in.now.Since(intent.Accepted).String(), decision.PlaceLine(v, &intent.Place),
		})
	}
	slices.SortFunc(rows, func(a, b []string) int { return compareNames(a[1], b[1]) })
	return table("intent|pod|age|place", rows)
}

// showDigest numbers the states of the world in the order in which they were
// first shown: equal numbers are equal states.
func (in *interp) showDigest() []string {
	digest := in.view().Digest()
	i := slices.Index(in.digests, digest)
	if i < 0 {
		i = len(in.digests)
		in.digests = append(in.digests, digest)
	}
	return []string{fmt.Sprintf("state %d at %v", i+1, in.now)}
}

// stationOf is the phase of a pod in a word.
func stationOf(p *cluster.Pod) string {
	if p.Reserved {
		return "reserved" // others are still to leave its place
	}
	return p.Phase.String()
}
