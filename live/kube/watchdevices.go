package kube

import (
	"context"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
)

// watchDevices returns the informers for devices and claims. A cluster that does not
// serve them has none.
func (s *Scheduler) watchDevices(ctx context.Context) ([]watched, error) {
	for {
		_, err := s.config.Client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
		if err == nil {
			break
		}
		if apierrors.IsNotFound(err) {
			s.config.Log.Info("the cluster does not serve claims of devices, so none are placed", "version", resourceapi.SchemeGroupVersion.String())
			return nil, nil
		}
		s.config.Log.Warn("it is not known yet whether the cluster serves claims of devices", "because", err)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(lookAgain):
		}
	}
	s.unable.need(deviceAbilities())
	client, none := s.config.Client, cache.Indexers{}
	return []watched{
		{informers.NewResourceSliceInformer(client, 0, none), handler(s, ctx,
			func(b *books, o *resourceapi.ResourceSlice) { b.sliceSeen(o) },
			func(b *books, o *resourceapi.ResourceSlice) { b.sliceGone(o.Name) })},
		{informers.NewDeviceClassInformer(client, 0, none), handler(s, ctx,
			func(b *books, o *resourceapi.DeviceClass) { b.classSeen(o.Name, o) },
			func(b *books, o *resourceapi.DeviceClass) { b.classSeen(o.Name, nil) })},
		{informers.NewDeviceTaintRuleInformer(client, 0, none), handler(s, ctx,
			func(b *books, o *resourceapi.DeviceTaintRule) { b.ruleSeen(o.Name, o) },
			func(b *books, o *resourceapi.DeviceTaintRule) { b.ruleSeen(o.Name, nil) })},
		{informers.NewResourceClaimInformer(client, metav1.NamespaceAll, 0, none), handler(s, ctx,
			func(b *books, o *resourceapi.ResourceClaim) { b.claimSeen(o) },
			func(b *books, o *resourceapi.ResourceClaim) { b.claimGone(o.Namespace+"/"+o.Name, o.UID) })},
	}, nil
}

// handler tells the owner of one kind of object. Objects are shared with the
// informer and not written to.
func handler[T any](s *Scheduler, ctx context.Context, seen, gone func(*books, T)) cache.ResourceEventHandler {
	told := func(object any) {
		if o, ok := object.(T); ok {
			s.send(ctx, message{tell: func(b *books) { seen(b, o) }})
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    told,
		UpdateFunc: func(_, object any) { told(object) },
		DeleteFunc: func(object any) {
			if o, ok := last(object).(T); ok {
				s.send(ctx, message{tell: func(b *books) { gone(b, o) }})
			}
		},
	}
}
