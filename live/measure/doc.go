// Package measure measures how fast schedulers bind pods, side by side on one
// machine: the bare API server, kube-scheduler and Headrace.
//
//	if code, is := measure.Role(); is {
//		os.Exit(code)
//	}
//	err := measure.Command().ExecuteContext(ctx)
//
// The cluster and each scheduler are processes of their own, started from the
// running binary: Role is what they do. Every scheduler meets the same cluster,
// the same nodes and the same pods, one after another; a round begins and ends
// with the bare loop of binds, which all others are compared with.
//
//	round:  binds | A B C D | binds    next round:  binds | D C B A | binds
//
// Package measure leaves the judgement to its readers: it prints figures and
// ratios, and how busy the machine was.
package measure
