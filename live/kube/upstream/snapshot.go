package upstream

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// snapshot is the state that the plugins look at. It changes in place, pod by
// pod: a check costs what the pod asks for, not what the cluster holds.
type snapshot struct {
	nodes map[string]*framework.NodeInfo
	all   lineup
	// The nodes that hold pods with wishes about other pods, as the plugins want
	// them listed.
	affinity, antiAffinity, wideAntiAffinity lineup
	// claims counts the charged pods by the volume claim that they use.
	claims map[string]int
}

func newSnapshot() *snapshot {
	return &snapshot{nodes: make(map[string]*framework.NodeInfo), claims: make(map[string]int)}
}

// lineup is a list of nodes in which one is found, added and taken out at once.
type lineup struct {
	list []fwk.NodeInfo
	at   map[string]int
}

// set lists a node or not.
func (l *lineup) set(name string, n fwk.NodeInfo, listed bool) {
	i, is := l.at[name]
	switch {
	case listed && is:
		l.list[i] = n
	case listed:
		if l.at == nil {
			l.at = make(map[string]int)
		}
		l.at[name] = len(l.list)
		l.list = append(l.list, n)
	case is:
		last := len(l.list) - 1
		l.list[i] = l.list[last]
		l.at[l.list[i].Node().Name] = i
		l.list = l.list[:last]
		delete(l.at, name)
	}
}

// putNode adds a node or changes it.
func (s *snapshot) putNode(node *corev1.Node) (added bool) {
	n, known := s.nodes[node.Name]
	if !known {
		n = framework.NewNodeInfo()
		s.nodes[node.Name] = n
	}
	n.SetNode(node)
	s.all.set(node.Name, n, true)
	return !known
}

// dropNode takes a node away, with what is charged to it.
func (s *snapshot) dropNode(name string) {
	n, known := s.nodes[name]
	if !known {
		return
	}
	for _, p := range n.Pods {
		s.count(p.GetPod(), -1)
	}
	for _, l := range s.lineups() {
		l.set(name, n, false)
	}
	delete(s.nodes, name)
}

func (s *snapshot) lineups() [4]*lineup {
	return [4]*lineup{&s.all, &s.affinity, &s.antiAffinity, &s.wideAntiAffinity}
}

// charge books a pod on the node that it names. Without that node it holds
// nothing.
func (s *snapshot) charge(pod *corev1.Pod) {
	if n, known := s.nodes[pod.Spec.NodeName]; known {
		n.AddPod(pod)
		s.count(pod, 1)
		s.list(n)
	}
}

// discharge undoes charge.
func (s *snapshot) discharge(pod *corev1.Pod) {
	if n, known := s.nodes[pod.Spec.NodeName]; known && n.RemovePod(klog.Background(), pod) == nil {
		s.count(pod, -1)
		s.list(n)
	}
}

func (s *snapshot) count(pod *corev1.Pod, by int) {
	for key := range framework.PodPVCKeys(pod) {
		if s.claims[key] += by; s.claims[key] <= 0 {
			delete(s.claims, key)
		}
	}
}

// list puts a node where it belongs after its pods have changed.
func (s *snapshot) list(n *framework.NodeInfo) {
	name := n.Node().Name
	s.affinity.set(name, n, len(n.PodsWithAffinity) > 0)
	s.antiAffinity.set(name, n, len(n.PodsWithRequiredAntiAffinity) > 0)
	s.wideAntiAffinity.set(name, n, len(n.PodsWithRequiredNonHostScopedAntiAffinity) > 0)
}

// The plugins read the snapshot through upstream's interfaces.

func (s *snapshot) NodeInfos() fwk.NodeInfoLister       { return s }
func (s *snapshot) StorageInfos() fwk.StorageInfoLister { return s }

// Groups are no affair of the filters.
func (s *snapshot) PodGroupStates() fwk.PodGroupStateLister                   { return nil }
func (s *snapshot) PodGroups() fwk.PodGroupLister                             { return nil }
func (s *snapshot) CompositePodGroupStates() fwk.CompositePodGroupStateLister { return nil }
func (s *snapshot) CompositePodGroups() fwk.CompositePodGroupLister           { return nil }

func (s *snapshot) List() ([]fwk.NodeInfo, error) { return s.all.list, nil }

func (s *snapshot) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return s.affinity.list, nil }

func (s *snapshot) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.antiAffinity.list, nil
}

func (s *snapshot) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return s.wideAntiAffinity.list, nil
}

func (s *snapshot) Get(name string) (fwk.NodeInfo, error) {
	if n, known := s.nodes[name]; known {
		return n, nil
	}
	return nil, fmt.Errorf("node %s is not known", name)
}

func (s *snapshot) IsPVCUsedByPods(key string) bool { return s.claims[key] > 0 }
