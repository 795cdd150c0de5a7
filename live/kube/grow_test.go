package kube

import (
	"fmt"
	"slices"
	"testing"
)

// Pods that come, are placed and go leave nothing behind: tables and books are as
// large after many rounds as after a few. Nodes of one size that come and go
// under ever new names do not add rows either.
func TestTablesDoNotGrow(t *testing.T) {
	const (
		rounds = 20
		pods   = 60
		nodes  = 5
	)
	w := newTruth(t)
	size := func() []int {
		b, v := w.books, w.books.world.View()
		return []int{
			v.Pods.Len(), v.Nodes.Len(), v.Devices.Len(), v.Shapes.Len(), v.Intents.Len(), v.Classes.Len(), v.Domains.Len(),
			len(b.pods), len(b.nodes), len(b.at), len(b.namespaces), len(w.heard.pods), len(w.heard.nodes),
		}
	}
	var before []int
	for round := range rounds {
		for i := range nodes {
			w.putNode(fmt.Sprintf("n-%d-%d", round, i), 64, 8, "", true)
		}
		for i := range pods {
			w.createPod(fmt.Sprintf("p-%d-%d", round, i), DefaultName, 1, i%2)
		}
		w.settleAll()
		if got := len(w.bound()); got == 0 {
			t.Fatalf("round %d: nothing is bound", round)
		}
		for i := range pods {
			w.deletePod(fmt.Sprintf("ns/p-%d-%d", round, i))
		}
		for i := range nodes {
			w.deleteNode(fmt.Sprintf("n-%d-%d", round, i))
		}
		w.settleAll()
		if round == 1 {
			before = size()
		}
	}
	if got := size(); !slices.Equal(got, before) {
		t.Errorf("after %d rounds the tables have %v rows, after 2 they had %v", rounds, got, before)
	}
}
