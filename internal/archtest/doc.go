// Package archtest holds the rules of the house: the checks that a compiler and
// a linter do not make.
//
// Each check is a pure function from a tree (the parsed files of the module) to
// findings, and each finding says what is wrong, why it matters and what to do.
// TestHouse runs them all over this repository; TestChecks runs each over small
// trees in testdata that break its rule, so that no check is hollow.
//
// The law of the layers is text, in layers.txt at the root; what may be larger
// than the size limits is listed in exceptions.txt, which may only shrink.
//
// Directories of other modules (live, api, tools), testdata and hidden
// directories are not looked at. What gofumpt, vet and staticcheck find is left
// to them.
package archtest
