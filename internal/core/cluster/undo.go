package cluster

import "github.com/headrace-dev/headrace/internal/core/moment"

// ledgerMark is a point that a ledger can return to while it records: all tables
// that a placement or an intent may write.
type ledgerMark struct {
	nodes, devices, pods, queues, domains, classes, groups, jobs, intents, waiting, artifacts tableMark
	loose                                                                                     Amount
	lenders, refused                                                                          []PodID
	dependents                                                                                []JobID
	returned                                                                                  []GroupID
	slas                                                                                      []SLA
	moves                                                                                     []moment.Instant
	legacies                                                                                  []Legacy
}

func (l *Ledger) mark() ledgerMark {
	return ledgerMark{
		nodes: l.Nodes.mark(), devices: l.Devices.mark(), pods: l.Pods.mark(), queues: l.Queues.mark(), domains: l.Domains.mark(),
		classes: l.Classes.mark(), groups: l.Groups.mark(), jobs: l.Jobs.mark(), intents: l.Intents.mark(), waiting: l.waiting.mark(), artifacts: l.Artifacts.mark(),
		loose:   l.Loose,
		lenders: l.lenders, refused: l.refused, dependents: l.dependents, returned: l.returned, slas: l.slas, moves: l.moves, legacies: l.legacies,
	}
}

func (l *Ledger) rollback(m ledgerMark) {
	l.Nodes.rollback(m.nodes, l.owner)
	l.Devices.rollback(m.devices, l.owner)
	l.Pods.rollback(m.pods, l.owner)
	l.Queues.rollback(m.queues, l.owner)
	l.Domains.rollback(m.domains, l.owner)
	l.Classes.rollback(m.classes, l.owner)
	l.Groups.rollback(m.groups, l.owner)
	l.Jobs.rollback(m.jobs, l.owner)
	l.Intents.rollback(m.intents, l.owner)
	l.waiting.rollback(m.waiting, l.owner)
	l.Artifacts.rollback(m.artifacts, l.owner)
	l.Loose = m.loose
	l.lenders, l.refused, l.dependents, l.returned, l.slas, l.moves, l.legacies = m.lenders, m.refused, m.dependents, m.returned, m.slas, m.moves, m.legacies
}

// forgetUndo drops what was recorded: nobody goes back any more.
func (l *Ledger) forgetUndo() {
	l.Nodes.forgetUndo()
	l.Devices.forgetUndo()
	l.Pods.forgetUndo()
	l.Queues.forgetUndo()
	l.Domains.forgetUndo()
	l.Classes.forgetUndo()
	l.Groups.forgetUndo()
	l.Jobs.forgetUndo()
	l.Intents.forgetUndo()
	l.waiting.forgetUndo()
	l.Artifacts.forgetUndo()
}
