// Package world keeps the truth as events tell it: it applies them, gives out
// ids, interns names and shapes, and hands out snapshots.
//
//	w := world.New()
//	err := w.Apply(at, world.NodeAdded{…})
//	plan := engine.Decide(w.Snapshot(), …)
//	err = w.Apply(at, world.Acceptance(plan.Bundles()[0]))
//
// An event that cannot be applied is an error that names the field and the
// value, and changes nothing. Three kinds of events come in: facts (nodes,
// devices, pods), commitments (accepted decisions, from then on charged) and
// beliefs (what was learned). A World has one owner; snapshots may go anywhere.
package world
