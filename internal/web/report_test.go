package web_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/meter"
	"github.com/headrace-dev/headrace/internal/web"
)

func render(t *testing.T, title string, results []meter.Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := web.Report(&out, title, results); err != nil {
		t.Fatalf("Report(%d results): %v", len(results), err)
	}
	return out.String()
}

func ptr(v float64) *float64 { return &v }

// staticRun reaches 130 % arrived; ceiling is the most it can allocate.
func staticRun(policy string, seed int64, ceiling float64) meter.Result {
	r := meter.Result{
		Schema: meter.Schema, Policy: policy, Source: "trace:openb", Workload: "pods.csv",
		Seed: seed, Mode: "static", Pods: 100, Placed: int(ceiling), Failed: 100 - int(ceiling),
		Digest: fmt.Sprintf("digest-%s-%d", policy, seed),
	}
	for x := 0; x <= 130; x++ {
		r.ArrivedPct = append(r.ArrivedPct, x)
		r.GPUAllocPct = append(r.GPUAllocPct, min(float64(x), ceiling))
		r.FragPct = append(r.FragPct, 100-ceiling)
	}
	return r
}

func timedRun(policy string, seed int64, jctP99 float64) meter.Result {
	r := meter.Result{
		Schema: meter.Schema, Policy: policy, Source: "scenario:night", Workload: "night",
		Seed: seed, Mode: "timed", Pods: 100, Placed: 100,
		JCTMeanS: ptr(jctP99 / 4), JCTP99S: ptr(jctP99),
		Detail: &meter.Detail{
			WaitsS: []float64{0, 0, 1, 60}, JCTsS: []float64{10, 20, 30, jctP99},
			Reasons: []meter.ReasonCount{{Reason: "no free GPU", Count: 3}},
		},
	}
	for i := range 5000 {
		r.Detail.Series = append(r.Detail.Series, meter.Sample{
			AtS: float64(i), GPUAllocPct: float64(i % 100), FragPct: 2, Waiting: i % 7,
		})
	}
	return r
}

// withHeat gives a run a map of nodes × gpus.
func withHeat(r meter.Result, nodes, gpus, frames int) meter.Result {
	d := &meter.Detail{}
	for i := range nodes {
		d.Heat.Nodes = append(d.Heat.Nodes, meter.HeatNode{Name: fmt.Sprintf("openb-node-%04d", i), Model: "V100M32", GPUs: gpus})
	}
	for f := range frames {
		fill := make([]uint8, nodes*gpus)
		for i := range fill {
			fill[i] = uint8((i + f) % 101)
		}
		d.Heat.Frames = append(d.Heat.Frames, meter.HeatFrame{Label: fmt.Sprintf("frame %d", f), Fill: fill})
	}
	r.Detail = d
	return r
}

var (
	scripts = regexp.MustCompile(`(?s)<script[^>]*>.*?</script>`)
	styles  = regexp.MustCompile(`(?s)<style>.*?</style>`)
	voids   = regexp.MustCompile(`<((?:meta|link|input)\b[^>]*)>`) // never closed in HTML
	dataRE  = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)
)

// data reads the embedded JSON as the page's scripts do.
func data(t *testing.T, page string) (d payload) {
	t.Helper()
	m := dataRE.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no data block")
	}
	if err := json.Unmarshal([]byte(m[1]), &d); err != nil {
		t.Fatalf("data block: %v", err)
	}
	return d
}

// payload is the part of the data contract that the tests look at.
type payload struct {
	Studies []struct {
		Policies []string
		Charts   []struct {
			Title string
			Lines []struct {
				Policy         int
				XS, YS, Lo, Hi []*float64
			}
		}
	}
	Heat *struct {
		Clusters []struct {
			Names []string
			GPUs  []int
		}
		Maps []struct {
			Label  string
			Frames []struct {
				Label string
				Fill  []byte
			}
		}
	}
}

