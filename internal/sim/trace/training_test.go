package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const trainingHead = "name,time,application,num_replicas,batch_size\n"

func trainingText(text string) ([]TrainingJob, error) {
	return source{"jobs.csv", strings.NewReader(text)}.training([]string{"bert", "ncf"})
}

func TestTraining(t *testing.T) {
	jobs, err := trainingText(trainingHead + "b-1,107.25,bert,6,48\nn-0,53,ncf,1,256\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []TrainingJob{{"b-1", 107.25, "bert", 6, 48}, {"n-0", 53, "ncf", 1, 256}}
	if len(jobs) != 2 || jobs[0] != want[0] || jobs[1] != want[1] {
		t.Errorf("%+v, want %+v in the order of the file", jobs, want)
	}
}

func TestTrainingErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "jobs.csv: the file is empty"},
		{"no jobs", trainingHead, "jobs.csv: the file has a header and no jobs"},
		{"missing column", "name,time\n", `jobs.csv:1: column "application" is missing`},
		{"negative time", trainingHead + "a,-1,bert,1,12\n", `jobs.csv:2: column "time": value "-1": want a number from 0`},
		{"no GPUs", trainingHead + "a,1,bert,0,12\n", `jobs.csv:2: column "num_replicas": value "0": want an integer from 1 to 65536`},
		{"batch", trainingHead + "a,1,bert,1,many\n", `column "batch_size": value "many"`},
		{"unknown application", trainingHead + "a,1,gpt,1,12\n", `column "application": value "gpt": want one of bert, ncf`},
		{"name twice", trainingHead + "a,1,bert,1,12\na,2,bert,1,12\n", `jobs.csv:3: column "name": value "a": want a name of its own; line 2 has it`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := trainingText(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// profileFiles is a whole profile of one kind on one GPU model.
func profileFiles() map[string]string {
	return map[string]string{
		"placements.csv":     "placement,local_bsz,step_time,sync_time\n1,12,0.5,0\n12,12,0.9,0.25\n",
		"scalability.csv":    "num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,8,12,1.5,0.5\n",
		"interp-points.csv":  "num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,1,12,0.5,0\n2,3,12,0.9,0.25\n",
		"validation-12.csv":  "progress,iteration,metric,grad_sqr,grad_var\n10.5,10,0.1,2,3\n",
		"validation-144.csv": "progress,iteration,metric,grad_sqr,grad_var\n11,10,0.1,4,5\n",
	}
}

func writeProfile(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bert"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, "bert", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProfiles(t *testing.T) {
	files := profileFiles()
	// What the first folder lacks stands in the second.
	first := writeProfile(t, map[string]string{"placements-aws.csv": "local_bsz,step_time,sync_time,placement\n12,0.5,0,1\n"})
	profiles, err := Profiles([]string{first, writeProfile(t, files)}, []string{"bert"}, []string{"aws"})
	if err != nil {
		t.Fatal(err)
	}
	p := profiles[0]
	if len(p.Runs) != 2 || p.Runs[0].Batch != 12 || p.Runs[1].Batch != 144 || p.Runs[1].Epochs[0] != (EpochRow{11, 4, 5}) {
		t.Errorf("runs %+v", p.Runs)
	}
	if g := p.GPUs[0]; len(g.Shapes) != 1 || g.Shapes[0] != (StepRow{"1", 1, 1, 12, 0.5, 0}) || len(g.Points) != 2 || g.Scale[0].GPUs != 8 {
		t.Errorf("tables %+v", g)
	}
}

func TestProfileErrors(t *testing.T) {
	for _, test := range []struct{ name, file, text, want string }{
		{"no placements", "placements.csv", "", `no placements-aws.csv for the application "bert"`},
		{"shape", "placements.csv", "placement,local_bsz,step_time,sync_time\n104,12,0.5,0\n", `placements.csv:2: column "placement": value "104": want the GPUs on each node`},
		{"all communication", "placements.csv", "placement,local_bsz,step_time,sync_time\n1,12,0.5,0.5\n", `column "step_time": value "0.5": want more than sync_time`},
		{"fewer GPUs than nodes", "scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n3,2,12,1,0\n", `column "num_replicas": value "2": want an integer from 3`},
		{"corner", "interp-simplices.csv", "a,b,c,d\n0,1,2,0\n", `interp-simplices.csv:2: column "c": value "2": want an integer from 0 to 1`},
		{"not a number", "validation-12.csv", "progress,grad_sqr,grad_var\nNaN,1,1\n", `column "progress": value "NaN": want a number from 0`},
		{"batch in the name", "validation-x.csv", "progress,grad_sqr,grad_var\n1,1,1\n", `batch "x" in the file's name`},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := profileFiles()
			files[test.file] = test.text
			if test.text == "" {
				delete(files, test.file)
			}
			_, err := Profiles([]string{writeProfile(t, files)}, []string{"bert"}, []string{"aws"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// FuzzTraining: what is read has names of its own and numbers within their limits.
func FuzzTraining(f *testing.F) {
	f.Add(trainingHead + "b-1,107,bert,6,48\n")
	f.Add(byteOrderMark + "batch_size,name,application,time,num_replicas\r\n1,\"x\",ncf,0,1\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := trainingText(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, j := range jobs {
			if seen[j.Name] || j.Submit < 0 || j.GPUs < 1 || j.Batch < 1 || j.Kind != "bert" && j.Kind != "ncf" {
				t.Fatalf("%+v", j)
			}
			seen[j.Name] = true
		}
	})
}

// FuzzSteps: a table that is read has steps longer than their communication, and
// shapes whose digits add up.
func FuzzSteps(f *testing.F) {
	f.Add(profileFiles()["placements.csv"])
	f.Add("placement,local_bsz,step_time,sync_time\n999,1,1e6,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		var rows []StepRow
		if (source{"p.csv", strings.NewReader(text)}).steps(&rows, true) != nil {
			return
		}
		for _, r := range rows {
			if !(r.Step > r.Sync) || r.Nodes != len(r.Shape) || r.GPUs < r.Nodes || r.Local < 1 {
				t.Fatalf("%+v", r)
			}
		}
	})
}
