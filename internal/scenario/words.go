package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/catalogue"
)

// words is a statement, or a line of its block, taken apart.
type words struct {
	name   string   // the statement's
	args   []string // without "="
	fields []field  // key=value, in order
}

type field struct{ name, value string }

// split takes a line apart. A word that starts with "#" begins a comment.
func split(text string) words {
	var w words
	for i, word := range strings.Fields(text) {
		if strings.HasPrefix(word, "#") {
			break
		}
		name, value, isField := strings.Cut(word, "=")
		switch {
		case i == 0:
			w.name = word
		case isField:
			w.fields = append(w.fields, field{name, value})
		default:
			w.args = append(w.args, word)
		}
	}
	return w
}

// repeated are the fields that may be there more than once.
var repeated = []string{"select", "tolerate", "labels", "taint", "port", "near", "apart", "spread"}

// conform holds the words against what a form allows. Flags are words without
// "=" beyond the arguments.
func (w *words) conform(f *form) error {
	for i, given := range w.fields {
		if !slices.Contains(f.fields, given.name) {
			return fmt.Errorf("%s: field %q: value %q: no such field%s", w.subject(), given.name, given.value, suggest(given.name, f.fields))
		}
		for _, other := range w.fields[:i] {
			if other.name == given.name && !slices.Contains(repeated, given.name) {
				return fmt.Errorf("%s: field %s: value %q: given twice", w.subject(), given.name, given.value)
			}
		}
	}
	for len(w.args) > f.least {
		last := w.args[len(w.args)-1]
		if !slices.Contains(f.flags, last) {
			break
		}
		w.args = w.args[:len(w.args)-1]
		w.fields = append(w.fields, field{last, ""})
	}
	if n := len(w.args); n < f.least || n > f.most {
		if n > f.most && len(f.flags) > 0 {
			return fmt.Errorf("%s: word %q: no such flag%s", w.subject(), w.args[n-1], suggest(w.args[n-1], f.flags))
		}
		return fmt.Errorf("%s: %d arguments: want %s", w.name, n, strings.TrimSpace(w.name+" "+f.usage))
	}
	return nil
}

// subject names the statement and its first argument, for messages.
func (w *words) subject() string {
	if len(w.args) == 0 || !nameRE.MatchString(w.args[0]) {
		return w.name
	}
	return w.name + " " + w.args[0]
}

// form is what a statement allows.
type form struct {
	usage       string // for messages: what follows the name
	least, most int    // arguments
	flags       []string
	fields      []string
}

// suggest names the nearest of the allowed words, or all of them.
func suggest(word string, allowed []string) string {
	if len(allowed) == 0 {
		return ": none is allowed"
	}
	best, distance := "", max(2, len(word)/3)+1
	for _, candidate := range allowed {
		d := editDistance(word, candidate)
		if d < distance || d == distance && strings.HasPrefix(candidate, word) {
			best, distance = candidate, d
		}
	}
	if best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}
	return ": want one of " + strings.Join(allowed, ", ")
}

// editDistance counts the insertions, deletions and replacements between a and
// b, cut to a length at which no name is near any more. The same letters in
// another order are one slip.
func editDistance(a, b string) int {
	if a != b && slices.Equal(slices.Sorted(slices.Values([]byte(a))), slices.Sorted(slices.Values([]byte(b)))) {
		return 1
	}
	const longest = 64
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	return catalogue.Edits(a, b)
}

var nameRE = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,200}$`)

// named refuses what would not read as a name in a line of output.
func named(what, name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("%s: name %q: want letters, digits and . _ / -, starting with a letter or digit", what, name)
	}
	return nil
}