// Every tag that is opened is closed, in order, whatever is in the results.
func TestReportIsWellFormed(t *testing.T) {
	pages := map[string][]meter.Result{
		"static":   {withHeat(staticRun("a", 1, 90), 8, 8, 3), staticRun("a", 2, 91), staticRun("b", 1, 92)},
		"timed":    {timedRun("a", 1, 100), timedRun("b", 1, 90)},
		"both":     {staticRun("a", 1, 90), timedRun("a", 1, 100)},
		"bare":     {{Policy: "a", Mode: "timed"}},
		"no mode":  {{}},
		"no curve": {{Policy: "a", Mode: "static"}},
	}
	for name, results := range pages {
		page := render(t, "title", results)
		if strings.Count(page, "<html") != 1 || !strings.HasSuffix(page, "</html>\n") {
			t.Errorf("%s: not one whole document", name)
		}
		body := styles.ReplaceAllString(scripts.ReplaceAllString(page, ""), "")
		dec := xml.NewDecoder(strings.NewReader(voids.ReplaceAllString(body, "<$1/>")))
		dec.Entity = xml.HTMLEntity
		for {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// A report must open where there is no network.
func TestReportNeedsNothingElse(t *testing.T) {
	page := render(t, "title", []meter.Result{withHeat(staticRun("a", 1, 90), 8, 8, 3)})
	page = strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "") // a name, not an address
	for _, bad := range []string{"http:", "https:", "@import", "url(//", " src=", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestReportEscapesNames(t *testing.T) {
	const hostile = `</script><script>alert(1)</script><!--"'&`
	r := withHeat(staticRun(hostile, 1, 90), 1, 1, 1)
	r.Workload, r.Source, r.FragTarget, r.Digest = hostile, hostile, hostile, hostile
	r.Detail.Heat.Nodes[0].Name, r.Detail.Heat.Nodes[0].Model = hostile, hostile
	r.Detail.Heat.Frames[0].Label = hostile
	r.Detail.Reasons = []meter.ReasonCount{{Reason: hostile, Count: 1}}
	page := render(t, hostile, []meter.Result{r})
	if strings.Contains(page, "alert(1)</script>") || strings.Contains(page, "<script>alert") {
		t.Error("a name closes or opens a script element")
	}
	if got := data(t, page).Studies[0].Policies[0]; got != hostile {
		t.Errorf("policy in the data: got %q, want %q", got, hostile)
	}
	if got := data(t, page).Heat.Clusters[0].Names[0]; got != hostile {
		t.Errorf("node in the data: got %q, want %q", got, hostile)
	}
}

func TestReportDataRoundTrips(t *testing.T) {
	page := render(t, "title", []meter.Result{
		withHeat(staticRun("a", 1, 80), 2, 4, 2), staticRun("a", 2, 84), staticRun("b", 1, 90),
	})
	d := data(t, page)
	if want := []string{"a", "b"}; !slices.Equal(d.Studies[0].Policies, want) {
		t.Errorf("policies: got %v, want %v", d.Studies[0].Policies, want)
	}
	line := d.Studies[0].Charts[0].Lines[0]
	at := len(line.XS) - 1
	got := []float64{*line.XS[at], *line.YS[at], *line.Lo[at], *line.Hi[at]}
	if want := []float64{130, 82, 80, 84}; !slices.Equal(got, want) {
		t.Errorf("last point (x, mean, least, greatest): got %v, want %v", got, want)
	}
	if d.Studies[0].Charts[0].Lines[1].Lo != nil {
		t.Error("a single seed has a band")
	}
	if got, want := d.Heat.Maps[0].Frames[1].Fill, []byte{1, 2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("fill: got %v, want %v", got, want)
	}
}

// The largest public trace, with more policies than anybody compares at once,
// stays below what mail servers take.
func TestReportSizeIsBounded(t *testing.T) {
	const limit = 6 << 20
	for _, policies := range []int{1, 6, 12} {
		var results []meter.Result
		for i := range policies {
			results = append(results, withHeat(staticRun(fmt.Sprintf("policy-%d", i), 1, 90), 1213, 8, 200))
		}
		page := render(t, "title", results)
		if len(page) > limit {
			t.Errorf("%d policies: %d bytes, want at most %d", policies, len(page), limit)
		}
		if n := len(data(t, page).Heat.Maps[0].Frames); n < 20 || n > 60 {
			t.Errorf("%d policies: %d frames, want 20..60", policies, n)
		}
	}
	for _, c := range data(t, render(t, "title", []meter.Result{timedRun("a", 1, 100)})).Studies[0].Charts {
		for _, l := range c.Lines {
			if len(l.XS) > 600 || len(l.XS) != len(l.YS) {
				t.Errorf("%s: %d xs, %d ys, want as many, at most 600", c.Title, len(l.XS), len(l.YS))
			}
		}
	}
}

// A map that no page can hold is left out, and the page says so.
func TestReportLeavesOutHugeMaps(t *testing.T) {
	page := render(t, "title", []meter.Result{withHeat(staticRun("a", 1, 90), 200_000, 16, 1)})
	if !strings.Contains(page, "3200000 GPUs over all policies are too many") {
		t.Error("the page does not say why there is no map")
	}
}

func TestReportNeverEmitsNaN(t *testing.T) {
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	var results []meter.Result
	for i, v := range bad {
		s := staticRun("a", int64(i), 90)
		s.GPUAllocPct[100], s.FragPct[3] = v, v
		m := timedRun("b", int64(i), 100)
		m.JCTP99S, m.Load, m.DecideP50Us = ptr(v), ptr(v), v
		m.Detail.Series[7] = meter.Sample{AtS: v, GPUAllocPct: v, FragPct: v, GPUBusyPct: v}
		m.Detail.WaitsS[3], m.Detail.JCTsS[3] = v, v
		results = append(results, s, m)
	}
	page := render(t, "title", results)
	text := scripts.ReplaceAllString(page, "")
	if m := regexp.MustCompile(`NaN|[+-]?Inf\b`).FindString(text); m != "" {
		t.Errorf("the page says %q", m)
	}
	data(t, page) // which JSON could not say either
}

func TestReportIsDeterministic(t *testing.T) {
	results := []meter.Result{
		withHeat(staticRun("a", 1, 90), 8, 8, 3), staticRun("a", 2, 91), staticRun("b", 1, 92), timedRun("c", 1, 100),
	}
	first := render(t, "title", results)
	for i := range 20 {
		if render(t, "title", results) != first {
			t.Fatalf("rendering %d differs from the first", i+1)
		}
	}
}

func TestReportErrors(t *testing.T) {
	if err := web.Report(io.Discard, "title", nil); !errors.Is(err, web.ErrNoResults) {
		t.Errorf("no results: got %v, want %v", err, web.ErrNoResults)
	}
	r := withHeat(staticRun("a", 1, 90), 2, 4, 1)
	r.Detail.Heat.Frames[0].Fill = []uint8{1}
	var out bytes.Buffer
	err := web.Report(&out, "title", []meter.Result{r})
	if err == nil || !strings.Contains(err.Error(), "fills 1 GPUs, its nodes have 8") || out.Len() > 0 {
		t.Errorf("short frame: got %v and %d bytes, want an error and none", err, out.Len())
	}
}
