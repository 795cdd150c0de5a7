package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// readTimeout bounds how long one request may take to arrive.
	readTimeout = 10 * time.Second
	// stopWithin is how long requests may take to end when the server stops.
	stopWithin = 5 * time.Second
	// webhookTimeout is how long kube-apiserver waits for an answer, in seconds.
	webhookTimeout = 10
	// Name is the name of the webhook's configuration.
	Name = "headrace-shares.headrace.dev"
)

// Run serves on an address until the context ends. The certificate is read again
// when its file has changed, so that it can be renewed.
func (s *Server) Run(ctx context.Context, address, certFile, keyFile string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve admission: %w", err)
	}
	return s.Serve(ctx, l, certFile, keyFile)
}

// Serve serves on a listener, as Run does.
func (s *Server) Serve(ctx context.Context, l net.Listener, certFile, keyFile string) error {
	defer l.Close()
	c := &certificate{cert: certFile, key: keyFile}
	if _, err := c.get(nil); err != nil {
		return err
	}
	server := &http.Server{
		Handler: s.Handler(), ReadTimeout: readTimeout,
		TLSConfig: &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12},
	}
	s.Log.Info("serving admission", "address", l.Addr().String())
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(l, "", "") }() // ends when the server is shut down
	select {
	case err := <-failed:
		return fmt.Errorf("serve admission: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	if err := server.Shutdown(end); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving admission: %w", err)
	}
	return nil
}

// readAgain is how long a certificate is used before its file is looked at again.
const readAgain = time.Minute

// certificate is one that may be renewed on disk.
type certificate struct {
	cert, key string

	mu   sync.Mutex // guards what follows
	last *tls.Certificate
	read time.Time
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && time.Since(c.read) < readAgain {
		return c.last, nil
	}
	c.read = time.Now()
	fresh, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil && c.last != nil {
		return c.last, nil // half written; the next look may see all of it
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate for admission: %w", err)
	}
	c.last = &fresh
	return c.last, nil
}

// Configuration tells kube-apiserver to send new pods with the annotation to a
// webhook. A webhook that does not answer stops nobody.
func Configuration(client admissionregistrationv1.WebhookClientConfig) *admissionregistrationv1.MutatingWebhookConfiguration {
	ignore, none := admissionregistrationv1.Ignore, admissionregistrationv1.SideEffectClassNoneOnDryRun
	timeout := int32(webhookTimeout)
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: Name, ClientConfig: client, FailurePolicy: &ignore, SideEffects: &none, TimeoutSeconds: &timeout,
			AdmissionReviewVersions: []string{"v1"},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name:       "asks-for-shares",
				Expression: `has(object.metadata.annotations) && object.metadata.annotations.exists(k, k.startsWith("headrace.dev/gpu."))`,
			}},
		}},
	}
}
