package admission_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/headrace-dev/headrace/live/admission"
	"github.com/headrace-dev/headrace/live/share"
)

// ask sends a pod to the webhook and returns the answer, and the templates there are
// then.
func ask(t *testing.T, client *fake.Clientset, dryRun bool, annotations map[string]string) (*admissionv1.AdmissionResponse, int) {
	t.Helper()
	s := admission.Server{Client: client, Log: slog.New(slog.DiscardHandler)}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
	}
	raw, err := json.Marshal(&pod)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: admissionv1.Create, Namespace: "ns",
		Object: runtime.RawExtension{Raw: raw}, DryRun: &dryRun,
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, admission.Path, bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	if review.Response.UID != "u" || !review.Response.Allowed {
		t.Errorf("the answer is %+v, want one that lets the pod pass", review.Response)
	}
	list, err := client.ResourceV1().ResourceClaimTemplates("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Response, len(list.Items)
}

// Every pod passes. One with the annotation gets claims, and their template is made
// once; one with a fault gets a warning that names it.
func TestReview(t *testing.T) {
	good := map[string]string{share.Prefix + "b": "2 x 500m, 20Gi"}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		dryRun      bool
		patch       string // in it
		warning     string
		templates   int
	}{
		{name: "nothing asked for"},
		{name: "a share", annotations: good, patch: `"/spec/containers/1/resources"`, templates: 1},
		{name: "a dry run", annotations: good, dryRun: true, patch: `"resourceClaimTemplateName":"headrace-gpu-`},
		{name: "malformed", annotations: map[string]string{share.Prefix + "b": "2 x much"}, warning: `annotation headrace.dev/gpu.b: "2 x much": share "much": from 1m to 1000m`},
		{name: "one of two", annotations: map[string]string{share.Prefix + "a": "100m", share.Prefix + "b": "2m x"}, warning: `headrace.dev/gpu.b`},
	} {
		client := fake.NewClientset()
		for range 2 {
			got, templates := ask(t, client, c.dryRun, c.annotations)
			if (c.patch == "") != (len(got.Patch) == 0) || !strings.Contains(string(got.Patch), c.patch) {
				t.Errorf("%s: patch %s, want %q in it", c.name, got.Patch, c.patch)
			}
			if warning := strings.Join(got.Warnings, " "); (c.warning == "") != (warning == "") || !strings.Contains(warning, c.warning) {
				t.Errorf("%s: warnings %q, want %q in it", c.name, warning, c.warning)
			}
			if templates != c.templates {
				t.Errorf("%s: %d templates, want %d", c.name, templates, c.templates)
			}
		}
	}
}

// A pod passes as it is when its template cannot be made.
func TestNoPermission(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "resourceclaimtemplates", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden")
	})
	got, _ := ask(t, client, false, map[string]string{share.Prefix + "a": "500m"})
	if len(got.Patch) > 0 || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "create the resource claim template ns/headrace-gpu-") {
		t.Errorf("patch %s, warnings %v", got.Patch, got.Warnings)
	}
}

// What is no review is refused in words.
func TestNoReview(t *testing.T) {
	s := admission.Server{Client: fake.NewClientset(), Log: slog.New(slog.DiscardHandler)}
	for _, body := range []string{"", "{}", "null", `{"request":7}`} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, admission.Path, strings.NewReader(body)))
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "AdmissionReview") {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
}
