package catalogue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

const preamble = `<!-- Generated from internal/catalogue/gpus.csv by "go generate ./internal/catalogue"; do not edit. -->

# GPU catalogue

What Headrace knows of GPU models. The facts stand in
[internal/catalogue/gpus.csv](../internal/catalogue/gpus.csv); to correct one, change
its row and run ` + "`go generate ./internal/catalogue`" + `.

How to read it:

- All figures are for one GPU. A GB200 superchip has two.
- Speeds are dense tensor peaks, without structured sparsity; a dash is a format that the
  hardware lacks. Ratios of peaks do not predict ratios of measured throughput.
- Memory is the marketed size read as GiB. Drivers keep some of it back.
- Link bandwidth adds both directions.
- Prices are USD for one GPU-hour on demand: the lowest, a typical and the highest offer
  found. A spread of five times for one chip is normal.
- "H100" means the SXM5 product with 80 GB here; the PCIe and NVL products differ.
  "A100" alone is two products and is not accepted.
- Confidence is about the specifications: *high* was read in a source named below,
  *medium* is partly a vendor's well-known figure or sources disagree, *low* is derived.
`

// Markdown renders the catalogue as docs/gpu-catalogue.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(preamble)
	section(&b, "Compute and memory",
		[]string{"model", "architecture", "capability", "form", "memory", "type", "GB/s", "FP16 TFLOPS", "BF16", "FP8", "power", "confidence"},
		func(m Model) []string {
			return []string{
				m.Name, m.Vendor + " " + m.Arch, m.ComputeCapability, m.FormFactor, m.Memory.String(), m.MemoryType,
				thousandths(int64(m.MemoryBandwidth)), thousandths(int64(m.FP16)), thousandths(int64(m.BF16)), thousandths(int64(m.FP8)),
				fmt.Sprintf("%d W", m.Power), m.Confidence,
			}
		})
	section(&b, "Links and partitions",
		[]string{"model", "link", "link GB/s", "PCIe", "partitioning", "most at once", "profiles (most of each)"},
		func(m Model) []string {
			profiles := make([]string, len(m.Profiles))
			for i, p := range m.Profiles {
				profiles[i] = fmt.Sprintf("%s (%d)", p.Name, p.Count)
			}
			return []string{
				m.Name, m.Link, thousandths(int64(m.LinkBandwidth)), strconv.Itoa(m.PCIeGeneration), m.Partitioning,
				strconv.Itoa(m.MaxPartitions), orDash(strings.Join(profiles, ", ")),
			}
		})
	section(&b, "Price", []string{"model", "low", "typical", "high", "newest of them"}, func(m Model) []string {
		return []string{m.Name, dollars(m.Price.Low), dollars(m.Price.Typical), dollars(m.Price.High), orDash(m.Price.Date)}
	})
	section(&b, "Other names", []string{"model", "also accepted"}, func(m Model) []string {
		return []string{m.Name, orDash(strings.Join(m.Aliases, ", "))}
	})
	b.WriteString("\n## Sources\n\n")
	for _, m := range index().models {
		fmt.Fprintf(&b, "- **%s**\n  - specifications: %s\n  - prices: %s\n",
			m.Name, strings.Join(m.SpecSources, "; "), strings.Join(m.PriceSources, "; "))
	}
	return b.String()
}

func section(b *strings.Builder, title string, head []string, cells func(Model) []string) {
	fmt.Fprintf(b, "\n## %s\n\n| %s |\n|%s\n", title, strings.Join(head, " | "), strings.Repeat(" --- |", len(head)))
	for _, m := range index().models {
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells(m), " | "))
	}
}

// thousandths prints n/1000 without trailing zeros, and a dash for 0.
func thousandths(n int64) string {
	if n == 0 {
		return "-"
	}
	s := fmt.Sprintf("%d.%03d", n/1000, n%1000)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}

func dollars(p quantity.MicroUSD) string {
	if p == 0 {
		return "-"
	}
	return thousandths(int64(p) / 1000)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
