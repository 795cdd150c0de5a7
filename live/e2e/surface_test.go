package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/headrace-dev/headrace/live/ask"
	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube"
)

// book keeps what a scheduler logs.
type book struct {
	mu  sync.Mutex // guards out
	out bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *book) lines(what string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(strings.Split(b.out.String(), "\n"), func(line string) bool { return !strings.Contains(line, what) })
}

// serve starts a scheduler that answers over HTTP, and returns where.
func (r *rig) serve(config kube.Config, serving command.Serving) (*kube.Scheduler, net.Addr, *book) {
	r.Helper()
	log := &book{}
	config.Log = slog.New(slog.NewTextHandler(log, nil))
	if config.Client == nil {
		config.Client = client
	}
	registry := prometheus.NewRegistry()
	config.Metrics = kube.NewMetrics(registry)
	s := kube.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	at, err := serving.Start(ctx, s, registry, config.Client, config.Log)
	r.ok(err)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }() // ends with ctx
	r.Cleanup(func() {
		cancel()
		r.ok(<-done)
	})
	return s, at, log
}

// served starts a scheduler that answers on the loopback interface.
func (r *rig) served(config kube.Config) *kube.Scheduler {
	r.Helper()
	s, _, _ := r.serve(config, command.Serving{Address: "127.0.0.1:0"})
	r.eventually("the scheduler has rebuilt its world", func() string {
		if s.Ready() {
			return ""
		}
		return "not ready"
	})
	return s
}

// headrace runs a command line as a user of the cluster.
func (r *rig) headrace(args ...string) (string, error) {
	r.Helper()
	root := &cobra.Command{Use: "headrace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(ask.Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(r.Context())
	return out.String(), err
}

// says waits until a command line prints a text.
func (r *rig) says(want string, args ...string) {
	r.Helper()
	r.eventually(fmt.Sprintf("headrace %s says %q", strings.Join(args, " "), want), func() string {
		out, err := r.headrace(args...)
		if err != nil {
			return err.Error()
		}
		if !strings.Contains(out, want) {
			return out
		}
		return ""
	})
}

// fails runs a command line that must fail with a text.
func (r *rig) fails(want string, args ...string) {
	r.Helper()
	if out, err := r.headrace(args...); err == nil || !strings.Contains(err.Error(), want) {
		r.Errorf("headrace %s: %v, want %q; it printed %s", strings.Join(args, " "), err, want, out)
	}
}

// The commands find the scheduler through the kubeconfig, and say of every pod
// what is the case.
func TestExplain(t *testing.T) {
	r := newRig(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	r.node("n", 4, func(n *corev1.Node) { n.Labels["nvidia.com/gpu.product"] = "H200" })
	r.node("plain", 0)
	s := r.served(kube.Config{})
	r.create(podOf("first", 3))
	r.bound("first")
	r.create(podOf("room", 2), podOf("never", 9), podOf("other", 1, func(p *corev1.Pod) { p.Spec.SchedulerName = "somebody" }))
	about := func(pod string, more ...string) []string {
		return append([]string{"explain", "pod/" + pod, "-n", r.namespace}, more...)
	}
	r.says("placed on n", about("first")...)
	r.says("gpu2 H200", about("first")...)
	r.says("needs 2 idle devices on one node, the most idle is 1", about("room")...)
	r.says("2 idle GPUs on one node; the closest: n", about("room")...)
	r.says("can never be placed in this cluster", about("never")...)
	out, err := r.headrace(about("never", "--output", "json")...)
	r.ok(err)
	var answer explain.Pod
	r.ok(json.Unmarshal([]byte(out), &answer))
	if answer.Schema != explain.Schema || answer.Verdict != explain.Never || answer.Reason.Need != 9 || answer.Reason.Have != 4 || len(answer.Classes) != 2 {
		t.Errorf("never, as JSON: %s", out)
	}
	r.fails(`pod other is not Headrace's to place: its schedulerName is "somebody"`, about("other")...)
	r.fails("no pod nobody in namespace "+r.namespace, about("nobody")...)
	r.fails("connection refused", about("first", "--server", "http://127.0.0.1:1")...)
	r.fails("no ConfigMap strange-scheduler in namespace kube-system or headrace-system", about("first", "--scheduler", "strange")...)

	r.says("needs 9 devices on one node", "queue")
	r.counts(s, 3)
	r.says("H200    -       4      3      75 %", "top")
	out, err = r.headrace("queue", "-o", "json")
	r.ok(err)
	var line explain.Queue
	r.ok(json.Unmarshal([]byte(out), &line))
	if line.Total != 2 || len(line.Pods) != 2 || line.Pods[0].Turn != 1 || line.Pods[0].Kind == "" {
		t.Errorf("the queue, as JSON: %s", out)
	}
}

// events returns what was told of a pod, oldest first.
func (r *rig) events(pod string) []string {
	r.Helper()
	list, err := client.EventsV1().Events(r.namespace).List(r.Context(), metav1.ListOptions{})
	r.ok(err)
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "Pod" && e.Regarding.Name == pod {
			out = append(out, e.Type+" "+e.Reason+": "+e.Note)
		}
	}
	return out
}

// An event is written when the reason of a waiting pod becomes another one, and
// only then; a pod that is placed at once costs none, unless all are asked for.
func TestEventsOnChange(t *testing.T) {
	r := newRig(t)
	s := r.served(kube.Config{})
	r.node("n", 4)
	r.create(podOf("large", 16))
	told := func(n int, want string) {
		r.Helper()
		r.eventually(fmt.Sprintf("event %d of the pod says %q", n, want), func() string {
			if got := r.events("large"); len(got) != n || !strings.Contains(got[n-1], want) {
				return fmt.Sprintf("%q", got)
			}
			return ""
		})
	}
	told(1, "Warning FailedScheduling: needs 16 devices on one node, the largest node has 4")
	for i := range 3 { // each makes a cycle, in which the large one is looked at again
		name := fmt.Sprint("small-", i)
		r.create(podOf(name, 1))
		r.bound(name)
	}
	r.counts(s, 3)
	told(1, "the largest node has 4")
	r.node("closed", 16, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "reserved", Effect: corev1.TaintEffectNoSchedule}}
	})
	told(2, "taints that are not tolerated")
	for i := range 3 {
		if got := r.events(fmt.Sprint("small-", i)); len(got) != 0 {
			t.Errorf("of a pod that was placed at once it is told %q", got)
		}
	}
}

