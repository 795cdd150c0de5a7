package devcluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

const (
	// etcdQuota is the most that etcd stores. Its default of 2 GiB fills in long
	// runs, because old revisions stay until they are compacted.
	etcdQuota = 8 << 30
	// etcdStart bounds the wait for etcd: a fraction of a second, a few on a busy disk.
	etcdStart = 30 * time.Second
	// apiserverStart bounds the wait for kube-apiserver: six seconds, and many times
	// that on a machine that compiles at the same time.
	apiserverStart = 3 * time.Minute
	// poll is how often it is asked whether something has started.
	poll = 100 * time.Millisecond
)

// startEtcd starts a single etcd that only holders of our certificates can reach.
func startEtcd(o *Options, ids *identities) (*embed.Etcd, string, error) {
	client, err := freePort()
	if err != nil {
		return nil, "", err
	}
	peer, err := freePort()
	if err != nil {
		return nil, "", err
	}
	c := embed.NewConfig()
	c.Name, c.Dir = "headrace", filepath.Join(o.Dir, "etcd")
	clientURL := url.URL{Scheme: "https", Host: client}
	peerURL := url.URL{Scheme: "https", Host: peer}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{clientURL}, []url.URL{clientURL}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{peerURL}, []url.URL{peerURL}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	for _, tls := range []*transport.TLSInfo{&c.ClientTLSInfo, &c.PeerTLSInfo} {
		tls.CertFile, tls.KeyFile, tls.TrustedCAFile, tls.ClientCertAuth = ids.server.cert, ids.server.key, ids.ca, true
	}
	c.QuotaBackendBytes = etcdQuota
	// The data of a cluster for trying things out need not survive a power cut.
	c.UnsafeNoFsync = true
	c.LogLevel, c.LogOutputs = "warn", []string{filepath.Join(o.Dir, "etcd.log")}
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, clientURL.String(), nil
	case err := <-etcd.Err():
		return nil, "", fmt.Errorf("start etcd: %w", err)
	case <-time.After(etcdStart):
		etcd.Close()
		return nil, "", fmt.Errorf("start etcd: not ready after %v", etcdStart)
	}
}

// freePort returns a loopback address that was free a moment ago.
func freePort() (string, error) {
	l, err := listen(0)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("listen on the loopback interface: %w", err)
	}
	return l, nil
}

// runAPIServer serves until the context ends.
func runAPIServer(ctx context.Context, o *Options, ids *identities, etcd string, l net.Listener) error {
	args := []string{
		"--etcd-servers=" + etcd, "--etcd-cafile=" + ids.ca, "--etcd-certfile=" + ids.server.cert, "--etcd-keyfile=" + ids.server.key,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--tls-cert-file=" + ids.server.cert, "--tls-private-key-file=" + ids.server.key, "--client-ca-file=" + ids.ca,
		"--kubelet-client-certificate=" + ids.kubelet.cert, "--kubelet-client-key=" + ids.kubelet.key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + ids.tokens.key, "--service-account-key-file=" + ids.tokens.cert,
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		// Groups of pods, their topology, and groups of groups: APIs that 1.37 does not
		// serve unless asked.
		"--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
		"--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true",
	}
	if o.Bare {
		// Without a node controller nobody would take the taint of new nodes away.
		args = append(args, "--disable-admission-plugins=TaintNodesByCondition")
	}
	s := apiserveroptions.NewServerRunOptions()
	s.SecureServing.Listener = l
	if err := parse(s.Flags(), args); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("start kube-apiserver: set its features: %w", err)
	}
	// kube-apiserver calls itself, and warnings of its own are not news.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	completed, err := s.Complete(ctx)
	if err != nil {
		return fmt.Errorf("start kube-apiserver: complete its options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("start kube-apiserver: %w", errs[0])
	}
	if err := apiserver.Run(ctx, completed); err != nil {
		return fmt.Errorf("run kube-apiserver: %w", err)
	}
	return nil
}

// runControllers runs the controllers that a scheduler needs around it.
func runControllers(ctx context.Context, o *Options, ids *identities, kubeconfig string) error {
	controllers := "serviceaccount-controller,namespace-controller,garbage-collector-controller,job-controller,deployment-controller,replicaset-controller,resourceclaim-controller,persistentvolume-binder-controller,ephemeral-volume-controller,root-ca-certificate-publisher-controller,podgroup-protection-controller"
	if !o.Bare {
		controllers += ",node-lifecycle-controller,taint-eviction-controller,pod-garbage-collector-controller"
	}
	s, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("start kube-controller-manager: %w", err)
	}
	known, off, aliases := controllermanager.KnownControllers(), controllermanager.ControllersDisabledByDefault(), controllermanager.ControllerAliases()
	flags := s.Flags(known, off, aliases)
	s.ParsedFlags = &flags
	err = parse(flags, []string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers=" + controllers,
		"--service-account-private-key-file=" + ids.tokens.key, "--root-ca-file=" + ids.ca,
		// Its own limit of 20 requests per second would take a minute for 250 new nodes.
		"--kube-api-qps=2000", "--kube-api-burst=4000",
	})
	if err != nil {
		return fmt.Errorf("start kube-controller-manager: %w", err)
	}
	c, err := s.Config(ctx, known, off, aliases)
	if err != nil {
		return fmt.Errorf("start kube-controller-manager: %w", err)
	}
	if err := controllermanager.Run(ctx, c.Complete()); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run kube-controller-manager: %w", err)
	}
	return nil
}

func parse(sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	return all.Parse(args)
}

// waitReady waits until kube-apiserver says that it is ready.
func waitReady(ctx context.Context, client kubernetes.Interface, failed <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, apiserverStart)
	defer cancel()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
			return nil
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("wait for kube-apiserver: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
