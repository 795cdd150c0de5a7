package cluster

import "iter"

// Root returns the top of the tree that a group is in: the unit that starts all or
// none. It is None for None, and may be a group that is not known yet.
func (v *View) Root(g GroupID) GroupID {
	for g != None && v.Group(g).Parent != None {
		g = v.Group(g).Parent
	}
	return g
}

// Children goes through the groups right below one, in no order to rely on.
func (v *View) Children(g GroupID) iter.Seq[GroupID] {
	return func(yield func(GroupID) bool) {
		for c := v.Group(g).firstChild; c != None; c = v.Group(c).nextChild {
			if !yield(c) {
				return
			}
		}
	}
}

// Members goes through the pods that name a group itself, in no order to rely on.
func (v *View) Members(g GroupID) iter.Seq[PodID] {
	return func(yield func(PodID) bool) {
		for p := v.Group(g).firstMember; p != None; p = v.Pod(p).nextMember {
			if !yield(p) {
				return
			}
		}
	}
}

// Tree goes through a group and all below it, parents before their children.
func (v *View) Tree(g GroupID) iter.Seq[GroupID] {
	return func(yield func(GroupID) bool) { v.walk(g, yield) }
}

func (v *View) walk(g GroupID, yield func(GroupID) bool) bool {
	if !yield(g) {
		return false
	}
	for c := range v.Children(g) {
		if !v.walk(c, yield) {
			return false
		}
	}
	return true
}

// TreeMembers goes through the pods of a group and of all groups below it.
func (v *View) TreeMembers(g GroupID) iter.Seq[PodID] {
	return func(yield func(PodID) bool) {
		for below := range v.Tree(g) {
			for pod := range v.Members(below) {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// TreeMinimum is the fewest pods with which a group and those below it that it
// needs are whole.
func (v *View) TreeMinimum(g GroupID) int32 {
	row := v.Group(g)
	sum, need := row.Minimum, row.NeedsGroups()
	var below []int32
	for c := range v.Children(g) {
		below = append(below, v.TreeMinimum(c))
	}
	for ; need > 0 && len(below) > 0; need-- {
		least := 0
		for i := range below {
			if below[i] < below[least] {
				least = i
			}
		}
		sum += below[least]
		below[least] = below[len(below)-1]
		below = below[:len(below)-1]
	}
	return sum
}

// Unit returns the highest group on the way up from g that has not got its minimum;
// g's pods start with all of it. None: all of them have, and pods of g that wait are
// placed one by one.
func (v *View) Unit(g GroupID) GroupID {
	unit := GroupID(None)
	for ; g != None; g = v.Group(g).Parent {
		if !v.Group(g).Whole() {
			unit = g
		}
	}
	return unit
}

// Stands says whether a group and all above it have their minimum.
func (v *View) Stands(g GroupID) bool { return v.Unit(g) == None }

// Above says whether a is b or a group above it.
func (v *View) Above(a, b GroupID) bool {
	for ; b != None; b = v.Group(b).Parent {
		if a == b {
			return true
		}
	}
	return false
}
