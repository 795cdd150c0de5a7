package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/world"
)

// dependencyKinds are the words for what is waited for, by cluster.DependencyKind.
func dependencyKinds() []string {
	return []string{cluster.AfterSuccess.String(), cluster.AfterEnd.String(), cluster.AfterStart.String()}
}

// dependencies reads "a,b:end": jobs, and what of them is waited for; none ends it.
func (r *reader) dependencies(usual []world.Dependency) []world.Dependency {
	switch {
	case !r.has("after"):
		return usual
	case r.text("after", "") == none:
		return nil
	}
	if r.text("after", "") == "" {
		r.fail("after", "", "JOB, JOB:"+strings.Join(dependencyKinds(), ", JOB:"))
		return nil
	}
	var out []world.Dependency
	for _, part := range r.list("after") {
		name, what, said := strings.Cut(part, ":")
		kind := slices.Index(dependencyKinds(), what)
		if !said {
			kind = int(cluster.AfterSuccess)
		}
		if kind < 0 || !nameRE.MatchString(name) {
			r.fail("after", part, "JOB, JOB:"+strings.Join(dependencyKinds(), ", JOB:"))
			return nil
		}
		out = append(out, world.Dependency{Job: name, When: cluster.DependencyKind(kind)})
	}
	return out
}

// endJob says that a job is over, with success where nothing else is said.
func (in *interp) endJob(c *call) ([]string, error) {
	if _, err := in.job(c.args[0]); err != nil {
		return nil, err
	}
	return nil, in.apply(world.JobEnded{Name: c.args[0], Failed: c.reader("end-job " + c.args[0]).has("failed")})
}

// showAfter prints what is known of jobs that come after others, or that others come
// after, those that are only remembered among them.
func (in *interp) showAfter() []string {
	v := in.view()
	states := []string{"waits", "runs", "done", "failed"} // by cluster.JobState
	var names []string
	for i := range v.Jobs.Len() {
		j := v.Jobs.At(int32(i))
		if id, named := in.world.Job(j.Name); named && int(id) == i && (j.Named > 0 || len(j.After) > 0 || j.Ended != 0) {
			names = append(names, j.Name)
		}
	}
	slices.SortFunc(names, compareNames)
	var rows [][]string
	for _, name := range names {
		id, _ := in.world.Job(name)
		j := v.Job(id)
		state := states[j.State]
		switch {
		case j.Over():
			state += " at " + j.Ended.String()
		case !j.Known:
			state = "does not exist"
		}
		if j.Over() && !j.Known {
			state += ", removed"
		}
		after := "-"
		if len(j.After) > 0 {
			after = ""
		}
		for i, d := range j.After {
			if i > 0 {
				after += ", "
			}
			after += fmt.Sprintf("%v of %s", d.When, v.Job(d.Job).Name)
			if v.Met(d) {
				after += " (met)"
			}
		}
		rows = append(rows, []string{name, state, after})
	}
	return table("job|state|comes after", rows)
}
