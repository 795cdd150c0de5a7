package scenario

import (
	"fmt"
	"strings"
)

// mark divides the statements of a step from what they are to print.
const mark = "----"

// Limits on one file: far above what a reader follows.
const (
	maxBytes = 1 << 20
	maxLines = 20_000
)

// step is some statements and the output expected of them all.
type step struct {
	head       []string // the lines as written, comments included
	statements []*stmt
	checked    bool // the mark was there
	want       string
}

// stmt is one statement as written.
type stmt struct {
	line  int
	text  string
	block []blockLine
}

// blockLine is an indented line below a statement.
type blockLine struct {
	line int
	text string
}

// parse cuts a text into steps; tail is what follows the last one. Only what
// leaves the structure unclear is an error here, the words of a statement are
// looked at when it runs.
func parse(name, text string) (steps []step, tail []string, err error) {
	if len(text) > maxBytes {
		return nil, nil, fmt.Errorf("%s: %d bytes: at most %d", name, len(text), maxBytes)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > maxLines {
		return nil, nil, fmt.Errorf("%s: %d lines: at most %d", name, len(lines), maxLines)
	}
	var s step
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t\r")
		if line != mark {
			if err := s.add(line, lines[i], i+1); err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			continue
		}
		if len(s.statements) == 0 {
			return nil, nil, fmt.Errorf("%s:%d: %s without a statement above it", name, i+1, mark)
		}
		s.checked = true
		var want []string
		for i+1 < len(lines) && strings.TrimSpace(lines[i+1]) != "" {
			i++
			want = append(want, strings.TrimRight(lines[i], " \t\r"))
		}
		s.want = joined(want)
		steps = append(steps, s)
		s = step{}
	}
	if len(s.statements) > 0 {
		return append(steps, s), nil, nil
	}
	return steps, s.head, nil
}

// add takes one line that is neither the mark nor output.
func (s *step) add(line, raw string, number int) error {
	s.head = append(s.head, raw)
	text := strings.TrimSpace(line)
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	if strings.TrimLeft(line, " \t") == line {
		s.statements = append(s.statements, &stmt{line: number, text: text})
		return nil
	}
	if len(s.statements) == 0 {
		return fmt.Errorf("an indented line belongs to a statement above it: there is none")
	}
	last := s.statements[len(s.statements)-1]
	last.block = append(last.block, blockLine{line: number, text: text})
	return nil
}

// joined makes lines a text, each line ended.
func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}
