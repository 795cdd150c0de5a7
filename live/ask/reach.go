package ask

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/usage"
)

const (
	// answerWithin bounds one question; the scheduler itself takes up to ten seconds.
	answerWithin = 15 * time.Second
	// answerMost bounds an answer: a hundred thousand pods in line.
	answerMost = 64 << 20
)

// scheduler is a way to a running one.
type scheduler struct {
	client *http.Client
	base   string
	close  func()
}

// reach finds a running scheduler: at the address that was given, else where it
// wrote down that it is.
func (o *options) reach(ctx context.Context, config *rest.Config, client kubernetes.Interface) (*scheduler, error) {
	if o.server != "" {
		return o.direct(config)
	}
	m, err := o.presence(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("the scheduler is not reachable: %w", err)
	}
	at, err := url.Parse(m.Data[kube.PresenceURL])
	if err != nil || at.Port() == "" || !loopback(at.Hostname()) {
		return nil, fmt.Errorf("the scheduler is not reachable: the ConfigMap %s/%s says %q, which is no address on a loopback interface", m.Namespace, m.Name, m.Data[kube.PresenceURL])
	}
	var tried []error
	if host, _ := os.Hostname(); host != "" && host == m.Data[kube.PresenceHost] {
		s := plain(at.String())
		if err := s.probe(ctx); err == nil {
			return s, nil
		} else {
			tried = append(tried, fmt.Errorf("%s on this machine: %w", at, err))
		}
	} else {
		tried = append(tried, fmt.Errorf("%s: it is on the machine %s, this is %s", at, m.Data[kube.PresenceHost], host))
	}
	if pod := m.Data[kube.PresencePod]; pod != "" {
		s, err := tunnel(ctx, config, client, m.Data[kube.PresenceNamespace], pod, at)
		if err == nil {
			if err = s.probe(ctx); err == nil {
				return s, nil
			}
			s.close()
		}
		tried = append(tried, fmt.Errorf("a tunnel to pod %s/%s (needs create on pods/portforward): %w", m.Data[kube.PresenceNamespace], pod, err))
	}
	return nil, fmt.Errorf("the scheduler is not reachable. Tried:\n%w", errors.Join(tried...))
}

// usualNamespaces are where a scheduler writes down where it is: the default of its
// flag, and that of deploy/headrace.yaml.
func usualNamespaces() []string { return []string{kube.DefaultNamespace, "headrace-system"} }

// presence reads where the scheduler says that it is.
func (o *options) presence(ctx context.Context, client kubernetes.Interface) (*corev1.ConfigMap, error) {
	spaces := usualNamespaces()
	if o.schedulerNamespace != "" {
		spaces = []string{o.schedulerNamespace}
	}
	name := kube.PresenceName(o.scheduler)
	for _, space := range spaces {
		m, err := client.CoreV1().ConfigMaps(space).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			return m, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read where it is: %w", err)
		}
	}
	return nil, fmt.Errorf("no ConfigMap %s in namespace %s, in which a running one says where it is; see --scheduler, --scheduler-namespace, --server", name, strings.Join(spaces, " or "))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// plain is a scheduler on the loopback interface, where nobody else can listen in.
// Its certificate, if it has one, is for another name.
func plain(base string) *scheduler {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // loopback only, see above
	return &scheduler{client: &http.Client{Transport: transport}, base: base, close: transport.CloseIdleConnections}
}

// direct is a scheduler at a given address. Beyond the loopback interface it is
// shown the token of the kubeconfig, and so must prove who it is.
func (o *options) direct(config *rest.Config) (*scheduler, error) {
	at, err := url.Parse(o.server)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return nil, usage.Errorf("--server %q: must be http://HOST:PORT or https://HOST:PORT", o.server)
	case loopback(at.Hostname()):
		return plain(strings.TrimSuffix(o.server, "/")), nil
	case at.Scheme != "https":
		return nil, usage.Errorf("--server %q: beyond the loopback interface only by https", o.server)
	}
	c := rest.AnonymousClientConfig(config)
	c.Host, c.TLSClientConfig = o.server, rest.TLSClientConfig{CAFile: o.serverCA}
	c.BearerToken, c.BearerTokenFile, c.ExecProvider, c.AuthProvider = config.BearerToken, config.BearerTokenFile, config.ExecProvider, config.AuthProvider
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.server, err)
	}
	return &scheduler{client: client, base: strings.TrimSuffix(o.server, "/"), close: client.CloseIdleConnections}, nil
}

// probe says whether something answers.
func (s *scheduler) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	answer, err := s.do(ctx, "/healthz")
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func (s *scheduler) do(ctx context.Context, path string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	return s.client.Do(q)
}

// errNotFound says that the scheduler does not know what was asked for.
var errNotFound = errors.New("not found")

// get asks a question and reads the answer.
func (s *scheduler) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	answer, err := s.do(ctx, path)
	if err != nil {
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerMost))
	if err != nil {
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		var failure explain.Failure
		if json.Unmarshal(body, &failure) != nil || failure.Error == "" {
			failure.Error = strings.TrimSpace(string(body))
		}
		if answer.StatusCode == http.StatusNotFound && strings.HasPrefix(path, explain.PodPath) {
			return errNotFound
		}
		return fmt.Errorf("the scheduler says: %s (%s)", failure.Error, answer.Status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read the scheduler's answer: %w", err)
	}
	return nil
}
