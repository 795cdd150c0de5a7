package web

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/headrace-dev/headrace/internal/meter"
)

const (
	// maxFrames bounds the map's slider: a step per minute of an hour is as
	// fine as a hand can place it.
	maxFrames = 60
	// maxHeatBytes bounds the maps of a page before base64, which adds a
	// third: the page stays below 6 MB, small enough to mail.
	maxHeatBytes = 3 << 20
)

// heatData is the maps as the script reads them.
type heatData struct {
	Clusters []heatCluster `json:"clusters"`
	Maps     []heatMap     `json:"maps"`
}

// heatCluster is the rows of a map. Policies of one study share one.
type heatCluster struct {
	Models []string `json:"models"`
	Names  []string `json:"names"`
	Model  []int    `json:"model"` // index into Models
	GPUs   []int    `json:"gpus"`
}

type heatMap struct {
	Label   string      `json:"label"`
	Cluster int         `json:"cluster"`
	Frames  []heatFrame `json:"frames"`
}

type heatFrame struct {
	Label string `json:"label"`
	Fill  []byte `json:"fill"` // one byte per GPU, 0..100; base64 in JSON
}

// heatView is the map's part of the page.
type heatView struct {
	data    heatData
	Note    string   // why the map is missing or thinned
	Options []string // one per map
	Last    int      // index of the first map's last frame
	Shown   int      // index of the frame shown first
	Label   string   // its label
}

// heatSource is a map before it is thinned.
type heatSource struct {
	label string
	heat  *meter.Heat
	cells int // GPUs
}

// heatOf gathers one map per policy. It returns nil when no run has one, and
// an error when a frame does not match its nodes.
func heatOf(studies []study) (*heatView, error) {
	sources, err := heatSources(studies)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	total := 0
	for _, s := range sources {
		total += s.cells
	}
	view := &heatView{}
	frames := min(maxFrames, maxHeatBytes/total)
	if frames == 0 {
		view.Note = fmt.Sprintf("Left out: %d GPUs over all policies are too many to draw in one page.", total)
		return view, nil
	}
	var drawn []*meter.Heat // by cluster
	for _, s := range sources {
		cluster := slices.IndexFunc(drawn, func(h *meter.Heat) bool { return slices.Equal(h.Nodes, s.heat.Nodes) })
		if cluster < 0 {
			cluster = len(drawn)
			drawn = append(drawn, s.heat)
			view.data.Clusters = append(view.data.Clusters, clusterOf(s.heat.Nodes))
		}
		view.data.Maps = append(view.data.Maps, heatMap{s.label, cluster, framesOf(s.heat.Frames, frames)})
		view.Options = append(view.Options, s.label)
	}
	first := view.data.Maps[0].Frames
	view.Last, view.Shown = len(first)-1, fullest(first)
	view.Label = first[view.Shown].Label
	return view, nil
}

// fullest is the frame with most given away, the latest of equals: a run often
// ends with an empty cluster, which says nothing.
func fullest(frames []heatFrame) int {
	at, most := 0, -1
	for i, f := range frames {
		sum := 0
		for _, fill := range f.Fill {
			sum += int(fill)
		}
		if sum >= most {
			at, most = i, sum
		}
	}
	return at
}

func heatSources(studies []study) ([]heatSource, error) {
	var out []heatSource
	for _, s := range studies {
		for _, g := range s.groups {
			d, seed := g.detail()
			if d == nil || len(d.Heat.Frames) == 0 {
				continue
			}
			src := heatSource{label: g.policy, heat: &d.Heat}
			for _, n := range d.Heat.Nodes {
				src.cells += n.GPUs
			}
			if src.cells == 0 {
				continue
			}
			for _, f := range d.Heat.Frames {
				if len(f.Fill) != src.cells {
					return nil, fmt.Errorf("report: %s seed %d: frame %q fills %d GPUs, its nodes have %d",
						g.policy, seed, f.Label, len(f.Fill), src.cells)
				}
			}
			if len(g.runs) > 1 {
				src.label += " · seed " + strconv.FormatInt(seed, 10)
			}
			if len(studies) > 1 {
				src.label += " · " + s.describe()
			}
			out = append(out, src)
		}
	}
	return out, nil
}

func clusterOf(nodes []meter.HeatNode) heatCluster {
	var c heatCluster
	models := map[string]int{}
	for _, n := range nodes {
		id, seen := models[n.Model]
		if !seen {
			id = len(c.Models)
			models[n.Model] = id
			c.Models = append(c.Models, n.Model)
		}
		c.Names = append(c.Names, n.Name)
		c.Model = append(c.Model, id)
		c.GPUs = append(c.GPUs, n.GPUs)
	}
	return c
}

func framesOf(frames []meter.HeatFrame, limit int) []heatFrame {
	var out []heatFrame
	for _, i := range evenly(len(frames), limit) {
		out = append(out, heatFrame{frames[i].Label, frames[i].Fill})
	}
	return out
}
