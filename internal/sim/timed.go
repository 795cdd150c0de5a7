package sim

func (r *run) timed() error { return nil }

// Failures says how often things break.
type Failures struct{}
