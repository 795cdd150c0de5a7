package scenario

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/chance"
)

// TestRandom holds the invariants along random statements, under every policy. A
// seed that fails prints the text that led there: make it a scenario.
func TestRandom(t *testing.T) {
	runs := int64(6)
	switch {
	case os.Getenv("HEADRACE_LONG") != "":
		runs = 100
	case testing.Short():
		runs = 2
	}
	for _, p := range policies() {
		t.Run(p.name, func(t *testing.T) {
			for seed := range runs {
				text := randomText(p.name, seed)
				if seed%2 == 1 && p.name == policies()[0].name {
					text = strings.Replace(text, fmt.Sprintf("seed=%d", seed), fmt.Sprintf("seed=%d preempt", seed), 1)
				}
				if seed%3 > 0 && p.name == policies()[0].name {
					text = strings.Replace(text, "policy headrace", "policy headrace tidy=all move-price=1", 1)
				}
				if _, err := Run(fmt.Sprintf("seed-%d", seed), strings.NewReader(text)); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
			}
		})
	}
}

const statementsPerText = 60

// randomText draws statements; many are refused, which is as well.
func randomText(policy string, seed int64) string {
	s := chance.New(seed)
	pick := func(words ...string) string { return words[s.Below(int64(len(words)))] }
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s seed=%d\n  typical count=2 gpus=1\n  typical share=300\ngroup two min=2\nqueue q limit=3gpu\nqueue r parent=q limit=1500milli\nbudget b left=1\njob j priority=2 disruptions=3 checkpoint-write=5s\n", policy, seed)
	node := func() string { return pick("n1", "n2", "n3", "n4") }
	pod := func() string { return pick("a", "b", "c", "d", "e", "f", "g", "h") }
	devices := func() string {
		return pick("", " gpus=1", " gpus=2", " gpus=3", " share=300", " share=700 gpu-memory=20GiB", " gpus=2 share=400", " partition=3g", " partition=1g", " gpus=2 partition=1g", " part=1g", " gpus=2 part=1g,3g", " gpus=5 part=any", " part=3g,card", " part=any min-gpu-memory=20GiB") +
			pick("", "", "", " model=A100", " model=T4,A100", " min-gpu-memory=30GiB") + pick("", "", "", " same-island", " same-numa")
	}
	for range statementsPerText {
		switch s.Below(23) {
		case 22:
			b.WriteString(pick("change-job j class=", "sla ", "sla ", "remove-sla ") + pick("patient", "batch", "mine", "always-on") + pick("", " gives=first", " gives=last lends=no", " from-priority=3", " from-priority=none gives=normal", " gives=never total=none") + "\n")
		case 20:
			fmt.Fprintf(&b, "change-pod %s%s%s\n", pod(), pick(" priority=5", " priority=0 preemptible=no", " preemptible=yes", " labels=app=x", " labels=", " select=pool=x", " tolerate=k"), pick("", "", " cpu=1", " cpu=9", devices()))
		case 21:
			fmt.Fprintf(&b, "scale %s%s\n", pick("two", "more", "all"), pick(" min=1", " min=3", " wished=2", " wished=0 min=1", " pods=1", " pods=4", " pods=3 min=2 wished=3"))
		case 0, 1:
			fmt.Fprintf(&b, "node %s cpu=8 pods=5 gpus=%s%s%s\n", node(), pick("2xA100", "4xA100", "2xT4,2xA100", "4xT4"), pick("", " places=8 counters=compute=7", " places=8 counters=compute=7 islands=2", " islands=2", " islands=2 numa=2"),
				pick("", "", " authority=plugin", " sharing=none", " partitions=7:1g=1,3g=3", " taint=k=v:NoSchedule", " labels=pool=x", " gpu-memory=unknown")+pick("", " rack=r1", " rack=r2", " rack=r1 zone=z"))
			if s.Below(3) == 0 {
				b.WriteString("  part 3g at=0,4 size=4 takes=compute=3\n  part 1g at=0,1,2,3,4,5,6 takes=compute=1\n")
			}
		case 2, 3, 4, 5:
			fmt.Fprintf(&b, "pod %s cpu=%d%s%s%s%s\n", pod(), s.Below(4), devices(), pick("", " tolerate=k", " select=pool=x", " select=!pool"), pick("", "", " queue=q", " queue=r")+pick("", "", " group=two", " group=more", " group=more ranks"), pick("", " priority=3", " sla=1h")+
				pick("", "", " labels=app=x", " labels=app=y namespace=t")+pick("", "", "", " budget=b", " job=j", " job=late")+pick("", "", " owner=web", " owner=web surges", " owner=web surges heir-of=a")+pick("", "", " port=80", " apart=host:app=x", " apart=pool:@*", " near=pool:app=x", " spread=host:1:app=x labels=app=x"))
			if s.Below(4) == 0 {
				fmt.Fprintf(&b, "  %s%s\n", pick("or", "and"), devices())
			}
		case 6, 7, 8:
			b.WriteString("decide" + pick("", "", " review", " hold-outcomes", " dry") + "\n")
		case 9:
			fmt.Fprintf(&b, "outcome %s %s\n", pod(), pick("bound", "bound", "refused", "started", "evicted"))
		case 10:
			fmt.Fprintf(&b, "%s %s\n", pick("start", "finish", "delete", "lose", "evict"), pod())
		case 11:
			fmt.Fprintf(&b, "device %s %d %s\n", node(), s.Below(4), pick("sick", "healthy"))
		case 12:
			fmt.Fprintf(&b, "node-life %s %s\n", node(), pick("ready", "ready", "draining", "launching"))
		case 13:
			fmt.Fprintf(&b, "remove-node %s\n", node())
		case 14:
			fmt.Fprintf(&b, "%s %s %s\n", pick("exclude", "include"), pod(), node())
		case 16:
			fmt.Fprintf(&b, "%s\n", pick("group more min=3 hold=1m", "group more min=2 job=j queue=q", "group more min=2 parent=all topology=node:preferred,rack", "group more min=2 topology=island comm=ring", "group all groups=all topology=rack",
				"change-group two parent=all", "change-group more wished=3 groups=1", "change-group two topology=node", "change-group two min=1", "change-group two min=3 hold=10m", "remove-group more"))
		case 17:
			fmt.Fprintf(&b, "%s\n", pick("latency bind=2s evict=30s start=10s", "latency bind=1s", "latency", "run 25s", "run 1m", "restart scheduler", "restart scheduler"))
		case 18:
			fmt.Fprintf(&b, "refuse %s %s%s\n", pick("bind", "bind", "evict"), pod(), pick("", " times=1", " times=3"))
		case 19:
			fmt.Fprintf(&b, "%s\n", pick("flap "+node()+" every=20s times=2", "at 15s device "+node()+" 0 sick", "at 40s remove-node "+node(), "at 5s evict "+pod(), "at 3s pod "+pod()+" cpu=1 stops-in=1m", "show evictions"))
		case 15:
			b.WriteString(pick("after 5m", "rounds", "show digest", "budget b left=2", "job late queue=q", "remove-job late", "change-job j priority=0", "change-queue r limit=none", "checkpointed j", "start "+pod()) + "\n")
		}
	}
	return b.String()
}
