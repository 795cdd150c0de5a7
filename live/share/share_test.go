package share_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/internal/core/quantity"

	"github.com/headrace-dev/headrace/live/share"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  share.Ask
		wrong string // in the error; empty for none
	}{
		{text: "1 x 500m, 20Gi", want: share.Ask{Count: 1, Milli: 500, Memory: 20 * quantity.GiB}},
		{text: "500m", want: share.Ask{Count: 1, Milli: 500}},
		{text: " 2x0.25 ,model= H200 | H100|H100", want: share.Ask{Count: 2, Milli: 250, Models: []string{"H100", "H200"}}},
		{text: "1", want: share.Ask{Count: 1, Milli: 1000}},
		{text: "32 x 1.0, 1Mi", want: share.Ask{Count: 32, Milli: 1000, Memory: quantity.MiB}},
		{text: "", wrong: `share "": from 1m to 1000m`},
		{text: "0", wrong: `share "0"`},
		{text: "0m", wrong: `share "0m"`},
		{text: "1001m", wrong: `share "1001m"`},
		{text: "-1m", wrong: `share "-1m"`},
		{text: "0.5000", wrong: `share "0.5000"`},
		{text: "1e3m", wrong: `share "1e3m"`},
		{text: "0 x 500m", wrong: `count "0": a number from 1 to 32`},
		{text: "33 x 500m", wrong: `count "33"`},
		{text: "99999999999999999999 x 500m", wrong: "count"},
		{text: "2 x 3 x 500m", wrong: "share"},
		{text: "500m, 20", wrong: `memory "20": from 1Mi per card`},
		{text: "500m, 0.5", wrong: `memory "0.5"`},
		{text: "500m, -20Gi", wrong: `memory "-20Gi"`},
		{text: "500m, 9999999Ei", wrong: "memory"},
		{text: "500m, 20Gi, 20Gi", wrong: "memory given twice"},
		{text: "500m, model=H100, model=L4", wrong: "model given twice"},
		{text: `500m, model="]`, wrong: "model"},
		{text: "500m, model=", wrong: `model ""`},
		{text: "500m, colour=red", wrong: `option "colour=red": only model= is known`},
		{text: "500m," + strings.Repeat("x", 5000), wrong: "at most"},
	} {
		got, err := share.Parse(c.text)
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.wrong)
		case c.wrong == "" && !cmp.Equal(got, c.want):
			t.Errorf("%q (-want +got):\n%s", c.text, cmp.Diff(c.want, got))
		}
	}
}

// What can be read can be written, and reads as the same; nothing panics.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"1 x 500m, 20Gi", "0.25,model=A|B C", "x", "1x1x1", "1m,1Mi,model=", "𝟙 x 1m", "1 x 1m, 1e9"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := share.Parse(text)
		if err != nil {
			return
		}
		if a.Count < 1 || a.Count > 32 || a.Milli < 1 || a.Milli > 1000 || a.Memory < 0 {
			t.Fatalf("%q reads as %+v", text, a)
		}
		again, err := share.Parse(a.String())
		if err != nil || !cmp.Equal(a, again) {
			t.Fatalf("%q reads as %+v, which writes as %q and reads as %+v, %v", text, a, a.String(), again, err)
		}
	})
}

func pod(annotations map[string]string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	for _, name := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	}
	return p
}

// Claims are added once, however often a pod passes.
func TestClaim(t *testing.T) {
	p := pod(map[string]string{share.Prefix + "a": "500m", share.Prefix + "b": "1 x 0.5", "other": "x"}, "a", "b", "c")
	if why := share.Missing(p); !strings.Contains(why, "headrace.dev/gpu.a was not turned into a resource claim") {
		t.Errorf("before admission: %q", why)
	}
	for range 2 {
		wishes, faults := share.Of(p)
		if len(wishes) != 2 || len(faults) != 0 {
			t.Fatalf("wishes %+v, faults %v", wishes, faults)
		}
		templates := share.Claim(p, wishes)
		if len(templates) != 2 || templates[0].Name != templates[1].Name {
			t.Errorf("templates %v, want one for equal asks", templates)
		}
	}
	if n := len(p.Spec.ResourceClaims); n != 2 || len(p.Spec.Containers[0].Resources.Claims) != 1 || len(p.Spec.Containers[2].Resources.Claims) != 0 {
		t.Errorf("the pod has %d claims, its containers %+v", n, p.Spec.Containers)
	}
	if why := share.Missing(p); why != "" {
		t.Errorf("after admission: %q", why)
	}
}

// A fault names the key, the value and what is allowed.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"no such container", pod(map[string]string{share.Prefix + "z": "500m"}, "a"), `annotation headrace.dev/gpu.z: "500m": the pod has no container "z"; allowed is [COUNT x] SHARE`},
		{"malformed", pod(map[string]string{share.Prefix + "a": "half"}, "a"), `annotation headrace.dev/gpu.a: "half": share "half": from 1m to 1000m`},
		{"a long name", pod(map[string]string{share.Prefix + strings.Repeat("n", 60): "500m"}, strings.Repeat("n", 60)), "more than 59 characters"},
	} {
		if got := share.Missing(c.pod); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
	taken := pod(map[string]string{share.Prefix + "a": "500m"}, "a")
	name := "mine"
	taken.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu-a", ResourceClaimName: &name}}
	if got := share.Missing(taken); !strings.Contains(got, "another resource claim gpu-a") {
		t.Errorf("a claim of that name: %q", got)
	}
}
