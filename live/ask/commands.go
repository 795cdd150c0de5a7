// Package ask has the commands that ask a running scheduler: explain, top and
// queue.
//
//	root.AddCommand(ask.Commands()...)
//
// They find the scheduler through the kubeconfig: a running one writes down where
// it can be asked (kube.Presence). On its own machine they go there; elsewhere a
// tunnel through the API server leads into its pod. docs/explain.md tells more.
package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headrace-dev/headrace/live/explain"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/usage"
)

// options are the flags that all of the commands have.
type options struct {
	kubeconfig, context, namespace string
	server, serverCA               string
	scheduler, schedulerNamespace  string
	output                         string
}

func (o *options) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig (default: $KUBECONFIG, ~/.kube/config, then that of headrace up)")
	f.StringVar(&o.context, "context", "", "the context of the kubeconfig")
	f.StringVar(&o.server, "server", "", "ask the scheduler at this address, as https://HOST:PORT, instead of looking for it")
	f.StringVar(&o.serverCA, "server-ca", "", "the certificate authority of --server, PEM")
	f.StringVar(&o.scheduler, "scheduler", kube.DefaultName, "the name of the scheduler")
	f.StringVar(&o.schedulerNamespace, "scheduler-namespace", "", "where the scheduler writes down where it is, which is the namespace of its lease (default: "+strings.Join(usualNamespaces(), ", then ")+")")
	f.StringVarP(&o.output, "output", "o", "table", "table or json")
}

func (o *options) check() error {
	if o.output != "table" && o.output != "json" {
		return usage.Errorf("--output %q: must be table or json", o.output)
	}
	return nil
}

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{explainCommand(), topCommand(), queueCommand()}
}

// session is one call of a command, with a way to the scheduler.
type session struct {
	*scheduler
	client    kubernetes.Interface
	namespace string
}

// open finds the cluster and the scheduler.
func (o *options) open(ctx context.Context) (*session, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if o.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		rules.Precedence = append(rules.Precedence, LocalKubeconfig())
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) && loopbackServer(o.server) {
		config, err = &rest.Config{}, nil // such a server needs no cluster
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	s := &session{client: client, namespace: o.namespace}
	if s.namespace == "" {
		if s.namespace, _, err = loader.Namespace(); err != nil {
			s.namespace = metav1.NamespaceDefault
		}
	}
	s.scheduler, err = o.reach(ctx, config, client)
	return s, err
}

func loopbackServer(server string) bool {
	at, err := url.Parse(server)
	return err == nil && loopback(at.Hostname())
}

// LocalDir is where headrace up keeps its cluster unless told otherwise.
func LocalDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "headrace", "cluster")
}

// LocalKubeconfig is the kubeconfig of that cluster.
func LocalKubeconfig() string { return filepath.Join(LocalDir(), "kubeconfig") }

func explainCommand() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "explain pod/NAME", Short: "say why a pod waits, or why it is where it is",
		Long: "Says whether the pod can be placed now, after something has left, after a change, or never; what binds it, in\n" +
			"numbers; what would help; what each kind of node answers. For a placed pod: where, on which devices, and how\n" +
			"the next best nodes scored.",
		Args: func(_ *cobra.Command, args []string) error {
			_, err := podNamed(args)
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			name, _ := podNamed(args)
			return o.explain(c.Context(), name, c.OutOrStdout())
		},
	}
	o.flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", "", "the pod's namespace (default: the context's)")
	return c
}

// podNamed reads pod/NAME, pod NAME and the like.
func podNamed(args []string) (string, error) {
	kind, name := "", ""
	switch len(args) {
	case 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case 2:
		kind, name = args[0], args[1]
	}
	if kind != "pod" && kind != "pods" && kind != "po" || name == "" || strings.Contains(name, "/") {
		return "", usage.Errorf("explain %q: must be pod/NAME", strings.Join(args, " "))
	}
	return name, nil
}

