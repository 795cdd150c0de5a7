package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"github.com/headrace-dev/headrace/live/kube"
)

// headerTimeout bounds how long a client of the health server may take to ask.
const headerTimeout = 10 * time.Second

// Serving says where a scheduler answers over HTTP, and how.
type Serving struct {
	Address           string
	CertFile, KeyFile string
	// SelfSigned makes a certificate on the spot where no files are given: nobody can
	// listen in, and callers cannot tell who answers.
	SelfSigned bool
	Profiling  bool
}

// flags adds the flags.
func (v *Serving) flags(f *pflag.FlagSet) {
	f.StringVar(&v.Address, "serve", "127.0.0.1:10270", "where health, readiness, metrics and explanations are served; beyond loopback only with a certificate")
	f.StringVar(&v.CertFile, "serve-tls-cert", "", "the certificate to serve with, PEM; read anew for every connection")
	f.StringVar(&v.KeyFile, "serve-tls-key", "", "the key of the certificate, PEM")
	f.BoolVar(&v.SelfSigned, "serve-self-signed", false, "serve with a certificate of its own making where --serve-tls-cert is not given: for probes and scrapers that do not ask who answers")
	f.BoolVar(&v.Profiling, "profiling", false, "serve /debug/pprof, on the loopback interface only")
}

// check names the first flag that cannot be.
func (v *Serving) check() error {
	host, _, err := net.SplitHostPort(v.Address)
	if err != nil {
		return fmt.Errorf("--serve %q: must be HOST:PORT", v.Address)
	}
	local := loopback(host)
	switch {
	case (v.CertFile == "") != (v.KeyFile == ""):
		return errors.New("--serve-tls-cert and --serve-tls-key come together")
	case !local && v.CertFile == "" && !v.SelfSigned:
		return fmt.Errorf("--serve %q: beyond the loopback interface only with --serve-tls-cert and --serve-tls-key, or with --serve-self-signed", v.Address)
	case !local && v.Profiling:
		return fmt.Errorf("--profiling: only where --serve is on the loopback interface, not at %q", v.Address)
	}
	return nil
}

// loopback says whether a host is this machine alone.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Start serves until the context ends, and tells the scheduler where, for it to
// write down when it leads.
func (v *Serving) Start(ctx context.Context, s *kube.Scheduler, registry *prometheus.Registry, client kubernetes.Interface, log *slog.Logger) (net.Addr, error) {
	l, err := net.Listen("tcp", v.Address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	handler := s.Handler(registry)
	if v.Profiling {
		handler = withProfiles(handler)
	}
	scheme := "http"
	if v.CertFile != "" || v.SelfSigned {
		scheme = "https"
		certificate, err := v.certificates()
		if err != nil {
			l.Close()
			return nil, err
		}
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: certificate})
	}
	if host, _, _ := net.SplitHostPort(l.Addr().String()); !loopback(host) {
		handler = guard(client, log, handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	// Ends when the server is closed, with ctx.
	go func() { _ = server.Serve(l) }()
	context.AfterFunc(ctx, func() { server.Close() })
	log.Info("serving health, readiness, metrics and explanations", "address", l.Addr().String())
	s.Announce(presence(scheme, l.Addr().(*net.TCPAddr)))
	return l.Addr(), nil
}

// certificates returns what gives a certificate to every connection: the files read
// anew, or one made now.
func (v *Serving) certificates() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if v.CertFile == "" {
		c, err := selfSigned()
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c, nil }, err
	}
	load := func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c, err := tls.LoadX509KeyPair(v.CertFile, v.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("serve with the certificate %s: %w", v.CertFile, err)
		}
		return &c, nil
	}
	_, err := load(nil)
	return load, err
}

// selfSignedFor is how long a certificate of our own making is valid; each start
// makes a new one.
const selfSignedFor = 10 * 365 * 24 * time.Hour

// selfSigned makes a certificate for this machine.
func selfSigned() (tls.Certificate, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "headrace"
	}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: host, MaxAge: selfSignedFor})
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.X509KeyPair(cert, key)
}

// serviceAccountNamespace is the file in which a pod finds its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// presence is where the scheduler can be asked: on the loopback interface of its
// machine, or through a tunnel into its pod.
func presence(scheme string, at *net.TCPAddr) kube.Presence {
	host, _ := os.Hostname() // without a name, only --server finds it
	ip := at.IP
	if !ip.IsLoopback() {
		ip = net.IPv4(127, 0, 0, 1)
	}
	p := kube.Presence{URL: scheme + "://" + net.JoinHostPort(ip.String(), fmt.Sprint(at.Port)), Host: host}
	if namespace, err := os.ReadFile(serviceAccountNamespace); err == nil {
		p.Namespace, p.Pod = strings.TrimSpace(string(namespace)), host // a pod's hostname is its name
		if name := os.Getenv("POD_NAME"); name != "" {
			p.Pod = name
		}
	}
	return p
}

// withProfiles adds the profiles of package pprof.
func withProfiles(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", next)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
