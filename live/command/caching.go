package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/headrace-dev/headrace/internal/core/quantity"

	"github.com/headrace-dev/headrace/live/kube"
	"github.com/headrace-dev/headrace/live/kube/facts"
)

// caching says what is made of the images that nodes have, and whether some are fetched
// before pods need them.
type caching struct {
	place       bool
	dense       bool
	share       float64
	rate        string
	prefetch    bool
	first       bool
	pause       string
	pullSecrets []string
}

// mostShare is where a kubelet begins to drop images, whatever it is told here.
const mostShare = 0.85

func (c *caching) flags(f *pflag.FlagSet) {
	f.BoolVar(&c.place, "place-by-caches", true, "place pods where their images are, where that shortens their start by more than it costs")
	f.BoolVar(&c.dense, "dense", false, "keep as few cards in use as will do: pods go to a card in use rather than to one where they start at once")
	f.Float64Var(&c.share, "image-cache-share", float64(kube.DefaultImageShare)/1000, fmt.Sprintf("how much of its ephemeral storage a node keeps for images, as it tells their sizes, where its annotation %s does not say it; at most %v", facts.ImageCache, mostShare))
	f.StringVar(&c.rate, "image-rate", "125M", "how many bytes of an image a node pulls and unpacks per second, as it tells their sizes")
	f.BoolVar(&c.prefetch, "prefetch", false, "fetch images to nodes before pods need them, by pods in the Lease's namespace that mount them")
	f.BoolVar(&c.first, "prefetch-first", false, "with --prefetch, have a pod wait without a place while the images that it lacks are fetched to the node that it would go to, so that no GPU is idle for it meanwhile; for at most ten minutes, and not members of groups")
	f.StringVar(&c.pause, "prefetch-pause-image", kube.DefaultPause, "the image that such a pod runs")
	f.StringArrayVar(&c.pullSecrets, "prefetch-pull-secret", nil, "a secret of the Lease's namespace to fetch images with; without any, images that pods bring secrets for are not fetched; may be given several times")
}

// config checks the flags and turns them into what the scheduler takes.
func (c *caching) config(out *kube.Config) error {
	rate, err := resource.ParseQuantity(c.rate)
	badSecret := slices.IndexFunc(c.pullSecrets, func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
	switch {
	case !(c.share > 0 && c.share <= mostShare):
		return fmt.Errorf("--image-cache-share %v: must be above 0 and at most %v", c.share, mostShare)
	case err != nil || rate.CmpInt64(1) < 0:
		return fmt.Errorf("--image-rate %q: must be a quantity above 0, as 125M", c.rate)
	case c.dense && !c.place:
		return errors.New("--dense: not with --place-by-caches=false, by which pods go to cards in use anyway")
	case c.prefetch && !c.place:
		return errors.New("--prefetch: not with --place-by-caches=false, by which nobody would go where something was fetched")
	case c.prefetch && facts.ImageName(c.pause) == "":
		return fmt.Errorf("--prefetch-pause-image %q: must be the reference of an image, as %s", c.pause, kube.DefaultPause)
	case badSecret >= 0:
		return fmt.Errorf("--prefetch-pull-secret %q: must be the name of a secret", c.pullSecrets[badSecret])
	case c.first && !c.prefetch:
		return errors.New("--prefetch-first: without --prefetch nothing is fetched")
	case len(c.pullSecrets) > 0 && !c.prefetch:
		return fmt.Errorf("--prefetch-pull-secret %s: without --prefetch nothing is fetched", c.pullSecrets[0])
	}
	out.Caching = kube.Caching{Off: !c.place, Dense: c.dense, Share: quantity.Milli(c.share * 1000), Rate: quantity.Bytes(facts.Units(&rate))}
	if out.Caching.Share == 0 {
		out.Caching.Share = 1
	}
	if c.prefetch {
		out.Prefetch = &kube.Prefetching{Pause: c.pause, PullSecrets: c.pullSecrets, First: c.first}
	}
	return nil
}
