package web

import (
	"math"

	"github.com/headrace-dev/headrace/internal/meter"
)

// evenly picks at most limit indices out of n, first and last among them.
func evenly(n, limit int) []int {
	count := min(n, limit)
	out := make([]int, count)
	for i := range out {
		if count > 1 {
			out[i] = i * (n - 1) / (count - 1)
		}
	}
	return out
}

// point is one value at one instant.
type point struct{ x, y float64 }

// thinner makes few points of a bucket of many.
type thinner struct {
	buckets int
	thin    func(bucket []point) []point
	note    string // what a point of a thinned line is
}

// levels keeps the mean: right for a share of capacity, where noise would
// cover the lines of other policies. Half of maxPoints is enough for it.
var levels = thinner{maxPoints / 2, func(bucket []point) []point {
	mean := point{}
	for i, p := range bucket {
		mean.x += (p.x - mean.x) / float64(i+1)
		mean.y += (p.y - mean.y) / float64(i+1)
	}
	return []point{mean}
}, "Each point is the mean over "}

// peaks keeps the least and the greatest, in order of time: right for a queue,
// whose peak is the news.
var peaks = thinner{maxPoints / 2, func(bucket []point) []point {
	least, most := bucket[0], bucket[0]
	for _, p := range bucket {
		if p.y < least.y {
			least = p
		}
		if p.y > most.y {
			most = p
		}
	}
	if most.x < least.x {
		least, most = most, least
	}
	return []point{least, most}
}, "Points are the least and the greatest within "}

// sampled reads one quantity of a series, thinned to maxPoints, and says how
// it was thinned.
func sampled(series []meter.Sample, t thinner, of func(meter.Sample) float64) (line, string) {
	var points []point
	for _, s := range series {
		if v := of(s); finite(v) && finite(s.AtS) {
			points = append(points, point{s.AtS, v})
		}
	}
	note := ""
	if n := len(points); n > maxPoints {
		note = t.note + duration((points[n-1].x-points[0].x)/float64(t.buckets)) + "."
		var thinned []point
		for b := range t.buckets {
			thinned = append(thinned, t.thin(points[b*n/t.buckets:(b+1)*n/t.buckets])...)
		}
		points = thinned
	}
	var l line
	for _, p := range points {
		l.X = append(l.X, number(p.x))
		l.Y = append(l.Y, number(p.y))
	}
	return l, note
}

// cumulative turns ascending values into the share of them at or below each.
func cumulative(values []float64) line {
	var clean []float64
	for _, v := range values {
		if finite(v) {
			clean = append(clean, v)
		}
	}
	var l line
	for _, i := range evenly(len(clean), maxPoints) {
		share := float64(i+1) / float64(len(clean)) * 100
		l.X = append(l.X, number(math.Max(clean[i], 0)))
		l.Y = append(l.Y, number(share))
	}
	return l
}
