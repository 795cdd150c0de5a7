package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/share"
)

const (
	// Path is where pods are sent.
	Path = "/mutate-pods"
	// maxReview is the most that is read of a request: kube-apiserver takes objects of
	// up to 3 MiB, and sends them once.
	maxReview = 8 << 20
	// callTimeout bounds one call of the API server; a webhook has ten seconds by
	// default.
	callTimeout = 5 * time.Second
	// maxWarning is how long a warning may be; kube-apiserver cuts longer ones.
	maxWarning = 256
)

// Server answers kube-apiserver.
type Server struct {
	Client kubernetes.Interface
	Log    *slog.Logger
}

// Handler serves Path, and /healthz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, s.serve)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	return mux
}

func (s *Server) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxReview))
	if err != nil {
		http.Error(w, "read the review: "+err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprintf("an AdmissionReview of %s with a request is needed", admissionv1.SchemeGroupVersion), http.StatusBadRequest)
		return
	}
	review.Response = s.review(q.Context(), review.Request)
	review.Response.UID = review.Request.UID
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}

// review answers for one pod. It is always allowed.
func (s *Server) review(ctx context.Context, q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	out := &admissionv1.AdmissionResponse{Allowed: true}
	warn := func(text string) {
		if len(text) > maxWarning {
			text = text[:maxWarning]
		}
		out.Warnings = append(out.Warnings, text)
	}
	var pod corev1.Pod
	if q.Operation != admissionv1.Create || q.Kind.Kind != "Pod" || q.SubResource != "" {
		return out
	}
	if err := json.Unmarshal(q.Object.Raw, &pod); err != nil {
		warn("headrace: the pod cannot be read: " + err.Error())
		return out
	}
	wishes, faults := share.Of(&pod)
	if len(faults) > 0 {
		// All or nothing: half of what was asked for would only hide the fault.
		warn("headrace: " + faults[0].String())
		return out
	}
	if len(wishes) == 0 {
		return out
	}
	before := pod.DeepCopy()
	templates := share.Claim(&pod, wishes)
	if q.DryRun == nil || !*q.DryRun {
		for _, t := range templates {
			if err := s.ensure(ctx, q.Namespace, t); err != nil {
				s.Log.Warn("a template of claims was not made", "namespace", q.Namespace, "template", t.Name, "because", err)
				warn("headrace: the shares of GPUs were left out: " + err.Error())
				return out
			}
		}
	}
	patch, err := patchOf(before, &pod)
	if err != nil {
		warn("headrace: " + err.Error())
		return out
	}
	kind := admissionv1.PatchTypeJSONPatch
	out.Patch, out.PatchType = patch, &kind
	return out
}

// ensure makes a template where it is not there. One of the same name has the same
// content, because the name is made of it; what somebody else put there is found out
// here.
func (s *Server) ensure(ctx context.Context, namespace string, t *resourceapi.ResourceClaimTemplate) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.Client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, t, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the resource claim template %s/%s: %w", namespace, t.Name, err)
	}
	if err == nil {
		return nil
	}
	there, err := s.Client.ResourceV1().ResourceClaimTemplates(namespace).Get(ctx, t.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the resource claim template %s/%s: %w", namespace, t.Name, err)
	}
	if there.Labels[share.ManagedBy] != share.Manager || !share.Same(there, t) {
		return fmt.Errorf("resource claim template %s/%s: it is not the one that Headrace makes", namespace, t.Name)
	}
	return nil
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patchOf returns what changes the claims of a pod from before to after.
func patchOf(before, after *corev1.Pod) ([]byte, error) {
	ops := []operation{{Op: "add", Path: "/spec/resourceClaims", Value: after.Spec.ResourceClaims}}
	lists := []struct {
		path      string
		was, done []corev1.Container
	}{{"/spec/initContainers", before.Spec.InitContainers, after.Spec.InitContainers}, {"/spec/containers", before.Spec.Containers, after.Spec.Containers}}
	for _, l := range lists {
		for i := range l.done {
			if len(l.done[i].Resources.Claims) != len(l.was[i].Resources.Claims) {
				ops = append(ops, operation{Op: "add", Path: fmt.Sprintf("%s/%d/resources", l.path, i), Value: l.done[i].Resources})
			}
		}
	}
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("write the patch: %w", err)
	}
	return text, nil
}
