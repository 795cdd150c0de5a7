package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headrace-dev/headrace/live/ask"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
	"github.com/headrace-dev/headrace/live/usage"
	"github.com/headrace-dev/headrace/live/whatif"
)

// listWithin bounds the reading of one kind of object.
const listWithin = time.Minute

// whatifOptions are the flags of whatif.
type whatifOptions struct {
	fromCluster                                                        bool
	kubeconfig, context, namespace, file, policy, gpu, scheduler, form string
	copies                                                             int
}

func whatifCommand() *cobra.Command {
	o := whatifOptions{}
	c := &cobra.Command{
		Use: "whatif --from-cluster [-f POD_OR_JOB.yaml]", Args: usage.NoArgumentsTo,
		Short: "say when pods would start if they were submitted now, and who would pay",
		Long: "Reads nodes, pods, priority classes and disruption budgets of the cluster, and places the pods of the file as the\n" +
			"scheduler would: on which node now, or when by the run times that others declared, or as soon as which pods end,\n" +
			"and who would be evicted. Without a file it answers for the pods that wait. Nothing is written to the cluster,\n" +
			"and no scheduler has to run.",
		Example: "  headrace whatif --from-cluster -f train.yaml --copies 4\n  headrace whatif --from-cluster --output json",
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case !o.fromCluster:
				return usage.Errorf("whatif needs --from-cluster: there is nothing else to read from")
			case o.form != "table" && o.form != "json":
				return usage.Errorf("--output %s: must be table or json", o.form)
			case o.copies < 0 || o.copies > whatif.MostCopies:
				return usage.Errorf("--copies %d: must be 0 to %d", o.copies, whatif.MostCopies)
			case o.copies > 0 && o.file == "":
				return usage.Errorf("--copies needs a file with -f")
			}
			return o.run(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.fromCluster, "from-cluster", false, "read the cluster of the kubeconfig")
	f.StringVarP(&o.file, "filename", "f", "", "a Pod or a Job, as YAML or JSON; - is the standard input (default: the pods that wait)")
	f.IntVar(&o.copies, "copies", 0, "how many such pods (0: one, or as many as the job runs at a time)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig (default: $KUBECONFIG, ~/.kube/config, then that of headrace up)")
	f.StringVar(&o.context, "context", "", "the context of the kubeconfig")
	f.StringVarP(&o.namespace, "namespace", "n", "", "the namespace of pods that name none (default: that of the context)")
	f.StringVar(&o.scheduler, "scheduler-name", kube.DefaultName, "the schedulerName of the pods that the scheduler takes")
	f.StringVar(&o.policy, "policy", "headrace", "the policy that decides: "+strings.Join(kube.Policies(), ", "))
	f.StringVar(&o.gpu, "gpu-resource", string(kube.DefaultGPU), "the extended resource under which nodes offer GPUs")
	f.StringVarP(&o.form, "output", "o", "table", "table or json")
	return c
}

func (o *whatifOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	policy, err := kube.PolicyNamed(o.policy)
	if err != nil {
		return usage.Of(err)
	}
	var text []byte
	switch o.file {
	case "":
	case "-":
		text, err = io.ReadAll(io.LimitReader(in, whatif.MostManifest+1))
	default:
		text, err = os.ReadFile(o.file)
	}
	if err != nil {
		return fmt.Errorf("read the manifest: %w", err)
	}
	client, err := o.connect()
	if err != nil {
		return err
	}
	config := kube.Config{Name: o.scheduler, Policy: policy, GPU: corev1.ResourceName(o.gpu)}
	cluster, submission, err := o.read(ctx, client)
	if err != nil {
		return err
	}
	wanted := waiting(cluster, &config)
	if o.file != "" {
		if wanted, err = submission.Read(text); err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
	}
	answer := whatif.Ask(cluster, config, wanted)
	if o.form == "json" {
		return json.NewEncoder(out).Encode(answer)
	}
	answer.Write(out)
	return nil
}

// connect returns a client for the kubeconfig, and sets the namespace.
func (o *whatifOptions) connect() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	if o.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		rules.Precedence = append(rules.Precedence, ask.LocalKubeconfig())
	}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if o.namespace == "" {
		if o.namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

// read lists what is asked of the cluster. Nothing is written.
func (o *whatifOptions) read(ctx context.Context, client kubernetes.Interface) (*whatif.Cluster, *whatif.Submission, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	nodes, err1 := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	pods, err2 := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"})
	classes, err3 := client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	budgets, err4 := client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, fmt.Errorf("read the cluster: %w", err)
	}
	s := &whatif.Submission{Namespace: o.namespace, Scheduler: o.scheduler, Copies: o.copies, Classes: classes.Items, Taken: make(map[string]bool, len(pods.Items))}
	for i := range pods.Items {
		s.Taken[facts.Key(&pods.Items[i])] = true
	}
	return &whatif.Cluster{Now: time.Now(), Nodes: nodes.Items, Pods: pods.Items, Budgets: budgets.Items}, s, nil
}

// waiting are the pods of the cluster that wait for the scheduler.
func waiting(c *whatif.Cluster, k *kube.Config) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.Spec.NodeName == "" && p.Spec.SchedulerName == k.Name && p.DeletionTimestamp == nil && len(out) < whatif.MostCopies {
			out = append(out, p)
		}
	}
	return out
}
