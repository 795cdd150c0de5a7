package rounds

import "github.com/headrace-dev/headrace/internal/meter"

// trail is what a run leaves for its pictures.
type trail struct {
	rounds []meter.TrainingRound
	life   []meter.TrainingLife
	made   float64 // progress of the job that is followed
}

// follow records a round, where that was asked for.
func (r *run) follow(here []*jobState) {
	if r.Trail {
		one := meter.TrainingRound{TimeS: r.now, ByGPU: map[string]int{}, ByKind: map[string]int{}}
		for _, s := range here {
			if s.Held() > 0 {
				one.ByGPU[s.GPU] += s.Held()
				one.ByKind[s.Kind.Name] += s.Held()
			}
		}
		r.trail.rounds = append(r.trail.rounds, one)
	}
	if r.Life == "" {
		return
	}
	for _, s := range r.jobs {
		if s.Name != r.Life || s.Submit > float64(r.now) || s.Done && s.Finished < r.now-r.Every {
			continue
		}
		l := meter.TrainingLife{TimeS: r.now, Restarts: s.Restarts, Goodput: (s.Progress - r.trail.made) * float64(s.Kind.MinBatch()) / float64(r.Every)}
		if !s.Done {
			l.GPU, l.GPUs = s.GPU, s.Held()
			l.Batch = s.Total()
		}
		r.trail.made = s.Progress
		r.trail.life = append(r.trail.life, l)
	}
}
