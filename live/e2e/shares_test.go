package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/admission"
	"github.com/headrace-dev/headrace/live/kube/dra"
	"github.com/headrace-dev/headrace/live/share"
)

// admit serves the admission webhook until the test ends, and waits until
// kube-apiserver calls it.
func (r *rig) admit() {
	r.Helper()
	dir := filepath.Dir(kubeconfig)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	r.ok(err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.ok(err)
	ctx, cancel := context.WithCancel(context.Background())
	s := admission.Server{Client: client, Log: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	// Ends with ctx.
	go func() { done <- s.Serve(ctx, l, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")) }()
	r.Cleanup(func() {
		cancel()
		r.ok(<-done)
	})
	url := "https://" + l.Addr().String() + admission.Path
	c := admission.Configuration(admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca})
	hooks := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err = hooks.Create(ctx, c, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() { r.ok(hooks.Delete(context.Background(), c.Name, metav1.DeleteOptions{})) })
	r.eventually("kube-apiserver calls the webhook", func() string {
		p, err := client.CoreV1().Pods(r.namespace).Create(r.Context(), podOf("probe", 0, sharing("500m")), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if len(p.Spec.ResourceClaims) == 0 {
			return "a pod passed unchanged"
		}
		return ""
	})
}

// sharing asks for a share by annotation.
func sharing(what string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{share.Prefix + "c": what} }
}

// Shares asked for by annotation become claims and are placed, never beyond what
// there is; what cannot be carried out waits and says why.
func TestSharesByAnnotation(t *testing.T) {
	r := newRig(t)
	r.cards("n", 2)
	s, _ := r.schedule()
	r.create(podOf("early", 0, sharing("100m, 1Gi")))
	r.waits("early", "annotation headrace.dev/gpu.c was not turned into a resource claim")
	r.admit()
	_, err := client.ResourceV1().ResourceClaimTemplates(r.namespace).Get(t.Context(), share.Template(share.Ask{Count: 1, Milli: 500}).Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a dry run made a template: %v", err)
	}
	r.create(podOf("wrong", 0, sharing("half a card")))
	r.waits("wrong", `annotation headrace.dev/gpu.c: "half a card": share "half a card": from 1m to 1000m of a card`)

	r.create(podOf("pair", 0, sharing("2 x 300m, 10Gi")), podOf("small", 0, sharing("0.25, 20Gi")), podOf("model", 0, sharing("450m, model=H100|H200")))
	r.create(podOf("elsewhere", 0, sharing("100m, model=L4")))
	for _, name := range []string{"pair", "small", "model"} {
		r.bound(name)
	}
	r.sound()
	var full []*corev1.Pod
	for i := range 4 {
		full = append(full, podOf(fmt.Sprint("full-", i), 0, sharing("250m")))
	}
	r.create(full...)
	r.eventually("what is left is given", func() string {
		r.sound()
		if n := r.running(); n != 5 { // 400 and 250 milli-GPU are left at most
			return fmt.Sprintf("%d run", n)
		}
		return ""
	})
	r.waits("elsewhere", "Unschedulable")
	r.counts(s, 2)
	claimed := 0
	for _, c := range r.claims() {
		if c.Status.Allocation == nil {
			continue
		}
		for _, result := range c.Status.Allocation.Devices.Results {
			claimed++
			if result.Driver != dra.Driver || result.ShareID == nil || len(result.ConsumedCapacity) != 2 {
				t.Errorf("claim %s has %+v, want a share with its amounts", c.Name, result)
			}
		}
	}
	if claimed < 5 {
		t.Errorf("%d shares are claimed", claimed)
	}
	events, err := client.CoreV1().Events(r.namespace).List(t.Context(), metav1.ListOptions{})
	r.ok(err)
	told := false
	for _, e := range events.Items {
		told = told || e.InvolvedObject.Name == "wrong" && strings.Contains(e.Message, "annotation headrace.dev/gpu.c")
	}
	if !told {
		t.Error("no event tells the pod with the malformed annotation")
	}
}
