package trace

import (
	"testing"
)

func TestStat(t *testing.T) {
	w, err := OpenB("testdata/openb_nodes.csv", "testdata/openb_pods.csv")
	if err != nil {
		t.Fatal(err)
	}
	const want = `workload                                     openb_pods
nodes                                        3 nodes         1 without GPU
  G2                                         8 GPUs
  T4                                         2 GPUs
pods                                         5 pods
  CPU only                                   1 pod
  GPU share                                  2 pods          8.0 % of the GPU demand
  one GPU                                    1 pod           10.2 % of the GPU demand
  several GPUs                               1 pod           81.8 % of the GPU demand
offered load                                 139017.5 %      GPU-time of all, over capacity × time from first arrival to last
demand of all pods                                           of the capacity
  CPU                                        94 CPU          35.6 %
  memory                                     329525 MiB      21.0 %
  GPU                                        9780 milli-GPU  97.8 %
durations
  least                                      39s
  25 %                                       1m
  median                                     9m58s
  75 %                                       1h
  90 %                                       1d
  99 %                                       1d
  most                                       1d
  mean                                       5h2m
most frequent requests
  64 CPU, 256 GiB, 8 GPU of G2               1 pod
  12 CPU, 16 GiB, 1 GPU                      1 pod
  6 CPU, 12 GiB, 460 milli-GPU               1 pod
  4 CPU, 8 GiB, 320 milli-GPU of T4|V100M16  1 pod
  8 CPU, 30517 MiB                           1 pod
`
	got := Stat(w).String()
	if got != want {
		t.Errorf("Stat prints\n%s\nwant\n%s", got, want)
	}
	if empty := Stat(Workload{}).String(); empty == "" {
		t.Error("Stat of nothing prints nothing")
	}
}
