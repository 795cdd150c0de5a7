package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/manifest"
)

const (
	chartDir      = "../../charts/headrace"
	plainManifest = "../../deploy/headrace.yaml"
	// restricted is the label that holds the pods of a namespace to the strictest
	// standard.
	restricted = "pod-security.kubernetes.io/enforce"
	fieldOwner = "packaging-test"
)

// space makes a namespace for a release, and takes it away in the end.
func (r *rig) space() string {
	r.Helper()
	s, err := client.CoreV1().Namespaces().Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "release-", Labels: map[string]string{restricted: "restricted"},
	}}, metav1.CreateOptions{})
	r.ok(err)
	r.Cleanup(func() {
		r.ok(client.CoreV1().Namespaces().Delete(context.Background(), s.Name, metav1.DeleteOptions{}))
	})
	return s.Name
}

// installer returns a function that applies objects as kubectl apply --server-side
// does, with unknown and doubled fields refused.
func (r *rig) installer() func(o *unstructured.Unstructured, dryRun ...string) error {
	r.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	r.ok(err)
	d, err := dynamic.NewForConfig(config)
	r.ok(err)
	groups, err := restmapper.GetAPIGroupResources(client.Discovery())
	r.ok(err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	force := true // what another test has made may be taken over
	return func(o *unstructured.Unstructured, dryRun ...string) error {
		kind := o.GroupVersionKind()
		m, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		data, err := json.Marshal(o)
		if err != nil {
			return err
		}
		_, err = d.Resource(m.Resource).Namespace(o.GetNamespace()).Patch(r.Context(), o.GetName(), types.ApplyYAMLPatchType, data,
			metav1.PatchOptions{FieldManager: fieldOwner, FieldValidation: metav1.FieldValidationStrict, Force: &force, DryRun: dryRun})
		if err == nil && len(dryRun) == 0 {
			r.Cleanup(func() {
				_ = d.Resource(m.Resource).Namespace(o.GetNamespace()).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
			})
		}
		return err
	}
}

// chartObjects renders the chart.
func (r *rig) chartObjects(space string, values map[string]any) []manifest.Object {
	r.Helper()
	objects, err := manifest.Render(chartDir, manifest.Release{Name: space, Namespace: space}, values)
	r.ok(err)
	return objects
}

// The API server takes every object of the chart, with all that can be set, and
// none with a field that it does not know.
func TestChartApplies(t *testing.T) {
	r := newRig(t)
	space, apply := r.space(), r.installer()
	full := map[string]any{
		"imagePullSecrets":  []any{map[string]any{"name": "pull"}},
		"serviceAccount":    map[string]any{"annotations": map[string]any{"a": "b"}},
		"podAnnotations":    map[string]any{"a": "b"},
		"podLabels":         map[string]any{"team": "platform"},
		"nodeSelector":      map[string]any{"kubernetes.io/os": "linux"},
		"tolerations":       []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}},
		"affinity":          map[string]any{"nodeAffinity": map[string]any{}},
		"extraVolumes":      []any{map[string]any{"name": "journal", "emptyDir": map[string]any{}}},
		"extraVolumeMounts": []any{map[string]any{"name": "journal", "mountPath": "/journal"}},
		"scheduler":         map[string]any{"verbose": true, "extraArgs": []any{"--policy=headrace"}},
		"service":           map[string]any{"annotations": map[string]any{"a": "b"}},
		"serving":           map[string]any{"certificateSecret": "tls"},
		"prefetch":          map[string]any{"enabled": true, "pullSecrets": []any{"pull"}},
		"admission":         map[string]any{"enabled": true, "certificateSecret": "tls", "caBundle": ""},
		"networkPolicy": map[string]any{"metricsFrom": []any{map[string]any{
			"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "monitoring"}},
		}}},
	}
	for _, values := range []map[string]any{nil, full} {
		for _, o := range r.chartObjects(space, values) {
			if err := apply(&o.Unstructured, metav1.DryRunAll); err != nil {
				t.Errorf("%s %s: %v\n%s", o.GetKind(), o.GetName(), err, o.Text)
			}
		}
	}
	for _, o := range r.chartObjects(space, nil) {
		if o.GetKind() != "Deployment" {
			continue
		}
		r.ok(unstructured.SetNestedField(o.Object, int64(2), "spec", "replica"))
		if err := apply(&o.Unstructured, metav1.DryRunAll); err == nil || !strings.Contains(err.Error(), "replica") {
			t.Errorf("a deployment with a field that is not known: error %v, want one that names it", err)
		}
	}
}

