package trace

import (
	"os"
	"strings"
	"testing"
)

func fixture(tb testing.TB, name string) string {
	tb.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// A parser never panics, and what it accepts survives writing and reading.
func FuzzOpenB(f *testing.F) {
	f.Add(fixture(f, "openb_nodes.csv"), fixture(f, "openb_pods.csv"))
	f.Add(smallNodes, smallPods)
	f.Add(byteOrderMark+strings.ReplaceAll(smallNodes, "\n", "\r\n"), "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n\"p\",1,1,1,5\n")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		w, err := openB(nodes, pods)
		if err != nil {
			return
		}
		_ = Stat(w).String()
		checkRoundTrip(t, w)
	})
}

func FuzzReadLines(f *testing.F) {
	f.Add(fixture(f, "small.jsonl"))
	f.Add(`{"headrace_trace":1}` + "\n" + `{"node":{"name":"n","cpu_milli":1,"memory_bytes":0}}` + "\n" + `{"pod":{"name":"p","cpu_milli":0,"memory_bytes":0}}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := lines(text)
		if err != nil {
			return
		}
		_ = Stat(w).String()
		checkRoundTrip(t, w)
	})
}

func FuzzReadSheets(f *testing.F) {
	f.Add(fixture(f, "nodes.csv"), fixture(f, "pods.csv"))
	f.Add("name,cpu_milli,memory_bytes,labels\nn,1,1,a=\n", "memory_bytes,cpu_milli,name\n0,0,\" p\"\n")
	f.Fuzz(func(t *testing.T, nodes, pods string) {
		w, err := sheets(nodes, pods)
		if err != nil {
			return
		}
		_ = Stat(w).String()
		checkRoundTrip(t, w)
	})
}
