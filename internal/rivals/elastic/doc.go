// Package elastic holds the policies of others for training jobs that may run with
// any number of GPUs, for comparison: they decide in rounds, each over all jobs.
//
//	p, _ := elastic.New("sia", cluster)
//	seats := p.Round(now, jobs)
//
// What a policy may know of a job stands in Job; estimates come as functions, so
// that neither the truth nor the learner is known here. Applying what was decided
// is left to the simulator.
//
// Sources. tiresias: Gu et al., NSDI 2019, as in the artefact of Pollux (OSDI 2021).
// sia: Jayaram Subramanya et al., SOSP 2023, and its artefact. gavel: Narayanan et
// al., OSDI 2020, max-min fairness.
package elastic
