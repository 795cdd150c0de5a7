package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// maxGPUs is the most devices of one node, as in the world.
const maxGPUs = 64

func nodeStatements() []statement {
	return []statement{
		{"domain", form{usage: "NAME level=LEVEL [parent=NAME]", least: 1, most: 1, fields: []string{"level", "parent"}}, false, (*interp).addDomain},
		{"node", form{usage: "NAME [gpus=8xA100] …", least: 1, most: 1, fields: []string{
			"count", "cpu", "memory", "pods", "gpus", "gpu-memory", "islands", "numa", "sharing", "partitions", "places", "counters",
			"domain", "rack", "zone", "authority", "labels", "taint", "life",
		}, flags: []string{"fixed"}}, true, (*interp).addNode},
		{"node-life", form{usage: "NAME LIFE", least: 2, most: 2}, false, (*interp).setLife},
		{"remove-node", form{usage: "NAME", least: 1, most: 1}, false, (*interp).removeNode},
		{"device", form{usage: "NODE INDEX sick|healthy", least: 3, most: 3}, false, (*interp).setHealth},
	}
}

// What a node has when it is not said.
const (
	usualCPU       = 96 * quantity.MilliCPU(1000)
	usualMemory    = 768 * quantity.GiB
	usualPods      = 110
	usualGPUMemory = 40 * quantity.GiB
)

func authorities() []string { return []string{"plugin", "dra", "agent"} }

func lives() []string { return []string{"offered", "launching", "ready", "draining", "reclaimed"} }

func (in *interp) addNode(c *call) ([]string, error) {
	name := c.args[0]
	if err := named("node", name); err != nil {
		return nil, err
	}
	r := c.reader("node " + name)
	counters, parts, err := r.cut(c.block)
	if err != nil {
		return nil, err
	}
	e := world.NodeAdded{
		CPU: r.cpu("cpu", usualCPU), Memory: r.bytes("memory", usualMemory), Pods: r.number("pods", usualPods, 0, 1_000_000),
		Devices: r.devices(counters, parts), Labels: r.labels(), Taints: r.taints(),
		Fixed: r.has("fixed"),
		Life:  cluster.LifeOffered + cluster.Life(r.oneOf("life", "ready", lives())),
	}
	usual := "agent"
	if in.whole {
		usual = "plugin"
	}
	e.Authority = cluster.Authority(r.oneOf("authority", usual, authorities()))
	if in.whole && e.Authority != cluster.AuthorityPlugin {
		r.fail("authority", r.text("authority", ""), "plugin, under a policy for whole cards")
	}
	names := numbered(name, r.number("count", 1, 1, maxCount))
	if r.err != nil {
		return nil, r.err
	}
	if in.nodes+len(names) > in.rows {
		return nil, fmt.Errorf("node %s: field count: value %d: at most %d nodes in one file", name, len(names), in.rows)
	}
	for _, n := range names {
		if _, dup := in.world.Node(n); dup {
			return nil, fmt.Errorf("node %s: it is there already", n)
		}
	}
	domain, err := in.domainOf(r)
	if err != nil {
		return nil, err
	}
	e.Domain = domain
	labels := e.Labels
	for _, n := range names {
		e.Name, e.Labels = n, hosted(labels, n)
		if err := in.apply(e); err != nil {
			return nil, err
		}
		in.machines[n] = e
		in.nodes++
	}
	if len(in.selectors) > 0 {
		return nil, in.tellFacts()
	}
	return nil, nil
}

// devices reads "8xA100", or several such with commas, and how the cards are
// linked and divided; parts, if there are any, are what they can be cut into.
func (r *reader) devices(counters map[string]int64, parts []world.Profile) []world.Device {
	var out []world.Device
	memory := r.gpuMemory()
	sharing := r.sharing()
	profiles := parts
	if parts == nil {
		counters, profiles = r.partitions()
	}
	if profiles != nil && !r.has("sharing") {
		sharing = cluster.SharingPartition
	}
	for _, part := range r.list("gpus") {
		digits, model, found := strings.Cut(part, "x")
		n, ok := unsigned(digits)
		if !ok || !found || !nameRE.MatchString(model) || n < 1 || n > maxGPUs-int64(len(out)) {
			r.fail("gpus", part, fmt.Sprintf("COUNTxMODEL, as in 8xA100, at most %d in all", maxGPUs))
			return nil
		}
		for range n {
			out = append(out, world.Device{
				Model: model, Memory: memory, Island: cluster.None, NUMA: cluster.None,
				Sharing: sharing, Counters: counters, Profiles: profiles,
			})
		}
	}
	islands, numa := r.number("islands", 0, 1, maxGPUs), r.number("numa", 0, 1, maxGPUs)
	for i := range out {
		if islands > 0 {
			out[i].Island = int32(i * int(islands) / len(out))
		}
		if numa > 0 {
			out[i].NUMA = int32(i * int(numa) / len(out))
		}
	}
	return out
}

