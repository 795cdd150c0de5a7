package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/api/v1alpha1"
)

// lookAtAbilities is how often it is asked again whether a missing permission was
// given.
const lookAtAbilities = 10 * time.Second

// repeatTrouble is how often the same trouble is logged.
const repeatTrouble = time.Minute

// ability is one thing that the scheduler must be allowed to do.
type ability struct{ verb, group, resource, subresource string }

func (a ability) String() string {
	name := a.resource
	if a.subresource != "" {
		name += "/" + a.subresource
	}
	if a.group != "" {
		name += "." + a.group
	}
	return a.verb + " " + name
}

// abilities lists what the scheduler must be allowed to do in the whole cluster,
// whatever the cluster serves. Volumes count where there is a last check.
func (c *Config) abilities() []ability {
	out := []ability{
		{"list", "", "nodes", ""},
		{"watch", "", "nodes", ""},
		{"list", "", "namespaces", ""},
		{"watch", "", "namespaces", ""},
		{"list", "", "pods", ""},
		{"watch", "", "pods", ""},
		{"get", "", "pods", ""},
		{"get", "batch", "jobs", ""},
		{"create", "", "pods", "binding"},
		{"patch", "", "pods", "status"},
	}
	if c.Events != EventsNone {
		out = append(out, ability{"create", "events.k8s.io", "events", ""})
	}
	if c.evicts() {
		out = append(out, ability{"list", "policy", "poddisruptionbudgets", ""}, ability{"watch", "policy", "poddisruptionbudgets", ""},
			ability{"create", "", "pods", "eviction"})
	}
	if c.Tidy != nil && c.Tidy.Surge {
		out = append(out, ability{"get", "apps", "deployments", "scale"}, ability{"update", "apps", "deployments", "scale"})
	}
	if c.Check != nil {
		for _, a := range [][2]string{
			{"", "persistentvolumes"},
			{"", "persistentvolumeclaims"},
			{storagev1.GroupName, "storageclasses"},
			{storagev1.GroupName, "csinodes"},
			{storagev1.GroupName, "csidrivers"},
			{storagev1.GroupName, "csistoragecapacities"},
			{storagev1.GroupName, "volumeattachments"},
		} {
			out = append(out, ability{"list", a[0], a[1], ""}, ability{"watch", a[0], a[1], ""})
		}
		out = append(out, ability{"update", "", "persistentvolumes", ""}, ability{"update", "", "persistentvolumeclaims", ""})
	}
	return out
}

// deviceAbilities are what claims of devices need, where the cluster serves them.
func deviceAbilities() []ability {
	var out []ability
	for _, kind := range []string{"resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims"} {
		out = append(out, ability{"list", resourceapi.GroupName, kind, ""}, ability{"watch", resourceapi.GroupName, kind, ""})
	}
	return append(out, ability{"update", resourceapi.GroupName, "resourceclaims", "status"}, ability{"update", resourceapi.GroupName, "resourceclaims", "binding"})
}

// groupAbilities are what groups of pods of a kind need, where the cluster serves
// them.
func groupAbilities(group, resource string) []ability {
	return []ability{{"list", group, resource, ""}, {"watch", group, resource, ""}, {"patch", group, resource, "status"}}
}

// queueAbilities are what queues need, where the cluster serves them.
func queueAbilities() []ability {
	group := v1alpha1.GroupVersion.Group
	return []ability{{"list", group, "queues", ""}, {"watch", group, "queues", ""}, {"update", group, "queues", "status"}}
}

// unable is what keeps the scheduler from working: missing permissions, and the
// last trouble with watching.
type unable struct {
	mu      sync.Mutex // guards the rest
	needed  []ability  // besides those of the Config
	missing []string
	trouble string
	noted   time.Time
}

// need adds what the kinds of objects need that the cluster turned out to serve.
func (u *unable) need(more []ability) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.needed = append(u.needed, more...)
}

func (u *unable) needs() []ability {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.needed)
}

// lacks is a sentence about missing permissions; empty where none is missing.
func (u *unable) lacks() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.missing) == 0 {
		return ""
	}
	return "permission is missing to " + strings.Join(u.missing, ", ")
}

// last is the last trouble; empty where there was none.
func (u *unable) last() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.trouble
}

// lack replaces the list of what is missing, and says whether it is another one.
func (u *unable) lack(missing []string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	another := !slices.Equal(u.missing, missing)
	u.missing = missing
	return another
}

// note keeps the last trouble; it says whether it is news.
func (u *unable) note(trouble string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	news := u.trouble != trouble || now.Sub(u.noted) >= repeatTrouble
	u.trouble, u.noted = trouble, now
	return news
}

// checkAbilities asks the API server what this scheduler may do: at the start,
// when it was told that something is forbidden, and again and again while
// something is missing. It says once what is. It ends with the context.
func (s *Scheduler) checkAbilities(ctx context.Context) {
	var told error // what was forbidden
	for {
		select { // what was refused before is seen by this very look
		case told = <-s.forbidden:
		default:
		}
		missing, err := s.missing(ctx)
		wait := time.After(lookAtAbilities)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.trouble("what this scheduler may do is not known", err)
		default:
			another := s.unable.lack(missing)
			switch {
			case another && len(missing) > 0:
				s.config.Log.Error("permission is missing, its role must allow it", "to", strings.Join(missing, ", "))
			case another:
				s.config.Log.Info("the permissions that were missing are given")
			case len(missing) == 0 && told != nil:
				s.trouble("the API server refuses something", told)
			}
			if len(missing) == 0 {
				wait = nil
			}
		}
		told = nil
		select {
		case <-ctx.Done():
			return
		case told = <-s.forbidden:
			// A watch that is refused is tried again at once.
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		case <-wait:
		}
	}
}

// missing lists what the scheduler may not do.
func (s *Scheduler) missing(ctx context.Context) ([]string, error) {
	var out []string
	for _, a := range append(s.config.abilities(), s.unable.needs()...) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		answer, err := s.config.Client.AuthorizationV1().SelfSubjectAccessReviews().Create(call, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: a.verb, Group: a.group, Resource: a.resource, Subresource: a.subresource,
			}},
		}, metav1.CreateOptions{})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("ask whether this scheduler may %v: %w", a, err)
		}
		if !answer.Status.Allowed {
			out = append(out, a.String())
		}
	}
	return out, nil
}

// watchTrouble takes in why a watch was interrupted. What is forbidden is named by
// checkAbilities.
func (s *Scheduler) watchTrouble(err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case apierrors.IsForbidden(err):
		select {
		case s.forbidden <- err:
		default: // one is enough
		}
	default:
		s.trouble("watching the cluster was interrupted", err)
	}
}

// trouble notes what goes wrong with the API server, and logs it where it is news.
func (s *Scheduler) trouble(what string, err error) {
	if s.unable.note(what+": "+err.Error(), time.Now()) {
		s.config.Log.Warn(what, "because", err)
	}
}
