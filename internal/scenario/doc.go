// Package scenario runs the text language in which Headrace is tested and
// explained: statements that change a small world, and the output they print.
//
//	policy bestfit
//	node n1 gpus=2xA100
//	pod a gpus=1
//	decide
//	----
//	bind a on n1 gpu0
//
// Run interprets a text against world.World and engine.Decide with a virtual
// clock; File is the command around it. The manual, with an example for every
// statement, is docs/scenario.md at the root of the repository; a test runs its
// examples. Statements live in one file per family, each with a table that
// statements() gathers: a new statement is a new row.
//
// After every statement, unasked, the books are audited and the next cycle is
// decided three times: twice with the kept memo, once with a fresh one. The
// package leaves judging what is good to the reader of the output.
package scenario
