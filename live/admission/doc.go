// Package admission is the webhook that turns the annotation for shares of GPUs
// into resource claims when a pod is created.
//
//	s := admission.Server{Client: client, Log: log}
//	err := s.Run(ctx, ":9443", certFile, keyFile)
//
// It never refuses a pod: one with an annotation that cannot be carried out is let
// through as it is, with a warning to whoever created it, and waits with that
// sentence as its reason. So it is safe behind failurePolicy Ignore. What the
// annotation may say is left to package share.
package admission
