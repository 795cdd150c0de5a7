package dra

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// A cluster has many devices that differ in nothing but their UUIDs, and an expression
// costs tens of microseconds. So its answer is kept for all devices that are alike in
// what it reads.

// alikeKept bounds the answers that are kept.
const alikeKept = 1 << 16

// reads is what the expressions of some content can tell of a device: the attributes
// of some names, or, where that is not plain, all.
type reads struct {
	all   bool
	names []string
}

const literal = `(?:"[^"\\]*"|'[^'\\]*')`

var (
	// These read an attribute or a capacity by its name, ask whether it is there, or read
	// what all devices of a driver have in common.
	readsOne = regexp.MustCompile(`device\.(?:attributes|capacity)\s*\[\s*` + literal + `\s*\]\s*(?:\.\s*\??\s*([A-Za-z_][A-Za-z0-9_]*)|\[\s*\??\s*(` + literal + `)\s*\])`) // const: a pattern
	asksFor  = regexp.MustCompile(`\bin\s+device\.(?:attributes|capacity)\s*\[\s*` + literal + `\s*\]`)                                                                      // const: a pattern
	common   = regexp.MustCompile(`device\.(?:driver|allowMultipleAllocations)\b`)                                                                                           // const: a pattern
)

// readsOf says what expressions read of a device.
func readsOf(c *content) (out reads) {
	for _, s := range slices.Concat(c.Class, c.Request) {
		if s.CEL == nil {
			continue
		}
		text := s.CEL.Expression
		for _, m := range readsOne.FindAllStringSubmatch(text, -1) {
			out.names = append(out.names, strings.Trim(m[1]+m[2], `"'`))
		}
		rest := asksFor.ReplaceAllString(readsOne.ReplaceAllString(text, ""), "")
		out.all = out.all || strings.Contains(common.ReplaceAllString(rest, ""), "device")
	}
	return out
}

// likeness is what devices that give the same answer to some content have in common:
// which attributes and capacities they have, by a number, and the values of the
// attributes that are read.
type likeness struct {
	content string
	kind    int64
	values  string
}

// kindOf numbers what can be told of the device without the values of its attributes.
func (d *Device) kindOf() int64 {
	if d.keys == nil {
		d.keys = slices.Sorted(maps.Keys(d.object.Attributes))
		text := fmt.Sprintf("%s %v %v %q", d.Driver, d.shared, multiple(d.object), d.keys)
		for _, name := range slices.Sorted(maps.Keys(d.object.Capacity)) {
			c := d.object.Capacity[name]
			text += fmt.Sprintf("\n%s=%s", name, c.Value.String())
			if c.RequestPolicy != nil {
				text += c.RequestPolicy.String()
			}
		}
		kind, known := d.pools.kinds[text]
		if !known {
			if len(d.pools.kinds) >= alikeKept {
				clear(d.pools.kinds) // numbers are not used again
			}
			d.pools.numbered++
			kind = d.pools.numbered
			d.pools.kinds[text] = kind
		}
		d.kind = kind
	}
	return d.kind
}

// valuesOf writes down the values that are read.
func (d *Device) valuesOf(r *reads) string {
	var b strings.Builder
	for _, key := range d.keys {
		if _, id := split(key); r.all || slices.Contains(r.names, id) || slices.Contains(r.names, string(key)) {
			a := d.object.Attributes[key]
			write(&b, &a)
		}
	}
	return b.String()
}

func write(b *strings.Builder, a *resourceapi.DeviceAttribute) {
	switch {
	case a.StringValue != nil:
		b.WriteString(strconv.Quote(*a.StringValue))
	case a.IntValue != nil:
		fmt.Fprint(b, " ", *a.IntValue)
	default:
		b.WriteByte('=')
		b.WriteString(a.String())
	}
}

// answer is what expressions and capacities say of a device, or of one that is alike.
func (d *Device) answer(key string, c *content) verdict {
	p := d.pools
	r, known := p.reads[key]
	if !known {
		r = readsOf(c)
		p.reads[key] = r
	}
	alike := likeness{content: key, kind: d.kindOf(), values: d.valuesOf(&r)}
	if v, known := p.alike[alike]; known {
		return v
	}
	if len(p.alike) >= alikeKept {
		clear(p.alike)
		clear(p.reads)
	}
	v := d.weigh(c)
	p.alike[alike] = v
	return v
}
