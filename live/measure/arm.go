package measure

import (
	"fmt"
	"strings"
)

// arm is one way to bind pods.
type arm struct {
	name  string // as a flag and as schedulerName, after prefix
	title string
	role  role
	// grouped pods come in groups that start all or none.
	grouped bool
	// config is what a kube-scheduler is configured with besides the connection.
	config string
	// gates are the feature gates of a kube-scheduler.
	gates string
}

// baseline is the arm that the others are compared with.
const baseline = "binds"

// prefix sets the schedulerNames of a measurement apart.
const prefix = "measure-"

// mostAllocated packs GPUs, as a cluster of GPUs wants it.
const mostAllocated = `
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: nvidia.com/gpu, weight: 1}
`

// arms returns all arms in the order of the table.
func arms() []arm {
	return []arm{
		{name: baseline, title: "bare loop of binds, 32 workers", role: roleBinds},
		{name: "binds-groups", title: "bare loop of binds, pods of groups", role: roleBinds, grouped: true},
		{name: "kube", title: "kube-scheduler, default profile", role: roleKube},
		{name: "kube-packing", title: "kube-scheduler, MostAllocated on GPUs", role: roleKube, config: mostAllocated},
		{name: "kube-groups", title: "kube-scheduler, groups", role: roleKube, grouped: true, gates: "GenericWorkload=true"},
		{name: "headrace", title: "Headrace", role: roleHeadrace},
		{name: "headrace-groups", title: "Headrace, groups", role: roleHeadrace, grouped: true},
	}
}

func armNames() []string {
	var names []string
	for _, a := range arms() {
		names = append(names, a.name)
	}
	return names
}

// armsNamed returns the arms with these names in the order of the table. The
// baseline is always among them.
func armsNamed(names []string) ([]arm, error) {
	wanted := map[string]bool{baseline: true}
	for _, n := range names {
		wanted[n] = true
	}
	var out []arm
	for _, a := range arms() {
		if wanted[a.name] {
			out = append(out, a)
			delete(wanted, a.name)
		}
	}
	for _, n := range names {
		if wanted[n] {
			return nil, fmt.Errorf("no arm %q: there are %s", n, strings.Join(armNames(), ", "))
		}
	}
	return out, nil
}

// order returns the arms as a round meets them: the baseline at both ends, the
// others forwards in even rounds and backwards in odd ones.
func order(all []arm, round int) []arm {
	var out []arm
	for i := range all {
		a := all[i]
		if round%2 == 1 {
			a = all[len(all)-1-i]
		}
		if a.name != baseline {
			out = append(out, a)
		}
	}
	base := all[0]
	return append(append([]arm{base}, out...), base)
}

// kubeConfiguration is the configuration file of a kube-scheduler.
func kubeConfiguration(a *arm, kubeconfig string) string {
	return fmt.Sprintf(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: %q
  qps: 5000
  burst: 10000
  contentType: application/vnd.kubernetes.protobuf
leaderElection: {leaderElect: false}
profiles:
- schedulerName: %s%s
`, kubeconfig, prefix, a.name+a.config)
}
