package cluster

import "slices"

// The sizes of what is copied on the first write after a Freeze: a page of rows,
// and a chunk of the list of pages. docs/adr/0002 has the measurements.
const (
	pageRows   = 32
	chunkPages = 64
	chunkRows  = pageRows * chunkPages
)

// undoKept is how many pre-images a table keeps room for between two attempts.
const undoKept = 1024

// owner is the right to write in place. It carries a byte so that two owners
// never share an address.
type owner struct{ _ byte }

type page[T any] struct {
	owner *owner
	rows  [pageRows]T
}

type chunk[T any] struct {
	owner *owner
	pages [chunkPages]*page[T]
}

type preimage[T any] struct {
	row int32
	old T
}

// Table is a list of rows by dense id, in pages that are copied on first write.
// A write copies one page, one chunk and the list of chunks, so that what a write
// costs hardly grows with the table. Reading is open to all; only a Ledger writes.
type Table[T any] struct {
	chunks    []*chunk[T]
	listOwner *owner // who may write the list of chunks in place
	length    int32
	undo      []preimage[T]
}

// Len returns the number of rows, rows of freed ids included.
func (t *Table[T]) Len() int { return int(t.length) }

// At returns row i for reading. Writing through it is a fault.
func (t *Table[T]) At(i int32) *T {
	return &t.chunks[i/chunkRows].pages[i/pageRows%chunkPages].rows[i%pageRows]
}

// own returns row i for writing by o, after saving its pre-image when the
// ledger is recording.
func (t *Table[T]) own(i int32, o *owner, recording bool) *T {
	c := t.ownChunk(i/chunkRows, o)
	p := c.pages[i/pageRows%chunkPages]
	if p.owner != o {
		p = &page[T]{owner: o, rows: p.rows}
		c.pages[i/pageRows%chunkPages] = p
	}
	row := &p.rows[i%pageRows]
	if recording {
		t.undo = append(t.undo, preimage[T]{row: i, old: *row})
	}
	return row
}

// ownChunk returns a chunk for writing by o.
func (t *Table[T]) ownChunk(i int32, o *owner) *chunk[T] {
	if t.listOwner != o {
		t.chunks = slices.Clone(t.chunks)
		t.listOwner = o
	}
	c := t.chunks[i]
	if c.owner != o {
		c = &chunk[T]{owner: o, pages: c.pages}
		t.chunks[i] = c
	}
	return c
}

// grow adds one row and returns its id.
func (t *Table[T]) grow(o *owner, value T) int32 {
	i := t.length
	if int(i/chunkRows) == len(t.chunks) {
		t.chunks = append(slices.Clip(t.chunks), &chunk[T]{owner: o})
		t.listOwner = o
	}
	if c := t.ownChunk(i/chunkRows, o); c.pages[i/pageRows%chunkPages] == nil {
		c.pages[i/pageRows%chunkPages] = &page[T]{owner: o}
	}
	t.length++
	*t.own(i, o, false) = value
	return i
}

// tableMark is a point to go back to.
type tableMark struct {
	undo   int
	length int32
}

func (t *Table[T]) mark() tableMark { return tableMark{undo: len(t.undo), length: t.length} }

// rollback restores all rows and the length as they were at the mark. Rows
// beyond the length keep stale values, which grow overwrites.
func (t *Table[T]) rollback(m tableMark, o *owner) {
	for i := len(t.undo) - 1; i >= m.undo; i-- {
		*t.own(t.undo[i].row, o, false) = t.undo[i].old
	}
	clear(t.undo[m.undo:])
	t.undo = t.undo[:m.undo]
	t.length = m.length
}

// forgetUndo drops the pre-images, and the room they take where it is much.
func (t *Table[T]) forgetUndo() {
	clear(t.undo)
	if t.undo = t.undo[:0]; cap(t.undo) > undoKept {
		t.undo = nil
	}
}

// frozen returns the table for a reader: same pages, no right to write.
func (t *Table[T]) frozen() Table[T] { return Table[T]{chunks: t.chunks, length: t.length} }
