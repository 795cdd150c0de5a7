package trace

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

const smallPhilly = "timestamp,duration,num_gpus,gpu_time,cluster\n" +
	"2017-10-09 00:00:10,100.0,1,100.0,a\n2017-10-09 00:00:00,3600.0,20,72000.0,b\n2017-10-09 00:00:10,50.5,8,404.0,a\n\n"

func philly(text string) (Workload, error) {
	set := DefaultPhilly()
	set.Nodes = 4
	return readPhilly(source{"jobs.csv", strings.NewReader(text)}, set)
}

func TestPhilly(t *testing.T) {
	w, err := philly(smallPhilly)
	if err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	for _, p := range w.Pods {
		line.WriteString(p.Name + " " + p.Group + " " + p.Queue + " " + formatNumber(p.GPUs) + " " + p.Arrival.String() + " " + p.Duration.String() + "\n")
	}
	// By time, and then in the order of the file; the job of 20 GPUs is three pods.
	want := "job-3/0 job-3 b 8 0s 1h\njob-3/1 job-3 b 8 0s 1h\njob-3/2 job-3 b 4 0s 1h\njob-2  a 1 10s 1m40s\njob-4  a 8 10s 50s500ms\n"
	if line.String() != want {
		t.Errorf("pods\n%swant\n%s", line.String(), want)
	}
	if p := w.Pods[0]; p.Checkpoint != 30*moment.Minute || p.Restart != moment.Minute || p.Kind != "b >16 GPUs" || w.GPUCapacity() != 32000 || w.WarmUp != 14*moment.Day {
		t.Errorf("%+v, capacity %v, warm-up %v", p, w.GPUCapacity(), w.WarmUp)
	}
	// a has 0.7 % of the GPU-time and a job of 8; b gets the rest.
	if q := w.Queues; len(q) != 2 || q[0] != (Queue{"a", 8000}) || q[1] != (Queue{"b", 24000}) {
		t.Errorf("queues %+v", q)
	}
	if got := w.OfferedLoad(); math.Abs(got-(72000+100+404)/320.0) > 1e-9 {
		t.Errorf("offered load %v", got)
	}
}

func TestPhillyErrors(t *testing.T) {
	const head = "timestamp,duration,num_gpus,gpu_time,cluster\n"
	tests := []struct{ name, text, want string }{
		{name: "empty", text: "", want: "jobs.csv: the file is empty"},
		{name: "no jobs", text: head, want: "jobs.csv: the file has a header and no jobs"},
		{name: "missing column", text: "timestamp,duration\n", want: `jobs.csv:1: column "num_gpus" is missing; present are timestamp, duration`},
		{name: "time", text: head + "2017-10-09,1,1,1,a\n", want: `jobs.csv:2: column "timestamp": value "2017-10-09": want a time as 2017-10-09 07:01:55`},
		{name: "negative", text: head + "2017-10-09 00:00:00,-1,1,-1,a\n", want: `jobs.csv:2: column "duration": value "-1": want seconds from 0`},
		{name: "nothing", text: head + "2017-10-09 00:00:00,0,1,0,a\n", want: `jobs.csv:2: column "duration": value "0": want more than 0 seconds`},
		{name: "not a number", text: head + "2017-10-09 00:00:00,NaN,1,1,a\n", want: `column "duration": value "NaN"`},
		{name: "GPUs", text: head + "2017-10-09 00:00:00,1,0,0,a\n", want: `jobs.csv:2: column "num_gpus": value "0": want an integer from 1 to 65536`},
		{name: "product", text: head + "2017-10-09 00:00:00,10,2,10,a\n", want: `jobs.csv:2: column "gpu_time": value "10": want duration × num_gpus, which is 20.0`},
		{name: "cluster", text: head + "2017-10-09 00:00:00,1,1,1,\n", want: `jobs.csv:2: column "cluster": value "": want 1 to 253 bytes`},
		{name: "cells", text: head + "2017-10-09 00:00:00,1,1\n", want: "jobs.csv:2: the row has 3 cells and the header 5"},
		{name: "centuries", text: head + "2017-10-09 00:00:00,1,1,1,a\n0017-10-09 00:00:00,1,1,1,a\n", want: `jobs.csv:2: column "timestamp": value "2017-10-09 00:00:00": want no more than 100 years`},
	}
	for _, tt := range tests {
		if _, err := philly(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with %s", tt.name, err, tt.want)
		}
	}
	for _, c := range []Cluster{{0, 8}, {8, 0}, {MaxClusterNodes + 1, 8}, {8, MaxGPUs + 1}} {
		if _, err := readPhilly(source{"jobs.csv", strings.NewReader(smallPhilly)}, PhillySetting{Cluster: c}); err == nil || !strings.Contains(err.Error(), "want 1 to") {
			t.Errorf("cluster %v: %v", c, err)
		}
	}
}

