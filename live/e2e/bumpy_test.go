package e2e

import (
	"context"
	"encoding/pem"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// bumpy is a way to the API server on which things go wrong: answers come late,
// some calls are turned away, some are lost before or after they were carried
// out, watches are cut, and for a while nothing moves at all.
type bumpy struct {
	*httptest.Server
	under http.Handler
	rough atomic.Bool

	mu     sync.Mutex // guards the rest
	random *rand.Rand
	hole   bool          // nothing moves
	cut    chan struct{} // closed when watches are cut
	counts map[string]int
}

const (
	// Of a call on a rough way, how long it takes.
	slowLeast, slowMost = 50 * time.Millisecond, 600 * time.Millisecond
	// cutEvery is how long a watch lives on a rough way.
	cutEvery = 2 * time.Second
)

// newBumpy returns the way and a kubeconfig that goes by it.
func (r *rig) newBumpy(seed int64) (*bumpy, string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	r.ok(err)
	transport, err := rest.TransportFor(config)
	r.ok(err)
	to, err := url.Parse(config.Host)
	r.ok(err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(to) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	b := &bumpy{under: proxy, random: rand.New(rand.NewSource(seed)), cut: make(chan struct{}), counts: make(map[string]int)}
	b.Server = httptest.NewUnstartedServer(b)
	b.Listener = &stalling{Listener: b.Listener, way: b}
	b.EnableHTTP2 = true
	b.StartTLS()
	stop := make(chan struct{})
	// Ends with stop.
	go b.cutWatches(stop)
	r.Cleanup(func() {
		close(stop)
		b.openHole(false)
		b.CloseClientConnections()
		b.Close()
	})
	c := clientcmdapi.NewConfig()
	c.Clusters["bumpy"] = &clientcmdapi.Cluster{Server: b.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})}
	c.Contexts["bumpy"] = &clientcmdapi.Context{Cluster: "bumpy"}
	c.CurrentContext = "bumpy"
	path := filepath.Join(r.TempDir(), "kubeconfig")
	r.ok(clientcmd.WriteToFile(*c, path))
	return b, path
}

// cutWatches cuts all watches now and then.
func (b *bumpy) cutWatches(stop <-chan struct{}) {
	ticker := time.NewTicker(cutEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
			if b.rough.Load() {
				b.mu.Lock()
				close(b.cut)
				b.cut = make(chan struct{})
				b.mu.Unlock()
			}
		}
	}
}

// lot draws what becomes of a call, and how long it takes.
func (b *bumpy) lot(watch bool) (fate string, slow time.Duration, cut <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slow = slowLeast + time.Duration(b.random.Int63n(int64(slowMost-slowLeast)))
	fate = "late"
	switch n := b.random.Intn(16); {
	case watch:
		fate = "watch"
	case n < 2:
		fate = "too many requests"
	case n < 4:
		fate = "internal error"
	case n < 5:
		fate = "lost before"
	case n < 6:
		fate = "lost after"
	}
	b.counts[fate]++
	return fate, slow, b.cut
}

func (b *bumpy) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if !b.rough.Load() {
		b.under.ServeHTTP(w, q)
		return
	}
	fate, slow, cut := b.lot(q.URL.Query().Get("watch") != "")
	select {
	case <-time.After(slow):
	case <-q.Context().Done():
		return
	}
	switch fate {
	case "watch":
		ctx, cancel := context.WithCancel(q.Context())
		defer cancel()
		// Ends with the watch.
		go func() {
			select {
			case <-cut:
				cancel()
			case <-ctx.Done():
			}
		}()
		b.under.ServeHTTP(w, q.WithContext(ctx))
	case "too many requests":
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
	case "internal error":
		http.Error(w, "something went wrong", http.StatusInternalServerError)
	case "lost before":
		panic(http.ErrAbortHandler)
	case "lost after":
		b.under.ServeHTTP(httptest.NewRecorder(), q.WithContext(context.WithoutCancel(q.Context())))
		panic(http.ErrAbortHandler)
	default:
		b.under.ServeHTTP(w, q)
	}
}

// openHole lets nothing through from now on, or ends that. What was in the hole
// stays in it for ever: connections of that time never come to life again.
func (b *bumpy) openHole(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hole = open
}

func (b *bumpy) inHole() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hole
}

// stalling is a listener whose connections fall silent while there is a hole.
type stalling struct {
	net.Listener
	way *bumpy
}

func (s *stalling) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &stalled{Conn: c, way: s.way, closed: make(chan struct{})}, nil
}

// stalled is a connection that may have fallen into a hole.
type stalled struct {
	net.Conn
	way    *bumpy
	lost   atomic.Bool
	once   sync.Once
	closed chan struct{}
}

// fell says whether the connection is lost, now or since an earlier hole.
func (s *stalled) fell() bool {
	if s.way.inHole() {
		s.lost.Store(true)
	}
	return s.lost.Load()
}

func (s *stalled) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err == nil && s.fell() {
		<-s.closed
		return 0, net.ErrClosed
	}
	return n, err
}

func (s *stalled) Write(p []byte) (int, error) {
	if s.fell() {
		return len(p), nil
	}
	return s.Conn.Write(p)
}

func (s *stalled) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}
