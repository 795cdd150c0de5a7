package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/engine"
	"github.com/headrace-dev/headrace/internal/world"
)

// Profile is a schedulerName with the policy that decides about its pods. All
// profiles of a scheduler share one world.
type Profile struct {
	Name   string
	Policy *engine.Policy
}

// maxProfiles bounds the cycles of one turn: each profile has its own.
const maxProfiles = 16

// ParseProfiles reads profiles as NAME=POLICY.
func ParseProfiles(texts []string) ([]Profile, error) {
	if len(texts) > maxProfiles {
		return nil, fmt.Errorf("%d profiles: at most %d", len(texts), maxProfiles)
	}
	var out []Profile
	for _, text := range texts {
		name, policy, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("profile %q: must be NAME=POLICY", text)
		}
		if slices.ContainsFunc(out, func(p Profile) bool { return p.Name == name }) {
			return nil, fmt.Errorf("profile %q: the name is there already", text)
		}
		decides, err := PolicyNamed(policy)
		if err != nil {
			return nil, fmt.Errorf("profile %q: %w", text, err)
		}
		out = append(out, Profile{Name: name, Policy: decides})
	}
	return out, nil
}

// nameFor returns the schedulerName by which a pod may be ours.
func (c *Config) nameFor(p *corev1.Pod) string {
	for i := range c.Profiles {
		if c.Profiles[i].Name == p.Spec.SchedulerName {
			return p.Spec.SchedulerName
		}
	}
	return c.Profiles[0].Name
}

// takes says whether a pod names one of the profiles.
func (c *Config) takes(p *corev1.Pod) bool { return c.nameFor(p) == p.Spec.SchedulerName }

// profileOf returns what a pod's profile is called in the world: nothing where
// there is only one.
func (c *Config) profileOf(p *corev1.Pod) string {
	if len(c.Profiles) < 2 || c.nameFor(p) != p.Spec.SchedulerName {
		return ""
	}
	return p.Spec.SchedulerName
}

// turn is a profile at work: its own memo over the world that all share.
type turn struct {
	Profile
	memo   engine.Memo
	symbol cluster.Symbol // of its name, where there are several
	cycle  uint64         // its last
}

// divide gives each profile a turn of its own.
func (b *books) divide(profiles []Profile) {
	b.turns = nil
	for _, p := range profiles {
		t := &turn{Profile: p}
		if len(profiles) > 1 {
			b.must(world.Interned{Text: p.Name})
			t.symbol = b.world.Symbol(p.Name)
		}
		b.turns = append(b.turns, t)
	}
}

// turnOf returns the turn in which a pod is decided about.
func (b *books) turnOf(p *pod) *turn {
	for _, t := range b.turns {
		if t.Name == p.seen.Added.Policy {
			return t
		}
	}
	return b.turns[0]
}
