package whatif

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Write prints an answer for people.
func (a *Answer) Write(w io.Writer) {
	fmt.Fprintf(w, "read: %s, %s bound (%d of them say how long they run), %d other waiting; policy %s\n",
		counted(a.Nodes, "node"), counted(a.Bound, "pod"), a.Timed, a.Waiting, a.Policy)
	if len(a.Pods) == 0 {
		fmt.Fprintln(w, "no pod waits for this scheduler")
	}
	for i := range a.Pods {
		a.Pods[i].write(w, a)
	}
}

func (o *Outlook) write(w io.Writer, a *Answer) {
	if o.Now != nil {
		fmt.Fprintf(w, "%s: now, on %v\n", o.Pod, o.Now)
		return
	}
	if o.Unjudged {
		fmt.Fprintf(w, "%s: cannot be told: %s\n", o.Pod, o.Why)
		return
	}
	fmt.Fprintf(w, "%s: not now: %s\n", o.Pod, o.Why)
	switch {
	case o.Starts != nil:
		fmt.Fprintf(w, "  starts in %s (%s), on %v, when %s has ended, by the run times declared\n",
			o.Starts.In, o.Starts.At.Format(time.RFC3339), &o.Starts.Place, o.Starts.After)
	case o.AsSoonAs != nil:
		fmt.Fprintf(w, "  when: run times do not tell (%d of %d bound pods declare one); as soon as %s\n", a.Timed, a.Bound, verb(o.AsSoonAs, "ends", "end"))
	}
	if o.Evicts != nil {
		fmt.Fprintf(w, "  under preemption now, in place of %s on %s: %s\n", counted(o.Evicts.Count, "pod"), o.Evicts.Node, o.Evicts.list())
	} else {
		fmt.Fprintln(w, "  nobody would be evicted for it")
	}
}

func verb(s *Set, one, many string) string {
	word := many
	if s.Count == 1 {
		word = one
	}
	return fmt.Sprintf("%s of %s %s: %s", counted(s.Count, "pod"), s.Node, word, s.list())
}

// list names the pods of a set.
func (s *Set) list() string {
	text := strings.Join(s.Pods, ", ")
	if more := s.Count - len(s.Pods); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
