package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/usage"
)

// run runs one command line and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	root := &cobra.Command{Use: "headrace", SilenceErrors: true, SilenceUsage: true}
	root.SetFlagErrorFunc(usage.Flag)
	root.AddCommand(Commands()...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Faults in the command line are told apart from what goes wrong later, and name
// the value and what is allowed.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"explain":                      `explain "": must be pod/NAME`,
		"explain node/x":               `explain "node/x": must be pod/NAME`,
		"explain pod/":                 `explain "pod/": must be pod/NAME`,
		"explain pod/a/b":              `explain "pod/a/b": must be pod/NAME`,
		"explain pod a b":              `explain "pod a b": must be pod/NAME`,
		"explain pod/x -o yaml":        `--output "yaml": must be table or json`,
		"explain pod/x --nonsense":     `unknown flag: --nonsense`,
		"queue x":                      `queue takes no arguments, got "x"`,
		"queue --limit 0":              `--limit 0: must be at least 1`,
		"top --nodes -1":               `--nodes -1: must not be negative`,
		"top --every 1ms":              `--every 1ms: must be at least 200ms`,
		"top --server ftp://127.0.0.1": `--server "ftp://127.0.0.1": must be http://HOST:PORT or https://HOST:PORT`,
	} {
		if _, err := run(t, strings.Fields(args)...); err == nil || err.Error() != want || usage.ExitCode(err) != 2 {
			t.Errorf("%s: %v (exit code %v), want %s", args, err, usage.ExitCode(err), want)
		}
	}
	for _, verb := range []string{"explain", "top", "queue"} {
		if out, err := run(t, verb, "--help"); err != nil || !strings.Contains(out, "--scheduler-namespace") {
			t.Errorf("%s --help: %v: %s", verb, err, out)
		}
	}
}

// answering stands in for a scheduler.
func answering(t *testing.T, answers map[string]any) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			return
		}
		value, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			value = explain.Failure{Error: "no such pod"}
		}
		_ = json.NewEncoder(w).Encode(value)
	}))
	t.Cleanup(s.Close)
	return s
}

// With --server the scheduler is asked there; a table and JSON say the same.
func TestAskServer(t *testing.T) {
	s := answering(t, map[string]any{
		explain.PodPath + "default/p": explain.Pod{Namespace: "default", Name: "p", Verdict: explain.Never, Reason: &explain.Reason{Code: "DeviceCount", Says: "too large"}},
		explain.QueuePath:             explain.Queue{Total: 1, Pods: []explain.Queued{{Turn: 1, Namespace: "default", Name: "p", Says: "too large"}}},
		explain.TopPath:               explain.Top{Nodes: 3, NodesReady: 2, GPUs: 8, GPUsHeld: 2},
	})
	for args, want := range map[string]string{
		"explain pod/p":         "can never be placed in this cluster",
		"explain pod p -o json": `"code": "DeviceCount"`,
		"queue":                 "TURN   NAMESPACE   POD",
		"queue -o json":         `"total": 1`,
		"top":                   "GPUs    8, 2 held (25 %)",
		"top --once -o json":    `"gpus_held": 2`,
	} {
		out, err := run(t, append(strings.Fields(args), "--server", s.URL)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s\nwant %q", args, err, out, want)
		}
	}
}

// Without --server the scheduler is looked for where it wrote down that it is.
func TestReach(t *testing.T) {
	s := answering(t, nil)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	at := func(data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kube.DefaultNamespace, Name: kube.PresenceName(kube.DefaultName)}, Data: data}
	}
	for _, c := range []struct {
		name string
		m    *corev1.ConfigMap
		want string // of the error; empty: it is reached
	}{
		{"here", at(map[string]string{kube.PresenceURL: s.URL, kube.PresenceHost: host}), ""},
		{"not written down", nil, "no ConfigMap headrace-scheduler in namespace kube-system or headrace-system"},
		{"gone", at(map[string]string{kube.PresenceURL: "http://127.0.0.1:1", kube.PresenceHost: host}), "Tried:\nhttp://127.0.0.1:1 on this machine:"},
		{"elsewhere", at(map[string]string{kube.PresenceURL: s.URL, kube.PresenceHost: "elsewhere"}), "it is on the machine elsewhere, this is " + host},
		{"no address", at(map[string]string{kube.PresenceURL: "https://evil.example:443", kube.PresenceHost: host}), "which is no address on a loopback interface"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset()
			if c.m != nil {
				client = fake.NewClientset(c.m)
			}
			o := options{scheduler: kube.DefaultName}
			way, err := o.reach(t.Context(), &rest.Config{}, client)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%v, want it reached", err)
			case c.want == "":
				way.close()
			case err == nil || !strings.Contains(err.Error(), c.want):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A pod that the scheduler does not know has ended, is another's, or is not there.
func TestUnknownPod(t *testing.T) {
	pod := func(name, scheduler string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{SchedulerName: scheduler}, Status: corev1.PodStatus{Phase: phase}}
	}
	s := session{namespace: "ns", client: fake.NewClientset(pod("ended", "headrace", corev1.PodFailed), pod("other", "default-scheduler", corev1.PodPending))}
	for name, want := range map[string]string{
		"ended":  "pod ended has ended (Failed)",
		"other":  `pod other is not Headrace's to place: its schedulerName is "default-scheduler"`,
		"nobody": "no pod nobody in namespace ns",
	} {
		if err := s.unknown(context.Background(), name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// The token of the kubeconfig is shown to no server that does not prove who it is.
func TestTokenStaysHome(t *testing.T) {
	seen := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer s.Close()
	config := &rest.Config{BearerToken: "secret"}
	o := options{server: s.URL}
	way, err := o.direct(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := way.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "" {
		t.Errorf("the loopback server was shown %q", got)
	}
	o.server = "http://192.0.2.1:80"
	if _, err := o.direct(config); usage.ExitCode(err) != 2 {
		t.Errorf("plain HTTP beyond loopback: %v, want a fault in the command line", err)
	}
	strange := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") }))
	defer strange.Close()
	client, err := (&options{server: "https://example.invalid"}).direct(config)
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strange.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := client.client.Do(q); err == nil {
		answer.Body.Close()
		t.Error("a server with a certificate of its own making was believed")
	}
	select {
	case got := <-seen:
		t.Errorf("it was shown %q", got)
	default:
	}
}
