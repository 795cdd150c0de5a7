package share

import (
	"slices"
)

// Way is one configuration of an elastic job: so many GPUs of a class, with the rate
// of progress that is expected of it, in thousandths of the job's reference. Of
// each class the first way is the one of fewest GPUs.
type Way struct {
	Class int32
	GPUs  int32
	Rate  int64
}

// Sizing is a job whose size is to be chosen.
type Sizing struct {
	Key  uint64 // breaks ties
	Ways []Way  // a rigid job has one
	// Now is the way in force, -1 for none; Fixed says that it must stay, as during a
	// restart.
	Now   int
	Fixed bool
	// Restart is what a change costs, Done and Left what was done and is left to do as
	// time at the reference rate, Age how long the job has been there, and Lasted how
	// long a choice for it lasted so far, on the mean. All in milliseconds.
	Restart, Done, Left, Age, Lasted int64
}

// SizeRules are the constants of choosing sizes; docs/adr/0010 says what each is
// worth.
type SizeRules struct {
	// Horizon is the longest time in which a move must pay for its restart, in
	// milliseconds; Patience, in thousandths, the part that a choice is expected to last
	// of what choices for the job lasted so far.
	Horizon, Patience int64
	// Thrift and Crowd are what a GPU for an hour costs, in millionths of what a job's
	// hour in the cluster does: always, and at one job a GPU, in proportion to the jobs;
	// less than that below a job for every four GPUs.
	Thrift, Crowd int64
	// Rush is the same for weighing jobs with each other, in proportion to the jobs.
	Rush int64
	// Late is from which lateness on a job weighs more, in thousandths of the time that
	// it would have taken with its share of the GPUs; MostLate bounds how much more.
	Late, MostLate int64
	// Margin is by how many thousandths a move to as many GPUs must gain on staying.
	Margin int64
}

// DefaultSizeRules are those that were chosen on a part of the public workloads.
func DefaultSizeRules() SizeRules {
	return SizeRules{
		Horizon: 600_000, Patience: 500, Margin: 50,
		Thrift: 1_000, Crowd: 125_000, Rush: 500_000, Late: 1_000, MostLate: 10_000,
	}
}

// nobody is the choice of no way.
const nobody = -1

// Sizes chooses a way, or none (-1), for each job, within the GPUs of each class.
//
// A choice is worth its rate over the time that it is expected to last, less what a
// restart eats of that and less the price of its GPUs, times the weight of the job.
// The sum of worths is made as large as is found at prices for the GPUs of each
// class.
func Sizes(room []int64, jobs []Sizing, rules SizeRules) []int {
	c := &chooser{room: slices.Clone(room), jobs: jobs, chosen: make([]int, len(jobs)), worth: make([][]int64, len(jobs))}
	w := rules.weighing(room, len(jobs))
	for j := range jobs {
		c.chosen[j] = nobody
		c.worth[j] = w.worths(&jobs[j])
		if jobs[j].Fixed && jobs[j].Now != nobody {
			c.take(j, jobs[j].Now)
			continue
		}
		c.open = append(c.open, j)
	}
	slices.SortFunc(c.open, func(a, b int) int { return compareKeys(jobs[a].Key, jobs[b].Key, a, b) })
	c.start = slices.Clone(c.room)
	c.setPrices()
	c.settle()
	return c.chosen
}

func compareKeys(a, b uint64, i, j int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return i - j
}
