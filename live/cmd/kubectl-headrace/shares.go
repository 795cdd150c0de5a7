package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/headrace-dev/headrace/live/admission"
)

// admit serves the admission webhook with the cluster's own certificate, and tells
// kube-apiserver of it. It ends with the context; fail is told when serving ends
// before.
func admit(ctx context.Context, dir string, client kubernetes.Interface, log *slog.Logger, fail func(error)) error {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read the certificate authority of the cluster: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve admission: %w", err)
	}
	s := admission.Server{Client: client, Log: log}
	// Ends with ctx, or with a failure, which fail is told.
	go func() {
		if err := s.Serve(ctx, l, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")); err != nil {
			fail(err)
		}
	}()
	url := "https://" + l.Addr().String() + admission.Path
	hooks, c := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), admission.Configuration(admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca})
	// One that an earlier start left points to a port that is gone.
	if err := hooks.Delete(ctx, c.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("replace the webhook %s: %w", c.Name, err)
	}
	if _, err := hooks.Create(ctx, c, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the webhook %s: %w", c.Name, err)
	}
	return nil
}
