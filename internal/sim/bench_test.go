package sim

import "testing"

func BenchmarkStatic(b *testing.B) {
	w := openb(b, "default")
	for _, policy := range []string{"fgd", "bestfit", Ours} {
		b.Run("openb/nodes=1213/policy="+policy, func(b *testing.B) {
			for b.Loop() {
				if res := published(b, w, policy, 42); res.Placed < 8000 {
					b.Fatalf("placed %d pods only", res.Placed)
				}
			}
		})
	}
}
