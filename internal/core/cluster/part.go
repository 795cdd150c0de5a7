package cluster

import "math/bits"

// MaxProfiles is the most profiles of one device: a set of them is a word.
const MaxProfiles = 64

// Fitting returns those of a set of profiles that the device has room for now, each
// taken alone. Sets of profiles are bits by their position in the spec.
func (d *Device) Fitting(among uint64) uint64 {
	among &= d.Spec.EveryProfile()
	fitting := uint64(0)
	for rest := among; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		p := &d.Spec.Profiles[i]
		if p.Milli <= d.FreeMilli && p.Memory <= d.FreeMemory && d.short(p) < 0 {
			fitting |= 1 << i
		}
	}
	return fitting
}

// EveryProfile is the set of all profiles of the device.
func (s *DeviceSpec) EveryProfile() uint64 {
	n := len(s.Profiles)
	if n >= MaxProfiles {
		return ^uint64(0)
	}
	return 1<<n - 1
}

// Short returns the first counter that has not as much left as the profile takes;
// false where all have.
func (d *Device) Short(p *Profile) (Symbol, bool) {
	if c := d.short(p); c >= 0 {
		return d.Spec.Counters[c].Name, true
	}
	return 0, false
}

func (d *Device) short(p *Profile) int {
	for c, amount := range p.Consumes {
		if amount > 0 && counterAt(d.Used, c)+amount > d.Spec.Counters[c].Total {
			return c
		}
	}
	return -1
}

// Give books a profile on a device that is a copy: for searches that try one thing
// after the other.
func (d *Device) Give(p *Profile) {
	used := make([]int64, len(d.Spec.Counters))
	copy(used, d.Used)
	for c, amount := range p.Consumes {
		used[c] += amount
	}
	d.Used = used
	d.FreeMilli -= p.Milli
	d.FreeMemory -= p.Memory
	d.Holders++
}
