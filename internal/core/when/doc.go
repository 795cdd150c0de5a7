// Package when looks ahead: at what is expected to end, and at the room that is
// reserved for work which is to start then.
//
//	book := when.NewBook(txn, now)
//	for step := range book.Steps() { … }   what ends and starts from now on, in order
//	book.Add(reservation)                  room at an instant
//	if book.Minds(pod, ends) { … }         may the pod be in its way?
//	ok := book.Allows(pod, &place, ends)   no: nobody who has room reserved starts later
//
// A reservation stands for one cycle: it is found anew in the next, from the world as
// it is then. For each of them the book keeps the state of things at its instant, with
// all in place that has not ended by then: who ends later than that has to have room
// beside it there, too.
//
// The package leaves it to its caller to find places, and to say whose turn it is.
package when
