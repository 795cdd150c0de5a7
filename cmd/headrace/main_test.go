package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// runLine runs one command line in a folder of its own and returns what it said.
func runLine(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(args, &o, &e)
	return code, o.String(), e.String()
}

// smallTrace is a trace of the project's own format: 3 nodes, 120 pods.
var smallTrace = filepath.Join(goldenDir, "small.jsonl")

// measured are the fields that differ from run to run.
var measured = regexp.MustCompile(`"(decide_p50_us|decide_p99_us|wall_ms)": [0-9.e+-]+`)

// TestJSONContract: the JSON of both modes is as the golden files have it, apart
// from measured times. Fields may be added, never changed.
func TestJSONContract(t *testing.T) {
	for _, mode := range []string{"static", "timed"} {
		t.Run(mode, func(t *testing.T) {
			t.Chdir(t.TempDir())
			code, out, errOut := runLine(t, "sim", "--trace", "headrace", "--pods", smallTrace, "--mode", mode, "--seed", "7", "--policy", "fgd,kube-default,headrace", "--output", "json")
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errOut)
			}
			got := measured.ReplaceAllString(out, `"$1": 0`)
			if !json.Valid([]byte(got)) {
				t.Fatalf("not JSON:\n%s", got)
			}
			compareGolden(t, "sim-"+mode+".json", got)
			if left, _ := os.ReadDir("."); len(left) > 0 {
				t.Errorf("%s was written without being asked for", left[0].Name())
			}
		})
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(goldenDir, name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got), go test ./cmd/headrace -update rewrites it:\n%s", name, diff)
	}
}

// goldenDir is absolute, since tests change their folder.
var goldenDir = func() string {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		panic(err)
	}
	return dir
}()

// TestBadInput: each fault is one line that names what is wrong, with the right
// exit code, and nothing is written.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const nodeHead, podHead = "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	nodes := write("nodes.csv", nodeHead+"n0,8000,1024,1,T4\n")
	pods := write("pods.csv", podHead+"p0,1000,10,1,500,\n")
	openb := func(nodes, pods string, more ...string) []string {
		return append([]string{"sim", "--trace", "openb", "--nodes", nodes, "--pods", pods}, more...)
	}
	for _, test := range []struct {
		name string
		args []string
		code int
		says []string
	}{
		{"missing file", openb(nodes, filepath.Join(dir, "none.csv")), 1, []string{"none.csv"}},
		{"wrong column", openb(nodes, write("a.csv", "name,cpu,memory_mib,num_gpu,gpu_milli\np0,1,1,1,1\n")), 1, []string{"a.csv", "cpu_milli"}},
		{"negative share", openb(nodes, write("b.csv", podHead+"p0,1000,10,1,-5,\n")), 1, []string{"b.csv:2", "gpu_milli", "-5"}},
		{"NaN share", openb(nodes, write("c.csv", podHead+"p0,1000,10,1,NaN,\n")), 1, []string{"c.csv:2", "gpu_milli", "NaN"}},
		{"duplicate pod", openb(nodes, write("d.csv", podHead+"p0,1,1,0,0,\np0,1,1,0,0,\n")), 1, []string{"d.csv:3", "p0"}},
		{"duplicate node", openb(write("e.csv", nodeHead+"n0,8,8,0,\nn0,8,8,0,\n"), pods), 1, []string{"e.csv:3", "n0"}},
		{"GPUs without a model", openb(write("f.csv", nodeHead+"n0,8,8,2,\n"), pods), 1, []string{"f.csv:2", "model"}},
		{"no nodes", openb(write("g.csv", nodeHead), pods), 1, []string{"g.csv"}},
		{"no times", openb(nodes, pods, "--mode", "timed"), 1, []string{"creation_time"}},
		{"fewer devices than claimed", []string{"sim", "--trace", "headrace", "--pods", write("h.jsonl", `{"headrace_trace":1}`+"\n"+`{"node":{"name":"n","cpu_milli":1,"memory_bytes":1,"pods":1,"gpus":2,"gpu_model":"T4","gpu_island":[0]}}`+"\n")}, 1, []string{"h.jsonl:2", "gpu_island"}},
		{"unknown policy", openb(nodes, pods, "--policy", "fdg"), 2, []string{"fdg", `"fgd"`}},
		{"unknown scenario", []string{"sim", "--scenario", "heter"}, 2, []string{"heter", "hetero"}},
		{"unknown format", []string{"sim", "--trace", "opnb", "--pods", pods}, 2, []string{"opnb", `"openb"`}},
		{"unknown flag", []string{"sim", "--polcy", "fgd"}, 2, []string{"polcy"}},
		{"unknown command", []string{"simm"}, 2, []string{"simm", `"sim"`}},
		{"bad seeds", []string{"sim", "--seeds", "9..1"}, 2, []string{"9..1"}},
		{"bad mode", []string{"sim", "--mode", "fast"}, 2, []string{"fast", "static"}},
		{"bad output", []string{"sim", "--output", "xml"}, 2, []string{"xml", "json"}},
		{"bad inflate", openb(nodes, pods, "--inflate", "NaN"), 2, []string{"--inflate", "NaN"}},
		{"two sources", []string{"sim", "--scenario", "hetero", "--trace", "openb"}, 2, []string{"hetero", "openb"}},
		{"report nowhere", openb(nodes, pods, "--policy", "fgd", "--report", filepath.Join(dir, "no", "r.html")), 1, []string{"no"}},
		{"two runs recorded", []string{"sim", "--scenario", "hetero", "--seeds", "1..2", "--record", "j"}, 2, []string{"--record", "4 runs"}},
		{"missing journal", []string{"replay", "none.jsonl"}, 1, []string{"none.jsonl"}},
		{"missing scenario file", []string{"scenario", filepath.Join(dir, "none.txt")}, 1, []string{"none.txt"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			work := t.TempDir()
			t.Chdir(work)
			code, out, errOut := runLine(t, test.args...)
			if code != test.code {
				t.Errorf("%v: exit code %d, want %d; said %q", test.args, code, test.code, errOut)
			}
			if strings.Count(errOut, "\n") != 1 || out != "" {
				t.Errorf("%v: said %q and printed %q, want one line of error", test.args, errOut, out)
			}
			for _, word := range test.says {
				if !strings.Contains(errOut, word) {
					t.Errorf("%v: said %q, want it to name %q", test.args, errOut, word)
				}
			}
			if left, _ := os.ReadDir(work); len(left) > 0 {
				t.Errorf("%v: wrote %s", test.args, left[0].Name())
			}
		})
	}
}

