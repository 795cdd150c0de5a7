package web

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/meter"
)

// Each chart of a report is a well-formed picture that names its policies, and no
// point lies outside.
func TestPlotsAreWellFormed(t *testing.T) {
	run := func(policy string, waiting int) meter.Result {
		return meter.Result{
			Policy: policy, Mode: timed, Workload: "w<&>",
			Queues: []meter.QueueUse{{Queue: "a/b", DeservedGPU: 3}},
			Detail: &meter.Detail{
				Series: []meter.Sample{{AtS: 0, GPUAllocPct: 10, Waiting: waiting, QueueGPU: []float64{1}}, {AtS: 90_000, GPUAllocPct: 100, UnservedPct: 4, QueueGPU: []float64{3}}},
				WaitsS: []float64{0, 5, 3000}, JCTsS: []float64{100, 90_000},
			},
		}
	}
	plots := Plots([]meter.Result{run("one", 5), run("two & three", 0)})
	var names []string
	for _, p := range plots {
		names = append(names, p.Name)
		decoder := xml.NewDecoder(bytes.NewReader(p.SVG))
		text := ""
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.Name, err)
			}
			if data, is := token.(xml.CharData); is {
				text += string(data)
			}
		}
		if !strings.Contains(text, "one") || !strings.Contains(text, "two & three") || strings.Contains(string(p.SVG), "NaN") {
			t.Errorf("%s: does not name both policies, or has no number:\n%s", p.Name, p.SVG)
		}
	}
	want := "gpu-allocated-over-time waiting-pods-over-time entitlement-not-served-over-time waiting-time completion-time gpus-of-queue-a-b"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("plots %s, want %s", got, want)
	}
}
