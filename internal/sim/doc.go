// Package sim runs a workload against a policy: discrete events, the same world
// and the same Decide as in life.
//
//	result, err := sim.Run(sim.Config{Workload: w, Policy: "headrace", Mode: sim.Timed, …})
//
// Static mode offers pods one after the other; what does not fit is given up and
// nothing leaves (the published setting of docs/results.md). Timed mode has a
// clock: arrivals, starts that take time, runs, departures, failures, and the
// two rhythms of deciding. What the cluster does with a decision is reported as
// events, never as a return value. How pods behave is package model's to say,
// how files read package trace's.
package sim
