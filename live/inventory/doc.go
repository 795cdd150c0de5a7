// Package inventory turns a scenario into Kubernetes objects: its machines into
// nodes that offer GPUs, its tasks into pods that ask for them.
//
// Its functions are pure. It leaves creating the objects to its callers, and
// playing the nodes to KWOK.
package inventory