// The API server takes the plain manifests, in their order.
func TestPlainManifestsApply(t *testing.T) {
	r := newRig(t)
	apply := r.installer()
	manifests, err := os.ReadFile(plainManifest)
	r.ok(err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), len(manifests))
	n := 0
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n++
		if o.GetKind() == "Namespace" {
			// One that is only tried does not hold what comes after it; one from an
			// earlier run may be going yet.
			r.eventually("namespace "+o.GetName()+" is there", func() string {
				if err := apply(o); err != nil {
					return err.Error()
				}
				s, err := client.CoreV1().Namespaces().Get(t.Context(), o.GetName(), metav1.GetOptions{})
				if err == nil && s.Status.Phase != corev1.NamespaceActive {
					return "it is " + string(s.Status.Phase)
				}
				return text(err)
			})
			continue
		}
		if err := apply(o, metav1.DryRunAll); err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	definitions, err := manifest.Definitions(chartDir)
	r.ok(err)
	if want := 1 + len(definitions) + len(r.chartObjects("any", nil)); n != want {
		t.Errorf("%d objects, want %d: a namespace and what the chart makes", n, want)
	}
}

// The chart's pods are allowed where the strictest standard is enforced, and that
// standard is.
func TestChartPodIsRestricted(t *testing.T) {
	r := newRig(t)
	space := r.space()
	pod := r.chartPod(space, nil)
	pod.Spec.ServiceAccountName = ""
	try := func() error {
		_, err := client.CoreV1().Pods(space).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	r.eventually("the namespace has a service account", func() string {
		_, err := client.CoreV1().ServiceAccounts(space).Get(t.Context(), "default", metav1.GetOptions{})
		return text(err)
	})
	r.ok(try())
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	if err := try(); err == nil || !strings.Contains(err.Error(), "runAsNonRoot") {
		t.Errorf("a pod that may run as root: error %v, want it refused", err)
	}
}

// chartPod returns the pod of the chart's deployment.
func (r *rig) chartPod(space string, values map[string]any) *corev1.Pod {
	r.Helper()
	objects := r.chartObjects(space, values)
	i := slices.IndexFunc(objects, func(o manifest.Object) bool { return o.GetKind() == "Deployment" })
	var d appsv1.Deployment
	r.ok(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, &d))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "scheduler"}, Spec: d.Spec.Template.Spec}
}

// With the permissions of the chart and no others, and with the chart's own
// flags, the scheduler takes its lease, binds what fits, allocates claims, evicts, says
// on pods and groups why the rest waits, and tells where it can be asked.
func TestChartPermissionsSuffice(t *testing.T) {
	r := newRig(t)
	space := r.space()
	r.grant(space, nil)
	r.runChart(space, nil)
	r.node("n-1", 2)
	r.create(podOf("fits", 2))
	r.bound("fits")
	r.cards("n-2", 1)
	r.claim("card", asking(1))
	r.create(podOf("claims", 0, with("card")))
	r.bound("claims")
	r.sound()
	r.create(podOf("waits", 1))
	r.waits("waits", "idle device")
	r.eventually("an event says so", func() string {
		list, err := client.EventsV1().Events(r.namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			return "there is none"
		}
		return text(err)
	})
	group := &groupKinds[0]
	group.create(r, "group", 2)
	r.create(group.members("group", 2)...)
	group.says(r, "group", metav1.ConditionFalse, "")
	r.create(podOf("urgent", 2, r.urgent()))
	r.gone(r.oneLeaves())
	r.bound("urgent")
	lease, err := client.CoordinationV1().Leases(space).Get(t.Context(), kube.DefaultName, metav1.GetOptions{})
	r.ok(err)
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("the lease is %+v, want it held", lease.Spec)
	}
	r.answers(space)
}

