package upstream

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/headrace-dev/headrace/live/kube"
)

// Check makes a Checker for a scheduler, which starts the informers.
func Check(ctx context.Context, around kube.Around) (kube.Checker, error) {
	c, err := New(ctx, around.Client, around.Informers)
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
