package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trainingFolder writes the profile of one kind of training on one GPU model, and a
// workload of three jobs: two of one GPU and one of two.
func trainingFolder(t *testing.T) (profiles, workload string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bert"), 0o755); err != nil {
		t.Fatal(err)
	}
	shapes := "placement,local_bsz,step_time,sync_time\n"
	for _, shape := range []string{"1", "2", "3", "4", "11", "12", "22", "44"} {
		for _, local := range []int{6, 12, 24} {
			sync := 0.02 * float64(len(shape)*len(shape))
			shapes += fmt.Sprintf("%s,%d,%.3f,%.3f\n", shape, local, 0.1+0.02*float64(local)+sync, sync)
		}
	}
	validation := "progress,iteration,metric,grad_sqr,grad_var\n600,1,1,1,4\n1200,1,1,1,8\n"
	for name, text := range map[string]string{
		"bert/placements.csv":     shapes,
		"bert/scalability.csv":    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,16,12,1,0.5\n",
		"bert/validation-12.csv":  validation,
		"bert/validation-192.csv": validation,
		"jobs.csv":                "name,time,application,num_replicas,batch_size\na,10,bert,1,24\nb,61,bert,2,48\nc,70,bert,1,12\n",
		"more.csv":                "name,time,application,num_replicas,batch_size\na,0,bert,4,48\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "jobs.csv")
}

func trainingLine(profiles, workload string, more ...string) []string {
	return append([]string{"sim", "--trace", "pollux", "--profiles", profiles, "--workload", workload, "--cluster", "2xaws"}, more...)
}

