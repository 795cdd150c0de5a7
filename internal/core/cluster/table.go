package cluster

import "slices"

// pageRows is how many rows are copied on the first write after a Freeze.
// Measured in docs/adr/0002: 32 balances the copying of rows against that of
// the page list.
const pageRows = 32

// owner is the right to write in place. It carries a byte so that two owners
// never share an address.
type owner struct{ _ byte }

type page[T any] struct {
	owner *owner
	rows  [pageRows]T
}

type preimage[T any] struct {
	row int32
	old T
}

// Table is a list of rows by dense id, in pages that are copied on first write.
// Reading is open to all; only a Ledger writes.
type Table[T any] struct {
	pages     []*page[T]
	listOwner *owner // who may write the page list in place
	length    int32
	undo      []preimage[T]
}

// Len returns the number of rows, rows of freed ids included.
func (t *Table[T]) Len() int { return int(t.length) }

// At returns row i for reading. Writing through it is a fault.
func (t *Table[T]) At(i int32) *T { return &t.pages[i/pageRows].rows[i%pageRows] }

// own returns row i for writing by o, after saving its pre-image when the
// ledger is recording.
func (t *Table[T]) own(i int32, o *owner, recording bool) *T {
	if t.listOwner != o {
		t.pages = slices.Clone(t.pages)
		t.listOwner = o
	}
	p := t.pages[i/pageRows]
	if p.owner != o {
		p = &page[T]{owner: o, rows: p.rows}
		t.pages[i/pageRows] = p
	}
	row := &p.rows[i%pageRows]
	if recording {
		t.undo = append(t.undo, preimage[T]{row: i, old: *row})
	}
	return row
}

// grow adds one row and returns its id.
func (t *Table[T]) grow(o *owner, value T) int32 {
	i := t.length
	if t.listOwner != o {
		t.pages = slices.Clone(t.pages)
		t.listOwner = o
	}
	if int(i/pageRows) == len(t.pages) {
		t.pages = append(t.pages, &page[T]{owner: o})
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

// frozen returns the table for a reader: same pages, no right to write.
func (t *Table[T]) frozen() Table[T] { return Table[T]{pages: t.pages, length: t.length} }
