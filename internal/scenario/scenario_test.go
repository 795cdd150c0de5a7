package scenario

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the output that scenario files and the manual have now")

// find lists the scenario files of the repository.
func find(t testing.TB) []string {
	t.Helper()
	files, err := Find("../../scenarios/...")
	if err != nil {
		t.Fatal(err)
	}
	const least = 30
	if len(files) < least {
		t.Fatalf("found %d scenario files, there were at least %d", len(files), least)
	}
	return files
}

// TestScenarios runs every scenario file of the repository. Each must state all
// of its output.
func TestScenarios(t *testing.T) {
	for _, file := range find(t) {
		t.Run(strings.TrimPrefix(file, "../../scenarios/"), func(t *testing.T) {
			var out strings.Builder
			ok, err := File(file, &out, *rewrite)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				t.Error(out.String())
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if steps, _, err := parse(file, string(text)); err != nil || !steps[len(steps)-1].checked {
				t.Errorf("the last step does not say what it expects (%v)", err)
			}
		})
	}
}

// TestReasonsAreCovered looks for every constraint in what scenarios expect,
// save GaveUp, which no search reaches on a cluster that a reader follows.
func TestReasonsAreCovered(t *testing.T) {
	var all strings.Builder
	for _, file := range find(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	for name, phrase := range map[string]string{
		"NoNodes": "the cluster has no nodes", "DeviceModel": "no device of an allowed model",
		"DeviceMemorySize": "needs devices of", "DeviceKind": "no device can be divided as asked",
		"DeviceCount": "devices on one node, the largest node has", "DeviceLink": "linked devices, the largest island",
		"NodeCapacity": "CPU, the largest node has", "DeviceAuthority": "the kubelet picks the cards here",
		"NodeExcluded": "rule the nodes out", "NodeSelector": "no node has the labels asked for",
		"NodeTaint": "taints that are not tolerated", "NodeLife": "the nodes that fit are not ready",
		"NodeRoom": "CPU, the most free on one node is", "DeviceRoom": "milli-GPU on one device, the most free is",
		"DeviceMemoryRoom": "of device memory, the most free is", "DeviceProfileRoom": "needs room for 1 partition on one node, there is room for",
		"DeviceIdle": "idle devices on one node, the most idle is", "DeviceLinkRoom": "idle linked devices, the most idle is",
		"QueueLimit": "milli-GPU, its limit is", "TopologyLabel": "the nodes lack the label", "PodAffinity": "must be in one",
		"NodePorts": "host port", "PodAntiAffinity": "must not be in one", "PodShunned": "pods that keep such as it out",
		"TopologySpread": "would differ by",
	} {
		if !strings.Contains(all.String(), phrase) {
			t.Errorf("no scenario shows %s: %q", name, phrase)
		}
	}
}
