package cluster

// Dense ids, given out by the world. A freed id is given out again with the
// next generation; whoever keeps an id across cycles keeps the generation too.
type (
	NodeID     int32
	DeviceID   int32
	PodID      int32
	ShapeID    int32
	GroupID    int32
	JobID      int32
	ServiceID  int32
	QueueID    int32
	DomainID   int32
	ClassID    int32
	OfferID    int32
	IntentID   int32
	BudgetID   int32
	CrowdID    int32
	KinID      int32 // from 1; 0 is no kin
	ArtifactID int32
	Symbol     int32 // an interned string; 0 is the empty string
)

// None is the id of nothing, for every kind of id except Symbol and KinID.
const None = -1

// Ref names a row together with its generation, so that an outcome that comes
// late is not taken for its successor's.
type Ref struct {
	ID         int32
	Generation uint32
}

// Symbols turns symbols back into text. Symbols are only ever added, so views
// share the storage.
type Symbols struct{ text []string }

// All lists the strings of all symbols, in the order in which they were added.
func (s Symbols) All() []string { return s.text }

// Text returns the string of a symbol.
func (s Symbols) Text(symbol Symbol) string {
	if symbol <= 0 || int(symbol) > len(s.text) {
		return ""
	}
	return s.text[symbol-1]
}

// Interner gives equal strings equal symbols. It has one owner, the world.
type Interner struct {
	symbols Symbols
	index   map[string]Symbol
}

// Intern returns the symbol of text, making one where there is none yet.
func (in *Interner) Intern(text string) Symbol {
	if text == "" {
		return 0
	}
	if symbol, found := in.index[text]; found {
		return symbol
	}
	if in.index == nil {
		in.index = make(map[string]Symbol)
	}
	in.symbols.text = append(in.symbols.text, text)
	symbol := Symbol(len(in.symbols.text))
	in.index[text] = symbol
	return symbol
}

// Symbols returns the table as it is now.
func (in *Interner) Symbols() Symbols { return in.symbols }
