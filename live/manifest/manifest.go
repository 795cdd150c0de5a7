// Package manifest renders the Helm chart charts/headrace into objects, with
// Helm's own engine.
//
//	objects, err := manifest.Render("../charts/headrace", manifest.Release{Name: "headrace", Namespace: "headrace-system"}, nil)
//
// The plain manifests in deploy/ are written from it. Package manifest leaves
// applying the objects to its callers: Helm, kubectl and the tests.
package manifest

import (
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kubeVersion is what the chart is rendered for: the first that it takes.
const kubeVersion = "v1.37.0"

// Release is one installation of the chart.
type Release struct{ Name, Namespace string }

// Object is one that the chart makes.
type Object struct {
	unstructured.Unstructured
	// Text is the object as the chart writes it, comments included.
	Text string
}

// Render returns what the chart in a directory makes, in the order in which it
// is to be applied. Values that the chart's schema does not allow are refused.
func Render(dir string, r Release, values map[string]any) ([]Object, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load the chart %s: %w", dir, err)
	}
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", dir, err)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	// Helm fills the values in with the defaults, and keeps what it is given.
	given := map[string]any{}
	for name, v := range values { // order: a copy
		given[name] = v
	}
	all, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", dir, err)
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", dir, err)
	}
	var objects []Object
	for name, text := range files { // order: sorted below
		if path.Ext(name) != ".yaml" {
			continue
		}
		more, err := objectsIn(text)
		if err != nil {
			return nil, fmt.Errorf("render the chart %s: %s: %w", dir, path.Base(name), err)
		}
		objects = append(objects, more...)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(rank(&a), rank(&b)) })
	return objects, nil
}

// objectsIn splits a file into its objects.
func objectsIn(text string) ([]Object, error) {
	var out []Object
	for part := range strings.SplitSeq("\n"+text, "\n---") {
		part = strings.TrimSpace(part)
		o := Object{Text: part + "\n"}
		if err := yaml.UnmarshalStrict([]byte(part), &o.Object); err != nil {
			return nil, fmt.Errorf("an object: %w\n%s", err, part)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out, nil
}

// rank orders objects: first what others need, then by kind and name.
func rank(o *Object) string {
	first := []string{"Namespace", "ServiceAccount", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
	i := slices.Index(first, o.GetKind())
	if i < 0 {
		i = len(first)
	}
	return fmt.Sprintf("%d/%s/%s", i, o.GetKind(), o.GetName())
}

// header stands above the plain manifests.
const header = `# Headrace, installed without Helm:
#
#   kubectl apply --server-side -f deploy/headrace.yaml
#
# Written from charts/headrace by the tests of live/manifest: edit the chart.
`

// Definitions returns the kinds of objects that the chart brings along, by name.
// Helm installs them before all else, and never changes or removes them.
func Definitions(dir string) ([]Object, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load the chart %s: %w", dir, err)
	}
	var out []Object
	for _, d := range c.CRDObjects() {
		more, err := objectsIn(string(d.File.Data))
		if err != nil {
			return nil, fmt.Errorf("load the chart %s: %s: %w", dir, path.Base(d.Filename), err)
		}
		out = append(out, more...)
	}
	slices.SortFunc(out, func(a, b Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// Plain writes the manifests of a release with the chart's defaults: its
// namespace, the kinds of objects that it brings along, then its objects.
func Plain(w io.Writer, dir string, r Release) error {
	objects, err := Render(dir, r, nil)
	if err != nil {
		return err
	}
	definitions, err := Definitions(dir)
	if err != nil {
		return err
	}
	text := header + namespaceOf(r)
	for i := range definitions {
		text += "---\n" + definitions[i].Text
	}
	for i := range objects {
		text += "---\n" + objects[i].Text
	}
	_, err = io.WriteString(w, text)
	return err
}

// namespaceOf is the namespace of a release, whose pods must keep to the strictest
// standard.
func namespaceOf(r Release) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata:
  name: %s
  labels:
    pod-security.kubernetes.io/enforce: restricted
`, r.Namespace)
}
