package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Read reads a workload in Headrace's own format (docs/trace-format.md): one
// path is a file of JSON lines, two are the CSV files of nodes and of pods.
func Read(paths ...string) (Workload, error) {
	if len(paths) != 1 && len(paths) != 2 {
		return Workload{}, fmt.Errorf("a workload is one file of JSON lines, or the CSV files of nodes and of pods: got %d files", len(paths))
	}
	sources := make([]source, len(paths))
	for i, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return Workload{}, err
		}
		defer file.Close()
		sources[i] = source{path, file}
	}
	if len(paths) == 1 {
		return readLines(sources[0])
	}
	return readSheets(sources[0], sources[1])
}

// A builder takes nodes and pods into a workload and refuses what cannot be.
type builder struct {
	w                   Workload
	nodes, queues, pods names
}

func newBuilder(name string) *builder {
	return &builder{w: Workload{Name: name}, nodes: names{}, queues: names{}, pods: names{}}
}

func (b *builder) addNode(n Node, line int) problem {
	if n.Pods == 0 {
		n.Pods = KubeletPods
	}
	if p := checkNode(&n); p.found() {
		return p
	}
	b.w.Nodes = append(b.w.Nodes, n)
	return b.nodes.add(n.Name, line)
}

func (b *builder) addQueue(q Queue, line int) problem {
	b.w.Queues = append(b.w.Queues, q)
	return b.queues.add(q.Name, line)
}

func (b *builder) addPod(p Pod, line int) problem {
	if p := checkPod(&p); p.found() {
		return p
	}
	b.w.Pods = append(b.w.Pods, p)
	return b.pods.add(p.Name, line)
}

// done checks what only the whole can show.
func (b *builder) done(nodesFile, podsFile string) (Workload, error) {
	switch {
	case len(b.w.Nodes) == 0:
		return Workload{}, fmt.Errorf("%s: the file has no nodes", nodesFile)
	case len(b.w.Pods) == 0:
		return Workload{}, fmt.Errorf("%s: the file has no pods", podsFile)
	case !slices.ContainsFunc(b.w.Nodes, func(n Node) bool { return n.CPU > 0 || n.Memory > 0 || n.GPUs > 0 }):
		return Workload{}, fmt.Errorf("%s: the cluster has no CPU, no memory and no GPU", nodesFile)
	}
	return b.w, nil
}

func readLines(s source) (Workload, error) {
	b := newBuilder(workloadName(s.name))
	first, nodes, queues, pods := true, nodeFields(), queueFields(), podFields()
	err := s.eachLine(func(line int, text string) error {
		if first {
			first = false
			return b.readHeader(s, line, text)
		}
		return s.eachMember(line, []byte(text), func(key string, raw []byte) error {
			switch key {
			case "node":
				var n Node
				if err := readRecord(s, line, raw, nodes, &n); err != nil {
					return err
				}
				return s.badField(line, b.addNode(n, line))
			case "queue":
				var q Queue
				if err := readRecord(s, line, raw, queues, &q); err != nil {
					return err
				}
				return s.badField(line, b.addQueue(q, line))
			case "pod":
				var p Pod
				if err := readRecord(s, line, raw, pods, &p); err != nil {
					return err
				}
				return s.badField(line, b.addPod(p, line))
			}
			return s.fail(line, "field %s is unknown: want node, queue or pod", quoted(key))
		})
	})
	if err != nil {
		return Workload{}, err
	}
	return b.done(s.name, s.name)
}

// readHeader reads the first line, whose absence most often means another format.
func (b *builder) readHeader(s source, line int, text string) error {
	if !strings.Contains(text, `"headrace_trace"`) {
		return s.fail(line, `want the header {"headrace_trace":%d, ...}; the CSV form is two files, nodes and pods`, formatVersion)
	}
	var h header
	if err := readRecord(s, line, []byte(text), headerFields(), &h); err != nil {
		return err
	}
	if h.name != "" {
		b.w.Name = h.name
	}
	b.w.Timed, b.w.WarmUp = h.timed, h.warmUp
	return nil
}

