package trace

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

const (
	smallNodes = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1024,2,T4\nn0,32000,2048,0,\n"
	smallPods  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n" +
		"p2,4000,512,1,1000,,100,160,\np1,1000,256,1,460,V100|T4,50,90,60\np0,500,128,0,0,,0,0,0\n"
)

func openB(nodes, pods string) (Workload, error) {
	return readOpenB(source{"nodes.csv", strings.NewReader(nodes)}, source{"pods.csv", strings.NewReader(pods)})
}

func TestOpenB(t *testing.T) {
	for _, form := range []struct{ name, nodes, pods string }{
		{name: "plain", nodes: smallNodes, pods: smallPods},
		{name: "byte order mark and CRLF", nodes: byteOrderMark + strings.ReplaceAll(smallNodes, "\n", "\r\n"), pods: byteOrderMark + strings.ReplaceAll(smallPods, "\n", "\r\n")},
		{name: "quoted", nodes: strings.ReplaceAll(smallNodes, "n1,64000", `"n1","64000"`), pods: strings.ReplaceAll(smallPods, "p1", `"p1"`)},
		{name: "no newline at the end", nodes: strings.TrimRight(smallNodes, "\n"), pods: strings.TrimRight(smallPods, "\n")},
	} {
		w, err := openB(form.nodes, form.pods)
		if err != nil {
			t.Errorf("%s: %v", form.name, err)
			continue
		}
		n, p := w.Nodes[1], w.Pods[1]
		good := w.Name == "pods" && w.Timed && len(w.Nodes) == 2 && len(w.Pods) == 3 &&
			n.Name == "n1" && n.CPU == 64000 && n.Memory == quantity.GiB && n.GPUs == 2 && n.Model == "T4" && n.Pods == OpenBPods &&
			p.Name == "p1" && p.CPU == 1000 && p.Memory == 256*quantity.MiB && p.GPUs == 1 && p.Milli == 460 &&
			slices.Equal(p.Models, []string{"V100", "T4"}) && p.Arrival == moment.Instant(50*moment.Second) && p.Duration == 30*moment.Second &&
			w.Pods[2].Duration == moment.Minute // Never scheduled: from its creation.
		if !good {
			t.Errorf("%s: read %+v", form.name, w)
		}
	}
}

