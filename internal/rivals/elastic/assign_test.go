package elastic

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// least is the oracle: the least cost for every room, job by job.
func least(a *Assignment) int {
	states := 1
	for _, room := range a.Room {
		states *= room + 1
	}
	const never = 1 << 30
	best := make([]int, states) // by GPUs taken, mixed radix
	for i := range best {
		best[i] = never
	}
	best[0] = 0
	for _, job := range a.Jobs {
		next := make([]int, states)
		for at := range next {
			next[at] = never
			if !job.Must {
				next[at] = min(never, best[at]+a.Unserved)
			}
			for k, o := range job.Options {
				stride, taken := 1, at
				for t := range o.Type {
					stride *= a.Room[t] + 1
				}
				taken = at / stride % (a.Room[o.Type] + 1)
				if taken >= o.GPUs && (!job.Must || k == 0) {
					next[at] = min(next[at], best[at-o.GPUs*stride]+o.Cost)
				}
			}
		}
		best = next
	}
	out := never
	for _, cost := range best {
		out = min(out, cost)
	}
	return out
}

// check holds a solution to the rules and gives its cost.
func checkSolution(t interface{ Fatalf(string, ...any) }, a *Assignment, s Solution) {
	cost, room := 0, append([]int(nil), a.Room...)
	for j, k := range s.Chosen {
		if k < 0 {
			cost += a.Unserved
			continue
		}
		cost += a.Jobs[j].Options[k].Cost
		room[a.Jobs[j].Options[k].Type] -= a.Jobs[j].Options[k].GPUs
	}
	for typ, left := range room {
		if left < 0 {
			t.Fatalf("%+v: type %d is overdrawn by %d", a, typ, -left)
		}
	}
	if cost != s.Cost || s.Bound > s.Cost {
		t.Fatalf("%+v: the choice costs %d, the solution says %d with bound %d", a, cost, s.Cost, s.Bound)
	}
}

// TestSolveOracle: on random problems the search finds the least cost and proves
// it, and with no effort its bound still holds.
func TestSolveOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Assignment{Unserved: 110}
		types := rapid.IntRange(1, 3).Draw(t, "types")
		for range types {
			a.Room = append(a.Room, rapid.IntRange(1, 9).Draw(t, "room"))
		}
		free := append([]int(nil), a.Room...)
		for range rapid.IntRange(1, 9).Draw(t, "jobs") {
			var c Choices
			for range rapid.IntRange(0, 6).Draw(t, "options") {
				c.Options = append(c.Options, Option{rapid.IntRange(0, types-1).Draw(t, "type"), rapid.IntRange(1, 6).Draw(t, "gpus"), rapid.IntRange(10, 109).Draw(t, "cost")})
			}
			if len(c.Options) > 0 && rapid.IntRange(0, 4).Draw(t, "must") == 0 && c.Options[0].GPUs <= free[c.Options[0].Type] {
				c.Must = true
				free[c.Options[0].Type] -= c.Options[0].GPUs
			}
			a.Jobs = append(a.Jobs, c)
		}
		want := least(&a)
		s := a.Solve(1_000_000)
		checkSolution(t, &a, s)
		if s.Cost != want || s.Bound != want {
			t.Fatalf("%+v: cost %d with bound %d, want %d", a, s.Cost, s.Bound, want)
		}
		hurried := a.Solve(1)
		checkSolution(t, &a, hurried)
		if hurried.Bound > want {
			t.Fatalf("%+v: bound %d after one step, but %d can be had", a, hurried.Bound, want)
		}
	})
}

// TestSolveMILP: on sampled rounds of the published workloads the search agrees with
// a MILP solver (HiGHS, by testdata/milp.py), within the effort of the policy.
func TestSolveMILP(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "rounds.json"))
	if err != nil {
		t.Fatal(err)
	}
	var rounds []struct {
		Name     string
		Room     []int
		Unserved int
		Jobs     []struct {
			Must    bool
			Options [][3]int
		}
		MILP *int
	}
	if err := json.Unmarshal(text, &rounds); err != nil {
		t.Fatal(err)
	}
	if len(rounds) < 50 {
		t.Fatalf("%d rounds, want at least 50", len(rounds))
	}
	for _, r := range rounds {
		a := Assignment{Room: r.Room, Unserved: r.Unserved}
		for _, j := range r.Jobs {
			c := Choices{Must: j.Must}
			for _, o := range j.Options {
				c.Options = append(c.Options, Option{o[0], o[1], o[2]})
			}
			a.Jobs = append(a.Jobs, c)
		}
		s := a.Solve(siaEffort)
		checkSolution(t, &a, s)
		if r.MILP == nil || s.Cost != *r.MILP || s.Gap() > 0 {
			t.Errorf("%s: cost %d with gap %v, the MILP solver has %v", r.Name, s.Cost, s.Gap(), r.MILP)
		}
		if dp := least(&a); dp != s.Cost {
			t.Errorf("%s: cost %d, all possibilities give %d", r.Name, s.Cost, dp)
		}
	}
}
