package manifest_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/headrace-dev/headrace/live/admission"
	"github.com/headrace-dev/headrace/live/command"
	"github.com/headrace-dev/headrace/live/manifest"
)

var update = flag.Bool("update", false, "write deploy/headrace.yaml anew")

const (
	chart = "../../charts/headrace"
	plain = "../../deploy/headrace.yaml"
)

// release is what deploy/ is written for.
func release() manifest.Release {
	return manifest.Release{Name: "headrace", Namespace: "headrace-system"}
}

func render(t *testing.T, values map[string]any) []manifest.Object {
	t.Helper()
	objects, err := manifest.Render(chart, release(), values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// only returns the one object of a kind, converted.
func only[T any](t *testing.T, objects []manifest.Object, kind string) T {
	t.Helper()
	var out T
	i := slices.IndexFunc(objects, func(o manifest.Object) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("the chart makes no %s", kind)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, &out, true); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return out
}

// The plain manifests are what the chart makes.
func TestPlainIsCurrent(t *testing.T) {
	var now bytes.Buffer
	if err := manifest.Plain(&now, chart, release()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(plain, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(was), now.String()); diff != "" {
		t.Errorf("%s is not what the chart makes; go test ./manifest -update writes it anew (-is +chart):\n%s", plain, diff)
	}
}

// The scheduler knows every flag that the chart gives it, and takes its value.
func TestArgumentsAreKnown(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]any
		want   string
	}{
		{"defaults", nil, "scheduler-name=headrace policy=headrace leader-elect=true leader-elect-namespace=headrace-system serve=:10270 serve-self-signed=true"},
		{"set", map[string]any{
			"scheduler":      map[string]any{"name": "other", "verbose": true, "extraArgs": []any{"--policy=first-fit"}},
			"leaderElection": map[string]any{"leaseDuration": "1m30s"},
			"serving":        map[string]any{"port": 1234, "certificateSecret": "tls"},
		}, "scheduler-name=other policy=first-fit verbose=true leader-elect-lease-duration=1m30s serve=:1234 serve-self-signed=false serve-tls-key=/serving/tls.key"},
		{"admission", map[string]any{"admission": map[string]any{"enabled": true, "certificateSecret": "tls"}}, "admission=:9443 admission-tls-cert=/admission/tls.crt admission-tls-key=/admission/tls.key"},
		{"profiles", map[string]any{"scheduler": map[string]any{"profiles": []any{
			map[string]any{"name": "a", "policy": "headrace"}, map[string]any{"name": "b", "policy": "fgd"},
		}}}, "profile=[a=headrace,b=fgd]"},
		{"moves", map[string]any{"scheduler": map[string]any{"tidy": "waiting", "surge": true, "dense": true}}, "tidy=waiting surge=true dense=true"},
		{"times", map[string]any{"scheduler": map[string]any{
			"startTimes": true, "reserve": "head", "slaClasses": map[string]any{"nightly": map[string]any{"total": "12h", "perRun": 1.5, "fromPriority": -5, "lends": "no"}},
		}}, `start-times=true reserve=head sla-class=["nightly:from-priority=-5,lends=no,per-run=1.5,total=12h"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := only[appsv1.Deployment](t, render(t, c.values), "Deployment")
			f := command.Scheduler().Flags()
			if err := f.Parse(d.Spec.Template.Spec.Containers[0].Args); err != nil {
				t.Fatal(err)
			}
			for want := range strings.FieldsSeq(c.want) {
				name, value, _ := strings.Cut(want, "=")
				if got := f.Lookup(name).Value.String(); got != value {
					t.Errorf("--%s is %q, want %q", name, got, value)
				}
			}
		})
	}
}

// Values that the schema does not allow are refused, by name.
func TestValuesAreChecked(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]any
		want   string
	}{
		{"a name that is not known", map[string]any{"replica": 3}, "replica"},
		{"a number that must not be", map[string]any{"replicas": -1}, "replicas"},
		{"a resource without a domain", map[string]any{"scheduler": map[string]any{"gpuResource": "gpu"}}, "gpuResource"},
		{"a duration without a unit", map[string]any{"leaderElection": map[string]any{"leaseDuration": "15"}}, "leaseDuration"},
		{"a digest that is none", map[string]any{"image": map[string]any{"digest": "sha256:1"}}, "digest"},
		{"a webhook without a certificate", map[string]any{"admission": map[string]any{"enabled": true}}, "admission.certificateSecret"},
		{"a way to reserve that there is not", map[string]any{"scheduler": map[string]any{"reserve": "some"}}, "reserve"},
		{"moves for what there is not", map[string]any{"scheduler": map[string]any{"tidy": "some"}}, "tidy"},
		{"a term of a class that there is not", map[string]any{"scheduler": map[string]any{"slaClasses": map[string]any{"x": map[string]any{"tota": "1h"}}}}, "tota"},
		{"no account at all", map[string]any{"serviceAccount": map[string]any{"create": false}}, "serviceAccount.name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := manifest.Render(chart, release(), c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("values %v: error %v, want one that names %s", c.values, err, c.want)
			}
		})
	}
}

// The webhook is told to the API server as the program itself would tell it.
func TestWebhookIsTheProgramsOwn(t *testing.T) {
	got := only[admissionregistrationv1.MutatingWebhookConfiguration](t, render(t, map[string]any{
		"admission": map[string]any{"enabled": true, "certificateSecret": "tls", "caBundle": "Q0E="},
	}), "MutatingWebhookConfiguration")
	path, port := admission.Path, int32(443)
	want := admission.Configuration(admissionregistrationv1.WebhookClientConfig{
		Service:  &admissionregistrationv1.ServiceReference{Namespace: "headrace-system", Name: "headrace-admission", Path: &path, Port: &port},
		CABundle: []byte("CA"),
	})
	if diff := cmp.Diff(want.Webhooks, got.Webhooks); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// What can be left out is left out.
func TestPartsAreOptional(t *testing.T) {
	kinds := func(values map[string]any) string {
		var out []string
		for _, o := range render(t, values) {
			out = append(out, o.GetKind())
		}
		return strings.Join(out, " ")
	}
	got := []string{
		kinds(nil),
		kinds(map[string]any{
			"serviceAccount": map[string]any{"create": false, "name": "mine"}, "rbac": map[string]any{"create": false},
			"networkPolicy": map[string]any{"enabled": false}, "podDisruptionBudget": map[string]any{"enabled": false},
		}),
	}
	want := []string{
		"ServiceAccount ClusterRole ClusterRole ClusterRoleBinding Role Role RoleBinding Deployment NetworkPolicy PodDisruptionBudget Service",
		"Deployment Service",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
