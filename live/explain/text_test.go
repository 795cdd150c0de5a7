package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What people read of a waiting pod, of a placed one, of the line and of the
// cluster, to the letter.
func TestText(t *testing.T) {
	part := 0.125
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	var out strings.Builder
	(&Pod{
		Namespace: "ns", Name: "big", Verdict: Waiting, WaitedSeconds: 190, Turn: 2, Line: 5, Profile: "headrace", Policy: "headrace",
		Reason:  &Reason{Code: "DeviceIdle", Says: "needs 4 idle devices on one node, the most idle is 1 (2 of 3 nodes); waiting for room"},
		Help:    []string{"4 idle GPUs on one node; the closest: a, b", "another thing"},
		Classes: []Class{{Name: "4 × H200", Nodes: 3, Fits: 1, Reasons: []Reason{{Nodes: 2, Says: "needs 4 idle devices on one node, the most idle is 1 (2 of 3 nodes); waiting for room"}}}},
		History: []Past{{At: at, Says: "taints"}},
	}).Text(&out)
	(&Pod{
		Namespace: "ns", Name: "p", Verdict: Placed, WaitedSeconds: 0.25, Place: &Place{
			Node: "a", Identity: "presumed", Devices: []Device{{Index: 0, Model: "H200", Milli: 1000}, {Index: 3, Model: "H200", Milli: 500}},
			Chosen: &Chosen{Images: &Images{SavedSeconds: 172, PullSeconds: 20, Each: []Image{{Name: "a:v1", There: true, Nodes: 1}, {Name: "b:v1", Nodes: 2}}}, At: at, Cycle: 7, Feasible: 3, Score: Score{Total: 310_000, Fit: 500_000, Urgency: 33_000}, RunnersUp: []RunnerUp{{Node: "b", Score: Score{Total: 4}}}},
		},
	}).Text(&out)
	(&Queue{Total: 3, Pods: []Queued{
		{Turn: 1, Namespace: "ns", Name: "a", Profile: "headrace", Priority: 10, WaitedSeconds: 8000, Verdict: Never, Says: "too large"},
		{Namespace: "ns", Name: "gated", Profile: "headrace", WaitedSeconds: 300000, Verdict: AfterChange},
	}}).Text(&out)
	(&Queue{}).Text(&out)
	(&Top{
		Nodes: 3, NodesReady: 2, GPUs: 8, GPUsHeld: 2, Fragments: &part, Models: []Supply{{Name: "H200", GPUs: 8, Held: 2}},
		NodeList: []Node{{Name: "a", Life: "ready", GPUs: 8, Held: 2, Pods: 3, CPU: 1500, Memory: 3 << 29}},
		Reasons:  []Reasons{{Kind: "k", Count: 4, Says: "s"}},
	}).Text(&out, 1)
	want := `pod ns/big: has waited 3m10s
  reason       needs 4 idle devices on one node, the most idle is 1 (2 of 3 nodes); waiting for room (DeviceIdle)
  would help   4 idle GPUs on one node; the closest: a, b
               another thing
  turn         2 of 5 in line
  profile      headrace, decided by policy headrace

what the nodes say
  NODES   CLASS      ANSWER
  1       4 × H200   fits
  2       4 × H200   needs 4 idle devices on one node, the most idle is 1

history
  03:04:05   taints
pod ns/p: placed on a after 0.2s
  devices      gpu0 H200
               gpu3 H200, 500 milli-GPU
               the kubelet picks the card: it may be another one of the model
  decided      in cycle 7 at 03:04:05, 3 nodes could take it
  score        0.310 (fit 0.500, urgency 0.033, affinity 0.000)
  images       1 of 2 were there, which saves 2m52s; 20s to pull
               to pull: b:v1, which 2 nodes had
  not chosen   b: 4
TURN   NAMESPACE   POD     PROFILE    PRIORITY   WAITED   VERDICT        REASON
1      ns          a       headrace   10         2h13m    never          too large
-      ns          gated   headrace   0          3d11h    after-change   
and 1 more
no pod waits
nodes   3, 2 take work
GPUs    8, 2 held (25 %), 12.5 % in fragments
pods    0 bound, 0 binding, 0 in line, 0 after a refused bind, 0 held back
work    0 decisions, 0.0 per second, 0 refused, 0 cycles

MODEL   NODES   GPUS   HELD   IN USE
H200    -       8      2      25 %

NODE   LIFE    GPUS   HELD   PODS   FREE CPU   FREE MEMORY
a      ready   8      2      3      1.5        1.5 GiB
and 2 more

WAITING   BECAUSE
4         s
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// Queues are drawn in GPUs; what there is none of is a dash.
func TestTenantsText(t *testing.T) {
	var out strings.Builder
	(&Pod{Namespace: "ns", Name: "p", Verdict: Waiting, Queues: []Tenant{
		{
			Name: "child", Parent: "top", Weight: 1000, Waiting: 2, Used: Amounts{"gpus": 1500, "cpu": 9}, Quota: Amounts{"gpus": 4000},
			Fair: Amounts{"gpus": 5000}, Deserved: Amounts{"gpus": 4000}, Limit: Amounts{"gpus": 8000},
		},
		{Name: "top", Used: Amounts{"gpus": 0}, Message: "waits"},
	}}).Text(&out)
	want := `pod ns/p: has waited 0.0s

its queue and those above it, GPUs
QUEUE   PARENT   USED   QUOTA   FAIR SHARE   DESERVED   LIMIT   WEIGHT   WAITING   NOTE
child   top      1.5    4       5            4          8       1        2         
top     -        0      -       -            -          -       0        0         waits
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
