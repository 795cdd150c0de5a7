package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// The most that is asked of the API server per second. It has fairness of its
// own; the limit is far above what it can bind.
const clientQPS, clientBurst = 5000, 10000

// Connect returns a client for a kubeconfig, or for the pod that this runs in
// when path is empty.
func Connect(path string) (kubernetes.Interface, error) {
	c, err := configOf(path)
	if err != nil {
		return nil, err
	}
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Host, err)
	}
	return client, nil
}

// ConnectDynamic returns a client for objects without Go types of their own.
func ConnectDynamic(path string) (dynamic.Interface, error) {
	c, err := configOf(path)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Host, err)
	}
	return client, nil
}

func configOf(path string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %q: %w", path, err)
	}
	c = rest.CopyConfig(c)
	c.QPS, c.Burst, c.UserAgent = clientQPS, clientBurst, "headrace-scheduler"
	c.WarningHandler = quiet{}
	return c, nil
}

// quiet takes the warnings of the API server, of versions that will go one day:
// they come with every answer, and only who maintains this can do anything about
// them.
type quiet struct{}

func (quiet) HandleWarningHeader(_ int, _, message string) {
	klog.V(2).InfoS("the API server warns", "message", message)
}

// Policies lists the policies by name.
func Policies() []string {
	names := []string{engine.Headrace().Name}
	for _, r := range rivals.All() {
		names = append(names, r.Name)
	}
	return names
}

// PolicyNamed returns a policy.
func PolicyNamed(name string) (*engine.Policy, error) {
	if p := engine.Headrace(); p.Name == name {
		return p, nil
	}
	for _, r := range rivals.All() {
		if r.Name == name {
			return r.Policy(rivals.Side{}), nil
		}
	}
	return nil, fmt.Errorf("no policy %q: there are %s", name, strings.Join(Policies(), ", "))
}
