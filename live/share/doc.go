// Package share reads the annotation by which a pod asks for shares of GPUs, and
// turns it into resource claims.
//
//	headrace.dev/gpu.CONTAINER: "2 x 500m, 20Gi, model=H100|H200"
//
//	a, err := share.Parse("2 x 500m, 20Gi")     // one annotation
//	asks, faults := share.Of(pod)               // all of a pod, and what is wrong with them
//	templates := share.Claim(pod, asks)         // changes the pod, names the templates it needs
//
// Its functions are pure. Admission calls them for new pods, and the scheduler for
// pods that came past admission. The grammar is specified in docs/sharing.md.
package share