// With all events, a placed pod has one.
func TestEventsAll(t *testing.T) {
	r := newRig(t)
	r.served(kube.Config{Events: kube.EventsAll})
	r.node("n", 4)
	r.create(podOf("p", 1))
	r.bound("p")
	r.eventually("the placed pod has an event", func() string {
		if got := r.events("p"); len(got) != 1 || got[0] != "Normal Scheduled: placed on n" {
			return fmt.Sprintf("%q", got)
		}
		return ""
	})
}

// Each profile takes its own pods and decides by its own policy, over one world:
// together they fill the node and no more.
func TestProfiles(t *testing.T) {
	r := newRig(t)
	t.Setenv("KUBECONFIG", kubeconfig)
	profiles, err := kube.ParseProfiles([]string{"packing=gpu-packing", "ours=headrace"})
	r.ok(err)
	r.node("n", 8)
	s := r.served(kube.Config{Profiles: profiles})
	named := func(name, scheduler string) *corev1.Pod {
		return podOf(name, 1, func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler })
	}
	var pods []*corev1.Pod
	for i := range 5 {
		pods = append(pods, named(fmt.Sprint("a-", i), "packing"), named(fmt.Sprint("b-", i), "ours"))
	}
	r.create(append(pods, named("foreign", kube.DefaultName))...)
	r.counts(s, 8)
	if got := r.inBounds(); got != 8 {
		t.Errorf("%d GPUs are held, want 8", got)
	}
	if p := r.pod("foreign"); p.Spec.NodeName != "" || len(p.Status.Conditions) > 0 {
		t.Errorf("a pod of no profile is bound to %q, conditions %v", p.Spec.NodeName, p.Status.Conditions)
	}
	for prefix, policy := range map[string]string{"a-": "gpu-packing", "b-": "headrace"} {
		placed := ""
		for i := range 5 {
			if name := fmt.Sprint(prefix, i); r.pod(name).Spec.NodeName != "" {
				placed = name
			}
		}
		if placed == "" {
			continue // the other profile took all the room
		}
		out, err := r.headrace("explain", "pod/"+placed, "-n", r.namespace, "--scheduler", "packing", "-o", "json")
		r.ok(err)
		var answer explain.Pod
		r.ok(json.Unmarshal([]byte(out), &answer))
		if answer.Place == nil || answer.Place.Chosen == nil || answer.Place.Chosen.Policy != policy {
			t.Errorf("%s: %s, want a choice by %s", placed, out, policy)
		}
	}
}

// allow lets a user do things in the whole cluster.
func (r *rig) allow(user string, rules ...rbacv1.PolicyRule) {
	r.Helper()
	meta := metav1.ObjectMeta{GenerateName: "headrace-test-"}
	role, err := client.RbacV1().ClusterRoles().Create(r.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	r.ok(err)
	binding, err := client.RbacV1().ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() {
		ctx := context.Background()
		r.ok(client.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{}))
		r.ok(client.RbacV1().ClusterRoleBindings().Delete(ctx, binding.Name, metav1.DeleteOptions{}))
	})
}

