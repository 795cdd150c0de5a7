package share

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/kube/dra"
)

// ManagedBy is the label, and Manager its value, of the templates that admission
// makes.
const (
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "headrace"
)

// requestName is the name of the one request of a claim.
const requestName = "gpu"

// templateName names a template by its content, so that equal asks share one and an
// old one is never taken for another.
func templateName(a Ask) string {
	sum := sha256.Sum256([]byte(a.String()))
	return fmt.Sprintf("headrace-gpu-%x", sum[:8])
}

// Template returns the template of claims for an ask.
func Template(a Ask) *resourceapi.ResourceClaimTemplate {
	q := resourceapi.ExactDeviceRequest{
		DeviceClassName: dra.Class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(a.Count),
		Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			dra.ComputeName: *resource.NewQuantity(int64(a.Milli), resource.DecimalSI),
			dra.MemoryName:  *resource.NewQuantity(int64(a.Memory), resource.BinarySI),
		}},
	}
	if len(a.Models) > 0 {
		quoted := make([]string, len(a.Models))
		for i, m := range a.Models {
			quoted[i] = strconv.Quote(m)
		}
		q.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.attributes[%q].%s in [%s]", dra.Driver, dra.ModelName, strings.Join(quoted, ", ")),
		}}}
	}
	return &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: templateName(a), Labels: map[string]string{ManagedBy: Manager}},
		Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: requestName, Exactly: &q}},
		}}},
	}
}

// Claim adds the claims that its containers ask for to a pod, and returns the
// templates that they need. What is there already is not added again.
func Claim(p *corev1.Pod, wishes []Wish) []*resourceapi.ResourceClaimTemplate {
	var out []*resourceapi.ResourceClaimTemplate
	for i := range wishes {
		w := &wishes[i]
		t := Template(w.Ask)
		out = append(out, t)
		if w.Claimed {
			continue
		}
		own := claimPrefix + w.Container
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: own, ResourceClaimTemplateName: &t.Name})
		c := container(&p.Spec, w.Container)
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: own})
	}
	return out
}

// Same says whether two templates ask for the same. The API server fills in defaults,
// so only what an ask sets is compared.
func Same(a, b *resourceapi.ResourceClaimTemplate) bool {
	x, y := a.Spec.Spec.Devices, b.Spec.Spec.Devices
	if len(x.Requests) != 1 || len(y.Requests) != 1 || len(x.Constraints)+len(y.Constraints) > 0 || x.Requests[0].Exactly == nil || y.Requests[0].Exactly == nil {
		return false
	}
	return apiequality.Semantic.DeepEqual(x.Requests[0].Exactly, y.Requests[0].Exactly)
}
