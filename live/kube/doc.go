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
// after a pause. A new instance reads the objects and what was learned from the API
// server, and goes on where the old one stopped.
//
// Where to look:
//
//	scheduler, watch…          the owner's loop; informers that send it messages
//	books, nodes, relations    the world kept equal to what was told, and what is in flight
//	cycle                      a cycle: decide, accept, binds and reasons that come of it
//	act, draw, evictions       workers that write binds, claims, evictions, reasons
//	claims, needs, selected,   devices that we pick: claims as requests, selectors as
//	release, bridge, extended  facts, allocations given back, extended resources
//	evict, groups, together    who gives way to whom; groups that start all or none
//	check, exclude             the last check before a bind, and what it rules out
//	caches, prefetch,          images that nodes have and pods need, those that are fetched
//	fetchpods                  before pods need them, and the pods that do it
//	learner, arrivals,         what is expected to come, how true foretold starts were,
//	foretold, checkpoint       and a copy of it in a ConfigMap
//	audit, ledger, review      the books against the informers' stores
//	record, trial, outlook     a journal; the same books without a cluster
//	answer, ask, story,        explanations, figures, metrics, events, where the
//	serve, events, presence    scheduler can be reached
//
// Package facts knows how objects become events; the books know what is in flight;
// both are free of clients and clocks.
package kube
