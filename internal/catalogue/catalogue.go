// Package catalogue is the one place for facts about GPU models: memory, speed,
// links, partitions, power and price.
//
// Lookup finds a model by its name or an alias, All lists every one, Closest
// helps whoever mistyped. The facts stand in gpus.csv, each row with its sources;
// docs/gpu-catalogue.md is generated from it. Speeds are vendor peaks without
// structured sparsity: the catalogue leaves measured throughput, and prices over
// time, to others.
package catalogue

//go:generate go run ./gen

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// MBPerSecond is a rate in millions of bytes per second.
type MBPerSecond int64

// MilliTFLOPS is a rate in thousandths of 10^12 floating-point operations per
// second.
type MilliTFLOPS int64

// Watts is electrical power.
type Watts int64

// Model is what is known of one GPU model; figures are per GPU.
type Model struct {
	Name    string
	Aliases []string // other names that Lookup accepts
	Vendor  string
	Arch    string
	// ComputeCapability is CUDA's, or the gfx name of an AMD device.
	ComputeCapability string
	FormFactor        string

	// Memory is the marketed size read as GiB. Drivers keep some of it back, so
	// a live device reports up to a few percent less.
	Memory          quantity.Bytes
	MemoryType      string
	MemoryBandwidth MBPerSecond

	// Dense tensor peaks; 0 where the hardware lacks the format.
	FP16, BF16, FP8 MilliTFLOPS

	Link           string      // between GPUs of a node; "none" if only PCIe
	LinkBandwidth  MBPerSecond // both directions added; 0 without a link
	PCIeGeneration int
	Power          Watts // thermal design power

	Partitioning  string // "MIG", "compute-partition" or "none"
	MaxPartitions int    // most partitions at once; 1 without partitioning
	Profiles      []Profile

	Price      Price
	Confidence string // in the specifications: "high", "medium" or "low"
	// Sources say where the figures were read.
	SpecSources, PriceSources []string
}

// Profile is one shape of partition and how many of it fit at once.
type Profile struct {
	Name  string
	Count int
}

// Price is what an hour of one GPU cost on demand: the lowest, the typical and
// the highest offer seen. A price of 0 is unknown. A spread of five times is
// normal, so the typical price alone says little.
type Price struct {
	Low, Typical, High quantity.MicroUSD
	Date               string // yyyy-mm-dd of the newest of them; empty if unknown
}

//go:embed gpus.csv
var table string

// index is the table, parsed on first use and never changed.
var index = sync.OnceValue(func() parsed {
	p, err := parse(table)
	if err != nil {
		panic("catalogue: gpus.csv: " + err.Error()) // Embedded and tested.
	}
	return p
})

// Lookup finds a model by its name or one of its aliases, in any case.
func Lookup(name string) (Model, bool) {
	p := index()
	i, ok := p.byName[strings.ToLower(name)]
	if !ok {
		return Model{}, false
	}
	return p.models[i].clone(), true
}

// All lists the models in the order of the table: by generation, oldest first.
func All() []Model {
	p := index()
	all := make([]Model, len(p.models))
	for i, m := range p.models {
		all[i] = m.clone()
	}
	return all
}

// Suggest returns the name or alias that is nearest to a name that Lookup does
// not know.
func Suggest(name string) string {
	var names []string
	for _, m := range index().models {
		names = append(append(names, m.Name), m.Aliases...)
	}
	return Closest(name, names)
}

func (m Model) clone() Model {
	m.Aliases = slices.Clone(m.Aliases)
	m.Profiles = slices.Clone(m.Profiles)
	m.SpecSources = slices.Clone(m.SpecSources)
	m.PriceSources = slices.Clone(m.PriceSources)
	return m
}

// maxCompared is the length from which names are not compared further: no model
// is longer, and the cost of comparing grows with it.
const maxCompared = 64

// Closest returns the member of a list that needs the fewest single-letter edits
// to become name, whatever the case; the first of several. It is empty only for
// an empty list.
func Closest(name string, list []string) string {
	best, least := "", -1
	for _, candidate := range list {
		if d := Edits(fold(name), fold(candidate)); least < 0 || d < least {
			best, least = candidate, d
		}
	}
	return best
}

func fold(s string) string {
	if len(s) > maxCompared {
		s = s[:maxCompared]
	}
	return strings.ToLower(s)
}

// Edits is how many single-byte insertions, deletions and replacements make b of a
// (Levenshtein's distance).
func Edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