// grant gives the account of the chart what the chart says.
func (r *rig) grant(space string, values map[string]any) {
	r.Helper()
	apply := r.installer()
	for _, o := range r.chartObjects(space, values) {
		if slices.Contains([]string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}, o.GetKind()) {
			r.ok(apply(&o.Unstructured))
		}
	}
}

// runChart runs the scheduler as the chart does, with its account and flags.
func (r *rig) runChart(space string, values map[string]any) {
	r.Helper()
	pod := r.chartPod(space, values)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c := command.Scheduler()
	c.SetArgs(append(slices.Clone(pod.Spec.Containers[0].Args),
		"--kubeconfig="+r.kubeconfigOf(space, pod.Spec.ServiceAccountName), "--serve=127.0.0.1:0"))
	go func() { done <- c.ExecuteContext(ctx) }() // ends with ctx
	r.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("the scheduler: %v", err)
		}
	})
}

// answers finds the leader as the command line does and asks after its health, by
// TLS.
func (r *rig) answers(space string) {
	r.Helper()
	where, err := client.CoreV1().ConfigMaps(space).Get(r.Context(), kube.PresenceName(kube.DefaultName), metav1.GetOptions{})
	r.ok(err)
	url := where.Data[kube.PresenceURL]
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		r.Fatalf("the leader says it is at %q, want https on the loopback interface", url)
	}
	// A certificate of the scheduler's own making cannot be checked.
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: patience}
	defer c.CloseIdleConnections()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		answer, err := c.Get(url + path)
		r.ok(err)
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			r.Errorf("%s%s: %s", url, path, answer.Status)
		}
	}
}

