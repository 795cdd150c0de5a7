package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

func lines(text string) (Workload, error) {
	return readLines(source{"w.jsonl", strings.NewReader(text)})
}

func sheets(nodes, pods string) (Workload, error) {
	return readSheets(source{"nodes.csv", strings.NewReader(nodes)}, source{"pods.csv", strings.NewReader(pods)})
}

// The two forms of the fixture are one workload, save for what CSV cannot say.
func TestReadFixtures(t *testing.T) {
	w, err := Read("testdata/small.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	p := w.Pods[0]
	good := w.Name == "small" && w.Timed && w.WarmUp == moment.Minute && len(w.Nodes) == 2 && len(w.Pods) == 3 &&
		slices.Equal(w.Nodes[0].NUMA, []int32{0, 1}) && w.Nodes[0].Labels["pool"] == "train" &&
		p.Milli == 500 && p.GPUMemory == 16*quantity.GiB && p.SLA == 15*moment.Minute &&
		p.Use.ComputeBusy == 450 && p.Use.WarmUp == 22*moment.Second && w.Pods[1].Arrival == moment.Instant(1500*moment.Millisecond)
	if !good {
		t.Errorf("read %+v", w)
	}
	fromCSV, err := Read("testdata/nodes.csv", "testdata/pods.csv")
	if err != nil {
		t.Fatal(err)
	}
	w.Name, w.WarmUp = "pods", 0
	if !reflect.DeepEqual(w, fromCSV) {
		t.Errorf("JSON lines give\n%+v\nCSV gives\n%+v", w, fromCSV)
	}
	if _, err := Read(); err == nil || !strings.Contains(err.Error(), "got 0 files") {
		t.Errorf("Read of no file: %v", err)
	}
	if _, err := Read("testdata/none.jsonl"); err == nil || !strings.Contains(err.Error(), "none.jsonl") {
		t.Errorf("Read of a missing file: %v", err)
	}
}

func TestReadLinesErrors(t *testing.T) {
	const head = `{"headrace_trace":1}` + "\n"
	const node = `{"node":{"name":"n0","cpu_milli":1000,"memory_bytes":1}}` + "\n"
	const pod = `{"pod":{"name":"p0","cpu_milli":1,"memory_bytes":1}}` + "\n"
	tests := []struct{ name, text, want string }{
		{name: "empty", text: "\n\n", want: "w.jsonl: the file is empty"},
		{name: "no header", text: node, want: `w.jsonl:1: want the header {"headrace_trace":1, ...}`},
		{name: "CSV", text: "name,cpu_milli\n", want: "the CSV form is two files"},
		{name: "future", text: `{"headrace_trace":2}`, want: `w.jsonl:1: field "headrace_trace": value "2": want an integer from 1 to 1`},
		{name: "unknown in the header", text: `{"headrace_trace":1,"tiemd":true}`, want: `w.jsonl:1: field "tiemd" is unknown; known are headrace_trace, name, timed, warm_up_us`},
		{name: "no nodes", text: head + pod, want: "w.jsonl: the file has no nodes"},
		{name: "no pods", text: head + node, want: "w.jsonl: the file has no pods"},
		{name: "nothing in the cluster", text: head + `{"node":{"name":"n0","cpu_milli":0,"memory_bytes":0}}` + "\n" + pod, want: "w.jsonl: the cluster has no CPU, no memory and no GPU"},
		{name: "unknown record", text: head + `{"job":{}}`, want: `w.jsonl:2: field "job" is unknown: want node, queue or pod`},
		{name: "unknown field", text: head + `{"node":{"cpus":4}}`, want: `w.jsonl:2: field "cpus" is unknown; known are name, cpu_milli`},
		{name: "case counts", text: head + `{"node":{"Name":"n"}}`, want: `field "Name" is unknown`},
		{name: "missing field", text: head + `{"node":{"name":"n0","cpu_milli":1}}`, want: `w.jsonl:2: field "memory_bytes" is missing`},
		{name: "twice", text: head + `{"node":{"name":"n0","name":"n1"}}`, want: `w.jsonl:2: field "name" is there twice`},
		{name: "null", text: head + `{"node":{"name":null}}`, want: `w.jsonl:2: field "name": value "null": want a value; leave the field out`},
		{name: "fraction", text: head + `{"pod":{"gpu_milli":0.5}}`, want: `w.jsonl:2: field "gpu_milli": value "0.5": want an integer from 0 to 1000`},
		{name: "exponent", text: head + `{"pod":{"cpu_milli":1e3}}`, want: `value "1e3": want an integer`},
		{name: "text for a number", text: head + `{"pod":{"cpu_milli":"1"}}`, want: `field "cpu_milli"`},
		{name: "control character", text: head + `{"pod":{"name":"a\nb"}}`, want: `field "name"`},
		{name: "null in a list", text: head + `{"pod":{"models":[null]}}`, want: `field "models": value "[null]": want a list`},
		{name: "not in a list", text: head + `{"pod":{"models":"T4"}}`, want: `field "models": value "\"T4\"": want a list`},
		{name: "cut off", text: head + `{"pod":{"name":"p0"`, want: "w.jsonl:2: the JSON object is cut off"},
		{name: "not JSON", text: head + `{"pod":{name:1}}`, want: "w.jsonl:2: not JSON"},
		{name: "something follows", text: head + `{"pod":{"name":"p0","cpu_milli":1,"memory_bytes":1}} {}`, want: "w.jsonl:2: want one JSON object: something follows"},
		{name: "not an object", text: head + `[1]`, want: `w.jsonl:2: want one JSON object: got "[1]"`},
		{name: "pods of one name", text: head + node + pod + pod, want: `w.jsonl:4: field "name": value "p0": want a name of its own; line 3 has it`},
		{name: "share of several", text: head + node + `{"pod":{"name":"p","cpu_milli":1,"memory_bytes":1,"gpus":2,"gpu_milli":500}}`, want: `w.jsonl:3: field "gpu_milli": value "500": want 1000`},
		{name: "GPUs without model", text: head + `{"node":{"name":"n","cpu_milli":1,"memory_bytes":1,"gpus":2}}`, want: `w.jsonl:2: field "model": value "": want a model`},
		{name: "island of another length", text: head + `{"node":{"name":"n","cpu_milli":1,"memory_bytes":1,"gpus":2,"model":"T4","gpu_island":[0]}}`, want: `field "gpu_island": value "0": want one number per GPU`},
	}
	for _, tt := range tests {
		_, err := lines(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: Read: %v, want one line with %s", tt.name, err, tt.want)
		}
	}
}

func TestReadSheetsErrors(t *testing.T) {
	const nodes = "name,cpu_milli,memory_bytes\nn0,1000,1\n"
	const pods = "name,cpu_milli,memory_bytes\np0,1,1\n"
	tests := []struct{ name, nodes, pods, want string }{
		{name: "unknown column", nodes: "name,cpus\n", pods: pods, want: `nodes.csv:1: column "cpus" is unknown; known are name`},
		{name: "missing column", nodes: nodes, pods: "name,cpu_milli\np,1\n", want: `pods.csv:1: column "memory_bytes" is missing; present are name, cpu_milli`},
		{name: "required cell", nodes: nodes, pods: "name,cpu_milli,memory_bytes\np,,1\n", want: `pods.csv:2: column "cpu_milli": value "": want an integer from 0`},
		{name: "labels", nodes: "name,cpu_milli,memory_bytes,labels\nn,1,1,a=1|a=2\n", pods: pods, want: `nodes.csv:2: column "labels": value "a=1|a=2": want at most 64 labels`},
		{name: "truth", nodes: "name,cpu_milli,memory_bytes,whole\nn,1,1,yes\n", pods: pods, want: `column "whole": value "yes": want true or false`},
		{name: "no pods", nodes: nodes, pods: "name,cpu_milli,memory_bytes\n", want: "pods.csv: the file has no pods"},
		{name: "duplicate", nodes: nodes, pods: pods + "p0,1,1\n", want: `pods.csv:3: column "name": value "p0": want a name of its own; line 2 has it`},
	}
	for _, tt := range tests {
		if _, err := sheets(tt.nodes, tt.pods); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Read: %v, want %s", tt.name, err, tt.want)
		}
	}
	w, err := sheets(nodes, pods)
	if err != nil || w.Timed || RequireTimes(w, "pods.csv") == nil {
		t.Errorf("without times: timed %t, %v, %v", w.Timed, err, RequireTimes(w, "pods.csv"))
	}
}

