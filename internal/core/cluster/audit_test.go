package cluster_test

import (
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"pgregory.net/rapid"
)

// The books balance after any sequence of changes of a ledger, nodes removed and
// their ids given out again included.
func TestBooksBalanceAfterAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		for range rapid.IntRange(1, 60).Draw(t, "more") {
			if rapid.IntRange(0, 19).Draw(t, "remove") == 0 {
				replaceNode(t, s)
			}
			s.step(t)
			if err := cluster.Audit(&s.ledger.View); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// replaceNode removes a node, and puts another one under its id.
func replaceNode(t *rapid.T, s *site) {
	l, id := s.ledger, rapid.SampledFrom(s.nodes).Draw(t, "node")
	for _, pod := range l.Node(id).Pods {
		l.Discharge(pod, cluster.PhaseWaiting)
	}
	l.RemoveNode(id)
	if err := cluster.Audit(&l.View); err != nil {
		t.Fatalf("node removed: %v", err)
	}
	for i := range l.Pods.Len() {
		if p := l.Pod(cluster.PodID(i)); p.LastNode == id {
			t.Fatalf("pod %s remembers a node that is gone", p.Spec.Name)
		}
	}
	spec, generation := *l.Node(id).Spec, l.Node(id).Generation
	spec.Name, spec.UID = spec.Name+"'", spec.UID+"'"
	var devices []*cluster.DeviceSpec
	for i := range spec.DeviceCount {
		devices = append(devices, l.DeviceOf(l.Node(id), i).Spec)
	}
	if got := l.AddNode(spec, devices, cluster.LifeReady, id); got != id || l.Node(id).Generation != generation+1 {
		t.Fatalf("node %d of generation %d replaced by node %d of generation %d", id, generation, got, l.Node(got).Generation)
	}
}

// Audit finds damage to each single account.
func TestAuditFindsPlantedDamage(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(l *cluster.Ledger)
		want  string
	}{
		{name: "none", plant: func(*cluster.Ledger) {}},
		{name: "node free", plant: func(l *cluster.Ledger) { l.Node(1).Free = l.Node(1).Free.With(cluster.DimCPU, 1) }, want: "node gpu: free"},
		{name: "node free behind the inline dimensions", plant: func(l *cluster.Ledger) {
			l.Node(1).Free = l.Node(1).Free.With(cluster.DimExtended+extendedDims-1, 1)
		}, want: "node gpu: free"},
		{name: "node overdrawn", plant: func(l *cluster.Ledger) {
			n := l.Node(0)
			spec := *n.Spec
			taken := n.Spec.Allocatable.Minus(&n.Free)
			spec.Allocatable, n.Spec = cluster.Vector{}, &spec
			n.Free = n.Free.Minus(&n.Free)
			n.Free = n.Free.Minus(&taken)
		}, want: "node plain: overdrawn"},
		{name: "node lists too few", plant: func(l *cluster.Ledger) { l.Node(1).Pods = l.Node(1).Pods[:1] }, want: "node gpu: lists 1 pods, holds 2"},
		{name: "node lists another's", plant: func(l *cluster.Ledger) { l.Node(1).Pods = []cluster.PodID{0, 1} }, want: "node gpu lists pod small, which is elsewhere"},
		{name: "node state", plant: func(l *cluster.Ledger) { l.Node(1).State++ }, want: "node gpu: state"},
		{name: "node residents", plant: func(l *cluster.Ledger) { l.Node(1).Residents++ }, want: "node gpu: state"},
		{name: "node free compute", plant: func(l *cluster.Ledger) { l.Node(1).FreeMilli++ }, want: "node gpu: 2751 milli-GPU free"},
		{name: "node idle devices", plant: func(l *cluster.Ledger) { l.Node(1).IdleDevices-- }, want: "on 1 idle devices, counted"},
		{name: "node life", plant: func(l *cluster.Ledger) { l.Node(1).Life = cluster.LifeOff }, want: "2 pods on node gpu, which is off"},
		{name: "device compute", plant: func(l *cluster.Ledger) { l.Device(0).FreeMilli++ }, want: "device gpu/0: free 1 milli"},
		{name: "device memory", plant: func(l *cluster.Ledger) { l.Device(0).FreeMemory++ }, want: "device gpu/0: free 0 milli and"},
		{name: "device holders", plant: func(l *cluster.Ledger) { l.Device(0).Holders++ }, want: "with 2 holders"},
		{name: "device health", plant: func(l *cluster.Ledger) { l.Device(2).Health = cluster.Sick }, want: "node gpu: 2750 milli-GPU free on 2 idle devices, counted 1750 on 1"},
		{name: "device counter", plant: func(l *cluster.Ledger) { l.Device(4).Used = []int64{3, 1} }, want: "device mig/0: counter 0 at 3 of 7, its pods use 2"},
		{name: "second device counter", plant: func(l *cluster.Ledger) { l.Device(4).Used = []int64{2, 0} }, want: "device mig/0: counter 1 at 0 of 4, its pods use 1"},
		{name: "counter total", plant: func(l *cluster.Ledger) {
			spec := *l.Device(4).Spec
			spec.Counters = []cluster.Counter{{Total: 1}, {Total: 4}}
			l.Device(4).Spec = &spec
		}, want: "device mig/0: counter 0 at 2 of 1"},
		{name: "class totals", plant: func(l *cluster.Ledger) { l.Classes.At(1).Totals.FreeMilli++ }, want: "class gpu: totals"},
		{name: "class nodes", plant: func(l *cluster.Ledger) { l.Classes.At(0).Totals.Nodes++ }, want: "class plain: totals"},
		{name: "domain totals", plant: func(l *cluster.Ledger) { l.Domains.At(0).Totals.FreeCPU-- }, want: "domain cloud: totals"},
		{name: "domain devices", plant: func(l *cluster.Ledger) { l.Domains.At(2).Totals.IdleDevices-- }, want: "domain rack: totals"},
		{name: "queue compute", plant: func(l *cluster.Ledger) { l.Queues.At(0).UsedMilli++ }, want: "queue root: uses"},
		{name: "queue vector", plant: func(l *cluster.Ledger) { l.Queues.At(1).Used = l.Queues.At(1).Used.With(cluster.DimPods, 9) }, want: "queue team: uses"},
		{name: "queue limit", plant: func(l *cluster.Ledger) { l.Queues.At(1).LimitMilli = 999 }, want: "queue team: uses"},
		{name: "pod phase", plant: func(l *cluster.Ledger) { l.Pod(1).Phase = cluster.PhaseHeld }, want: "pod whole is held with node 1"},
		{name: "pod place", plant: func(l *cluster.Ledger) { l.Pod(1).Placement = cluster.Nowhere() }, want: "pod whole is running with node -1"},
		{name: "pod grant elsewhere", plant: func(l *cluster.Ledger) { l.Pod(1).Placement.Grants = []cluster.Grant{{Device: 5}} }, want: "pod whole on gpu holds device 5 of another node"},
		{name: "pod grant", plant: func(l *cluster.Ledger) { l.Pod(1).Placement.Grants = []cluster.Grant{{Device: 0, Milli: 999}} }, want: "device gpu/0: free 0 milli"},
		{name: "pod shape", plant: func(l *cluster.Ledger) { l.Pod(1).Placement.Shape = 0 }, want: "node gpu: free"},
		{name: "pod queue", plant: func(l *cluster.Ledger) {
			spec := *l.Pod(1).Spec
			spec.Queue = cluster.None
			l.Pod(1).Spec = &spec
		}, want: "pods without queue: use"},
		{name: "waiting set lists too many", plant: func(l *cluster.Ledger) { l.Pod(4).Phase = cluster.PhaseHeld }, want: "pod idle is listed as waiting, it is held"},
		{name: "waiting set lists too few", plant: func(l *cluster.Ledger) { l.Pod(5).Phase = cluster.PhaseWaiting }, want: "2 pods wait, 1 are listed"},
		{name: "refused bind not listed", plant: func(l *cluster.Ledger) { l.Pod(4).Refused = cluster.Refusals{Count: 1, Until: 5} }, want: "pod idle, waiting: 1 binds refused, listed: false"},
		{name: "refused bind listed", plant: func(l *cluster.Ledger) {
			l.SetRefused(4, cluster.Refusals{Count: 1, Until: 5})
			l.Pod(4).Refused = cluster.Refusals{}
		}, want: "0 pods had their last bind refused, 1 are listed"},
		{name: "refused bind of a running pod", plant: func(l *cluster.Ledger) { l.SetRefused(1, cluster.Refusals{Count: 1, Until: 5}) }, want: "pod whole, running: 1 binds refused"},
		{name: "refused without a time", plant: func(l *cluster.Ledger) { l.Pod(1).Kept.Count = 1 }, want: "pod whole: refused 1 times, until 0s"},
		{name: "refused eviction of a waiting pod", plant: func(l *cluster.Ledger) { l.Pod(4).Kept = cluster.Refusals{Count: 2, Until: 5} }, want: "pod idle is waiting, and its eviction was refused 2 times"},
		{name: "intent of a running pod", plant: func(l *cluster.Ledger) { l.Pod(3).Phase = cluster.PhaseRunning }, want: "an intent to bind pod partition, which is running"},
		{name: "intent of another", plant: func(l *cluster.Ledger) { l.Intents.At(0).Pod = 1 }, want: "an intent to bind pod whole"},
		{name: "job named by nobody", plant: func(l *cluster.Ledger) { l.EditJob(addJob(l, "a")).Named = 1 }, want: "job a: named by 1, counted 0"},
		{name: "job that ended at no time", plant: func(l *cluster.Ledger) { l.EditJob(addJob(l, "a")).State = cluster.JobDone }, want: "job a: state 2, began at 0s, ended at 0s"},
		{name: "job after others not listed", plant: func(l *cluster.Ledger) {
			a, b := addJob(l, "a"), addJob(l, "b")
			l.EditJob(a).After = []cluster.Dependency{{Job: b}}
		}, want: "job a comes after 1 others, known: true, listed: false"},
		{name: "jobs in a circle", plant: func(l *cluster.Ledger) {
			a, b := addJob(l, "a"), addJob(l, "b")
			l.SetAfter(a, []cluster.Dependency{{Job: b}})
			l.SetAfter(b, []cluster.Dependency{{Job: a}})
		}, want: "2 jobs come after each other in a circle"},
		{name: "intent gone", plant: func(l *cluster.Ledger) { l.Intents.At(0).ID = 0 }, want: "pod partition names an intent that is not its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := audited(t)
			c.plant(l)
			got := ""
			if err := cluster.Audit(&l.View); err != nil {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("Audit: got %q, want it to contain %q", got, c.want)
			}
		})
	}
}