func (r *reader) gpuMemory() quantity.Bytes {
	if r.text("gpu-memory", "") == "unknown" {
		return 0
	}
	return r.bytes("gpu-memory", usualGPUMemory)
}

func (r *reader) sharing() cluster.Sharing {
	return cluster.Sharing(r.oneOf("sharing", "slices", []string{"none", "slices", "partition"}))
}

// sliceCounter is the supply that partitions are cut from.
const sliceCounter = "slices"

// partitions reads "7:1g=1,3g=3": seven slices of a card, and what each profile
// takes of them. Memory and compute are cut in proportion.
func (r *reader) partitions() (map[string]int64, []world.Profile) {
	value := r.text("partitions", "")
	if value == "" {
		return nil, nil
	}
	const want = "SLICES:PROFILE=SLICES,…, as in 7:1g=1,3g=3"
	supply, list, _ := strings.Cut(value, ":")
	total, ok := unsigned(supply)
	if !ok || total < 1 || total > maxGPUs {
		r.fail("partitions", value, want)
		return nil, nil
	}
	memory := r.gpuMemory()
	var profiles []world.Profile
	for _, part := range strings.Split(list, ",") {
		name, digits, _ := strings.Cut(part, "=")
		n, ok := unsigned(digits)
		if !ok || n < 1 || n > total || !nameRE.MatchString(name) || slices.ContainsFunc(profiles, func(p world.Profile) bool { return p.Name == name }) {
			r.fail("partitions", value, want)
			return nil, nil
		}
		profiles = append(profiles, world.Profile{
			Name: name, Milli: quantity.MilliGPU(1000 * n / total), Memory: memory / quantity.Bytes(total) * quantity.Bytes(n),
			Consumes: map[string]int64{sliceCounter: n},
		})
	}
	return map[string]int64{sliceCounter: total}, profiles
}

func (r *reader) labels() map[string]string {
	var out map[string]string
	for _, label := range r.list("labels") {
		key, value, ok := strings.Cut(label, "=")
		if !ok || !nameRE.MatchString(key) || value != "" && !nameRE.MatchString(value) {
			r.fail("labels", label, "KEY=VALUE, several with commas")
			continue
		}
		if out == nil {
			out = make(map[string]string)
		}
		out[key] = value
	}
	return out
}

func effects() []string { return []string{"NoSchedule", "PreferNoSchedule", "NoExecute"} }

// taints reads "key=value:NoSchedule" or "key:NoSchedule".
func (r *reader) taints() []world.Taint {
	var out []world.Taint
	for _, text := range r.list("taint") {
		pair, effect, _ := strings.Cut(text, ":")
		key, value, _ := strings.Cut(pair, "=")
		i := slices.Index(effects(), effect)
		if i < 0 || !nameRE.MatchString(key) || value != "" && !nameRE.MatchString(value) {
			r.fail("taint", text, "KEY=VALUE:EFFECT, the effect one of "+strings.Join(effects(), ", "))
			continue
		}
		out = append(out, world.Taint{Key: key, Value: value, Effect: cluster.TaintEffect(i)})
	}
	return out
}

func (in *interp) setLife(c *call) ([]string, error) {
	i := slices.Index(lives(), c.args[1])
	if i < 0 {
		return nil, fmt.Errorf("node-life %s: life %q: want one of %s", c.args[0], c.args[1], strings.Join(lives(), ", "))
	}
	if _, err := in.node(c.args[0]); err != nil {
		return nil, err
	}
	return nil, in.apply(world.NodeLife{Name: c.args[0], Life: cluster.LifeOffered + cluster.Life(i)})
}

func (in *interp) removeNode(c *call) ([]string, error) {
	if _, err := in.node(c.args[0]); err != nil {
		return nil, err
	}
	if err := in.apply(world.NodeRemoved{Name: c.args[0]}); err != nil {
		return nil, err
	}
	return nil, in.forgetNode(c.args[0])
}

func (in *interp) setHealth(c *call) ([]string, error) {
	name := c.args[0]
	id, err := in.node(name)
	if err != nil {
		return nil, err
	}
	count := in.view().Node(id).Spec.DeviceCount
	index, ok := unsigned(strings.TrimPrefix(c.args[1], "gpu"))
	if !ok || index > math.MaxInt32 || index >= int64(count) {
		return nil, fmt.Errorf("device %s: index %q: the node has %d, counted from 0", name, c.args[1], count)
	}
	health := slices.Index([]string{"healthy", "sick"}, c.args[2])
	if health < 0 {
		return nil, fmt.Errorf("device %s %d: health %q: want healthy or sick", name, index, c.args[2])
	}
	return nil, in.apply(world.DeviceHealth{Node: name, Device: int32(index), Health: cluster.Health(health)})
}
