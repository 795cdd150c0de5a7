package ask

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// tunnelWithin bounds the wait for a tunnel.
const tunnelWithin = 15 * time.Second

// tunnel opens a tunnel through the API server to the loopback interface of the
// scheduler's pod, as kubectl port-forward does: the API server asks whether the
// user may.
func tunnel(ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace, pod string, at *url.URL) (*scheduler, error) {
	target := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("open a tunnel: %w", err)
	}
	sockets, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, fmt.Errorf("open a tunnel: %w", err)
	}
	dialer := portforward.NewFallbackDialer(sockets, spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:" + at.Port()}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, fmt.Errorf("open a tunnel: %w", err)
	}
	failed := make(chan error, 1)
	go func() { failed <- forwarder.ForwardPorts() }() // ends with stop
	select {
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		close(stop)
		return nil, ctx.Err()
	case <-time.After(tunnelWithin):
		close(stop)
		return nil, fmt.Errorf("no tunnel after %v", tunnelWithin)
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil || len(ports) == 0 {
		close(stop)
		return nil, fmt.Errorf("open a tunnel: %w", err)
	}
	s := plain(fmt.Sprintf("%s://127.0.0.1:%d", at.Scheme, ports[0].Local))
	s.close = func() { close(stop) }
	return s, nil
}
