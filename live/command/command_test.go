package command

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/headrace-dev/headrace/live/usage"
)

// Faults in the command line exit with 2 and name the flag, the value and what is
// allowed.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"x":                                 `no arguments are taken, got "x"`,
		"--nonsense":                        `unknown flag: --nonsense`,
		"--policy none":                     `no policy "none": there are headrace, fgd,`,
		"--profile a":                       `--profile: profile "a": must be NAME=POLICY`,
		"--profile a=none":                  `--profile: profile "a=none": no policy "none": there are headrace,`,
		"--profile a=fgd --policy fgd":      `--profile replaces --scheduler-name and --policy: give either`,
		"--run-tiers 16h,1h":                `--run-tiers 16h,1h: "1h": must be times above 0 as 1h or 30m, each longer than the one before, or none`,
		"--tidy some":                       `--tidy "some": must be off, waiting, nodes, demand, all`,
		"--surge":                           "--surge: without --tidy nobody moves",
		"--run-tiers 1h --preemption=false": `--run-tiers 1h: without --preemption nobody is set back`,
		"--reserve some":                    `--reserve "some": must be off, head, all`,
		"--sla-class nightly":               `--sla-class nightly: must be NAME:KEY=VALUE`,
		"--sla-class x:gives=often":         `--sla-class x:gives=often: "gives=often": must be NAME:KEY=VALUE[,KEY=VALUE] with total=TIME`,
		"--sla-class x:per-run=NaN":         `--sla-class x:per-run=NaN: "per-run=NaN": must be`,
		"--sla-class x:total=-1h":           `--sla-class x:total=-1h: "total=-1h": must be`,
		"--sla-class x:from-priority=3 --sla-class y:from-priority=3": `--sla-class y:from-priority=3: SLA class "y": from priority 3: must be another one than that of class x`,
		"--events some":                       `--events: no event mode "some": there are changes, all, none`,
		"--log-format xml":                    `--log-format "xml": must be text or json`,
		"--image-cache-share 0.9":             `--image-cache-share 0.9: must be above 0 and at most 0.85`,
		"--image-cache-share NaN":             `--image-cache-share NaN: must be above 0`,
		"--image-rate fast":                   `--image-rate "fast": must be a quantity above 0`,
		"--image-rate 0":                      `--image-rate "0": must be a quantity above 0`,
		"--prefetch --place-by-caches=false":  `--prefetch: not with --place-by-caches=false`,
		"--dense --place-by-caches=false":     `--dense: not with --place-by-caches=false`,
		"--prefetch --prefetch-pause-image X": `--prefetch-pause-image "X": must be the reference of an image`,
		"--prefetch --prefetch-pull-secret A": `--prefetch-pull-secret "A": must be the name of a secret`,
		"--prefetch-first":                    `--prefetch-first: without --prefetch nothing is fetched`,
		"--prefetch-pull-secret a":            `--prefetch-pull-secret a: without --prefetch nothing is fetched`,
		"--serve 10270":                       `--serve "10270": must be HOST:PORT`,
		"--serve :10270":                      `--serve ":10270": beyond the loopback interface only with --serve-tls-cert and --serve-tls-key, or with --serve-self-signed`,
		"--serve 0.0.0.0:1":                   `--serve "0.0.0.0:1": beyond the loopback interface only with --serve-tls-cert and --serve-tls-key`,
		"--serve-tls-cert c":                  `--serve-tls-cert and --serve-tls-key come together`,
		"--serve :1 --serve-tls-cert c --serve-tls-key k --profiling": `--profiling: only where --serve is on the loopback interface, not at ":1"`,
		"--leader-elect-retry-period 0s":                              `--leader-elect-retry-period 0s: must be above 0`,
	} {
		c := Scheduler()
		c.SetArgs(strings.Fields(args))
		c.SetOut(io.Discard)
		err := c.ExecuteContext(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), want) || usage.ExitCode(err) != 2 {
			t.Errorf("%s: %v (exit code %d), want %s", args, err, usage.ExitCode(err), want)
		}
	}
	c := Scheduler()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs([]string{"--help"})
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "--profile ") {
		t.Errorf("--help: %v: %s", err, out.String())
	}
	c = Scheduler()
	c.SetArgs([]string{"--kubeconfig", "/nowhere/at/all"})
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), `read the kubeconfig "/nowhere/at/all"`) || usage.ExitCode(err) != 1 {
		t.Errorf("no kubeconfig: %v (exit code %d)", err, usage.ExitCode(err))
	}
}

// From beyond the loopback interface, health is for all, the rest for tokens that
// the API server knows and whose owners may get the path.
func TestGuard(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		r := action.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		r.Status.Authenticated = r.Spec.Token != "forged"
		r.Status.User.Username = r.Spec.Token
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(action kubetesting.Action) (bool, runtime.Object, error) {
		r := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		r.Status.Allowed = r.Spec.User == "prometheus" && r.Spec.NonResourceAttributes.Path == "/metrics" && r.Spec.NonResourceAttributes.Verb == "get"
		return true, r, nil
	})
	h := guard(client, slog.New(slog.DiscardHandler), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		from, path, token string
		want              int
	}{
		{"127.0.0.1:5", "/explain/v1/queue", "", 200},
		{"[::1]:5", "/metrics", "", 200},
		{"192.0.2.1:5", "/healthz", "", 200},
		{"192.0.2.1:5", "/readyz", "", 200},
		{"192.0.2.1:5", "/metrics", "", 401},
		{"192.0.2.1:5", "/metrics", "forged", 401},
		{"192.0.2.1:5", "/metrics", "somebody", 403},
		{"192.0.2.1:5", "/metrics", "prometheus", 200},
		{"192.0.2.1:5", "/explain/v1/queue", "prometheus", 403},
		{"garbage", "/metrics", "", 401},
	} {
		q := httptest.NewRequest(http.MethodGet, c.path, nil)
		q.RemoteAddr = c.from
		if c.token != "" {
			q.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, q); w.Code != c.want {
			t.Errorf("%s from %s with token %q: %d, want %d", c.path, c.from, c.token, w.Code, c.want)
		}
	}
	// A flood of tokens does not reach the API server.
	refused := 0
	for range 2 * reviewsBurst {
		q := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		q.RemoteAddr = "192.0.2.1:5"
		q.Header.Set("Authorization", "Bearer forged")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, q); w.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused < reviewsBurst/2 {
		t.Errorf("of %d requests with forged tokens %d were refused unseen", 2*reviewsBurst, refused)
	}
}
