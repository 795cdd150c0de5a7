// Package conformance compares where Headrace places pods with what
// kube-scheduler's own filters say, over clusters drawn at random.
//
//	go test ./conformance                     # 200 clusters
//	HEADRACE_LONG=1 go test ./conformance     # 5,000
//	go test ./conformance -seed 17 -v         # one of them again
//
// Wherever Headrace binds, the filters agree; wherever the filters find room for
// a pod that waits, Headrace has said that it does not judge such pods yet. The
// package holds tests alone.
package conformance
