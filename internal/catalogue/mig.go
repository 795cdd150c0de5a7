package catalogue

import (
	"fmt"
	"slices"
	"strings"
)

// A GPU with seven partitions has eight memory slices in a row, compute for seven
// slices, and media engines for one partition that has them beside others.
const (
	MemorySlices  = 8
	ComputeSlices = 7
)

// Placement says where the partitions of a profile may lie: each takes so many memory
// slices in a row from one of the starts, and so much compute.
type Placement struct {
	Profile               string
	MemorySlices, Compute int
	Starts                []int
	Media                 bool // it takes the media engines
}

// placementRows are the placements by compute and by how many fit at once: the table of
// NVIDIA's MIG User Guide (Supported MIG Profiles), which `nvidia-smi mig -lgipp` prints
// on A100, H100 and their successors with seven partitions.
var placementRows = []struct { // const: facts about hardware
	compute, count, slices int
	starts                 []int
}{
	{1, 7, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{1, 4, 2, []int{0, 2, 4, 6}},
	{2, 3, 2, []int{0, 2, 4}},
	{3, 2, 4, []int{0, 4}},
	{4, 1, 4, []int{0}},
	{7, 1, 8, []int{0}},
}

// Placements returns where partitions of a model may lie, by profile; nil where it has
// none or is cut in another way.
func (m Model) Placements() []Placement {
	if m.Partitioning != "MIG" || m.MaxPartitions != ComputeSlices {
		return nil
	}
	var out []Placement
	for _, p := range m.Profiles {
		one := Placement{Profile: p.Name, Media: strings.HasSuffix(p.Name, "+me")}
		if _, err := fmt.Sscanf(p.Name, "%dg.", &one.Compute); err != nil {
			return nil
		}
		count := p.Count
		if one.Media {
			count = ComputeSlices // but for the engines, like the profile without them
		}
		for _, r := range placementRows {
			if r.compute == one.Compute && r.count == count {
				one.MemorySlices, one.Starts = r.slices, slices.Clone(r.starts)
			}
		}
		if one.Starts == nil {
			return nil
		}
		one.Media = one.Media || one.Compute == ComputeSlices
		out = append(out, one)
	}
	return out
}
