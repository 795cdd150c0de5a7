package kube

import "time"

// Surge is a Deployment that was scaled up by one, so that another pod runs before one goes.
type Surge struct {
	Asked time.Time `json:"asked"`
}

type surging struct{}

func newSurging() surging { return surging{} }

func (b *books) surgesKept() []Surge { return nil }

func (b *books) undoSurges([]Surge) {}