// TestTableAndReport: the default output prints a table and writes one report.
func TestTableAndReport(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errOut := runLine(t, "sim", "--trace", "headrace", "--pods", smallTrace, "--seeds", "1..2")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, word := range []string{"kube-default", "headrace", "means over 2 seeds", "Report: report.html"} {
		if !strings.Contains(out, word) {
			t.Errorf("printed\n%s\nwant it to contain %q", out, word)
		}
	}
	if page, err := os.ReadFile("report.html"); err != nil || !bytes.Contains(page, []byte("</html>")) {
		t.Errorf("report.html: %v, %d bytes", err, len(page))
	}
}

// TestCSV has one row per run under the names of the JSON.
func TestCSV(t *testing.T) {
	t.Chdir(t.TempDir())
	_, out, _ := runLine(t, "sim", "--trace", "headrace", "--pods", smallTrace, "--mode", "static", "--policy", "fgd,headrace", "--output", "csv")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "schema,policy,source,workload,seed,mode") {
		t.Errorf("printed\n%s\nwant a head and two rows", out)
	}
}

// TestTraceRoundTrip: a generated scenario, written and read again, is described
// by the same words.
func TestTraceRoundTrip(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, _, errOut := runLine(t, "trace", "gen", "--scenario", "hetero", "--out", "h.jsonl"); code != 0 {
		t.Fatal(errOut)
	}
	_, direct, _ := runLine(t, "trace", "stat", "--scenario", "hetero")
	code, read, errOut := runLine(t, "trace", "stat", "--trace", "headrace", "--pods", "h.jsonl")
	if code != 0 {
		t.Fatal(errOut)
	}
	if diff := cmp.Diff(direct, read); diff != "" {
		t.Errorf("the description changed on the way (-direct +read):\n%s", diff)
	}
}

// TestRecordAndReplay: a recorded run replays without a difference, compressed or
// not; a changed digest is found.
func TestRecordAndReplay(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"j.jsonl", "j.jsonl.gz"} {
		code, _, errOut := runLine(t, "sim", "--trace", "headrace", "--pods", smallTrace, "--policy", "headrace", "--report", "none", "--record", file)
		if code != 0 {
			t.Fatal(errOut)
		}
		code, out, errOut := runLine(t, "replay", file)
		if code != 0 || !strings.Contains(out, " 0 plans differ") {
			t.Errorf("replay %s: exit code %d, printed %q, said %q", file, code, out, errOut)
		}
	}
	text, err := os.ReadFile("j.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`"digest":"....`).ReplaceAll(text, []byte(`"digest":"0000`))
	if err := os.WriteFile("k.jsonl", changed, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := runLine(t, "replay", "k.jsonl"); code != 1 || !strings.Contains(errOut, "k.jsonl:") {
		t.Errorf("replay of changed digests: exit code %d, said %q", code, errOut)
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := runLine(t, "version"); code != 0 || !strings.HasPrefix(out, "headrace ") {
		t.Errorf("exit code %d, printed %q", code, out)
	}
}
