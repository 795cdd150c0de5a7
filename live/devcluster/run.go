package devcluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/internal/sim/model"
	"github.com/headrace-dev/headrace/internal/sim/trace"

	"github.com/headrace-dev/headrace/live/devcluster/disks"
	"github.com/headrace-dev/headrace/live/inventory"
)

// Options say which cluster to run.
type Options struct {
	// Dir is where certificates, logs and etcd's data go.
	Dir string
	// Keep leaves Dir behind, so that a later start goes on from there. Else Dir is
	// removed in the end, and nothing but what was made here may lie in it.
	Keep bool
	// Scenario names the built-in inventory, and Nodes how many of them there
	// are; 0 is as many as the scenario has.
	Scenario string
	Nodes    int
	// DRA lets a driver of Dynamic Resource Allocation offer the cards of the nodes,
	// which can be shared then, instead of the kubelet's device plugin.
	DRA bool
	// Parts does as DRA, and offers cards that support MIG whole or in parts instead of
	// shared.
	Parts bool
	// Bare leaves out nodes, KWOK and node controllers: the caller brings its own
	// nodes, ready ones, and nobody says that they have gone silent.
	Bare bool
	// Port is where kube-apiserver listens; 0 is any that is free. With Keep and the
	// same port, clients of an earlier start can go on.
	Port int
	// Progress is told what is being started.
	Progress func(what string)
}

// Cluster is a running one.
type Cluster struct {
	Kubeconfig string // its path
	Server     string // the URL of the API server
	Nodes      int    // how many simulated nodes were created
}

const (
	// clientQPS is for creating nodes; kube-apiserver has limits of its own.
	clientQPS, clientBurst = 1000, 2000
	// stopInHaste is how long stopping may take when nothing is kept, stopInOrder
	// when etcd has to finish its files. kube-apiserver takes 8 to 9 seconds to
	// drain its watches; the process ends without waiting for that.
	stopInHaste = 2 * time.Second
	stopInOrder = 12 * time.Second
)

// marker lies in every directory that Run made, so that no other is removed.
const marker = ".headrace-devcluster"

// Run runs a cluster until the context ends, or until a part of it fails. It
// calls ready once, when the cluster can be used.
func Run(ctx context.Context, o Options, ready func(*Cluster)) error {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	nodes, err := nodesOf(&o)
	if err != nil {
		return err
	}
	lock, err := prepare(&o)
	if err != nil {
		return err
	}
	defer lock.Close()
	if !o.Keep {
		defer remove(o.Dir)
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, "kubernetes.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	if err := logTo(log); err != nil {
		return err
	}
	p := &plane{options: &o, failed: make(chan error, 4)}
	p.ids, err = newIdentities(&o)
	if err == nil {
		err = p.run(ctx, nodes, ready)
	}
	klog.Flush()
	klog.SetOutput(io.Discard)
	return err
}

// logTo sends what Kubernetes logs to a file, errors included.
func logTo(w io.Writer) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-legacy_stderr_threshold_behavior=false", "-stderrthreshold=FATAL"}); err != nil {
		return fmt.Errorf("set up the log: %w", err)
	}
	klog.SetOutput(w)
	return nil
}

// plane is the running parts of a cluster.
type plane struct {
	options *Options
	ids     identities
	etcd    *embed.Etcd
	// failed receives the end of every part; it holds as many as there are.
	failed chan error
}

func (p *plane) run(ctx context.Context, nodes []trace.Node, ready func(*Cluster)) error {
	// Parts live in a context of their own: they are stopped in order.
	parts, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	defer stopParts()

	p.options.Progress("etcd")
	etcd, etcdURL, err := startEtcd(p.options, &p.ids)
	if err != nil {
		return err
	}
	p.etcd = etcd
	served := make(chan struct{})
	defer p.stop(stopParts, served)

	p.options.Progress("kube-apiserver")
	l, err := listen(p.options.Port)
	if err != nil {
		close(served)
		return err
	}
	// Ends with parts, or on a failure.
	go func() {
		defer close(served)
		p.failed <- runAPIServer(parts, p.options, &p.ids, etcdURL, l)
	}()
	c, client, err := p.connect(l)
	if err != nil {
		return err
	}
	if err := waitReady(ctx, client, p.failed); err != nil {
		return err
	}

	p.options.Progress("controllers")
	// Ends with parts, or on a failure.
	go func() { p.failed <- runControllers(parts, p.options, &p.ids, c.Kubeconfig) }()
	if !p.options.Bare {
		p.options.Progress("simulated nodes")
		// Ends with parts, or on a failure.
		if err := startSimulation(parts, p.options, c.Kubeconfig); err != nil {
			return err
		}
		if err := createNodes(ctx, client, nodes, p.options); err != nil {
			return err
		}
		c.Nodes = len(nodes)
		// Ends with parts.
		if err := disks.Simulate(parts, client); err != nil {
			return err
		}
	}
	ready(c)
	select {
	case err := <-p.failed:
		if err == nil {
			err = errors.New("a part of the cluster ended by itself")
		}
		return err
	case <-ctx.Done():
		return nil
	}
}

// stop ends the parts in order, as far as the deadline allows.
func (p *plane) stop(stopParts context.CancelFunc, served <-chan struct{}) {
	deadline := time.After(stopInHaste)
	if p.options.Keep {
		deadline = time.After(stopInOrder)
	}
	stopParts()
	if p.options.Keep {
		select {
		case <-served:
		case <-deadline:
		}
	}
	closed := make(chan struct{})
	// Ends when etcd has closed, or with the process.
	go func() {
		p.etcd.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-deadline:
	}
}

// connect writes the kubeconfig and returns a client that uses it.
func (p *plane) connect(l net.Listener) (*Cluster, kubernetes.Interface, error) {
	c := &Cluster{Kubeconfig: filepath.Join(p.options.Dir, "kubeconfig"), Server: "https://" + l.Addr().String()}
	const name = "headrace"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthority: p.ids.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: p.ids.admin.cert, ClientKey: p.ids.admin.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig); err != nil {
		return nil, nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	rc, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = clientQPS, clientBurst
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to kube-apiserver: %w", err)
	}
	return c, client, nil
}

// nodesOf returns the nodes of the scenario.
func nodesOf(o *Options) ([]trace.Node, error) {
	if o.Bare {
		return nil, nil
	}
	w, err := model.Scenario(o.Scenario, 0)
	if err != nil {
		return nil, err
	}
	return inventory.Scaled(w.Nodes, o.Nodes), nil
}

// prepare makes the directory, and refuses one that holds something else or that
// another cluster runs in. The lock that it returns ends with the process.
func prepare(o *Options) (*os.File, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the cluster: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the directory of the cluster: %w", err)
	}
	mark := filepath.Join(dir, marker)
	if _, err := os.Stat(mark); err != nil && len(entries) > 0 {
		return nil, fmt.Errorf("directory %s holds something else; name an empty or a new one", dir)
	}
	lock, err := os.OpenFile(mark, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mark the directory of the cluster: %w", err)
	}
	if err := lockFile(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("a cluster runs in %s already", dir)
	}
	return lock, nil
}

// remove takes the directory away. Parts that are still ending may write into
// it, so it is tried a few times.
func remove(dir string) {
	for range removeTries {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(poll)
	}
}

// removeTries times poll is longer than etcd takes for its last file.
const removeTries = 20
