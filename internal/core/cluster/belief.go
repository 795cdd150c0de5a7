package cluster

import "github.com/headrace-dev/headrace/internal/core/quantity"

// Beliefs are what was learned, as integer tables. They never change in place;
// an event replaces them. Any part may be nil: nothing was learned yet.
type Beliefs struct {
	// Version rises with every replacement.
	Version uint64
	Demand  *Demand
	Needs   *Needs
}

// Demand is what is expected to be asked for: shapes with weights that sum to
// about one million.
type Demand struct {
	Rows []DemandRow
}

// DemandRow is one expected shape.
type DemandRow struct {
	Shape  ShapeID
	Weight int64 // parts per million of the pods that arrive
}

// Needs tells, per kind, what runs really used: a moving-window forecast.
type Needs struct {
	ByKind map[Symbol]Need
}

// Need is a forecast for one kind of run, never above the request it is
// applied to.
type Need struct {
	Milli  quantity.MilliGPU // per device, 0: unknown
	Memory quantity.Bytes    // per device, 0: unknown
	CPU    quantity.MilliCPU // 0: unknown
	RAM    quantity.Bytes    // 0: unknown
	Runs   int32             // how many it rests on
}
