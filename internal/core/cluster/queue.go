package cluster

import (
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// QuotaEpoch is how long dynamic quotas stand before they are computed anew.
const QuotaEpoch = 10 * moment.Minute

// HourEpochs is how many epochs the use of the last hour is kept in.
const HourEpochs = 6

// Queue is a tenant's line. Used counts charged pods of the queue and of all
// queues below it.
type Queue struct {
	Name       string
	Key        uint64
	Generation uint32
	// Gone says that the queue was removed: the row is free.
	Gone   bool
	Parent QueueID // None at the root
	// Weight is the queue's part of what nobody has bought, among its siblings; one
	// of 0 borrows only what nobody else would.
	Weight quantity.Milli
	// Deserved is what the tenant bought; DeservedMilli and UsedMilli are the GPU
	// side of Deserved and Used.
	Deserved      Vector
	DeservedMilli quantity.MilliGPU
	Limit         Vector            // 0 in a dimension: no limit
	LimitMilli    quantity.MilliGPU // 0: no limit
	Used          Vector
	UsedMilli     quantity.MilliGPU
	Overdrawn     bool // facts took more than the limit; it ends when that has left
	Usage         Usage

	// What has been used since the last epoch began, up to countedAt.
	spent     int64
	countedAt moment.Instant
}

// Usage is what a queue used, as believed when the last epoch began, in thousandths
// of a GPU times seconds.
type Usage struct {
	Hour    [HourEpochs]int64 // by epoch, the latest first
	History int64             // decayed
}

// LastHour is the use of the last hour, in milli-GPU seconds.
func (u *Usage) LastHour() int64 {
	sum := int64(0)
	for _, spent := range u.Hour {
		sum = quantity.AddSaturating(sum, spent)
	}
	return sum
}

// Queue returns a queue for reading.
func (v *View) Queue(id QueueID) *Queue { return v.Queues.At(int32(id)) }

// EditQueue returns a queue for changing what no account depends on. Used follows
// the pods.
func (l *Ledger) EditQueue(id QueueID) *Queue { return l.queue(id) }

func (l *Ledger) queue(id QueueID) *Queue { return l.Queues.own(int32(id), l.owner, l.recording) }

// AddQueue adds a queue, in the row of one that is gone where there is one; its
// parent is there already.
func (l *Ledger) AddQueue(q Queue, reuse QueueID) QueueID {
	q.countedAt = l.now
	if reuse == None {
		return QueueID(l.Queues.grow(l.owner, q))
	}
	q.Generation = l.Queue(reuse).Generation + 1
	*l.queue(reuse) = q
	return reuse
}

// MoveQueue puts a queue with all that it uses below another parent.
func (l *Ledger) MoveQueue(id, parent QueueID) {
	q := l.Queue(id)
	used, milli := q.Used, q.UsedMilli
	for up := q.Parent; up != None; up = l.Queue(up).Parent {
		l.use(up, &used, milli, -1)
	}
	l.queue(id).Parent = parent
	for up := parent; up != None; up = l.Queue(up).Parent {
		l.use(up, &used, milli, +1)
	}
}

// ExcuseQueue marks a queue that a lower limit has put above it.
func (l *Ledger) ExcuseQueue(id QueueID) {
	if q := l.Queue(id); q.above() != q.Overdrawn {
		l.queue(id).Overdrawn = q.above()
	}
}

// above says whether a queue uses more than its limit in any dimension.
func (q *Queue) above() bool {
	_, over := q.Exceeds(&Amount{})
	return over
}

// Limited says whether the queue has a limit in anything.
func (q *Queue) Limited() bool { return q.LimitMilli > 0 || q.Limit.Positive() }

// Within says whether a queue is another, or below it.
func (v *View) Within(a, b QueueID) bool {
	for ; a != None; a = v.Queue(a).Parent {
		if a == b {
			return true
		}
	}
	return false
}

// DimMilli stands for GPU compute where a limit is named by its dimension.
const DimMilli Dim = -1

// Exceeds says whether a queue would be above its limit with that much more, and in
// which dimension first; GPU compute is DimMilli.
func (q *Queue) Exceeds(more *Amount) (Dim, bool) {
	if q.LimitMilli > 0 && q.UsedMilli+more.Milli > q.LimitMilli {
		return DimMilli, true
	}
	for d := range q.Limit.Dims() {
		if limit := q.Limit.At(d); limit > 0 && q.Used.At(d)+more.Rest.At(d) > limit {
			return d, true
		}
	}
	return 0, false
}

// use books an amount on one queue.
func (l *Ledger) use(id QueueID, need *Vector, milli quantity.MilliGPU, sign int64) {
	q := l.queue(id)
	l.count(q)
	q.UsedMilli += quantity.MilliGPU(sign) * milli
	if sign > 0 {
		q.Used = q.Used.Plus(need)
		return
	}
	q.Used = q.Used.Minus(need)
	q.Overdrawn = q.Overdrawn && q.above()
}

// count adds what a queue has used since it was counted last. Trials stand still in
// time.
func (l *Ledger) count(q *Queue) {
	if l.now <= q.countedAt {
		return
	}
	seconds := int64(l.now.Since(q.countedAt) / moment.Millisecond)
	q.spent = quantity.AddSaturating(q.spent, quantity.MulDiv(int64(q.UsedMilli), seconds, 1000))
	q.countedAt = l.now
}

// Spent is what a queue has used since its epoch began, in milli-GPU seconds, as of an
// instant at which it uses what it does now.
func (v *View) Spent(id QueueID, at moment.Instant) int64 {
	q := v.Queue(id)
	if at <= q.countedAt {
		return q.spent
	}
	return quantity.AddSaturating(q.spent, quantity.MulDiv(int64(q.UsedMilli), int64(at.Since(q.countedAt)/moment.Millisecond), 1000))
}

// SetUsage sets what is believed of the use of a queue, and of its use since the epoch
// began where that is known.
func (l *Ledger) SetUsage(id QueueID, usage Usage, spent int64) {
	q := l.queue(id)
	l.count(q)
	if q.Usage = usage; spent > 0 {
		q.spent = spent
	}
}

// SetNow tells the time to which use is counted.
func (l *Ledger) SetNow(now moment.Instant) { l.now = now }

// BeginEpoch takes up what the queues have used in the epoch that ends. History
// loses half of what it says in halfLife.
func (l *Ledger) BeginEpoch(halfLife moment.Span) {
	for i := range l.Queues.Len() {
		if l.Queues.At(int32(i)).Gone {
			continue
		}
		q := l.queue(QueueID(i))
		l.count(q)
		copy(q.Usage.Hour[1:], q.Usage.Hour[:HourEpochs-1])
		q.Usage.Hour[0] = q.spent
		q.Usage.History = quantity.AddSaturating(decayed(q.Usage.History, halfLife), q.spent)
		q.spent = 0
	}
}

// decayed is what is left of a sum after one epoch: e^-x is 1 - x + x²/2 for the
// small x = ln 2 · epoch / halfLife.
func decayed(sum int64, halfLife moment.Span) int64 {
	const million, ln2 = 1_000_000, 693_147
	x := quantity.MulDiv(ln2, int64(QuotaEpoch), int64(halfLife))
	left := max(million-x+x*x/(2*million), 0)
	return quantity.MulDiv(sum, min(left, million), million)
}
