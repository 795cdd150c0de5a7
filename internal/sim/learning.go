package sim

// learner follows what arrives, for policies that expect.
type learner struct{}

func newLearner() *learner { return &learner{} }

// learn tells the learner of an arrival, and the world of what was learned.
func (r *run) learn(pod string) error { return nil }
