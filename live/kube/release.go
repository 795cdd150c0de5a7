package kube

import (
	"context"
	"maps"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// releaseAfter is how long a pod waits for a place beside its allocated claim before
// the allocation is given back, so that it can be made elsewhere.
const releaseAfter = 10 * time.Second

// releases lists the claims to be given back: allocated where the pod that needs them
// cannot go, because a scheduler stopped between the allocation and the bind and the
// room is gone since, or because the node is. Nobody else uses them.
func (b *books) releases() []Remark {
	var out []Remark
	for _, name := range slices.Sorted(maps.Keys(b.draws.claims)) {
		c := b.draws.claims[name]
		if c.object == nil || c.object.Status.Allocation == nil || c.flight != nil || b.now.Sub(c.since) < releaseAfter || len(c.users) == 0 {
			continue
		}
		waits := ""
		for _, key := range slices.Sorted(maps.Keys(c.users)) {
			p := b.pods[key]
			if p == nil || p.footing != waiting || p.asOf == 0 || p.asOf != b.turnOf(p).cycle || !onlyFor(c.object, p.seen.UID, c.users, b) {
				waits = ""
				break
			}
			waits = key
		}
		if waits == "" {
			continue
		}
		c.since = b.now
		out = append(out, Remark{Key: waits, UID: b.pods[waits].seen.UID, release: c.object})
	}
	return out
}

// onlyFor says whether a claim is reserved for none but pods that need it and wait.
func onlyFor(object *resourceapi.ResourceClaim, uid string, users map[string]bool, b *books) bool {
	for _, r := range object.Status.ReservedFor {
		p := b.pods[object.Namespace+"/"+r.Name]
		if string(r.UID) != uid && (p == nil || !users[object.Namespace+"/"+r.Name] || p.seen.UID != string(r.UID) || p.footing != waiting) {
			return false
		}
	}
	return true
}

// release gives an allocation back. The version at hand is a precondition: who has
// begun to use it since keeps it.
func (s *Scheduler) release(ctx context.Context, r *Remark) {
	if s.mayWrite() != nil {
		return // the next leader gives it back
	}
	object := r.release.DeepCopy()
	object.Status.Allocation, object.Status.ReservedFor, object.Status.Devices = nil, nil, nil
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.config.Client.ResourceV1().ResourceClaims(object.Namespace).UpdateStatus(ctx, object, metav1.UpdateOptions{})
	switch name := object.Namespace + "/" + object.Name; {
	case err == nil:
		s.config.Log.Info("an allocation is given back, because its pod finds no place beside it", "claim", name, "pod", r.Key)
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		s.config.Log.Warn("an allocation was not given back", "claim", name, "pod", r.Key, "because", err)
	}
}
