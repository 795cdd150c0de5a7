// Package facts turns what Kubernetes says about nodes and pods into events of
// the world.
//
//	n := facts.NodeOf(node, "nvidia.com/gpu")
//	p := facts.PodOf(pod, "headrace", "nvidia.com/gpu")
//
// Its functions are pure: objects in, values out, no client and no clock. What a
// pod asks for that cannot be judged yet is named in words, so that such a pod
// is left waiting rather than placed wrongly. The package leaves applying the
// events, and everything that is in flight, to package kube.
package facts
