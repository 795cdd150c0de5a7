// Package upstream asks kube-scheduler's own filter plugins, of the Kubernetes
// release that this module is built with, whether a pod may go to a node.
//
//	c, err := upstream.New(ctx, client, factory)
//	c.NodeIs("n", node)             // what the API server tells
//	c.PodIs("ns/a", pod)            // bound pods are charged
//	ok, why := c.Verdict(pod, "n")  // the filters' answer
//	err = c.Reserve("ns/b", "n")    // a verdict; charged from then on
//
// It is the oracle of the tests of conformance, and the last check before a bind.
// Nodes and pods are told to it one by one, by the one goroutine that owns it;
// volumes, their classes and namespaces it reads from the informers of the
// factory, which may be backed by a fake client. Which node a pod should go to it
// leaves to others.
package upstream
