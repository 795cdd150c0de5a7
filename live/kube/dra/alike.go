package dra

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
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

// print is what two devices have in common that give the same answer: which attributes
// and capacities they have, and the values of those that are read.
func (d *Device) print(r *reads) string {
	if d.keys == nil {
		d.keys = slices.Sorted(maps.Keys(d.object.Attributes))
		d.base = fmt.Sprintf("%s %v %v", d.Driver, d.shared, multiple(d.object))
		for _, name := range slices.Sorted(maps.Keys(d.object.Capacity)) {
			c := d.object.Capacity[name]
			d.base += fmt.Sprintf("\n%s=%s", name, c.Value.String())
			if c.RequestPolicy != nil {
				d.base += c.RequestPolicy.String()
			}
		}
	}
	var b strings.Builder
	b.WriteString(d.base)
	for _, key := range d.keys {
		b.WriteByte('\n')
		b.WriteString(string(key))
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
		fmt.Fprintf(b, "=%q", *a.StringValue)
	case a.IntValue != nil:
		fmt.Fprintf(b, "=%d", *a.IntValue)
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
	alike := key + d.print(&r)
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
