package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The most that churn keeps at a time, so that some pods always wait.
const (
	churnNodes = 12
	churnPods  = 150
)

// churn lets pods arrive, end and be deleted, and nodes come, fail and go, at
// random, until it is paused.
type churn struct {
	rig    *rig
	random *rand.Rand
	every  time.Duration // between two things that happen
	nodes  []string
	pods   []string
	named  int
	done   map[string]int
}

func (r *rig) newChurn(seed int64, every time.Duration) *churn {
	c := &churn{rig: r, random: rand.New(rand.NewSource(seed)), every: every, done: make(map[string]int)}
	for range churnNodes / 2 {
		c.addNode()
	}
	return c
}

// run starts the churn, and returns what pauses it: after that, nothing is being
// written.
func (c *churn) run() (pause func()) {
	stop := make(chan struct{})
	var running sync.WaitGroup
	// Ends with stop.
	running.Go(func() {
		ticker := time.NewTicker(c.every)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				c.step()
			}
		}
	})
	var once sync.Once
	return func() {
		once.Do(func() {
			close(stop)
			running.Wait()
		})
	}
}

func (c *churn) step() {
	switch n := c.random.Intn(20); {
	case n < 10:
		if len(c.pods) < churnPods {
			c.addPod()
		}
	case n < 14:
		c.dropPod()
	case n < 17:
		c.finishPod()
	case n < 18:
		if len(c.nodes) < churnNodes {
			c.addNode()
		}
	case n < 19:
		c.turnNode()
	default:
		if len(c.nodes) > churnNodes/3 {
			c.dropNode()
		}
	}
}

func (c *churn) name(kind string) string {
	c.named++
	return fmt.Sprintf("%s-%d", kind, c.named)
}

// wrote reports an error, unless what was written to is gone.
func (c *churn) wrote(what string, err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		c.rig.Errorf("churn: %s: %v", what, err)
	}
	c.done[what]++
}

func (c *churn) addPod() {
	p := podOf(c.name("p"), []int{0, 1, 1, 1, 2, 4, 8}[c.random.Intn(7)])
	_, err := client.CoreV1().Pods(c.rig.namespace).Create(context.Background(), p, metav1.CreateOptions{})
	c.wrote("create a pod", err)
	c.pods = append(c.pods, p.Name)
}

// takePod returns the name of a pod, which churn forgets.
func (c *churn) takePod() string {
	if len(c.pods) == 0 {
		return ""
	}
	i := c.random.Intn(len(c.pods))
	name := c.pods[i]
	c.pods[i] = c.pods[len(c.pods)-1]
	c.pods = c.pods[:len(c.pods)-1]
	return name
}

func (c *churn) dropPod() {
	if name := c.takePod(); name != "" {
		c.wrote("delete a pod", client.CoreV1().Pods(c.rig.namespace).Delete(context.Background(), name, *metav1.NewDeleteOptions(0)))
	}
}

func (c *churn) finishPod() {
	if name := c.takePod(); name != "" {
		_, err := client.CoreV1().Pods(c.rig.namespace).Patch(context.Background(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
		c.wrote("finish a pod", err)
	}
}

func (c *churn) addNode() {
	name := c.name("n")
	c.rig.node(name, 8)
	c.done["add a node"]++
	c.nodes = append(c.nodes, name)
}

func (c *churn) dropNode() {
	i := c.random.Intn(len(c.nodes))
	name := c.nodes[i]
	c.nodes = append(c.nodes[:i], c.nodes[i+1:]...)
	c.wrote("delete a node", client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// turnNode makes a node fail, or heal.
func (c *churn) turnNode() {
	if len(c.nodes) == 0 {
		return
	}
	status := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown}[c.random.Intn(2)]
	c.wrote("turn a node", setReady(c.nodes[c.random.Intn(len(c.nodes))], status))
}

// setReady writes whether a node is ready.
func setReady(node string, status corev1.ConditionStatus) error {
	what := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	_, err := client.CoreV1().Nodes().Patch(context.Background(), node, types.StrategicMergePatchType, []byte(what), metav1.PatchOptions{}, "status")
	return err
}
