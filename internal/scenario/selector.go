package scenario

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// selector reads conditions on a node's labels; all of them must hold.
func (r *reader) selector() [][]world.Requirement {
	var terms []world.Requirement
	for _, text := range r.list("select") {
		term, ok := requirement(text)
		if !ok {
			r.fail("select", text, "KEY=VALUE|VALUE, KEY!=VALUE, KEY>N, KEY<N, KEY or !KEY")
			continue
		}
		terms = append(terms, term)
	}
	if terms == nil {
		return nil
	}
	return [][]world.Requirement{terms}
}

func requirement(text string) (world.Requirement, bool) {
	if key, found := strings.CutPrefix(text, "!"); found {
		return world.Requirement{Key: key, Op: cluster.OpAbsent}, nameRE.MatchString(key)
	}
	at := strings.IndexAny(text, "=!<>")
	if at < 0 {
		return world.Requirement{Key: text, Op: cluster.OpExists}, nameRE.MatchString(text)
	}
	out := world.Requirement{Key: text[:at]}
	rest := text[at:]
	switch {
	case strings.HasPrefix(rest, "!="):
		out.Op, out.Values = cluster.OpNotIn, strings.Split(rest[2:], "|")
	case rest[0] == '=':
		out.Op, out.Values = cluster.OpIn, strings.Split(rest[1:], "|")
	case rest[0] == '!':
		return out, false
	default:
		out.Op = cluster.OpGreater
		if rest[0] == '<' {
			out.Op = cluster.OpLess
		}
		n, err := strconv.ParseInt(rest[1:], 10, 64)
		out.Number = n
		return out, err == nil && nameRE.MatchString(out.Key)
	}
	for _, value := range out.Values {
		if value != "" && !nameRE.MatchString(value) {
			return out, false
		}
	}
	return out, nameRE.MatchString(out.Key)
}

// tolerations reads "*", "KEY", "KEY=VALUE", each with ":EFFECT" or without.
func (r *reader) tolerations() []world.Toleration {
	var out []world.Toleration
	for _, text := range r.list("tolerate") {
		pair, effect, limited := strings.Cut(text, ":")
		key, value, valued := strings.Cut(pair, "=")
		t := world.Toleration{Key: key, Value: value, AnyValue: !valued, AnyEffect: !limited}
		ok := nameRE.MatchString(key) && (value == "" || nameRE.MatchString(value))
		if pair == "*" {
			t.Key, ok = "", true
		}
		if i := slices.Index(effects(), effect); i >= 0 {
			t.Effect = cluster.TaintEffect(i)
		} else {
			ok = ok && !limited
		}
		if !ok {
			r.fail("tolerate", text, "KEY=VALUE:EFFECT, KEY=VALUE, KEY or *")
			continue
		}
		out = append(out, t)
	}
	return out
}
