package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// tieFields say how a pod stands to others.
func tieFields() []string { return []string{"namespace", "labels", "port", "near", "apart", "spread"} }

func tieStatements() []statement {
	return []statement{
		{"namespace", form{usage: "NAME [labels=team=a]", least: 1, most: 1, fields: []string{"labels"}}, false, (*interp).addNamespace},
		{"relabel", form{usage: "POD [labels=app=a]", least: 1, most: 1, fields: []string{"labels"}}, false, (*interp).relabel},
	}
}

func (in *interp) addNamespace(c *call) ([]string, error) {
	if err := named("namespace", c.args[0]); err != nil {
		return nil, err
	}
	r := c.reader("namespace " + c.args[0])
	labels := r.labels()
	if r.err != nil {
		return nil, r.err
	}
	e := world.NamespaceKnown{Name: c.args[0], Labels: labels}
	in.spaces[e.Name] = e
	return nil, in.apply(e)
}

func (in *interp) relabel(c *call) ([]string, error) {
	if _, err := in.pod(c.args[0]); err != nil {
		return nil, err
	}
	r := c.reader("relabel " + c.args[0])
	labels := r.labels()
	if r.err != nil {
		return nil, r.err
	}
	return in.relabelTo(c.args[0], labels)
}

// ties reads how a pod stands to others.
func (r *reader) ties(e *world.PodAdded) {
	e.Namespace, e.Labels = r.name("namespace"), r.labels()
	for _, text := range r.list("port") {
		p, ok := port(text)
		if !ok {
			r.fail("port", text, "NUMBER, NUMBER/PROTOCOL or IP:NUMBER/PROTOCOL")
		}
		e.Ports = append(e.Ports, p)
	}
	for _, f := range r.w.fields {
		switch f.name {
		case "near":
			e.Near = append(e.Near, r.term(f))
		case "apart":
			e.Apart = append(e.Apart, r.term(f))
		case "spread":
			e.Spread = append(e.Spread, r.spread(f))
		}
	}
}

func port(text string) (world.Port, bool) {
	number, protocol, given := strings.Cut(text, "/")
	if given && !slices.Contains([]string{"TCP", "UDP", "SCTP"}, protocol) {
		return world.Port{}, false
	}
	out := world.Port{Protocol: protocol}
	if at := strings.LastIndexByte(number, ':'); at >= 0 {
		out.IP, number = number[:at], number[at+1:]
	}
	n, ok := unsigned(number)
	out.Number = int32(n)
	return out, ok && n >= 1 && n <= 65535
}

// hostTopology is what "host" stands for: each node is a domain of its own.
const hostTopology = "kubernetes.io/hostname"

func topology(text string) (string, bool) {
	if text == "host" {
		return hostTopology, true
	}
	return text, nameRE.MatchString(text)
}

// term reads "TOPOLOGY:CONDITION,CONDITION", and where the pods are: "@NAME|NAME",
// "@*", or "@?CONDITION" about the namespace.
func (r *reader) term(f field) world.PodTerm {
	const want = "TOPOLOGY:CONDITION,… with @NAMESPACE|…, @* or @?CONDITION,…"
	of, where, elsewhere := strings.Cut(f.value, "@")
	head, conditions, ok := strings.Cut(of, ":")
	key, valid := topology(head)
	labels, understood := podConditions(conditions)
	out := world.PodTerm{Topology: key, Of: world.PodSelector{Labels: labels}}
	ok = ok && valid && understood
	byLabels, isQuestion := strings.CutPrefix(where, "?")
	switch {
	case !elsewhere:
	case where == "*":
		out.Of.ByLabels = true
	case isQuestion:
		out.Of.ByLabels = true
		out.Of.Where, understood = podConditions(byLabels)
		ok = ok && understood
	default:
		out.Of.Namespaces = strings.Split(where, "|")
		for _, name := range out.Of.Namespaces {
			ok = ok && nameRE.MatchString(name)
		}
	}
	if !ok {
		r.fail(f.name, f.value, want)
	}
	return out
}

// spread reads "TOPOLOGY:SKEW:CONDITION,…" with ";min=DOMAINS", ";all-nodes" and
// ";taints".
func (r *reader) spread(f field) world.Spread {
	parts := strings.Split(f.value, ";")
	head := strings.SplitN(parts[0], ":", 3)
	for len(head) < 3 {
		head = append(head, "")
	}
	key, valid := topology(head[0])
	skew, err := strconv.ParseInt(head[1], 10, 32)
	labels, understood := podConditions(head[2])
	out := world.Spread{Topology: key, MaxSkew: int32(skew), Labels: labels}
	ok := valid && err == nil && skew >= 1 && understood
	for _, option := range parts[1:] {
		least, isLeast := strings.CutPrefix(option, "min=")
		n, isNumber := unsigned(least)
		switch {
		case isLeast && isNumber && n >= 1 && n <= maxCount:
			out.MinDomains = int32(n)
		case option == "all-nodes":
			out.AllNodes = true
		case option == "taints":
			out.Taints = true
		default:
			ok = false
		}
	}
	if !ok {
		r.fail(f.name, f.value, "TOPOLOGY:SKEW:CONDITION,… with ;min=N, ;all-nodes and ;taints")
	}
	return out
}

// podConditions reads conditions on the labels of pods; none is as well.
func podConditions(text string) ([]world.Requirement, bool) {
	if text == "" {
		return nil, true
	}
	var out []world.Requirement
	for _, part := range strings.Split(text, ",") {
		term, ok := requirement(part)
		if !ok || term.Op > cluster.OpAbsent {
			return nil, false
		}
		out = append(out, term)
	}
	return out, true
}

// hosted returns the labels of a node with the one that names its host.
func hosted(labels map[string]string, name string) map[string]string {
	out := map[string]string{hostTopology: name}
	for key, value := range labels { // order: a map is filled
		out[key] = value
	}
	return out
}