// Reading what was written gives the same workload, whatever it is.
func TestRoundTrip(t *testing.T) {
	for seed := range int64(200) {
		w := anyWorkload(chance.New(seed))
		checkRoundTrip(t, w)
	}
}

// checkRoundTrip holds that both forms give back a valid workload.
func checkRoundTrip(t *testing.T, w Workload) {
	t.Helper()
	w.Missing = nil
	var text, again bytes.Buffer
	if err := Write(&text, w); err != nil {
		t.Fatal(err)
	}
	got, err := lines(text.String())
	if err != nil || !reflect.DeepEqual(got, w) {
		t.Fatalf("wrote\n%s\nread %+v, %v\nwant %+v", text.String(), got, err, w)
	}
	if err := Write(&again, got); err != nil || again.String() != text.String() {
		t.Fatalf("wrote\n%s\nand then\n%s", text.String(), again.String())
	}
	var nodes, pods bytes.Buffer
	if err := WriteCSV(&nodes, &pods, w); err != nil {
		t.Fatal(err)
	}
	got, err = sheets(nodes.String(), pods.String())
	got.Missing = nil
	got.Name, got.WarmUp, got.Queues = w.Name, w.WarmUp, w.Queues
	if !w.Timed {
		for i := range w.Pods {
			w.Pods[i].Arrival, w.Pods[i].Duration = 0, 0
		}
	}
	if err != nil || !reflect.DeepEqual(got, w) {
		t.Fatalf("wrote\n%s%s\nread %+v, %v\nwant %+v", nodes.String(), pods.String(), got, err, w)
	}
}

