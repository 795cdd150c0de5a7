package share

// Pays says whether a way of a job is worth more than the one in force, with its
// restart, over the time that it is expected to last; what a GPU is worth to others is
// left out.
func (r SizeRules) Pays(j *Sizing, way int) bool {
	if j.Now == nobody {
		return true
	}
	worth := (&weighing{SizeRules: r}).worths(j)
	return worth[way] > worth[j.Now]
}

// Repays says whether a restart that speeds a job up by so many thousandths, and lets it
// have as many GPUs, pays: the time gained, until the horizon or the end of the job, is
// more than the restart.
func (r SizeRules) Repays(j *Sizing, gain int64) bool {
	span := r.Horizon
	if j.Now != nobody {
		span = min(span, j.Left*1000/max(j.Ways[j.Now].Rate, 1))
	}
	return span*gain/1000 > j.Restart
}