// A scheduler that may not do its work says which verb on which resource is
// missing: in the log once, and as long as it lasts when asked for readiness. It
// goes on by itself when it was allowed.
func TestNoPermission(t *testing.T) {
	r := newRig(t)
	const user = "headrace-poor"
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	r.ok(err)
	config.Impersonate.UserName, config.Impersonate.Groups = user, []string{"system:authenticated"}
	poor, err := kubernetes.NewForConfig(config)
	r.ok(err)
	r.allow(user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"resource.k8s.io", "scheduling.k8s.io", "scheduling.headrace.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	r.node("n", 4)
	r.create(podOf("p", 1))
	_, at, log := r.serve(kube.Config{Client: poor, Events: kube.EventsNone}, command.Serving{Address: "127.0.0.1:0"})
	ready := func() string {
		answer, err := http.Get("http://" + at.String() + "/readyz")
		r.ok(err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		r.ok(err)
		return fmt.Sprint(answer.StatusCode, " ", strings.TrimSpace(string(body)))
	}
	const want = "permission is missing to list pods, watch pods, get pods, get jobs.batch, create pods/binding, patch pods/status"
	r.eventually("readiness names what is missing", func() string {
		if got := ready(); got != "503 "+want {
			return got
		}
		return ""
	})
	r.eventually("the log names what is missing", func() string {
		if len(log.lines("permission is missing")) == 0 {
			return "nothing is logged"
		}
		return ""
	})
	r.allow(user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/binding"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}})
	r.bound("p")
	r.eventually("it is ready", func() string {
		if got := ready(); got != "200 ok" {
			return got
		}
		return ""
	})
	if got := log.lines("permission is missing"); len(got) != 1 || !strings.Contains(got[0], "list pods, watch pods") {
		t.Errorf("the log names it %d times, want once: %q", len(got), got)
	}
	if got := log.lines("pods is forbidden"); len(got) != 0 {
		t.Errorf("the log repeats what is forbidden: %q", got)
	}
}

// A cluster without GPUs is said once, when it was read.
func TestNoGPUs(t *testing.T) {
	r := newRig(t)
	r.node("plain", 0)
	_, _, log := r.serve(kube.Config{}, command.Serving{Address: "127.0.0.1:0"})
	r.eventually("the log says that there are no GPUs", func() string {
		if len(log.lines("no node offers GPUs")) != 1 {
			return "it does not"
		}
		return ""
	})
}

// outward is an address of this machine that others can reach.
func outward() net.IP {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP
		}
	}
	return nil
}

// certificate writes a certificate for an address, and returns its files.
func (r *rig) certificate(ip net.IP) (cert, key string) {
	r.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.ok(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "headrace"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{ip}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	r.ok(err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	r.ok(err)
	dir := r.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	r.ok(os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	r.ok(os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return cert, key
}

// Beyond the loopback interface, explanations are for those whose token the API
// server knows and who may get the path.
func TestServeBeyondLoopback(t *testing.T) {
	ip := outward()
	if ip == nil {
		t.Skip("this machine has no address besides loopback")
	}
	r := newRig(t)
	r.node("n", 4)
	cert, key := r.certificate(ip)
	s, at, _ := r.serve(kube.Config{}, command.Serving{Address: net.JoinHostPort(ip.String(), "0"), CertFile: cert, KeyFile: key})
	r.eventually("the scheduler has rebuilt its world", func() string { return map[bool]string{false: "not ready"}[s.Ready()] })
	token, err := client.CoreV1().ServiceAccounts(r.namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	r.ok(err)
	as := func(token string) []string {
		config, err := clientcmd.LoadFromFile(kubeconfig)
		r.ok(err)
		for _, context := range config.Contexts {
			config.AuthInfos[context.AuthInfo] = &clientcmdapi.AuthInfo{Token: token}
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		r.ok(clientcmd.WriteToFile(*config, path))
		return []string{"top", "--kubeconfig", path, "--server", "https://" + at.String(), "--server-ca", cert}
	}
	r.fails("401", as("forged")...)
	r.fails("403", as(token.Status.Token)...)
	r.allow("system:serviceaccount:"+r.namespace+":default", rbacv1.PolicyRule{NonResourceURLs: []string{"/explain/v1/*"}, Verbs: []string{"get"}})
	r.says("nodes   1", as(token.Status.Token)...)
	r.fails("certificate", as(token.Status.Token)[:5]...)
	// A certificate of its own making is one, and no proof.
	_, own, _ := r.serve(kube.Config{}, command.Serving{Address: net.JoinHostPort(ip.String(), "0"), SelfSigned: true})
	r.fails("certificate", "top", "--kubeconfig", kubeconfig, "--server", "https://"+own.String())
}
