// Package gang searches places for groups of pods that start all or none: trees of
// groups, in domains that their members must or would like to share.
//
//	atlas := gang.NewAtlas(view, islands)   all places, from the cluster down to islands
//	count := gang.NewCount(view, atlas, s)  how many pods of a shape each of them takes
//	found := search.Place(root, atlas.Top()) all of the tree is placed in the Txn, or nothing
//
// The search has two halves. The first gives each group of the tree a domain, by
// counts alone: the tightest first, closer levels before wider ones, with a way back
// where sub-groups get in each other's way. The second seats the pods there in the
// transaction, those of the closest domains first, and gives the first half's next
// answer a try where that fails. For pods that ask for the same the counts are exact,
// and the first answer holds.
//
// Which node of a domain is best for a pod is not known here: the caller seats them.
package gang
