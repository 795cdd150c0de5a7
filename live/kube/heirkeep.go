package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// HeirsName is the ConfigMap of the scheduler of the default name; others add theirs.
	HeirsName = "headrace-heirs"
	// heirsKey is the key in it.
	heirsKey = "heirs"
)

// keeper writes what is kept for heirs.
type keeper struct {
	mu      sync.Mutex // guards written, and lets one write at a time
	written uint64     // the version
	due     chan *Kept // to be written when there is time
}

func (s *Scheduler) heirsName() string {
	if s.Name() != DefaultName {
		return HeirsName + "-" + s.Name()
	}
	return HeirsName
}

// loadHeirs brings back what an instance before this one has kept.
func (s *Scheduler) loadHeirs(ctx context.Context, b *books) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := s.config.Client.CoreV1().ConfigMaps(s.config.Namespace).Get(call, s.heirsName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	kept := new(Kept)
	if err == nil {
		err = json.Unmarshal([]byte(object.Data[heirsKey]), kept)
	}
	if err != nil {
		s.config.Log.Warn("what was kept for heirs is not kept on", "configmap", s.config.Namespace+"/"+s.heirsName(), "because", err)
		return
	}
	b.recalled = kept
}

// keepHeirs writes what is kept for heirs, unless something newer is written.
func (s *Scheduler) keepHeirs(ctx context.Context, k *Kept) error {
	s.keeper.mu.Lock()
	defer s.keeper.mu.Unlock()
	if k.version <= s.keeper.written {
		return nil
	}
	if err := s.mayWrite(); err != nil {
		return fmt.Errorf("keep what is for heirs: %w", err)
	}
	text, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keep what is for heirs: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	maps := s.config.Client.CoreV1().ConfigMaps(s.config.Namespace)
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.heirsName(), Namespace: s.config.Namespace}, Data: map[string]string{heirsKey: string(text)}}
	_, err = maps.Update(call, m, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(call, m, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write the ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	}
	s.keeper.written = k.version
	return nil
}

// keepWhenDue writes what is handed out until the context ends. What could not be written
// is handed out again.
func (s *Scheduler) keepWhenDue(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case k := <-s.keeper.due:
			if err := s.keepHeirs(ctx, k); err != nil && ctx.Err() == nil {
				s.config.Log.Warn("what is kept for heirs is not written", "because", err)
			}
		}
	}
}

// offerHeirs hands out what is kept for heirs, where that is not written yet.
func (s *Scheduler) offerHeirs(b *books) {
	if s.config.Tidy == nil {
		return
	}
	k := b.keeping()
	s.keeper.mu.Lock()
	written := s.keeper.written
	s.keeper.mu.Unlock()
	if k.version <= written {
		return
	}
	select {
	case s.keeper.due <- k:
	default: // another one is on its way
	}
}