// A parser never panics, and what it accepts survives writing and reading.
func FuzzPhilly(f *testing.F) {
	f.Add(smallPhilly)
	f.Add("cluster,gpu_time,num_gpus,duration,timestamp\n\"x,y\",1e3,128,7.8125,2017-12-31 23:59:59\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := philly(text)
		if err != nil {
			return
		}
		_ = Stat(w).String()
		sum := quantity.MilliGPU(0)
		for _, q := range w.Queues {
			sum += q.Deserved
		}
		if len(w.Queues) == 1 && sum < w.GPUCapacity() {
			t.Errorf("the only queue deserves %v of %v", sum, w.GPUCapacity())
		}
		checkRoundTrip(t, w)
	})
}

// The compressed file reads as the plain one.
func TestPhillyCompressed(t *testing.T) {
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(smallPhilly))
	_ = z.Close()
	for name, data := range map[string][]byte{"jobs.csv": []byte(smallPhilly), "jobs.csv.gz": packed.Bytes()} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if w, err := Philly(path, DefaultPhilly()); err != nil || len(w.Pods) != 5 || w.Name != "jobs" {
			t.Errorf("%s: %d pods of %q, %v", name, len(w.Pods), w.Name, err)
		}
	}
	path := filepath.Join(dir, "cut.csv.gz")
	if err := os.WriteFile(path, packed.Bytes()[:packed.Len()-12], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Philly(path, DefaultPhilly()); err == nil || !strings.Contains(err.Error(), "cut.csv.gz") {
		t.Errorf("a file that is cut off: %v", err)
	}
}

// The public trace has the load that its setting is known for, and its tenants
// deserve the cluster, each at least its largest job.
func TestPublicPhilly(t *testing.T) {
	path := filepath.Join(publicTraces(t), "philly", "philly_jobs.csv.gz")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the trace is not there: %v", err)
	}
	w, err := Philly(path, DefaultPhilly())
	if err != nil {
		t.Fatal(err)
	}
	jobs, largest := 0, map[string]quantity.MilliGPU{}
	size := map[string]quantity.MilliGPU{}
	for i := range w.Pods {
		p := &w.Pods[i]
		name := p.Group
		if name == "" {
			name = p.Name
		}
		if size[name] == 0 {
			jobs++
		}
		size[name] += p.GPUDemand()
		largest[p.Queue] = max(largest[p.Queue], size[name])
		if i > 0 && p.Arrival < w.Pods[i-1].Arrival {
			t.Fatalf("pod %s comes at %v, after one of %v", p.Name, p.Arrival, w.Pods[i-1].Arrival)
		}
	}
	if load := w.OfferedLoad(); jobs != 82247 || load < 0.89 || load > 0.91 {
		t.Errorf("%d jobs, offered load %.4f; want 82247 and about 0.9", jobs, load)
	}
	sum := quantity.MilliGPU(0)
	for _, q := range w.Queues {
		sum += q.Deserved
		if q.Deserved < largest[q.Name] {
			t.Errorf("queue %s deserves %v, its largest job takes %v", q.Name, q.Deserved, largest[q.Name])
		}
	}
	if len(w.Queues) != 15 || sum > w.GPUCapacity() || sum < w.GPUCapacity()-15 {
		t.Errorf("%d queues deserve %v of %v", len(w.Queues), sum, w.GPUCapacity())
	}
}
