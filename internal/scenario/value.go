package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Limits on values, those of the trace format.
const (
	maxCPU    = quantity.MilliCPU(1_000_000_000)
	maxMemory = 1024 * quantity.TiB
	maxSpan   = 36_525 * moment.Day
)

// reader reads the fields of a statement. The first error stays in err; after it
// all answers are defaults.
type reader struct {
	of  string // the subject, for messages
	w   *words
	err error
}

func (r *reader) fail(name, value, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: field %s: value %q: want %s", r.of, name, value, want)
	}
}

// has says whether the field or flag is there.
func (r *reader) has(name string) bool {
	return slices.ContainsFunc(r.w.fields, func(f field) bool { return f.name == name })
}

// text returns the value of a field, or the default where it is absent or empty.
func (r *reader) text(name, fallback string) string {
	for _, f := range r.w.fields {
		if f.name == name && f.value != "" {
			return f.value
		}
	}
	return fallback
}

// list returns the values of all fields of the name, cut at commas.
func (r *reader) list(name string) []string {
	var out []string
	for _, f := range r.w.fields {
		if f.name == name && f.value != "" {
			out = append(out, strings.Split(f.value, ",")...)
		}
	}
	return out
}

// name returns a field that holds a name.
func (r *reader) name(name string) string {
	value := r.text(name, "")
	if value != "" && !nameRE.MatchString(value) {
		r.fail(name, value, "letters, digits and . _ / -")
		return ""
	}
	return value
}

// number returns an integer within bounds.
func (r *reader) number(name string, fallback, least, most int64) int64 {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		r.fail(name, value, fmt.Sprintf("an integer from %d to %d", least, most))
		return fallback
	}
	return n
}

// oneOf returns the position of the value among the allowed ones.
func (r *reader) oneOf(name, fallback string, allowed []string) int {
	value := r.text(name, fallback)
	i := slices.Index(allowed, value)
	if i < 0 {
		r.fail(name, value, "one of "+strings.Join(allowed, ", "))
		return 0
	}
	return i
}

func (r *reader) cpu(name string, fallback quantity.MilliCPU) quantity.MilliCPU {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	digits, milli := strings.CutSuffix(value, "m")
	n, ok := unsigned(digits)
	if !milli && ok {
		n *= 1000
	}
	if !ok || quantity.MilliCPU(n) > maxCPU {
		r.fail(name, value, "cores or thousandths, as in 4 or 500m, up to 1000000")
		return fallback
	}
	return quantity.MilliCPU(n)
}

func (r *reader) bytes(name string, fallback quantity.Bytes) quantity.Bytes {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	n, ok := parseBytes(value)
	if !ok {
		r.fail(name, value, "an amount of memory, as in 512MiB or 40GiB, up to 1024TiB")
		return fallback
	}
	return n
}

func parseBytes(value string) (quantity.Bytes, bool) {
	units := [...]struct {
		name string
		size quantity.Bytes
	}{{"KiB", quantity.KiB}, {"MiB", quantity.MiB}, {"GiB", quantity.GiB}, {"TiB", quantity.TiB}}
	for _, u := range units {
		if digits, found := strings.CutSuffix(value, u.name); found {
			n, ok := unsigned(digits)
			return quantity.Bytes(n) * u.size, ok && quantity.Bytes(n) <= maxMemory/u.size
		}
	}
	n, ok := unsigned(strings.TrimSuffix(value, "B"))
	return quantity.Bytes(n), ok && quantity.Bytes(n) <= maxMemory && (n == 0 || strings.HasSuffix(value, "B"))
}

func (r *reader) span(name string, fallback moment.Span) moment.Span {
	value := r.text(name, "")
	if value == "" {
		return fallback
	}
	s, ok := parseSpan(value)
	if !ok {
		r.fail(name, value, "a span of time, as in 10s or 1h30m, up to 100 years")
		return fallback
	}
	return s
}

// parseSpan reads "1h30m": numbers with units, largest first.
func parseSpan(text string) (moment.Span, bool) {
	units := [...]struct {
		name string
		size moment.Span
	}{{"d", moment.Day}, {"h", moment.Hour}, {"m", moment.Minute}, {"s", moment.Second}, {"ms", moment.Millisecond}}
	sum, next := moment.Span(0), 0
	for text != "" {
		end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
		if end <= 0 {
			return 0, false
		}
		n, ok := unsigned(text[:end])
		text = text[end:]
		stop := strings.IndexFunc(text, func(c rune) bool { return c >= '0' && c <= '9' })
		if stop < 0 {
			stop = len(text)
		}
		for next < len(units) && units[next].name != text[:stop] {
			next++
		}
		if !ok || next == len(units) || moment.Span(n) > maxSpan/units[next].size {
			return 0, false
		}
		sum += moment.Span(n) * units[next].size
		text = text[stop:]
		next++
	}
	return sum, sum > 0 && sum <= maxSpan
}

// unsigned reads up to fifteen digits.
func unsigned(digits string) (int64, bool) {
	if digits == "" || len(digits) > 15 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil
}