// kubeconfigOf writes a kubeconfig with a token of a service account.
func (r *rig) kubeconfigOf(space, account string) string {
	r.Helper()
	token, err := client.CoreV1().ServiceAccounts(space).CreateToken(r.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	r.ok(err)
	c, err := clientcmd.LoadFromFile(kubeconfig)
	r.ok(err)
	for name := range c.AuthInfos { // order: there is one
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(r.TempDir(), "kubeconfig")
	r.ok(clientcmd.WriteToFile(*c, path))
	return path
}

// may is a question to the authorizer.
type may struct{ verb, group, resource, name, namespace string }

// What the scheduler may do is what it needs; what would let it read secrets,
// start pods or take over a cluster it may not.
func TestLeastPrivilege(t *testing.T) {
	r := newRig(t)
	space := r.space()
	r.grant(space, nil)
	account := r.chartPod(space, nil).Spec.ServiceAccountName
	const other = metav1.NamespaceSystem
	yes := []may{
		{"list", "", "nodes", "", ""},
		{"watch", "", "pods", "", ""},
		{"get", "batch", "jobs", "j", other},
		{"create", "", "pods/binding", "p", other},
		{"patch", "", "pods/status", "p", other},
		{"create", "", "pods/eviction", "p", other},
		{"create", "events.k8s.io", "events", "", other},
		{"watch", "scheduling.k8s.io", "podgroups", "", ""},
		{"patch", "scheduling.k8s.io", "podgroups/status", "g", other},
		{"watch", "scheduling.k8s.io", "compositepodgroups", "", ""},
		{"patch", "scheduling.k8s.io", "compositepodgroups/status", "g", other},
		{"watch", "scheduling.headrace.dev", "podgroups", "", ""},
		{"patch", "scheduling.headrace.dev", "podgroups/status", "g", other},
		{"watch", "scheduling.headrace.dev", "queues", "", ""},
		{"update", "scheduling.headrace.dev", "queues/status", "q", ""},
		{"watch", "resource.k8s.io", "resourceclaims", "", ""},
		{"watch", "resource.k8s.io", "resourceslices", "", ""},
		{"update", "resource.k8s.io", "resourceclaims", "c", other},
		{"update", "resource.k8s.io", "resourceclaims/status", "c", other},
		{"update", "resource.k8s.io", "resourceclaims/binding", "", ""},
		{"watch", "", "persistentvolumeclaims", "", ""},
		{"update", "", "persistentvolumes", "v", ""},
		{"watch", "storage.k8s.io", "csinodes", "", ""},
		{"create", "coordination.k8s.io", "leases", "", space},
		{"update", "coordination.k8s.io", "leases", kube.DefaultName, space},
		{"update", "", "configmaps", kube.PresenceName(kube.DefaultName), space},
		{"get", "", "configmaps", kube.BeliefsName, space},
		{"update", "", "configmaps", kube.BeliefsName, space},
		{"create", "authentication.k8s.io", "tokenreviews", "", ""},
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", ""},
	}
	no := []may{
		{"get", "", "secrets", "s", other},
		{"list", "", "secrets", "", ""},
		{"get", "", "secrets", "s", space},
		{"get", "", "configmaps", "kubeadm-config", other},
		{"update", "", "configmaps", "another", space},
		{"update", "", "configmaps", kube.HeirsName, space}, // only where pods move
		{"update", "apps", "deployments/scale", "d", other}, // only where they surge
		{"create", "", "configmaps", "", other},
		{"list", "", "configmaps", "", space},
		{"create", "", "pods", "", other},
		{"create", "", "pods", "", space},
		{"delete", "", "pods", "p", other},
		{"update", "", "pods", "p", other},
		{"patch", "", "pods", "p", other},
		{"create", "", "pods/exec", "p", other},
		{"get", "", "pods/log", "p", other},
		{"update", "", "pods/ephemeralcontainers", "p", other},
		{"delete", "", "nodes", "n", ""},
		{"update", "", "nodes", "n", ""},
		{"patch", "", "nodes/status", "n", ""},
		{"get", "", "nodes/proxy", "n", ""},
		{"create", "", "serviceaccounts/token", "default", other},
		{"create", "", "namespaces", "", ""},
		{"update", "coordination.k8s.io", "leases", "kube-scheduler", other},
		{"update", "coordination.k8s.io", "leases", "another", space},
		{"create", "coordination.k8s.io", "leases", "", other},
		{"update", "resource.k8s.io", "resourceslices", "s", ""},
		{"create", "resource.k8s.io", "resourceclaimtemplates", "", other},
		{"update", "resource.k8s.io", "resourceclaims/driver", "", ""},
		{"delete", "scheduling.k8s.io", "podgroups", "g", other},
		{"update", "scheduling.headrace.dev", "queues", "q", ""},
		{"delete", "scheduling.headrace.dev", "queues", "q", ""},
		{"delete", "", "persistentvolumes", "v", ""},
		{"delete", "", "persistentvolumeclaims", "c", other},
		{"create", "scheduling.k8s.io", "priorityclasses", "", ""},
		{"update", "rbac.authorization.k8s.io", "clusterroles", "c", ""},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "cluster-admin", ""},
		{"escalate", "rbac.authorization.k8s.io", "clusterroles", "c", ""},
		{"create", "apps", "deployments", "", space},
		{"impersonate", "", "users", "u", ""},
		{"delete", "policy", "poddisruptionbudgets", "b", other},
		{"create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""},
		{"*", "*", "*", "", ""},
	}
	r.eventually("the roles have taken effect", func() string {
		if !r.allows(space, account, yes[0]) {
			return "listing nodes is not allowed yet"
		}
		return ""
	})
	for _, m := range yes {
		if !r.allows(space, account, m) {
			t.Errorf("%+v: not allowed, but the scheduler needs it", m)
		}
	}
	for _, m := range no {
		if r.allows(space, account, m) {
			t.Errorf("%+v: allowed, and it must not be", m)
		}
	}
}

// allows asks the authorizer what a service account may do.
func (r *rig) allows(space, account string, m may) bool {
	r.Helper()
	resource, sub, _ := strings.Cut(m.resource, "/")
	const accounts = "system:serviceaccounts"
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + space + ":" + account, Groups: []string{accounts, accounts + ":" + space, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: m.verb, Group: m.group, Resource: resource, Subresource: sub, Name: m.name, Namespace: m.namespace,
			},
		},
	}, metav1.CreateOptions{})
	r.ok(err)
	return answer.Status.Allowed
}
