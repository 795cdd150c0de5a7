package catalogue

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

type parsed struct {
	models []Model
	byName map[string]int // lower-case name or alias -> index of models
}

// A row is one line of the table. The first error sticks, so that the reading
// below stays a list.
type row struct {
	cells map[string]string
	err   error
}

func parse(text string) (parsed, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return parsed{}, err
	}
	if len(records) < 2 {
		return parsed{}, errors.New("has no rows")
	}
	p := parsed{byName: map[string]int{}}
	for n, record := range records[1:] {
		cells := map[string]string{}
		for i, column := range records[0] {
			cells[column] = record[i]
		}
		r := &row{cells: cells}
		m := r.model()
		if r.err != nil {
			return parsed{}, fmt.Errorf("row %d: %w", n+1, r.err)
		}
		for _, name := range append([]string{m.Name}, m.Aliases...) {
			key := strings.ToLower(name)
			if _, taken := p.byName[key]; taken {
				return parsed{}, fmt.Errorf("row %d: the name %q is taken", n+1, name)
			}
			p.byName[key] = len(p.models)
		}
		p.models = append(p.models, m)
	}
	return p, nil
}

func (r *row) model() Model {
	return Model{
		Name:              r.text("model"),
		Aliases:           r.list("aliases", "|"),
		Vendor:            r.text("vendor"),
		Arch:              r.text("arch"),
		ComputeCapability: r.text("compute_capability"),
		FormFactor:        r.text("form_factor"),
		Memory:            quantity.Bytes(r.number("memory_gib", 1<<20)) * quantity.GiB,
		MemoryType:        r.text("memory_type"),
		MemoryBandwidth:   MBPerSecond(r.number("memory_mb_per_s", math.MaxInt64)),
		FP16:              MilliTFLOPS(r.number("fp16_milli_tflops", math.MaxInt64)),
		BF16:              MilliTFLOPS(r.number("bf16_milli_tflops", math.MaxInt64)),
		FP8:               MilliTFLOPS(r.number("fp8_milli_tflops", math.MaxInt64)),
		Link:              r.text("link"),
		LinkBandwidth:     MBPerSecond(r.number("link_mb_per_s", math.MaxInt64)),
		PCIeGeneration:    int(r.number("pcie_generation", 16)),
		Power:             Watts(r.number("power_w", math.MaxInt64)),
		Partitioning:      r.text("partitioning"),
		MaxPartitions:     int(r.number("max_partitions", 1<<10)),
		Profiles:          r.profiles("profiles"),
		Price: Price{
			Low:     quantity.MicroUSD(r.number("price_low_micro_usd", math.MaxInt64)),
			Typical: quantity.MicroUSD(r.number("price_typical_micro_usd", math.MaxInt64)),
			High:    quantity.MicroUSD(r.number("price_high_micro_usd", math.MaxInt64)),
			Date:    r.cell("price_date"),
		},
		Confidence:   r.text("confidence"),
		SpecSources:  r.list("spec_sources", " + "),
		PriceSources: r.list("price_sources", " + "),
	}
}

func (r *row) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *row) cell(column string) string {
	s, ok := r.cells[column]
	if !ok {
		r.fail("column %q is missing", column)
	}
	return s
}

func (r *row) text(column string) string {
	s := r.cell(column)
	if s == "" {
		r.fail("column %q is empty", column)
	}
	return s
}

func (r *row) number(column string, most int64) int64 {
	s := r.cell(column)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		r.fail("column %q: value %q: want an integer from 0 to %d", column, s, most)
	}
	return n
}

func (r *row) list(column, separator string) []string {
	s := r.cell(column)
	if s == "" {
		return nil
	}
	return strings.Split(s, separator)
}

func (r *row) profiles(column string) []Profile {
	var list []Profile
	for _, s := range r.list(column, "|") {
		name, count, _ := strings.Cut(s, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || name == "" {
			r.fail("column %q: value %q: want name:count", column, s)
		}
		list = append(list, Profile{Name: name, Count: n})
	}
	return list
}
