package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/headrace-dev/headrace/live/beliefs"
)

const (
	// BeliefsName is the ConfigMap of the scheduler of the default name; others add
	// theirs.
	BeliefsName = "headrace-beliefs"
	// beliefsKey is the key in it.
	beliefsKey = "beliefs"
	// keepEvery is the pause between two writes of what was learned. With the time
	// that a write may take, what is kept is at most a minute old.
	keepEvery = 30 * time.Second
)

// checkpoint keeps what was learned in a ConfigMap. Only the one who schedules
// writes it; an older version is never written over a newer one unseen.
type checkpoint struct {
	*Scheduler
	name  string
	known *corev1.ConfigMap // as last read or written; nil: it is not there
	due   chan *beliefs.Beliefs
	taken time.Time // when the last one was handed out
}

// newCheckpoint returns nil where nothing is to be kept.
func (s *Scheduler) newCheckpoint() *checkpoint {
	if s.config.BeliefsNamespace == "" {
		return nil
	}
	c := &checkpoint{Scheduler: s, name: BeliefsName, due: make(chan *beliefs.Beliefs, 1)}
	if s.Name() != DefaultName {
		c.name += "-" + s.Name()
	}
	return c
}

// load brings back what is kept. Without it, or with something else in its place,
// learning begins anew.
func (c *checkpoint) load(ctx context.Context, b *books) {
	if c == nil {
		return
	}
	warn := func(err error) {
		c.config.Log.Warn("what was learned before is not used", "configmap", c.config.BeliefsNamespace+"/"+c.name, "because", err)
	}
	err := c.read(ctx)
	if err != nil {
		warn(err)
		return
	}
	if c.known == nil {
		return
	}
	kept, err := beliefs.Decode(c.known.BinaryData[beliefsKey])
	if err == nil {
		b.tick(time.Now())
		err = b.remember(kept)
	}
	if err != nil {
		warn(err)
		return
	}
	c.config.Log.Info("what was learned before is used", "pods", b.demand.Seen(), "requests", len(kept.Asks), "until", time.UnixMicro(kept.At).UTC())
}

func (c *checkpoint) read(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	object, err := c.config.Client.CoreV1().ConfigMaps(c.config.BeliefsNamespace).Get(call, c.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.known = nil
		return nil
	case err != nil:
		return fmt.Errorf("read what was learned: %w", err)
	}
	c.known = object
	return nil
}

// beat hands out what was learned, when it is time and there is something new. The
// one handed out before may still be waiting; the newer one takes its place.
func (c *checkpoint) beat(now time.Time, b *books) {
	if c == nil || now.Sub(c.taken) < c.config.BeliefsEvery {
		return
	}
	next, err := b.learned()
	if err != nil {
		return
	}
	c.taken = now
	select {
	case <-c.due:
	default:
	}
	c.due <- next
}

// keepAll writes what is handed out until the context ends.
func (c *checkpoint) keepAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-c.due:
			for {
				err := c.write(ctx, next)
				if err == nil || ctx.Err() != nil {
					break
				}
				c.config.Log.Warn("what was learned is not kept", "because", err)
				select {
				case next = <-c.due: // a newer one
				case <-time.After(c.config.BeliefsEvery / 6):
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

// write writes the ConfigMap. After a conflict it is read, and written the next
// time: who is not the leader any more has been told to stop by then.
func (c *checkpoint) write(ctx context.Context, b *beliefs.Beliefs) error {
	data, err := beliefs.Encode(b)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	maps := c.config.Client.CoreV1().ConfigMaps(c.config.BeliefsNamespace)
	var written *corev1.ConfigMap
	if c.known == nil {
		written, err = maps.Create(call, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: c.config.BeliefsNamespace},
			BinaryData: map[string][]byte{beliefsKey: data},
		}, metav1.CreateOptions{})
	} else {
		next := c.known.DeepCopy()
		next.BinaryData = map[string][]byte{beliefsKey: data}
		written, err = maps.Update(call, next, metav1.UpdateOptions{})
	}
	if err == nil {
		c.known = written
		return nil
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		if failed := c.read(ctx); failed != nil {
			return failed
		}
	}
	return fmt.Errorf("write %s/%s: %w", c.config.BeliefsNamespace, c.name, err)
}
