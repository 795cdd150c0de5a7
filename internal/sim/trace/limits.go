package trace

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Limits of everything that is read. They are far above what exists and low
// enough that sums over a workload stay within int64.
const (
	// MaxLine is the longest line of a file in bytes. The longest real one, a node
	// with 64 labels, has some 30 KiB.
	MaxLine = 1 << 20
	// MaxRows is the most rows of a file. The longest public trace, Google's of
	// 2019, has about 10 million collection events a month and cell.
	MaxRows = 50_000_000
	// MaxText is the longest name in bytes: what Kubernetes allows an object.
	MaxText = 253
	// MaxList is the most members of a list or of a set of labels.
	MaxList = 64
	// MaxGPUs is the most GPUs of a node, and so of a pod. Servers have up to 16,
	// counting partitions as devices up to 56.
	MaxGPUs = 64

	// MaxCPU is a million cores on one node.
	MaxCPU quantity.MilliCPU = 1_000_000_000
	// MaxMemory is the most memory of a node or an image.
	MaxMemory = 1024 * quantity.TiB
	// MaxPods is the most pods of a node.
	MaxPods = 1_000_000
	// maxDeserved is the most that a queue deserves: a million GPUs.
	maxDeserved = 1_000_000 * quantity.WholeGPU
	// MaxTime is the latest instant and the longest span: 100 years.
	MaxTime = 36_525 * moment.Day
)

// KubeletPods is the limit of pods of a node that does not state one: the
// kubelet's default (--max-pods).
const KubeletPods = 110

// A problem is a value that is not allowed in a field. The zero value is none.
type problem struct {
	field   string
	value   string
	allowed string
}

func (p problem) found() bool { return p.allowed != "" }

const allowedText = "want 1 to 253 bytes of UTF-8 without control characters"

func validText(s string) bool {
	return s != "" && len(s) <= MaxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// validWord is a text that may stand in a list, whose CSV form separates its
// members by a vertical bar.
func validWord(s string) bool { return validText(s) && !strings.Contains(s, "|") }

// checkNode checks what binds fields of a node to each other.
func checkNode(n *Node) problem {
	switch {
	case n.GPUs > 0 && n.Model == "":
		return problem{"model", "", "want a model, since the node has GPUs"}
	case n.GPUs == 0 && n.GPUMemory != 0:
		return problem{"gpu_memory_bytes", n.GPUMemory.String(), "want 0, since the node has no GPUs"}
	case len(n.Island) > 0 && len(n.Island) != n.GPUs:
		return problem{"gpu_island", joinNumbers(n.Island), "want one number per GPU, or none"}
	case len(n.NUMA) > 0 && len(n.NUMA) != n.GPUs:
		return problem{"gpu_numa", joinNumbers(n.NUMA), "want one number per GPU, or none"}
	}
	return problem{}
}

// checkPod checks what binds fields of a pod to each other.
func checkPod(p *Pod) problem {
	switch {
	case p.GPUs == 0 && p.Milli != 0:
		return problem{"gpu_milli", formatNumber(p.Milli), "want 0, since the pod asks for no GPU"}
	case p.GPUs == 0 && p.GPUMemory != 0:
		return problem{"gpu_memory_bytes", formatNumber(p.GPUMemory), "want 0, since the pod asks for no GPU"}
	case p.GPUs == 0 && p.Use.GPUMemory != 0:
		return problem{"use_gpu_memory_bytes", formatNumber(p.Use.GPUMemory), "want 0, since the pod asks for no GPU"}
	case p.GPUs > 0 && p.Milli == 0:
		return problem{"gpu_milli", "0", "want 1 to 1000, since the pod asks for GPUs"}
	case p.GPUs > 1 && p.Milli != quantity.WholeGPU:
		return problem{"gpu_milli", formatNumber(p.Milli), "want 1000: a share is of one GPU, and the pod asks for several"}
	}
	return problem{}
}
