package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A source is an open file and the name that errors give it.
type source struct {
	name string
	in   io.Reader
}

func (s source) fail(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", s.name, line, fmt.Sprintf(format, args...))
}

// maxQuoted is how much of a bad value an error repeats.
const maxQuoted = 60

func quoted(value string) string {
	if len(value) > maxQuoted {
		value = value[:maxQuoted] + "..."
	}
	return fmt.Sprintf("%q", value)
}

// badCell is the error of a bad value. word is "column" or "field".
func (s source) badCell(line int, word string, p problem) error {
	return s.fail(line, "%s %q: value %s: %s", word, p.field, quoted(p.value), p.allowed)
}

const byteOrderMark = "\ufeff"

// eachLine calls visit with the number and text of each line that is not blank,
// without its end (LF or CRLF) and without a byte order mark.
func (s source) eachLine(visit func(line int, text string) error) error {
	scanner := bufio.NewScanner(s.in)
	scanner.Buffer(nil, MaxLine)
	line, rows := 0, 0
	for scanner.Scan() {
		line++
		text := scanner.Text()
		if line == 1 {
			text = strings.TrimPrefix(text, byteOrderMark)
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		if rows++; rows > MaxRows {
			return s.fail(line, "the file has more than %d rows", MaxRows)
		}
		if err := visit(line, text); err != nil {
			return err
		}
	}
	switch err := scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return s.fail(line+1, "the line is longer than %d bytes", MaxLine)
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	case rows == 0:
		return fmt.Errorf("%s: the file is empty", s.name)
	}
	return nil
}

// A sheet is a CSV file as it is read: the cells of the row at hand, by column.
type sheet struct {
	source
	header []string
	line   int
	cells  []string
}

// eachRow reads a CSV file. start sees the header, visit each row after it.
// Fields may be quoted; a quoted field does not span lines.
func (s source) eachRow(start, visit func(*sheet) error) error {
	sh := &sheet{source: s}
	return s.eachLine(func(line int, text string) error {
		cells, err := splitCSV(text)
		if err != nil {
			return s.fail(line, "%v", err)
		}
		sh.line, sh.cells = line, cells
		if sh.header == nil {
			sh.header = slices.Clone(cells)
			for i, name := range sh.header {
				if slices.Contains(sh.header[:i], name) {
					return s.fail(line, "column %s is there twice", quoted(name))
				}
			}
			return start(sh)
		}
		if len(cells) != len(sh.header) {
			return s.fail(line, "the row has %d cells and the header %d", len(cells), len(sh.header))
		}
		return visit(sh)
	})
}

func splitCSV(text string) ([]string, error) {
	if !strings.Contains(text, `"`) {
		return strings.Split(text, ","), nil
	}
	r := csv.NewReader(strings.NewReader(text))
	cells, err := r.Read()
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return nil, fmt.Errorf("a quoted field is not closed or has a stray quote: %w", syntax.Err)
	}
	return cells, err
}

// has reports whether the sheet has a column.
func (sh *sheet) has(column string) bool { return slices.Contains(sh.header, column) }

// require returns an error that names the first of the columns that is missing.
func (sh *sheet) require(columns ...string) error {
	for _, column := range columns {
		if !sh.has(column) {
			return sh.fail(sh.line, "column %q is missing; present are %s", column, strings.Join(sh.header, ", "))
		}
	}
	return nil
}

// cell is the text of a column in the row at hand, "" if there is no such column.
func (sh *sheet) cell(column string) string {
	i := slices.Index(sh.header, column)
	if i < 0 {
		return ""
	}
	return sh.cells[i]
}

func (sh *sheet) bad(p problem) error { return sh.badCell(sh.line, "column", p) }

// names holds the names of one sort of thing, each with its line.
type names map[string]int

func (n names) add(name string, line int) problem {
	if first, taken := n[name]; taken {
		return problem{"name", name, fmt.Sprintf("want a name of its own; line %d has it", first)}
	}
	n[name] = line
	return problem{}
}
