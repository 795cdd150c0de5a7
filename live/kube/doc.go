// Package kube schedules a Kubernetes cluster with the project's own decision
// function.
//
//	informers ─▶ facts ─▶ world events ─▶ engine.Decide ─▶ plan ─▶ binds by a pool
//	                           ▲                                        │
//	                           └───────────── outcomes ─────────────────┘
//
//	s := kube.New(kube.Config{Client: client, Name: "headrace", Policy: engine.Headrace()})
//	err := s.Run(ctx)
//
// One goroutine owns the world: informers and workers send it values. An arrival
// cycle starts when a short batch window closes, a review cycle every ten
// seconds. A bind carries the pod's UID, so that it can never hit another pod of
// the same name; a refused one comes back as an event, and the pod is tried again
// after a pause. Nothing is kept between runs: a new instance reads nodes and
// pods from the API server and goes on where the old one stopped.
//
// Package facts knows how objects become events; the books (see books) know what
// is in flight; both are free of clients and clocks.
package kube
