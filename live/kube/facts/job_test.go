package facts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/world"

	"github.com/headrace-dev/headrace/live/kube/facts"
)

func TestJobOf(t *testing.T) {
	got, faults := facts.JobOf(map[string]string{
		facts.CheckpointedAt: "1970-01-01T01:00:00+00:30", facts.CheckpointPeriod: "30m", facts.CheckpointWrite: "90s",
		facts.RestartSeconds: "60", facts.ExpectedDuration: "2h", facts.Preemptible: "false", facts.DeadlineAt: "1970-01-02T00:00:00Z",
		facts.AfterWork: "a, b=end,c.d=start,e=success", facts.SLAClass: "batch",
	})
	want := world.JobFacts{Unpreemptible: true, Expected: 2 * moment.Hour, Deadline: moment.Instant(moment.Day), Checkpoint: world.Checkpoint{
		Last: moment.Instant(30 * moment.Minute), Period: 30 * moment.Minute, Write: 90 * moment.Second, Restart: moment.Minute,
	}, SLA: "batch", After: []world.Dependency{
		{Job: "a"}, {Job: "b", When: cluster.AfterEnd}, {Job: "c.d", When: cluster.AfterStart}, {Job: "e"},
	}}
	if diff := cmp.Diff(want, got); diff != "" || len(faults) > 0 {
		t.Errorf("job: (-want +got)\n%s\nfaults %q", diff, faults)
	}
}

// What cannot be read counts as absent, and the sentence names key and value.
func TestJobOfMalformed(t *testing.T) {
	for _, c := range []struct{ key, value, allowed string }{
		{facts.CheckpointedAt, "yesterday", "RFC 3339"},
		{facts.CheckpointedAt, "1969-01-01T00:00:00Z", "not before 1970"},
		{facts.CheckpointPeriod, "-1s", "87840h"},
		{facts.CheckpointWrite, "90", "like 90s"},
		{facts.RestartSeconds, "60s", "whole seconds"},
		{facts.RestartSeconds, "9223372036854775807", "whole seconds"},
		{facts.ExpectedDuration, "2000000h", "a duration"},
		{facts.Preemptible, "yes", "true or false"},
		{facts.DeadlineAt, "", "RFC 3339"},
		{facts.AfterWork, "", "names of jobs"},
		{facts.AfterWork, "a,a=end", "each once"},
		{facts.AfterWork, "a=never", "c=end"},
		{facts.AfterWork, "Not/A/Name", "names of jobs"},
	} {
		got, faults := facts.JobOf(map[string]string{c.key: c.value})
		if diff := cmp.Diff(world.JobFacts{}, got); diff != "" || len(faults) != 1 {
			t.Errorf("%s=%q: faults %q (-want +got)\n%s", c.key, c.value, faults, diff)
			continue
		}
		for _, part := range []string{c.key, `"` + c.value + `"`, c.allowed} {
			if !strings.Contains(faults[0], part) {
				t.Errorf("%s=%q: got %q, want %q in it", c.key, c.value, faults[0], part)
			}
		}
	}
}
