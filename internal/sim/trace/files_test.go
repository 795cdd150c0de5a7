package trace

import (
	"os"
	"path/filepath"
	"testing"
)

// publicTraces finds the folder of public traces: HEADRACE_TRACES, else
// shared/traces beside the root of the repository.
func publicTraces(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("HEADRACE_TRACES")
	for up := "."; dir == ""; up = filepath.Join(up, "..") {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			dir = filepath.Join(up, "..", "shared", "traces")
		} else if abs, err := filepath.Abs(up); err != nil || abs == filepath.Dir(abs) {
			t.Skip("the root of the repository was not found, so neither are the public traces")
		}
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no public traces at %s; set HEADRACE_TRACES to their folder", dir)
	}
	return dir
}

func publicOpenB(t *testing.T, pods string) Workload {
	t.Helper()
	dir := filepath.Join(publicTraces(t), "openb")
	w, err := OpenB(filepath.Join(dir, "openb_node_list_gpu_node.csv"), filepath.Join(dir, "openb_pod_list_"+pods+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}