func (s source) badField(line int, p problem) error {
	if !p.found() {
		return nil
	}
	return s.badCell(line, "field", p)
}

// readRecord reads a JSON object into the fields of x. Keys are exact, none may
// be unknown or there twice, and the required ones must be there.
func readRecord[T any](s source, line int, raw []byte, fields []field[T], x *T) error {
	var seen [64]bool // More fields than any record has.
	err := s.eachMember(line, raw, func(key string, raw []byte) error {
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == key })
		switch {
		case i < 0:
			return s.fail(line, "field %s is unknown; known are %s", quoted(key), fieldNames(fields))
		case seen[i]:
			return s.fail(line, "field %q is there twice", key)
		}
		seen[i] = true
		allowed := "want a value; leave the field out if there is none"
		if string(raw) != "null" {
			allowed = fields[i].fromJSON(x, raw)
		}
		return s.badField(line, problem{key, string(raw), allowed})
	})
	if err != nil {
		return err
	}
	for i, f := range fields {
		if f.required && !seen[i] {
			return s.fail(line, "field %q is missing", f.name)
		}
	}
	return nil
}

func fieldNames[T any](fields []field[T]) string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return strings.Join(list, ", ")
}

// eachMember calls visit with the members of a JSON object, in their order.
func (s source) eachMember(line int, text []byte, visit func(key string, raw []byte) error) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	token, err := dec.Token()
	if err != nil || token != json.Delim('{') {
		return s.fail(line, "want one JSON object: got %s", quoted(string(text)))
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return s.badJSON(line, err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return s.badJSON(line, err)
		}
		if err := visit(key.(string), raw); err != nil { // JSON has no other keys.
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return s.badJSON(line, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return s.fail(line, "want one JSON object: something follows it")
	}
	return nil
}

func (s source) badJSON(line int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.fail(line, "the JSON object is cut off")
	}
	return s.fail(line, "not JSON: %v", err)
}

// readSheets reads the CSV form. Columns may stand in any order, and those whose
// cells would all be empty may be missing. A pod file with the columns arrival_us
// and duration_us is timed.
func readSheets(nodesFile, podsFile source) (Workload, error) {
	b := newBuilder(workloadName(podsFile.name))
	if err := readSheet(nodesFile, nodeFields(), nil, b.addNode); err != nil {
		return Workload{}, err
	}
	started := func(sh *sheet) {
		for _, column := range []string{"arrival_us", "duration_us"} {
			if !sh.has(column) {
				b.w.Missing = append(b.w.Missing, column)
			}
		}
		b.w.Timed = len(b.w.Missing) == 0
	}
	if err := readSheet(podsFile, podFields(), started, b.addPod); err != nil {
		return Workload{}, err
	}
	return b.done(nodesFile.name, podsFile.name)
}

func readSheet[T any](s source, fields []field[T], started func(*sheet), add func(T, int) problem) error {
	var order []int // column -> index of fields
	return s.eachRow(func(sh *sheet) error {
		for _, column := range sh.header {
			i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == column })
			if i < 0 {
				return sh.fail(sh.line, "column %s is unknown; known are %s", quoted(column), fieldNames(fields))
			}
			order = append(order, i)
		}
		for _, f := range fields {
			if f.required && !sh.has(f.name) {
				return sh.require(f.name)
			}
		}
		if started != nil {
			started(sh)
		}
		return nil
	}, func(sh *sheet) error {
		var x T
		for column, i := range order {
			f, cell := fields[i], sh.cells[column]
			if cell == "" && !f.required {
				continue
			}
			if allowed := f.fromText(&x, cell); allowed != "" {
				return sh.bad(problem{f.name, cell, allowed})
			}
		}
		if p := add(x, sh.line); p.found() {
			return sh.bad(p)
		}
		return nil
	})
}
