package model

import (
	"slices"
	"testing"

	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/sim/trace"
)

func standard(kind string) *trace.Pod {
	return &trace.Pod{Kind: kind, Use: trace.Use{Image: StandardImage, Weights: StandardWeights, WarmUp: StandardWarmUp}}
}

// The standard case takes 180 s from nothing, 22 s with everything there, and in between
// what is left of what others fetch.
func TestStartOfTheStandardCase(t *testing.T) {
	for _, tt := range []struct {
		name string
		prep func(*Cache)
		want moment.Span
	}{
		{"nothing there", func(*Cache) {}, 180 * moment.Second},
		{"all there", func(c *Cache) { c.Start(standard("a"), moment.Instant(-moment.Hour)) }, 22 * moment.Second},
		{"another kind there", func(c *Cache) { c.Use(standard("b")) }, 180 * moment.Second},
		{"both fetched beside each other, since now", func(c *Cache) {
			c.Fetch("a", PartImage, StandardImage, moment.Instant(80*moment.Second))
			c.Fetch("a", PartWeights, StandardWeights, moment.Instant(78*moment.Second))
		}, 102 * moment.Second},
		{"weights fetched ahead", func(c *Cache) { c.Fetch("a", PartWeights, StandardWeights, 0) }, 102 * moment.Second},
		{"image dropped", func(c *Cache) { c.Start(standard("a"), moment.Instant(-moment.Hour)); c.Drop("a", PartImage) }, 102 * moment.Second},
		{"another pod of the kind began 100 s ago", func(c *Cache) { c.Start(standard("a"), moment.Instant(-100*moment.Second)) }, 80 * moment.Second},
	} {
		c := NewCache(NodeCache)
		tt.prep(&c)
		if got, _ := c.Start(standard("a"), 0); got != tt.want {
			t.Errorf("%s: the start takes %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A start says what goes for it, what was used longest ago first; a fetch ahead never
// lets anything go.
func TestWhatGoesFromACache(t *testing.T) {
	size := StandardImage + StandardWeights
	c := NewCache(2 * size)
	c.Use(standard("a"))
	c.Use(standard("b"))
	if c.Fetch("d", PartImage, StandardImage, 0) {
		t.Error("a fetch ahead found room in a full cache")
	}
	_, gone := c.Start(standard("c"), 0)
	if want := []Gone{{"a", PartImage}, {"a", PartWeights}}; !slices.Equal(gone, want) {
		t.Errorf("gone: %v, want %v", gone, want)
	}
	c.Drop("b", PartWeights)
	if !c.Fetch("d", PartImage, StandardImage, 5) || c.Fetch("d", PartImage, StandardImage, 5) {
		t.Error("a fetch ahead into the room of what was dropped: want yes, and no the second time")
	}
	c.Drop("b", PartImage)
	c.Drop("d", PartImage)
	if c.used != size || len(c.entries) != 1 {
		t.Errorf("%d bytes of %d kinds are left, want %d of one", c.used, len(c.entries), size)
	}
}