// TestTrainingJSON: one object per policy and workload, with the fields of the
// contract; jobs are listed where they are asked for, and the numbers agree.
func TestTrainingJSON(t *testing.T) {
	profiles, workload := trainingFolder(t)
	code, out, errOut := runLine(t, trainingLine(profiles, workload, filepath.Join(profiles, "more.csv"), "--policy", "tiresias,sia,gavel", "--per-job", "--output", "json")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	var runs []struct {
		Schema, Policy, Source, Workload, Cluster string
		Pods                                      int
		JCT                                       float64 `json:"jct_mean_s"`
		P99                                       float64 `json:"jct_p99_s"`
		Makespan                                  float64 `json:"makespan_s"`
		GPUHours                                  float64 `json:"gpu_hours_per_job"`
		Restarts                                  float64 `json:"restarts_mean"`
		Contention                                float64 `json:"contention_mean"`
		Worst                                     float64 `json:"ftf_worst"`
		Unfair                                    float64 `json:"unfair_pct"`
		Jobs                                      []struct {
			Name     string
			JCT      float64 `json:"jct_s"`
			Restarts float64
		}
	}
	if err := json.Unmarshal([]byte(out), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 6 || runs[0].Policy != "tiresias" || runs[3].Workload != "more" || runs[0].Source != "trace:pollux" || runs[0].Schema == "" {
		t.Fatalf("%d runs: %+v", len(runs), runs)
	}
	for _, r := range runs {
		sum, last, restarts := 0.0, 0.0, 0.0
		for _, j := range r.Jobs {
			sum, last, restarts = sum+j.JCT/float64(len(r.Jobs)), max(last, j.JCT), restarts+j.Restarts/float64(len(r.Jobs))
		}
		if len(r.Jobs) != r.Pods || math.Abs(sum-r.JCT) > 1e-6 || last != r.P99 || math.Abs(restarts-r.Restarts) > 1e-9 {
			t.Errorf("%s on %s: mean %v, p99 %v, restarts %v; the jobs say %v, %v, %v", r.Policy, r.Workload, r.JCT, r.P99, r.Restarts, sum, last, restarts)
		}
		if r.Makespan < last || r.GPUHours <= 0 || r.Contention <= 0 || r.Worst <= 0 || r.Cluster != "2xaws" {
			t.Errorf("%+v", r)
		}
	}
	// A job of one GPU that nobody disturbs: it is seen at 60, restarts for 30 s, and
	// makes 1,200 steps' worth of progress with a batch of 24, two passes of 12.
	if got := runs[0].Jobs[0]; got.Name != "a" || got.JCT != 60-10+30+epochs(0.36+0.34, 24.0/12) {
		t.Errorf("%+v, want %v s", got, 50+30+epochs(0.7, 2))
	}
}

// epochs is the time of the two epochs of the test's kind on one GPU, each rounded
// to the second.
func epochs(step, scale float64) float64 {
	sum := 0.0
	for _, noise := range []float64{4, 8} {
		gain := (noise + 1) / (noise/scale + 1)
		sum += float64(int(600/(gain/step) + 0.5))
	}
	return sum
}

// TestTrainingTable has a line for each policy, and for each of several workloads a
// column.
func TestTrainingTable(t *testing.T) {
	t.Chdir(t.TempDir())
	profiles, workload := trainingFolder(t)
	code, out, errOut := runLine(t, trainingLine(profiles, workload, filepath.Join(profiles, "more.csv"))...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, word := range []string{"tiresias", "sia", "gavel", "completion h", "GPU-h/job", "FTF worst", "more", "2 workloads, 2xaws", "against that of tiresias"} {
		if !strings.Contains(out, word) {
			t.Errorf("printed\n%s\nwant it to contain %q", out, word)
		}
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("%s was written without being asked for", left[0].Name())
	}
}

// TestTrainingPlots: a picture of completion times, of the GPUs in use by model and by
// kind under each policy, and of the life of one job with its four measures.
func TestTrainingPlots(t *testing.T) {
	profiles, workload := trainingFolder(t)
	dir := filepath.Join(t.TempDir(), "plots")
	code, _, errOut := runLine(t, trainingLine(profiles, workload, "--policy", "tiresias,headrace", "--plots", dir, "--life", "b")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for name, words := range map[string][]string{
		"completion-time-of-jobs":            {"tiresias", "headrace", "share of jobs"},
		"gpus-by-gpu-model-under-headrace":   {"aws", "jobs"},
		"gpus-by-kind-of-job-under-tiresias": {"bert"},
		"life":                               {"Workers", "Batch", "Goodput", "Restarts", "tiresias", "headrace"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name+".svg"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(string(text), word) {
				t.Errorf("%s does not say %q", name, word)
			}
		}
	}
}

// TestTrainingCSV has one row per run.
func TestTrainingCSV(t *testing.T) {
	profiles, workload := trainingFolder(t)
	_, out, _ := runLine(t, trainingLine(profiles, workload, "--policy", "tiresias,sia", "--output", "csv")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "makespan_s") || strings.Count(lines[0], ",") != strings.Count(lines[1], ",") {
		t.Errorf("printed\n%s\nwant a head and two rows", out)
	}
}

func TestTrainingBadInput(t *testing.T) {
	profiles, workload := trainingFolder(t)
	big := filepath.Join(profiles, "big.csv")
	if err := os.WriteFile(big, []byte("name,time,application,num_replicas,batch_size\na,0,bert,9,48\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"no profiles", []string{"sim", "--trace", "pollux", "--workload", workload}, 2, []string{"--profiles DIR"}},
		{"no workload", []string{"sim", "--trace", "sia", "--profiles", profiles}, 2, []string{"--workload FILE"}},
		{"profiles without a trace", []string{"sim", "--profiles", profiles}, 2, []string{"--profiles", "--trace pollux"}},
		{"missing workload", trainingLine(profiles, filepath.Join(profiles, "none.csv")), 1, []string{"none.csv"}},
		{"unknown policy", trainingLine(profiles, workload, "--policy", "siaa"), 2, []string{"siaa", `"sia"`, "tiresias, sia"}},
		{"unknown type", trainingLine(profiles, workload, "--cluster", "2xh100"), 2, []string{"2xh100", "types aws"}},
		{"no nodes", trainingLine(profiles, workload, "--cluster", "0xaws"), 2, []string{"0xaws", "1 to"}},
		{"a type twice", trainingLine(profiles, workload, "--cluster", "1xaws,2xaws"), 2, []string{"twice"}},
		{"a type that was not measured", []string{"sim", "--trace", "sia", "--profiles", profiles, "--workload", workload, "--cluster", "1xrtx"}, 1, []string{"placements-rtx.csv", "bert"}},
		{"more GPUs than there are", trainingLine(profiles, big, "--policy", "tiresias"), 1, []string{"num_replicas 9", "at most 8"}},
		{"a flag that does not go with it", trainingLine(profiles, workload, "--inflate", "1.3"), 2, []string{"--inflate", "pollux"}},
		{"a bad round", trainingLine(profiles, workload, "--round", "0.5s"), 2, []string{"--round 0.5s", "1s"}},
		{"jobs in a table", trainingLine(profiles, workload, "--per-job"), 2, []string{"--per-job", "json"}},
		{"a life without plots", trainingLine(profiles, workload, "--life", "a"), 2, []string{"--life a", "--plots"}},
		{"a life of nobody", trainingLine(profiles, workload, "--life", "z", "--plots", t.TempDir()), 2, []string{"--life z", "jobs.csv", "first is a"}},
		{"trace stat", []string{"trace", "stat", "--trace", "pollux", "--pods", workload}, 2, []string{"pollux", "headrace sim"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errOut := runLine(t, test.args...)
			if code != test.code || strings.Count(errOut, "\n") != 1 || out != "" {
				t.Errorf("%v: exit code %d, said %q, printed %q; want %d and one line of error", test.args, code, errOut, out, test.code)
			}
			for _, word := range test.says {
				if !strings.Contains(errOut, word) {
					t.Errorf("%v: said %q, want it to name %q", test.args, errOut, word)
				}
			}
		})
	}
}
