package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const lawFile = "layers.txt"

// A law is layers.txt, read. Its format is described at the top of that file.
type law struct {
	groups  map[string][]string
	rooms   []rule
	tests   []rule
	forbids []rule
	stdonly []string
}

// A rule binds the rooms that match name to a list of patterns.
type rule struct {
	name string
	list []string
}

// matches reports whether a pattern (x, x/... or *) covers a room or package.
func matches(pattern, name string) bool {
	if pattern == "*" {
		return true
	}
	if stem, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == stem || strings.HasPrefix(name, stem+"/")
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// gather joins the lists of the rules that bind a room.
func gather(rules []rule, room string) []string {
	var all []string
	for _, r := range rules {
		if matches(r.name, room) {
			all = append(all, r.list...)
		}
	}
	return all
}

// readLaw parses layers.txt; lines it does not understand become findings.
func readLaw(text string) (law, []finding) {
	l := law{groups: map[string][]string{}}
	var bad []finding
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" {
			continue
		}
		if err := l.take(word, strings.TrimSpace(rest)); err != nil {
			bad = append(bad, finding{
				fmt.Sprintf("%s:%d", lawFile, n), err.Error(),
				"a law that cannot be read holds nothing", "see the format at the top of the file",
			})
		}
	}
	for _, r := range slices.Concat(l.rooms, l.tests) {
		for _, name := range append([]string{r.name}, r.list...) {
			if !slices.ContainsFunc(l.rooms, func(room rule) bool { return matches(name, room.name) }) {
				bad = append(bad, finding{
					lawFile, fmt.Sprintf("the rule for %s names %s, and there is no such room", r.name, name),
					"a slip of the pen would open or close a door", "correct the name, or add its `room` line",
				})
			}
		}
	}
	return l, bad
}

func (l *law) take(word, rest string) error {
	if word == "stdonly" {
		l.stdonly = append(l.stdonly, strings.Fields(rest)...)
		return nil
	}
	sep := ":"
	if word == "group" {
		sep = "="
	}
	name, text, ok := strings.Cut(rest, sep)
	if name = strings.TrimSpace(name); !ok || name == "" || strings.Contains(name, " ") {
		return fmt.Errorf("%q wants NAME%s LIST", word, sep)
	}
	list, err := l.expand(strings.Fields(text))
	if err != nil {
		return err
	}
	switch word {
	case "group":
		l.groups[name] = list
	case "room":
		if slices.ContainsFunc(l.rooms, func(r rule) bool { return r.name == name }) {
			return fmt.Errorf("room %s is written twice", name)
		}
		l.rooms = append(l.rooms, rule{name, list})
	case "test":
		l.tests = append(l.tests, rule{name, list})
	case "forbid":
		l.forbids = append(l.forbids, rule{name, list})
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

func (l *law) expand(words []string) ([]string, error) {
	var list []string
	for _, w := range words {
		name, isGroup := strings.CutPrefix(w, "@")
		if !isGroup {
			list = append(list, w)
			continue
		}
		members, ok := l.groups[name]
		if !ok {
			return nil, fmt.Errorf("group @%s is not defined above", name)
		}
		list = append(list, members...)
	}
	return list, nil
}

// roomOf finds the room with the longest name that is a directory's path or a
// parent of it. A rule x/... makes a room of every directory below x.
func (l *law) roomOf(dir string) (room string, ok bool) {
	name := dir
	if dir != "internal" {
		name = strings.TrimPrefix(dir, "internal/")
	}
	for room := name; ; room = path.Dir(room) {
		for _, r := range l.rooms {
			if matches(r.name, room) {
				return room, true
			}
		}
		if room == "." || room == "/" || !strings.Contains(room, "/") {
			return name, false
		}
	}
}

// checkLayers holds layers.txt against the imports.
func checkLayers(t *tree) []finding {
	text, err := fs.ReadFile(t.fsys, lawFile)
	if err != nil {
		return []finding{{lawFile, "is missing", "it states which room may import which", "bring it back"}}
	}
	l, found := readLaw(string(text))
	if len(found) > 0 {
		return found // Half a law would blame the innocent.
	}
	dirs, files := t.packages()
	for _, dir := range dirs {
		room, ok := l.roomOf(dir)
		if !ok {
			found = append(found, finding{
				dir, "belongs to no room of " + lawFile, "every room has its place in the layers",
				fmt.Sprintf("add a line `room %s: ...` that lists the rooms it may import", room),
			})
			continue
		}
		for _, s := range files[dir] {
			found = append(found, l.checkFile(t, room, s)...)
		}
	}
	return found
}

func (l *law) checkFile(t *tree, room string, s *source) []finding {
	var found []finding
	allowed := gather(l.rooms, room)
	if s.isTest {
		allowed = append(allowed, gather(l.tests, room)...)
	}
	stdonly := !s.isTest && matchesAny(l.stdonly, room)
	var forbidden []string
	if !s.isTest {
		forbidden = gather(l.forbids, room)
	}
	for _, spec := range s.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value) // The parser has read it already.
		where := s.at(t.line(spec))
		dir, isLocal := t.localDir(name)
		switch {
		case isLocal:
			// A target without a room is a finding of its own.
			target, ok := l.roomOf(dir)
			if ok && target != room && !matchesAny(allowed, target) {
				found = append(found, finding{
					where, fmt.Sprintf("%s may not import %s", room, target), "arrows point inwards only, as " + lawFile + " says",
					"move what both need further in, pass it as a value, or change the law and say why",
				})
			}
		case matchesAny(forbidden, name):
			found = append(found, finding{
				where, fmt.Sprintf("%s may not import %s", room, name), "it brings the outside, chance or time into pure code",
				"take what you need from it as an argument",
			})
		case stdonly && strings.Contains(strings.Split(name, "/")[0], "."):
			found = append(found, finding{
				where, fmt.Sprintf("%s may not import %s", room, name), "core stands on the standard library alone",
				"do this at the rim, or write the few lines that are needed",
			})
		}
	}
	return found
}