// audited returns a ledger with sound books and an entry in every account.
func audited(t *testing.T) *cluster.Ledger {
	t.Helper()
	s := newSite()
	for class, name := range []string{"plain", "gpu", "mig"} {
		s.addNode(name, class)
	}
	l := s.ledger
	s.addPod("small", 0, 0)
	s.addPod("whole", 2, 0)
	s.addPod("share", 4, 0)
	partition := s.addPod("partition", 6, 0)
	s.addPod("idle", 0, 0)
	held := s.addPod("held", 0, 0)
	l.SetPhase(held, cluster.PhaseHeld)
	for pod, place := range []cluster.Placement{
		{Node: 0, Shape: s.shapes[0]},
		{Node: 1, Shape: s.shapes[2], Grants: []cluster.Grant{{Device: 0, Milli: 1000, Memory: 80 * quantity.GiB}}},
		{Node: 1, Shape: s.shapes[4], Grants: []cluster.Grant{{Device: 1, Milli: 250, Memory: 10 * quantity.GiB}}},
		{Node: 2, Shape: s.shapes[6], Grants: []cluster.Grant{{Device: 4, Milli: 280, Memory: 20 * quantity.GiB, Profile: s.names.Intern("2g")}}},
	} {
		if err := l.Admit(cluster.PodID(pod), &place); err != nil {
			t.Fatal(err)
		}
		phase := cluster.PhaseRunning
		if cluster.PodID(pod) == partition {
			phase = cluster.PhasePlacing
		}
		l.Charge(cluster.PodID(pod), place, phase)
	}
	in := cluster.Intent{ID: 5, Action: cluster.ActionBind, Pod: partition, Place: l.Pod(partition).Placement}
	l.EditPod(partition).Intent = l.AddIntent(in, cluster.None)
	return l
}

func addJob(l *cluster.Ledger, name string) cluster.JobID {
	return l.AddJob(cluster.Job{Name: name, Known: true, Queue: cluster.None}, cluster.None)
}
