package world

import (
	"fmt"

	"github.com/headrace-dev/headrace/internal/core/chance"
	"github.com/headrace-dev/headrace/internal/core/cluster"
)

// ShapeKnown makes a request known before a pod has it: beliefs that are brought
// back speak of requests that were seen before.
type ShapeKnown struct {
	Request Request
	Kind    string
}

func (e ShapeKnown) apply(w *World) error {
	if err := e.Request.validate(); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	w.shape(&e.Request, e.Kind)
	return nil
}

// Shape returns the shape of a request of a kind, if it is known.
func (w *World) Shape(r *Request, kind string) (cluster.ShapeID, bool) {
	id, known := w.shapes[chance.Fold(r.key(), chance.HashString(kind))]
	return id, known
}
