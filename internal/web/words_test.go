package web_test

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/meter"
)

var (
	outcomeRE = regexp.MustCompile(`(?s)<p class="outcome">(.*?)</p>`)
	headRE    = regexp.MustCompile(`(?s)<table class="summary">.*?</thead>`)
	bestRE    = regexp.MustCompile(`<strong title="best">(.*?)</strong>`)
	cellRE    = regexp.MustCompile(`(?s)<th scope="col"[^>]*>(.*?)</th>`)
	tagRE     = regexp.MustCompile(`<[^>]*>`)
)

// plain is what a reader sees of some HTML.
func plain(fragment string) string {
	text := html.UnescapeString(tagRE.ReplaceAllString(fragment, " "))
	return strings.Join(strings.Fields(text), " ")
}

// short is a static run that stops at the given arrived demand.
func short(r meter.Result, arrived int) meter.Result {
	r.ArrivedPct = r.ArrivedPct[:arrived+1]
	return r
}

func TestSentence(t *testing.T) {
	left := timedRun("b", 1, 3600)
	left.Unfinished = 12
	loaded := timedRun("a", 1, 7200)
	loaded.Load = ptr(0.9)
	bare := func(policy string, placed int) meter.Result {
		return meter.Result{Policy: policy, Mode: "timed", Pods: 10, Placed: placed}
	}
	waits := func(policy string, p99 float64) meter.Result {
		return meter.Result{Policy: policy, Mode: "timed", WaitP99S: ptr(p99)}
	}
	for _, tc := range []struct {
		name    string
		results []meter.Result
		want    string
	}{
		{
			name:    "the last wins",
			results: []meter.Result{staticRun("a", 1, 80), staticRun("b", 1, 85), staticRun("c", 1, 90.25)},
			want:    "At 100 % arrived demand, c allocates most: 90.2 % of the GPU capacity, 10.2 points more than a, the first policy.",
		},
		{
			name:    "the first wins",
			results: []meter.Result{staticRun("a", 1, 90), staticRun("b", 1, 80), staticRun("c", 1, 85)},
			want:    "At 100 % arrived demand, a allocates most: 90.0 % of the GPU capacity, 5.0 points more than c, the next best.",
		},
		{
			name:    "all level",
			results: []meter.Result{staticRun("a", 1, 90), staticRun("b", 1, 90.01)},
			want:    "At 100 % arrived demand, all 2 policies are level: each allocates 90.0 % of the GPU capacity.",
		},
		{
			name:    "two level ahead of a third",
			results: []meter.Result{staticRun("a", 1, 90), staticRun("b", 1, 90.01), staticRun("c", 1, 70)},
			want:    "At 100 % arrived demand, a allocates most: 90.0 % of the GPU capacity, level with b, the next best.",
		},
		{
			name:    "one policy",
			results: []meter.Result{staticRun("a", 1, 90)},
			want:    "At 100 % arrived demand, a allocates 90.0 % of the GPU capacity.",
		},
		{
			name:    "nobody got to 100 %",
			results: []meter.Result{short(staticRun("a", 1, 30), 60), staticRun("b", 1, 50)},
			want:    "At 60 % arrived demand, b allocates most: 50.0 % of the GPU capacity, 20.0 points more than a, the first policy.",
		},
		{
			name:    "within the spread",
			results: []meter.Result{staticRun("a", 1, 70), staticRun("a", 2, 90), staticRun("b", 1, 72), staticRun("b", 2, 92)},
			want: "At 100 % arrived demand, b allocates most: 82.0 % of the GPU capacity, 2.0 points more than a, the first policy." +
				" That difference is within the spread over seeds.",
		},
		{
			name:    "lowest p99",
			results: []meter.Result{timedRun("a", 1, 7200), timedRun("b", 1, 5400)},
			want:    "In this run, b has the lowest p99 completion time: 90.0 min, 25.0 % below a, the first policy.",
		},
		{
			name:    "lowest p99 under load",
			results: []meter.Result{loaded},
			want:    "At 90 % offered load, a has a p99 completion time of 2.00 h.",
		},
		{
			name:    "a winner that left pods behind",
			results: []meter.Result{timedRun("a", 1, 7200), left},
			want: "In this run, b has the lowest p99 completion time: 60.0 min, 50.0 % below a, the first policy." +
				" But it leaves 12 pods failed or unfinished, against 0 under a; those are not in the figure.",
		},
		{
			name:    "only waits are known",
			results: []meter.Result{waits("a", 10), waits("b", 5)},
			want:    "In this run, b has the lowest p99 waiting time: 5.00 s, 50.0 % below a, the first policy.",
		},
		{
			name:    "nothing but counts",
			results: []meter.Result{bare("a", 7), bare("b", 9)},
			want:    "In this run, b places most: 9 pods, 2 more than a, the first policy.",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := outcomeRE.FindStringSubmatch(render(t, "title", tc.results))
			if got := plain(m[1]); got != tc.want {
				t.Errorf("\n got %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A column is there if a run knows its figure, and says its unit.
func TestTableColumns(t *testing.T) {
	sla := timedRun("a", 1, 7200)
	sla.SLAMetPct = ptr(93)
	for _, tc := range []struct {
		name    string
		results []meter.Result
		want    []string
	}{
		{"static", []meter.Result{staticRun("a", 1, 80)}, []string{
			"Policy", "Allocated at 100 % arrived (%)", "Fragmented at 100 % arrived (%)",
			"Allocated at the end (%)", "Fragmented at the end (%)", "Placed (pods)", "Failed (pods)",
		}},
		{"timed", []meter.Result{sla, timedRun("b", 1, 7100)}, []string{
			"Policy", "Completion mean (min)", "Completion p99 (h)", "SLA met (%)",
			"Placed (pods)", "Failed (pods)", "Unfinished (pods)",
		}},
	} {
		var got []string
		head := headRE.FindString(render(t, "title", tc.results))
		for _, m := range cellRE.FindAllStringSubmatch(head, -1) {
			got = append(got, plain(m[1]))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n got %q\nwant %q", tc.name, got, tc.want)
		}
	}
}

// The best figure of a column stands out, unless all figures read alike.
func TestTableMarksTheBest(t *testing.T) {
	page := render(t, "title", []meter.Result{timedRun("a", 1, 7200), timedRun("b", 1, 14400)})
	var got []string
	for _, m := range bestRE.FindAllStringSubmatch(page, -1) {
		got = append(got, m[1])
	}
	if want := []string{"30.0", "2.00"}; !slices.Equal(got, want) {
		t.Errorf("bold figures: got %q, want %q", got, want)
	}
}

func TestTableShowsDeviation(t *testing.T) {
	page := render(t, "title", []meter.Result{staticRun("a", 1, 80), staticRun("a", 2, 84)})
	if text := plain(page); !strings.Contains(text, "82.0 ± 2.8") {
		t.Error("the table does not show 82.0 ± 2.8")
	}
}

func TestReasonsAreAddedUpAndFolded(t *testing.T) {
	r := timedRun("a", 1, 100)
	r.Detail.Reasons = nil
	for i := range 50 {
		r.Detail.Reasons = append(r.Detail.Reasons, meter.ReasonCount{Reason: strings.Repeat("x", i+1), Count: 100 - i})
	}
	text := plain(render(t, "title", []meter.Result{r, timedRun("b", 1, 90)}))
	// 50 reasons of a and one of b: 39 rows, and one for the twelve rarest.
	if want := "12 rarer reasons 616 3"; !strings.Contains(text, want) {
		t.Errorf("the page does not say %q", want)
	}
}
