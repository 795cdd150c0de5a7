// Package decision holds what comes out of thinking: reasons, decisions with
// their explanations, and plans.
//
// A Reason is a value, not an error: it says why something cannot be placed
// now, with the binding constraint and two numbers. A Plan is a list of
// decisions, each with the version of the world it relies on. The package
// leaves finding them to the judges and searchers.
package decision
