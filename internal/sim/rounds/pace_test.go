package rounds

import (
	"math"
	"testing"

	"github.com/headrace-dev/headrace/internal/rivals/elastic"
)

// TestPace: rounds without a restart say what part of its measured steps a kind makes
// progress with; rounds with one, and other kinds, say nothing.
func TestPace(t *testing.T) {
	c := elastic.Cluster{{Name: "aws", Nodes: 1, PerNode: 4}}
	p := newPaces()
	seat := elastic.Seat{Nodes: []int{0, 0}}
	job := elastic.Job{ID: 1, Kind: "a", Seat: seat, Goodput: func(_, _, gpus int) (float64, bool) { return float64(10 * gpus), true }}
	p.see(60, []elastic.Job{job})
	p.note(c, []elastic.Job{job}, []elastic.Seat{seat})
	job.Done = 600 // of the 1200 that 20 a second would make
	p.see(120, []elastic.Job{job})
	if got := p.of("a"); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("pace %v, want 0.5", got)
	}
	job.Restarting = true
	p.note(c, []elastic.Job{job}, []elastic.Seat{seat})
	job.Done = 5000
	p.see(180, []elastic.Job{job})
	if got := p.of("a"); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("pace %v after a round in a restart, want 0.5", got)
	}
	if got := p.of("b"); got != 1 {
		t.Errorf("pace %v of a kind that never ran, want 1", got)
	}
}

// TestKnowledgeHelps: jobs that learn from each other end sooner than those that
// learn alone, and those that are told the truth sooner still.
func TestKnowledgeHelps(t *testing.T) {
	kinds := siaKinds(t)
	means := make([]float64, 3)
	const workloads = 3
	for w := 1; w <= workloads; w++ {
		rows := siaJobs(t, "philly", w)
		for i, policy := range []string{Ours, OursKin, OursOracle} {
			means[i] += *runSia(t, kinds, rival(t, policy), rows, false).JCTMeanS / workloads
		}
	}
	t.Logf("mean completion: alone %.0f s, kin %.0f s, oracle %.0f s", means[0], means[1], means[2])
	if means[1] > means[0] || means[2] > means[1] {
		t.Errorf("mean completion: alone %.0f s, kin %.0f s, oracle %.0f s", means[0], means[1], means[2])
	}
}
