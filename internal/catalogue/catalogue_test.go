package catalogue

import (
	"os"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

func TestLookup(t *testing.T) {
	tests := []struct {
		name, want string
		memory     quantity.Bytes
	}{
		{name: "A100-SXM4-40GB", want: "A100-SXM4-40GB", memory: 40 * quantity.GiB},
		{name: "A100-40GB", want: "A100-SXM4-40GB", memory: 40 * quantity.GiB},
		{name: "a100-80gb", want: "A100-SXM4-80GB", memory: 80 * quantity.GiB},
		{name: "H100", want: "H100-SXM5-80GB", memory: 80 * quantity.GiB},
		{name: "V100M16", want: "V100-SXM2-16GB", memory: 16 * quantity.GiB},
		{name: "jetson", want: "Jetson-AGX-Orin-64GB", memory: 64 * quantity.GiB},
	}
	for _, tt := range tests {
		m, ok := Lookup(tt.name)
		if !ok || m.Name != tt.want || m.Memory != tt.memory {
			t.Errorf("Lookup(%q) = %s, %v, %t; want %s, %v", tt.name, m.Name, m.Memory, ok, tt.want, tt.memory)
		}
	}
	for _, name := range []string{"", "A100", "G2"} {
		if m, ok := Lookup(name); ok {
			t.Errorf("Lookup(%q) = %s, want a miss", name, m.Name)
		}
	}
}

func TestSuggest(t *testing.T) {
	for name, want := range map[string]string{
		"A100-40":                 "A100-40GB",
		"h1000":                   "H100",
		"L40SS":                   "L40S",
		strings.Repeat("x", 1000): "T4",
	} {
		if got := Suggest(name); got == "" || (len(name) < 100 && got != want) {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := Closest("x", nil); got != "" {
		t.Errorf("Closest of nothing = %q, want nothing", got)
	}
}

// What holds of every row: figures are present, in order and in proportion.
func TestRowsAreSane(t *testing.T) {
	all := All()
	if len(all) != 13 {
		t.Errorf("All() has %d models, want 13", len(all))
	}
	for _, m := range all {
		check := func(holds bool, rule string) {
			t.Helper()
			if !holds {
				t.Errorf("%s: %s: %+v", m.Name, rule, m)
			}
		}
		check(m.Memory >= 16*quantity.GiB && m.MemoryBandwidth >= 100_000, "has memory")
		check(m.FP16 > 0 && (m.BF16 == 0 || m.BF16 == m.FP16), "half precisions run alike")
		check(m.FP8 == 0 || m.FP8 > m.FP16 && m.FP8 < m.FP16*21/10, "FP8 runs about twice as fast as FP16")
		check((m.Link == "none") == (m.LinkBandwidth == 0), "a link has bandwidth")
		check(m.Power >= 10 && m.Power <= 2000, "power")
		check((m.Partitioning == "none") == (len(m.Profiles) == 0), "partitioning has profiles")
		check((m.Partitioning == "none") == (m.MaxPartitions == 1), "partitioning makes several")
		for _, p := range m.Profiles {
			check(p.Count <= m.MaxPartitions, "no profile fits more often than the most partitions: "+p.Name)
		}
		price := m.Price
		check(price.Low <= price.Typical && price.Typical <= price.High, "prices are in order")
		check((price.Date == "") == (price.Typical == 0), "a price has a date")
		check(len(m.SpecSources) > 0 && len(m.PriceSources) > 0, "has sources")
	}
}

// Within a product line a newer GPU is never smaller or slower.
func TestGenerationsGrow(t *testing.T) {
	line := []string{"V100", "A100-40GB", "A100-80GB", "H100", "H200", "B200", "GB200"}
	for i := 1; i < len(line); i++ {
		a, _ := Lookup(line[i-1])
		b, _ := Lookup(line[i])
		if b.Memory < a.Memory || b.MemoryBandwidth < a.MemoryBandwidth || b.FP16 < a.FP16 || b.LinkBandwidth < a.LinkBandwidth || b.Power < a.Power {
			t.Errorf("%s is less than %s: %+v, %+v", b.Name, a.Name, b, a)
		}
	}
}

func TestAllIsACopy(t *testing.T) {
	All()[3].Profiles[0].Name = "changed"
	if m, _ := Lookup("A100-40GB"); m.Profiles[0].Name != "1g.5gb" {
		t.Errorf("changing what All returned changed the catalogue: %v", m.Profiles)
	}
}

func TestParseErrors(t *testing.T) {
	head, rows, _ := strings.Cut(table, "\n")
	first, _, _ := strings.Cut(rows, "\n")
	tests := []struct{ name, table, want string }{
		{name: "no rows", table: head + "\n", want: "has no rows"},
		{name: "twice", table: head + "\n" + first + "\n" + first, want: `row 2: the name "V100-SXM2-16GB" is taken`},
		{name: "missing column", table: strings.Replace(head, "power_w", "watts", 1) + "\n" + first, want: `row 1: column "power_w" is missing`},
		{name: "not a number", table: head + "\n" + strings.Replace(first, ",300000,", ",fast,", 1), want: `value "fast": want an integer`},
	}
	for _, tt := range tests {
		if _, err := parse(tt.table); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: parse: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestDocumentIsUpToDate(t *testing.T) {
	const file = "../../docs/gpu-catalogue.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go generate ./internal/catalogue", err)
	}
	if string(data) != Markdown() {
		t.Errorf("%s is out of date; run go generate ./internal/catalogue", file)
	}
}

// Every model with MIG says where its partitions may lie, and as many of each profile
// have room beside each other as the table says.
func TestPlacements(t *testing.T) {
	models := 0
	for _, m := range All() {
		places := m.Placements()
		if (m.Partitioning == "MIG") != (places != nil) {
			t.Errorf("%s is partitioned by %s and has the placements %+v", m.Name, m.Partitioning, places)
		}
		if places == nil {
			continue
		}
		models++
		for i, p := range places {
			slices, compute, media, count := make([]bool, MemorySlices), 0, 0, 0
			for _, start := range p.Starts {
				free := true
				for k := range p.MemorySlices {
					free = free && !slices[start+k]
				}
				if !free || compute+p.Compute > ComputeSlices || p.Media && media == 1 {
					continue
				}
				for k := range p.MemorySlices {
					slices[start+k] = true
				}
				compute, count = compute+p.Compute, count+1
				if p.Media {
					media++
				}
			}
			if p.Profile != m.Profiles[i].Name || count != m.Profiles[i].Count {
				t.Errorf("%s: %d partitions of %+v have room, want %+v", m.Name, count, p, m.Profiles[i])
			}
		}
	}
	if models < 5 {
		t.Errorf("%d models have placements, want 5 or more", models)
	}
}