func (o *options) explain(ctx context.Context, name string, out io.Writer) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	var answer explain.Pod
	err = s.get(ctx, explain.PodPath+url.PathEscape(s.namespace)+"/"+url.PathEscape(name), &answer)
	if errors.Is(err, errNotFound) {
		return s.unknown(ctx, name)
	}
	if err != nil {
		return err
	}
	return o.show(out, &answer, func() { answer.Text(out) })
}

// unknown says why the scheduler does not know a pod.
func (s *session) unknown(ctx context.Context, name string) error {
	p, err := s.client.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("no pod %s in namespace %s", name, s.namespace)
	case err != nil:
		return fmt.Errorf("the scheduler knows no pod %s in namespace %s, and the API server does not say why: %w", name, s.namespace, err)
	case p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
		return fmt.Errorf("pod %s has ended (%s)", name, p.Status.Phase)
	}
	return fmt.Errorf("pod %s is not Headrace's to place: its schedulerName is %q", name, p.Spec.SchedulerName)
}

func (o *options) show(out io.Writer, answer any, text func()) error {
	if o.output == "table" {
		text()
		return nil
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(answer)
}

func queueCommand() *cobra.Command {
	var o options
	limit := 50
	c := &cobra.Command{
		Use: "queue", Short: "list the waiting pods in the order of their turn, with what binds them", Args: usage.NoArgumentsTo,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if limit < 1 {
				return usage.Errorf("--limit %d: must be at least 1", limit)
			}
			s, err := o.open(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			var answer explain.Queue
			if err := s.get(c.Context(), fmt.Sprintf("%s?limit=%d", explain.QueuePath, limit), &answer); err != nil {
				return err
			}
			return o.show(c.OutOrStdout(), &answer, func() { answer.Text(c.OutOrStdout()) })
		},
	}
	o.flags(c)
	c.Flags().IntVar(&limit, "limit", limit, "how many pods to list")
	return c
}

// topOptions are the flags of top.
type topOptions struct {
	options
	nodes int
	every time.Duration
	once  bool
}

// quickest is the shortest pause between two questions of top.
const quickest = 200 * time.Millisecond

func topCommand() *cobra.Command {
	o := topOptions{}
	c := &cobra.Command{
		Use: "top", Short: "show nodes, GPUs in use and what pods wait for, again and again", Args: usage.NoArgumentsTo,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			switch {
			case o.nodes < 0:
				return usage.Errorf("--nodes %d: must not be negative", o.nodes)
			case o.every < quickest:
				return usage.Errorf("--every %v: must be at least %v", o.every, quickest)
			}
			return o.top(c.Context(), c.OutOrStdout())
		},
	}
	o.flags(c)
	f := c.Flags()
	f.IntVar(&o.nodes, "nodes", 20, "how many nodes to list")
	f.DurationVar(&o.every, "every", 2*time.Second, "how often to look, on a terminal")
	f.BoolVar(&o.once, "once", false, "look once")
	return c
}

// top draws the cluster at a glance: on a terminal again and again, until the
// context ends.
func (o *topOptions) top(ctx context.Context, out io.Writer) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	file, isFile := out.(*os.File)
	live := !o.once && o.output == "table" && isFile && term.IsTerminal(int(file.Fd()))
	for {
		var answer explain.Top
		if err := s.get(ctx, fmt.Sprintf("%s?limit=%d", explain.TopPath, max(o.nodes, 1)), &answer); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !live {
			return o.show(out, &answer, func() { answer.Text(out, o.nodes) })
		}
		var text strings.Builder
		answer.Text(&text, o.nodes)
		// Home, the picture with the rest of each line cleared, and all below it cleared.
		fmt.Fprint(out, "\x1b[H", strings.ReplaceAll(text.String(), "\n", "\x1b[K\n"), "\x1b[J")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.every):
		}
	}
}
