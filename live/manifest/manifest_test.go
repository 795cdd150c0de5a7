package manifest_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	d := only[appsv1.Deployment](t, render(t, map[string]any{
		"scheduler":      map[string]any{"name": "other", "verbose": true, "extraArgs": []any{"--policy=first-fit"}},
		"leaderElection": map[string]any{"leaseDuration": "1m30s"},
	}), "Deployment")
	f := command.Scheduler().Flags()
	if err := f.Parse(d.Spec.Template.Spec.Containers[0].Args); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range []string{"scheduler-name", "policy", "leader-elect", "leader-elect-namespace", "leader-elect-lease-duration", "verbose", "serve"} {
		got = append(got, f.Lookup(name).Value.String())
	}
	if diff := cmp.Diff([]string{"other", "first-fit", "true", "headrace-system", "1m30s", "true", ":10270"}, got); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
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
		"ServiceAccount ClusterRole ClusterRoleBinding Role RoleBinding Deployment NetworkPolicy PodDisruptionBudget Service",
		"Deployment Service",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
