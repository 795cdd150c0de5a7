package kube

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// An API server that fails when it is asked what it serves is asked again.
func TestServesAsksAgain(t *testing.T) {
	var asked atomic.Int64
	s := schedulerAt(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			http.Error(w, "not now", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, APIResources: []metav1.APIResource{{Name: "podgroups"}},
		})
	}))
	if !s.serves(t.Context(), schedulingv1beta1.SchemeGroupVersion.String(), "podgroups") || asked.Load() != 2 {
		t.Errorf("after %d questions groups are not served, want that they are after 2", asked.Load())
	}
}
