package kube

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/rivals"
)

// The most that is asked of the API server per second. It has fairness of its
// own; the limit is far above what it can bind.
const clientQPS, clientBurst = 5000, 10000

// Connect returns a client for a kubeconfig, or for the pod that this runs in
// when path is empty.
func Connect(path string) (kubernetes.Interface, error) {
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %q: %w", path, err)
	}
	c = rest.CopyConfig(c)
	c.QPS, c.Burst, c.UserAgent = clientQPS, clientBurst, "headrace-scheduler"
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Host, err)
	}
	return client, nil
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
