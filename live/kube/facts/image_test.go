package facts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// An image has one name, however it is written; what is no reference has none.
func TestImageName(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	for text, want := range map[string]string{
		"nginx":                              "docker.io/library/nginx:latest",
		"nginx:1.25":                         "docker.io/library/nginx:1.25",
		"docker.io/library/nginx:1.25":       "docker.io/library/nginx:1.25",
		"index.docker.io/library/nginx:1.25": "docker.io/library/nginx:1.25",
		"team/model:v2":                      "docker.io/team/model:v2",
		"registry.example:5000/a/b":          "registry.example:5000/a/b:latest",
		"nginx@" + digest:                    "docker.io/library/nginx@" + digest,
		"nginx:1.25@" + digest:               "docker.io/library/nginx@" + digest,
		"":                                   "",
		"<none>:<none>":                      "",
		"team/UPPER":                         "",
		"nginx@sha256:short":                 "",
		strings.Repeat("ab", 32):             "", // an image id
		strings.Repeat("a/", 400):            "",
		"a\x00b":                             "",
	} {
		if got := ImageName(text); got != want {
			t.Errorf("ImageName(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzImageName(f *testing.F) {
	f.Add("nginx:1.25")
	f.Add("r:5000/a@sha256:" + strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, text string) {
		if once := ImageName(text); once != "" && ImageName(once) != once {
			t.Errorf("ImageName(%q) = %q, whose own is %q", text, once, ImageName(once))
		}
	})
}

// What a node lists is bounded, whatever it says.
func TestImagesOfNodeAreBounded(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{ImageCache: "500Gi"}}}
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("1Ti")}
	n.Status.Images = []corev1.ContainerImage{
		{Names: []string{"a", "docker.io/library/a:latest", "A"}, SizeBytes: 5},
		{Names: []string{"negative"}, SizeBytes: -1},
		{Names: []string{"huge"}, SizeBytes: 1 << 62},
		{Names: []string{"<none>@<none>"}, SizeBytes: 7},
	}
	got := NodeOf(n, "nvidia.com/gpu", DefaultLevels())
	want := []Image{{Names: n.Status.Images[0].Names, Size: 5}, {Names: n.Status.Images[3].Names, Size: 7}}
	if diff := cmp.Diff(got.Images, want); diff != "" || got.Room != 500<<30 || got.Storage != 1<<40 || got.RoomFault != "" {
		t.Errorf("room %d, storage %d, fault %q, images - got, + want:\n%s", got.Room, got.Storage, got.RoomFault, diff)
	}
	n.Status.Images = nil
	for i := range 100_000 {
		one := corev1.ContainerImage{SizeBytes: int64(MostSize)}
		for k := range 1 + i%3*50 {
			one.Names = append(one.Names, fmt.Sprintf("i%d-%d", i, k))
		}
		n.Status.Images = append(n.Status.Images, one)
	}
	sum := quantity.Bytes(0)
	got = NodeOf(n, "nvidia.com/gpu", DefaultLevels())
	for _, one := range got.Images {
		if len(one.Names) > mostNames {
			t.Fatalf("an image with %d names, want at most %d", len(one.Names), mostNames)
		}
		sum += one.Size
	}
	if len(got.Images) != mostImages || sum <= 0 {
		t.Errorf("%d images of %d bytes, want %d, and a sum above 0", len(got.Images), sum, mostImages)
	}
	for _, text := range []string{"much", "-5", "0", ""} {
		n.Annotations[ImageCache] = text
		if got := NodeOf(n, "nvidia.com/gpu", DefaultLevels()); got.Room != 0 || !strings.Contains(got.RoomFault, ImageCache) {
			t.Errorf("%s: %q: room %d, fault %q, want none, and the fault named", ImageCache, text, got.Room, got.RoomFault)
		}
	}
}

// A pod needs the images of its containers, of its init containers, and those that it
// mounts, each once; of pods that another scheduler placed they are not looked at.
func TestNeedsOfPod(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		SchedulerName: "headrace", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}},
		InitContainers: []corev1.Container{{Image: "tool"}, {Image: "serve"}},
		Containers:     []corev1.Container{{Image: "serve:latest"}, {Image: "side", ImagePullPolicy: corev1.PullNever}, {Image: "NO"}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "models/llama:v3"}}},
			{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}}},
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	want := []Need{
		{Name: "docker.io/models/llama:v3", Sort: cluster.ArtifactWeights, Private: true},
		{Name: "docker.io/library/tool:latest", Private: true},
		{Name: "docker.io/library/serve:latest", Private: true},
		{Name: "docker.io/library/side:latest", Private: true, Local: true},
	}
	if diff := cmp.Diff(PodOf(p, "headrace", "nvidia.com/gpu").Needs, want); diff != "" {
		t.Errorf("- got, + want:\n%s", diff)
	}
	p.Spec.NodeName = "n"
	if got := PodOf(p, "other", "nvidia.com/gpu").Needs; got != nil {
		t.Errorf("a pod of another scheduler: %v, want none", got)
	}
	for i := range 200 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Image: fmt.Sprint("c", i)})
	}
	if got := PodOf(p, "headrace", "nvidia.com/gpu").Needs; len(got) != mostNeeds {
		t.Errorf("%d needs, want at most %d", len(got), mostNeeds)
	}
}
