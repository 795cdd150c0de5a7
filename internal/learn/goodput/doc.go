// Package goodput learns how fast a training job makes progress with any number of
// GPUs, from the steps that it measured so far: the model of Pollux (OSDI 2021),
// which Sia (SOSP 2023) keeps for each GPU model.
//
//	m := goodput.NewModel(limits)
//	m.Observe("T4", goodput.Sample{Nodes: 1, GPUs: 2, Local: 64, Step: 0.09, Sync: 0.01})
//	m.Gradient(sqr, vari)
//	rate, batch, ok := m.Best("T4", 1, 4, 1024)
//
// Seven parameters give the time of a step: a pass over a batch takes a + b·batch,
// communication a constant and something for each GPU beyond two, within a node
// and across nodes each, and gamma says how far the two overlap. Goodput is the
// examples a second times what an example of so large a batch is worth, which the
// gradient's noise tells. The simulator's truth lies elsewhere; nothing here knows
// it.
package goodput
