// Package v1alpha1 holds the Kubernetes objects that Headrace brings along, in the
// API group scheduling.headrace.dev.
//
//	scheme := runtime.NewScheme()
//	err := v1alpha1.AddToScheme(scheme)
//
// It is the one package of Headrace that others may import, and needs nothing but
// apimachinery. The definitions for a cluster lie in charts/headrace/crds.
package v1alpha1
