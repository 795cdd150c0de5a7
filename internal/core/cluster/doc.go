// Package cluster holds the nouns of scheduling: nodes, devices, pods, groups,
// jobs, services, queues, domains and offers; the Snapshot that a decision is
// made on and the Txn in which it is tried out.
//
//	              Freeze                    Begin
//	Ledger ───────────────────▶ Snapshot ─────────▶ Txn ──Changes──▶ plan
//	(the world's, changing)     (never changes)     (scratch, with undo)
//
// All three show the same View: tables indexed by dense ids that the world
// gives out. Tables are cut into pages of 32 rows; whoever writes a page first
// after a Freeze copies it, so that a snapshot costs a few table headers at any
// cluster size. Undo restores the old row (its pre-image) and cannot fail.
//
// What a row owns by reference (specs, grants, lists of pods) is never changed
// in place; it is replaced. The package leaves every judgement to others: it
// knows what is free, not what is good.
package cluster
