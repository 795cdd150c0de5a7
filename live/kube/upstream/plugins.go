package upstream

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	plfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumerestrictions"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// factory makes one plugin.
type factory func(context.Context, runtime.Object, fwk.Handle, plfeature.Features) (fwk.Plugin, error)

// filters are the filters that are asked, in the order of kube-scheduler's
// default profile. Devices of resource claims have an authority of their own.
var filters = []struct { // const: the filters that are asked
	name string
	make factory
}{
	{names.NodeName, nodename.New},
	{names.NodeUnschedulable, nodeunschedulable.New},
	{names.TaintToleration, tainttoleration.New},
	{names.NodeAffinity, nodeaffinity.New},
	{names.NodePorts, nodeports.New},
	{names.NodeResourcesFit, noderesources.NewFit},
	{names.VolumeRestrictions, volumerestrictions.New},
	{names.NodeVolumeLimits, nodevolumelimits.NewCSI},
	{names.VolumeBinding, volumebinding.New},
	{names.VolumeZone, volumezone.New},
	{names.PodTopologySpread, podtopologyspread.New},
	{names.InterPodAffinity, interpodaffinity.New},
	{names.NodeDeclaredFeatures, nodedeclaredfeatures.New},
}

// plugin is one filter and its preparation, if it has one.
type plugin struct {
	name    string
	prepare fwk.PreFilterPlugin // nil: it needs none
	filter  fwk.FilterPlugin
	volumes bool // it is about volumes alone
}

// newPlugins makes the filters as kube-scheduler's default profile has them, with
// the feature gates at their defaults.
func newPlugins(ctx context.Context, client kubernetes.Interface, all informers.SharedInformerFactory, s *snapshot, devices fwk.SharedDRAManager) ([]plugin, *volumebinding.VolumeBinding, error) {
	metrics.Register() // once per process; the plugins count what they do
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(all), frameworkruntime.WithSnapshotSharedLister(s), frameworkruntime.WithSharedDRAManager(devices),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(all.Storage().V1().CSINodes().Lister())))
	if err != nil {
		return nil, nil, fmt.Errorf("prepare the scheduling framework: %w", err)
	}
	args, err := defaultArgs()
	if err != nil {
		return nil, nil, err
	}
	features := plfeature.NewSchedulerFeaturesFromGates(feature.DefaultFeatureGate)
	var out []plugin
	var volumes *volumebinding.VolumeBinding
	for _, f := range filters {
		made, err := f.make(ctx, args[f.name], handle, features)
		if err != nil {
			return nil, nil, fmt.Errorf("prepare the filter %s: %w", f.name, err)
		}
		p := plugin{name: f.name, filter: made.(fwk.FilterPlugin)}
		p.prepare, _ = made.(fwk.PreFilterPlugin)
		switch f.name {
		case names.VolumeBinding:
			volumes = made.(*volumebinding.VolumeBinding)
			p.volumes = true
		case names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeZone:
			p.volumes = true
		}
		out = append(out, p)
	}
	return out, volumes, nil
}

// defaultArgs returns the arguments of the default profile. Spread constraints
// that a cluster defaults to never rule a node out, so their informers are spared.
func defaultArgs() (map[string]runtime.Object, error) {
	c, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("read the defaults of kube-scheduler: %w", err)
	}
	out := make(map[string]runtime.Object)
	for _, p := range c.Profiles[0].PluginConfig {
		out[p.Name] = p.Args
	}
	out[names.PodTopologySpread] = &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}
	return out, nil
}
