package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// A pair is two jobs on one card, and the speed of each as part of that alone.
type pair struct {
	a, b           int
	speedA, speedB float64
}

// readPairs reads the measured pairs of one-GPU jobs on V100. A pair that does
// not fit in memory is measured as 0 and left out.
func readPairs(t *testing.T) (pairs []pair, jobs int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(publicTraces(t), "gavel", "simulation_throughputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var tables map[string]map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &tables); err != nil {
		t.Fatal(err)
	}
	v100 := tables["v100"]
	var keys []string
	alone := map[string]float64{}
	for key, row := range v100 { // order: sorted below.
		var speed float64
		if strings.HasSuffix(key, ", 1)") && json.Unmarshal(row["null"], &speed) == nil && speed > 0 {
			keys = append(keys, key)
			alone[key] = speed
		}
	}
	slices.Sort(keys)
	for a, key := range keys {
		for b := a; b < len(keys); b++ {
			var speed [2]float64
			if json.Unmarshal(v100[key][keys[b]], &speed) == nil && speed != [2]float64{} {
				pairs = append(pairs, pair{a, b, speed[0] / alone[key], speed[1] / alone[keys[b]]})
			}
		}
	}
	return pairs, len(keys)
}

// fit finds the busy share of each job that explains the pairs best under a
// penalty, by improving one share at a time, and returns the squared error.
func fit(pairs []pair, jobs int, penalty float64) float64 {
	busy := slices.Repeat([]float64{0.6}, jobs)
	speed := func(own, other float64) float64 {
		return min(1, 1/(own+other)) * (1 - penalty*min(1, other))
	}
	cost := func(job int) float64 {
		var sum float64
		for _, p := range pairs {
			if job < 0 || p.a == job || p.b == job {
				da := speed(busy[p.a], busy[p.b]) - p.speedA
				db := speed(busy[p.b], busy[p.a]) - p.speedB
				sum += da*da + db*db
			}
		}
		return sum
	}
	for range 12 {
		for job := range busy {
			best, least := busy[job], math.Inf(1)
			for share := 0.02; share <= 1.001; share += 0.02 {
				busy[job] = share
				if c := cost(job); c < least {
					best, least = share, c
				}
			}
			busy[job] = best
		}
	}
	return cost(-1)
}

// Penalty is the value that explains the measured pairs best, to 0.05.
func TestPenaltyFitsMeasuredPairs(t *testing.T) {
	pairs, jobs := readPairs(t)
	if len(pairs) != 330 || jobs != 26 {
		t.Fatalf("read %d pairs of %d jobs, want 330 of 26", len(pairs), jobs)
	}
	rms := func(cost float64) float64 { return math.Sqrt(cost / float64(2*len(pairs))) }
	best, least := 0.0, math.Inf(1)
	for penalty := 0.0; penalty < 0.61; penalty += 0.05 {
		if c := fit(pairs, jobs, penalty); c < least {
			best, least = penalty, c
		}
	}
	none := rms(fit(pairs, jobs, 0))
	chosen := rms(fit(pairs, jobs, float64(Penalty)/1000))
	var ignored float64
	for _, p := range pairs {
		ignored += (1-p.speedA)*(1-p.speedA) + (1-p.speedB)*(1-p.speedB)
	}
	t.Logf("best penalty %.2f: error %.4f; chosen %.3f: %.4f; none: %.4f; no interference: %.4f",
		best, rms(least), float64(Penalty)/1000, chosen, none, rms(ignored))
	if math.Abs(best-float64(Penalty)/1000) > 0.055 || chosen > rms(least)+0.001 {
		t.Errorf("Penalty = %d with error %.4f, the best fit is %.2f with %.4f", Penalty, chosen, best, rms(least))
	}
}
