package devcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	kwokclient "sigs.k8s.io/kwok/pkg/utils/client"

	"github.com/headrace-dev/headrace/live/inventory"
)

const (
	// KWOK's own default of four workers starts 14 pods per second.
	podWorkers, nodeWorkers, leaseWorkers = 32, 32, 8
	// nodeLease is long, so that a laptop has little to do for idle nodes.
	nodeLease = 200
)

// podCompletes ends simulated pods after the time they are marked with.
const podCompletes = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-complete-after
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Running]}
    - {key: '.metadata.annotations["` + inventory.RunFor + `"]', operator: Exists}
  delay:
    durationMilliseconds: 60000
    durationFrom:
      expressionFrom: '.metadata.annotations["` + inventory.RunFor + `"]'
  next:
    statusTemplate: |
      {{ $now := Now }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: false
        restartCount: 0
        started: false
        state:
          terminated: {exitCode: 0, finishedAt: {{ $now | Quote }}, startedAt: {{ $now | Quote }}, reason: Completed}
      {{ end }}
      phase: Succeeded
`

// stages are the ways in which simulated nodes and pods move on.
func stages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	out := make(map[internalversion.StageResourceRef][]*internalversion.Stage)
	for _, text := range []string{
		fast.DefaultNodeInit, heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodDelete, podCompletes,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("read a stage of KWOK: %w", err)
		}
		out[stage.Spec.ResourceRef] = append(out[stage.Spec.ResourceRef], stage)
	}
	return out, nil
}

// startSimulation starts KWOK. It ends with the context.
func startSimulation(ctx context.Context, o *Options, kubeconfig string) error {
	file, err := os.OpenFile(filepath.Join(o.Dir, "kwok.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of KWOK: %w", err)
	}
	context.AfterFunc(ctx, func() { file.Close() })
	ctx = log.NewContext(ctx, log.NewLogger(file, log.LevelWarn))

	c := controllers.Config{
		Clock: clock.RealClock{}, ID: "headrace-devcluster",
		ManageNodesWithAnnotationSelector: inventory.Simulated + "=" + inventory.SimulatedBy,
		CIDR:                              "10.0.0.0/24", NodeIP: "127.0.0.1",
		PodPlayStageParallelism: podWorkers, NodePlayStageParallelism: nodeWorkers,
		NodeLeaseParallelism: leaseWorkers, NodeLeaseDurationSeconds: nodeLease,
		PodsOnNodeSyncParallelism: podWorkers,
	}
	if c.LocalStages, err = stages(); err != nil {
		return err
	}
	set, err := kwokclient.NewClientset("", kubeconfig)
	if err != nil {
		return fmt.Errorf("connect KWOK: %w", err)
	}
	if err := connect(&c, set); err != nil {
		return fmt.Errorf("connect KWOK: %w", err)
	}
	controller, err := controllers.NewController(c)
	if err != nil {
		return fmt.Errorf("start KWOK: %w", err)
	}
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("start KWOK: %w", err)
	}
	return nil
}

// connect fills in the clients.
func connect(c *controllers.Config, set kwokclient.Clientset) error {
	restConfig, err := set.ToRESTConfig()
	if err != nil {
		return err
	}
	if c.RESTClient, err = rest.RESTClientFor(restConfig); err != nil {
		return err
	}
	if c.DynamicClient, err = set.ToDynamicClient(); err != nil {
		return err
	}
	if c.RESTMapper, err = set.ToRESTMapper(); err != nil {
		return err
	}
	if c.TypedClient, err = kubernetes.NewForConfig(restConfig); err != nil {
		return err
	}
	if c.TypedKwokClient, err = versioned.NewForConfig(restConfig); err != nil {
		return err
	}
	c.ImpersonatingDynamicClient = set.ToImpersonatingDynamicClient()
	c.ImpersonatingTypedClient = set.ToImpersonatingTypedClient()
	return nil
}
