// Package training is the truth about training jobs that may run with any number
// of GPUs: how fast they step on a shape and GPU model, what a batch is worth, when
// an epoch ends, what a restart costs. It follows the job model of the artefacts of
// Pollux (OSDI 2021) and Sia (SOSP 2023), and their measured profiles.
//
//	kinds, err := training.Kinds(profiles, training.PolluxSetting())
//	job := training.NewJob(row, kinds[row.Kind], tuner)
//	job.Place("aws", []int{4, 4})
//	err = job.Advance(60)
//
// How large its batch is a job asks its Tuner, which may know what the job has
// measured and nothing else. Who runs where, and what policies may see, is left to
// others.
//
// Products are converted explicitly so that no multiply and add are fused: the
// completion times are compared with published ones to the second.
package training
