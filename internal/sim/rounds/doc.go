// Package rounds runs elastic training jobs under a policy that decides in rounds,
// as the simulators of Pollux (OSDI 2021) and Sia (SOSP 2023) do.
//
//	result, err := rounds.Run(rounds.Config{Setting: set, Kinds: kinds, Cluster: c, Jobs: rows, Policy: rival})
//
// Each round every job runs for its length; then the policy sees the jobs that have
// come and not ended, and what it changes takes effect. What jobs do is package
// training's to say; what policies see of a job beyond its age is what it measured,
// as package goodput learned it.
package rounds