// anyWorkload draws a valid workload with every field and awkward names.
func anyWorkload(c *chance.Source) Workload {
	some := func(list ...string) string { return list[c.Below(int64(len(list)))] }
	number := func(most int64) int64 { return min(c.Below(most+1), c.Below(most+1)) * c.Below(2) }
	name := func() string {
		return some("a", `q"uote`, "com,ma", " space ", "ü", "<&>", "\u2028", "'", "=") + formatNumber(int64(c.Uint64()>>1))
	}
	w := Workload{Name: name(), Timed: c.Below(2) == 0, WarmUp: moment.Span(number(int64(MaxTime)))}
	for range 1 + c.Below(4) {
		n := Node{
			Name: name(), CPU: 1, Memory: quantity.Bytes(number(int64(MaxMemory))), Pods: 1 + c.Below(200),
			Model: some("", "T4", "G 2"), Rack: some("", "r\"1"), Zone: some("", "z"), Whole: c.Below(2) == 0,
		}
		if n.Model != "" {
			n.GPUs = int(c.Below(5))
		}
		for range n.GPUs {
			n.GPUMemory = quantity.Bytes(number(1 << 40))
			n.Island = append(n.Island, int32(c.Below(4))-1)
			n.NUMA = append(n.NUMA, int32(c.Below(4))-1)
		}
		if c.Below(2) == 0 {
			n.Labels = map[string]string{some("a,", "ü", `"`): some("", "v=1", `"`), "k": "v"}
		}
		w.Nodes = append(w.Nodes, n)
	}
	for range c.Below(3) {
		w.Queues = append(w.Queues, Queue{Name: name(), Deserved: quantity.MilliGPU(number(int64(maxDeserved)))})
	}
	for range 1 + c.Below(4) {
		w.Pods = append(w.Pods, anyPod(c, name(), number, w.Timed))
	}
	return w
}

func anyPod(c *chance.Source, name string, number func(int64) int64, timed bool) Pod {
	p := Pod{
		Name: name, Priority: int32(c.Uint64()), CPU: quantity.MilliCPU(number(int64(MaxCPU))),
		Memory: quantity.Bytes(number(int64(MaxMemory))), GPUs: int(c.Below(3)), SLA: moment.Span(number(1e9)),
		Use: Use{
			LoadBusy: quantity.Milli(number(1000)), ComputeBusy: quantity.Milli(number(1000)), LoadPhase: moment.Span(number(1e9)),
			ComputePhase: moment.Span(number(1e9)), Image: quantity.Bytes(number(1e12)), Weights: quantity.Bytes(number(1e12)), WarmUp: moment.Span(number(1e9)),
		},
	}
	if c.Below(2) == 0 {
		p.Kind, p.Queue, p.Models, p.Group = "k", "q,\"", []string{"B b", "A"}, "g"
		p.Service = true
		p.Checkpoint, p.Save, p.Restart = moment.Span(number(1e9)), moment.Span(number(1e9)), moment.Span(number(1e9))
	}
	switch p.GPUs {
	case 1:
		p.Milli = quantity.MilliGPU(1 + c.Below(1000))
	case 2:
		p.Milli = quantity.WholeGPU
	}
	if p.GPUs > 0 {
		p.GPUMemory, p.Use.GPUMemory = quantity.Bytes(number(1e12)), quantity.Bytes(number(1e12))
	}
	if timed {
		p.Arrival, p.Duration = moment.Instant(number(int64(MaxTime))), moment.Span(number(int64(MaxTime)))
	}
	return p
}

// The specification names every field, with its limits, and no other.
func TestDocumentNamesAllFields(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "trace-format.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(data), -1) {
		got = append(got, m[1])
	}
	want := strings.Split(fieldNames(headerFields())+", "+fieldNames(nodeFields())+", "+fieldNames(queueFields())+", "+fieldNames(podFields()), ", ")
	if !slices.Equal(got, want) {
		t.Errorf("docs/trace-format.md has the fields\n%v\nwant\n%v", got, want)
	}
	for _, fixture := range []string{"testdata/small.jsonl"} {
		text, err := os.ReadFile(fixture)
		if err != nil || !strings.Contains(string(data), string(text)) {
			t.Errorf("docs/trace-format.md does not show %s (%v)", fixture, err)
		}
	}
}

func TestByArrival(t *testing.T) {
	w := Workload{Pods: []Pod{{Name: "c", Arrival: 2}, {Name: "b", Arrival: 1}, {Name: "a", Arrival: 2}}}
	var order string
	for _, p := range w.ByArrival() {
		order += p.Name
	}
	if order != "bca" || w.Pods[0].Name != "c" {
		t.Errorf("ByArrival: %s, want bca and the workload unchanged", order)
	}
}
