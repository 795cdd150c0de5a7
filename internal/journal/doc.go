// Package journal records what entered a world and what was decided, and plays it
// back: the same events through the same Decide give the same plans, digest for
// digest.
//
// A journal is JSON lines; docs/journal-format.md specifies it. Write one with a
// Writer, which the loop that owns the world tells of every event and cycle; play
// it back with Replay. The package leaves what an event means to package world.
package journal
