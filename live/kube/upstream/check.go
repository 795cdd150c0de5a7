package upstream

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/headrace-dev/headrace/live/kube"
)

// claimed stands in for what upstream knows of devices. A resource that a node does
// not list may come from a claim that the scheduler makes for it. The books have
// judged that, and here it is taken for granted.
type claimed struct{ fwk.SharedDRAManager }

func (claimed) DeviceClassResolver() fwk.DeviceClassResolver { return claimed{} }

func (claimed) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass {
	return new(resourceapi.DeviceClass)
}

// Check makes a Checker for a scheduler, which starts the informers.
func Check(ctx context.Context, around kube.Around) (kube.Checker, error) {
	c, err := newChecker(ctx, around.Client, around.Informers, claimed{})
	if err != nil {
		return nil, err
	}
	stirred := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { around.Stirred() },
		UpdateFunc: func(any, any) { around.Stirred() },
		DeleteFunc: func(any) { around.Stirred() },
	}
	volumes, storage := around.Informers.Core().V1(), around.Informers.Storage().V1()
	for _, i := range []cache.SharedIndexInformer{
		volumes.PersistentVolumes().Informer(), volumes.PersistentVolumeClaims().Informer(),
		storage.StorageClasses().Informer(), storage.CSINodes().Informer(), storage.CSIDrivers().Informer(),
		storage.CSIStorageCapacities().Informer(), storage.VolumeAttachments().Informer(),
	} {
		if _, err := i.AddEventHandler(stirred); err != nil {
			return nil, fmt.Errorf("watch volumes: %w", err)
		}
	}
	return c, nil
}