func TestOpenBErrors(t *testing.T) {
	nodes := func(row string) string { return "sn,cpu_milli,memory_mib,gpu,model\nn0,1000,1024,1,T4\n" + row + "\n" }
	pods := func(row string) string {
		return "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np0,1000,1024,1,500,0,1,0\n" + row + "\n"
	}
	tests := []struct{ name, nodes, pods, want string }{
		{name: "empty nodes", nodes: "", want: "nodes.csv: the file is empty"},
		{name: "only a byte order mark", nodes: byteOrderMark, want: "nodes.csv: the file is empty"},
		{name: "header only", nodes: "sn,cpu_milli,memory_mib,gpu,model\n", want: "nodes.csv: the file has a header and no nodes"},
		{name: "no GPU", nodes: "sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,0,\n", want: "nodes.csv: the cluster has no GPU"},
		{name: "missing column", nodes: "sn,cpu_milli,gpu,model\n", want: `nodes.csv:1: column "memory_mib" is missing; present are sn, cpu_milli, gpu, model`},
		{name: "column twice", nodes: "sn,sn\n", want: `nodes.csv:1: column "sn" is there twice`},
		{name: "duplicate", nodes: nodes("n0,1,1,0,"), want: `nodes.csv:3: column "sn": value "n0": want a name of its own; line 2 has it`},
		{name: "no model", nodes: nodes("n1,1,1,2,"), want: `nodes.csv:3: column "model": value "": want a model, since the node has GPUs`},
		{name: "too many GPUs", nodes: nodes("n1,1,1,65,T4"), want: `nodes.csv:3: column "gpu": value "65": want an integer from 0 to 64`},
		{name: "negative", nodes: nodes("n1,-1,1,1,T4"), want: `nodes.csv:3: column "cpu_milli": value "-1": want an integer from 0 to 1000000000`},
		{name: "short row", nodes: nodes("n1,1"), want: "nodes.csv:3: the row has 2 cells and the header 5"},
		{name: "open quote", nodes: nodes(`"n1,1,1,1,T4`), want: "nodes.csv:3: a quoted field is not closed or has a stray quote"},
		{name: "long line", nodes: nodes(strings.Repeat("x", MaxLine)), want: "nodes.csv:3: the line is longer than 1048576 bytes"},
		{name: "empty pods", pods: "", want: "pods.csv: the file is empty"},
		{name: "pods header only", pods: "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", want: "pods.csv: the file has a header and no pods"},
		{name: "no name", pods: pods(",1,1,0,0,0,0,0"), want: `pods.csv:3: column "name": value "": want 1 to 253 bytes`},
		{name: "share above a GPU", pods: pods("p1,1,1,1,1001,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "1001": want an integer from 0 to 1000`},
		{name: "NaN share", pods: pods("p1,1,1,1,NaN,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "NaN": want an integer from 0 to 1000`},
		{name: "negative share", pods: pods("p1,1,1,1,-5,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "-5"`},
		{name: "share of several", pods: pods("p1,1,1,2,500,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "500": want 1000: a share is of one GPU`},
		{name: "GPU without share", pods: pods("p1,1,1,1,0,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "0": want 1 to 1000`},
		{name: "share without GPU", pods: pods("p1,1,1,0,500,0,0,0"), want: `pods.csv:3: column "gpu_milli": value "500": want 0`},
		{name: "deleted before created", pods: pods("p1,1,1,0,0,9,8,9"), want: `pods.csv:3: column "deletion_time": value "8": want no time before creation_time`},
		{name: "deleted before scheduled", pods: pods("p1,1,1,0,0,1,8,9"), want: `pods.csv:3: column "deletion_time": value "8": want no time before scheduled_time`},
		{name: "NaN time", pods: pods("p1,1,1,0,0,NaN,8,9"), want: `pods.csv:3: column "creation_time": value "NaN": want seconds from 0 to 3155760000`},
		{name: "no deletion", pods: pods("p1,1,1,0,0,1,,1"), want: `pods.csv:3: column "deletion_time": value "": want seconds`},
	}
	for _, tt := range tests {
		n, p := tt.nodes, tt.pods
		if strings.HasPrefix(tt.want, "pods") {
			n = smallNodes
		}
		_, err := openB(n, p)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: OpenB: %v, want one line with %s", tt.name, err, tt.want)
		}
	}
}

func TestOpenBMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.csv")
	if _, err := OpenB(path, path); err == nil || !strings.Contains(err.Error(), "none.csv") {
		t.Errorf("OpenB of a missing file: %v, want its name", err)
	}
}

func TestRequireTimes(t *testing.T) {
	timed, err := openB(smallNodes, smallPods)
	if err != nil || RequireTimes(timed, "pods.csv") != nil {
		t.Errorf("timed workload: %v, %v, want no errors", err, RequireTimes(timed, "pods.csv"))
	}
	w, err := openB(smallNodes, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\np0,1,1,0,0,5\n")
	if err != nil || w.Timed {
		t.Fatalf("without deletion_time: timed %t, %v, want an untimed workload", w.Timed, err)
	}
	want := `pods.csv: column "deletion_time" is missing; --mode timed needs it, --mode static does not`
	if err := RequireTimes(w, "pods.csv"); err == nil || err.Error() != want {
		t.Errorf("RequireTimes: %v, want %s", err, want)
	}
	if err := RequireTimes(Workload{}, "x"); err == nil {
		t.Error("RequireTimes of an untimed workload: no error")
	}
}

// The facts that the study of the trace states.
func TestOpenBPublic(t *testing.T) {
	w := publicOpenB(t, "default")
	var demand quantity.MilliGPU
	for i := range w.Pods {
		demand += w.Pods[i].GPUDemand()
	}
	if len(w.Nodes) != 1213 || w.GPUCapacity() != 6_212_000 || len(w.Pods) != 8152 || !w.Timed {
		t.Errorf("read %d nodes, %d milli-GPU, %d pods, timed %t", len(w.Nodes), w.GPUCapacity(), len(w.Pods), w.Timed)
	}
	if share := float64(demand) / float64(w.GPUCapacity()); math.Abs(share-0.980) > 0.0005 {
		t.Errorf("the pods ask for %.4f of the GPUs, want 0.980", share)
	}
	s := Stat(w)
	if s.Pods[cpuOnly].Pods != 1088 || s.Pods[share].Pods != 3078 || s.Pods[whole].Pods != 3911 || s.Pods[several].Pods != 75 {
		t.Errorf("kinds of request: %v", s.Pods)
	}
	if s.GPUs[0] != (ModelCount{"G2", 4392}) || s.GPUs[1] != (ModelCount{"T4", 842}) {
		t.Errorf("GPUs by model: %v", s.GPUs)
	}
	untimed := publicOpenB(t, "multigpu20")
	if untimed.Timed || !slices.Equal(untimed.Missing, []string{createdColumn, deletedColumn}) {
		t.Errorf("multigpu20: timed %t, missing %v", untimed.Timed, untimed.Missing)
	}
}

func TestTunePublic(t *testing.T) {
	w := publicOpenB(t, "default")
	for seed, want := range map[int64]struct {
		pods   int
		demand float64 // % of the capacity
	}{
		42: {pods: 8152 + 2714, demand: 130.0},
		45: {pods: 0, demand: 130.1},
	} {
		tuned := Tune(w, PublishedRatio, seed)
		var demand quantity.MilliGPU
		for i := range tuned.Workload.Pods {
			demand += tuned.Workload.Pods[i].GPUDemand()
		}
		got := 100 * float64(demand) / float64(w.GPUCapacity())
		if want.pods != 0 && len(tuned.Workload.Pods) != want.pods || math.Abs(got-want.demand) > 0.05 {
			t.Errorf("seed %d: %d pods with %.3f %%, want %d and %.1f", seed, len(tuned.Workload.Pods), got, want.pods, want.demand)
		}
	}
	shrunk := Tune(publicOpenB(t, "multigpu50"), PublishedRatio, 42)
	s := Stat(shrunk.Workload)
	if len(shrunk.Workload.Pods) >= 9061 || s.GPU.Demand > 8_075_600 || s.GPU.Demand < 8_060_000 {
		t.Errorf("multigpu50 shrinks to %d pods with %d milli-GPU, want just below 8075600", len(shrunk.Workload.Pods), s.GPU.Demand)
	}
}
