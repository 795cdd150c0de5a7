package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Presence says where a running scheduler can be asked. It is written to a
// ConfigMap when the scheduler begins to lead, for the command line to read.
type Presence struct {
	URL  string // where it listens, as seen on its own machine
	Host string // the name of its machine
	// Pod and Namespace name its pod, where it runs in one.
	Pod, Namespace string
}

// The keys of the ConfigMap.
const (
	PresenceURL       = "url"
	PresenceHost      = "host"
	PresencePod       = "pod"
	PresenceNamespace = "pod-namespace"
)

// PresenceName is the name of the ConfigMap of a scheduler.
func PresenceName(scheduler string) string { return scheduler + "-scheduler" }

// announceAgain is the pause after a failed try to write it.
const announceAgain = 10 * time.Second

// Announce tells where the scheduler can be asked. It is called before Run, which
// writes it down.
func (s *Scheduler) Announce(p Presence) { s.presence = &p }

// announce writes the presence, once. It ends when that is done, or with the
// context.
func (s *Scheduler) announce(ctx context.Context) {
	if s.presence == nil {
		return
	}
	for said := false; ; said = true {
		err := s.writePresence(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !said {
			s.config.Log.Warn("where to ask this scheduler was not written down; give commands --server", "because", err)
		}
		if !pause(ctx, announceAgain) {
			return
		}
	}
}

func (s *Scheduler) writePresence(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	maps := s.config.Client.CoreV1().ConfigMaps(s.config.Namespace)
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: PresenceName(s.config.Name), Namespace: s.config.Namespace},
		Data: map[string]string{
			PresenceURL: s.presence.URL, PresenceHost: s.presence.Host, PresencePod: s.presence.Pod, PresenceNamespace: s.presence.Namespace,
		},
	}
	_, err := maps.Update(ctx, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, m, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	return nil
}
