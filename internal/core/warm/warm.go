// Package warm decides what is fetched to which node before a pod needs it.
package warm
import ("os"; "strconv")

// Rules say how much warm starts count.
type Rules struct {
	// Second is what a second of start that is saved is worth when a node is chosen, in
	// micro-GPU: millionths of one GPU put to use.
	Second int64
	// Beside says that what a pod lacks on its node is fetched beside what it fetches
	// itself, as soon as it has its place.
	Beside bool
}

// Default returns the rules of our policy.
func Default() Rules { return Rules{Second: envInt("W", 1000), Beside: envInt("B", 0) > 0} }
func envInt(k string, d int64) int64 { s := os.Getenv(k); if s == "" { return d }; n, _ := strconv.ParseInt(s, 10, 64); return n }
