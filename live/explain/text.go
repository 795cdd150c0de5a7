package explain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// padding is the space between the columns of a table.
const padding = 3

// Text draws the answer for people.
func (p *Pod) Text(out io.Writer) {
	fmt.Fprintf(out, "pod %s/%s: %s\n", p.Namespace, p.Name, p.headline())
	w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "  %s\t%s\n", key, fmt.Sprintf(format, args...)) }
	if p.Reason != nil {
		line("reason", "%s (%s)", p.Reason.Says, p.Reason.Code)
	}
	for i, help := range p.Help {
		line([]string{"would help", ""}[min(i, 1)], "%s", help)
	}
	if p.Turn > 0 {
		line("turn", "%d of %d in line", p.Turn, p.Line)
	}
	p.times(line)
	if p.Profile != "" {
		line("profile", "%s, decided by policy %s", p.Profile, p.Policy)
	}
	if p.Place != nil {
		p.Place.text(line)
	}
	w.Flush()
	if len(p.Queues) > 0 {
		fmt.Fprintln(out, "\nits queue and those above it, GPUs")
		tenantsText(out, p.Queues)
	}
	if len(p.Classes) > 0 {
		fmt.Fprintln(out, "\nwhat the nodes say")
		classesText(out, p.Classes)
	}
	if len(p.History) > 0 {
		fmt.Fprintln(out, "\nhistory")
		w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
		for _, h := range p.History {
			fmt.Fprintf(w, "  %s\t%s\n", h.At.Local().Format(time.TimeOnly), h.Says)
		}
		w.Flush()
	}
}

// times tells when a pod starts, and what that means for its deadline.
func (p *Pod) times(line func(key, format string, args ...any)) {
	if p.Starts != nil {
		line("starts", "%s", p.Starts.text(p.At))
	}
	if p.Reserved != nil {
		line("reserved", "room on %s at %s", strings.Join(p.Reserved.Nodes, ", "), clock(p.Reserved.At, p.At))
	}
	if p.Deadline != nil {
		line("deadline", "%s cannot be met, the earliest end is %s", clock(p.Deadline.At, p.At), clock(p.Deadline.EarliestEnd, p.At))
	}
	if p.SLAClass != "" {
		line("SLA class", "%s", p.SLAClass)
	}
}

// text is "14:05 (13:50-15:10)".
func (s *Starts) text(now time.Time) string {
	if s == nil {
		return "-"
	}
	end := func(t *time.Time) string {
		if t == nil {
			return "?"
		}
		return clock(*t, now)
	}
	switch {
	case s.Likely == nil && s.Low == nil:
		return "unknown"
	case s.Likely == nil:
		return "not before " + clock(*s.Low, now)
	case s.Low != nil && s.High != nil && s.Low.Equal(*s.High):
		return clock(*s.Likely, now)
	}
	return fmt.Sprintf("%s (%s-%s)", clock(*s.Likely, now), end(s.Low), end(s.High))
}

// clock is a time of day, in the reader's place; with the day where that is not near.
func clock(at, now time.Time) string {
	const near = 12 * time.Hour
	if d := at.Sub(now); d < -near || d > near {
		return at.Local().Format("2 Jan 15:04")
	}
	return at.Local().Format("15:04")
}

func (p *Pod) headline() string {
	waited := short(p.WaitedSeconds)
	switch {
	case p.Verdict == Placed && p.Place != nil && p.Place.Chosen == nil:
		return "placed on " + p.Place.Node
	case p.Verdict == Placed && p.Place != nil:
		return fmt.Sprintf("placed on %s after %s", p.Place.Node, waited)
	case p.Verdict == AfterChange:
		return fmt.Sprintf("waits for a change; %s so far", waited)
	case p.Verdict == Never:
		return fmt.Sprintf("can never be placed in this cluster; has waited %s", waited)
	}
	return "has waited " + waited
}

func (c *Place) text(line func(key, format string, args ...any)) {
	for i := range c.Devices {
		d := &c.Devices[i]
		what := d.Model
		if d.Milli < 1000 {
			what += fmt.Sprintf(", %d milli-GPU", d.Milli)
		}
		if d.Profile != "" {
			what += ", partition " + d.Profile
		}
		line([]string{"devices", ""}[min(i, 1)], "gpu%d %s", d.Index, what)
	}
	if c.Identity == "presumed" {
		line("", "the kubelet picks the card: it may be another one of the model")
	}
	if c.Chosen == nil {
		line("decided", "by another scheduler, or before this one started")
		return
	}
	nodes := "nodes"
	if c.Chosen.Feasible == 1 {
		nodes = "node"
	}
	line("decided", "in cycle %d at %s, %d %s could take it", c.Chosen.Cycle, c.Chosen.At.Local().Format(time.TimeOnly), c.Chosen.Feasible, nodes)
	line("score", "%s", c.Chosen.Score.text())
	c.Chosen.Images.text(line)
	for i := range c.Chosen.RunnersUp {
		up := &c.Chosen.RunnersUp[i]
		line([]string{"not chosen", ""}[min(i, 1)], "%s: %s", up.Node, up.Score.text())
	}
}

// text tells which images were there, and which were to be pulled.
func (m *Images) text(line func(key, format string, args ...any)) {
	if m == nil {
		return
	}
	there := 0
	for i := range m.Each {
		if m.Each[i].There {
			there++
		}
	}
	line("images", "%d of %d were there, which saves %s; %s to pull", there, len(m.Each), short(m.SavedSeconds), short(m.PullSeconds))
	for i := range m.Each {
		if im := &m.Each[i]; !im.There {
			line("", "to pull: %s, which %d nodes had", im.Name, im.Nodes)
		}
	}
}

func (s *Score) text() string {
	if s.Fit == 0 && s.Urgency == 0 && s.Affinity == 0 {
		return fmt.Sprint(s.Total)
	}
	const one = 1e6
	part := func(n int64) float64 { return float64(n) / one }
	return fmt.Sprintf("%.3f (fit %.3f, urgency %.3f, affinity %.3f)", part(s.Total), part(s.Fit), part(s.Urgency), part(s.Affinity))
}

func classesText(out io.Writer, classes []Class) {
	w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	fmt.Fprintln(w, "  NODES\tCLASS\tANSWER")
	for i := range classes {
		c := &classes[i]
		if c.Fits > 0 {
			fmt.Fprintf(w, "  %d\t%s\tfits\n", c.Fits, c.Name)
		}
		for k := range c.Reasons {
			fmt.Fprintf(w, "  %d\t%s\t%s\n", c.Reasons[k].Nodes, c.Name, bare(c.Reasons[k].Says))
		}
	}
	w.Flush()
}

// tenantsText draws queues as a table of GPUs. What else they are promised is in
// the JSON.
func tenantsText(out io.Writer, all []Tenant) {
	w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tPARENT\tUSED\tQUOTA\tFAIR SHARE\tDESERVED\tLIMIT\tWEIGHT\tWAITING\tNOTE")
	for i := range all {
		t := &all[i]
		parent := t.Parent
		if parent == "" {
			parent = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", t.Name, parent, t.Used.gpus(), t.Quota.gpus(), t.Fair.gpus(),
			t.Deserved.gpus(), t.Limit.gpus(), thousandths(t.Weight), t.Waiting, t.Message)
	}
	w.Flush()
}

// gpus is the amount of GPUs as people read it; - where there is none.
func (a Amounts) gpus() string {
	milli, stated := a["gpus"]
	if !stated {
		return "-"
	}
	return thousandths(milli)
}

// thousandths is a number without the zeroes at its end.
func thousandths(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// bare cuts the counts and the future from a sentence: the table has them.
func bare(says string) string {
	if i := strings.LastIndex(says, " ("); i > 0 && strings.Contains(says[i:], " nodes)") {
		return says[:i]
	}
	return says
}

// Text draws the line as a table.
func (q *Queue) Text(out io.Writer) {
	if q.Total == 0 {
		fmt.Fprintln(out, "no pod waits")
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	starts := slices.ContainsFunc(q.Pods, func(p Queued) bool { return p.Starts != nil })
	column := func(text string) string {
		if !starts {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(w, "TURN\tNAMESPACE\tPOD\tPROFILE\tPRIORITY\tWAITED\t%sVERDICT\tREASON\n", column("STARTS"))
	for i := range q.Pods {
		p := &q.Pods[i]
		turn := "-"
		if p.Turn > 0 {
			turn = fmt.Sprint(p.Turn)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s%s\t%s\n", turn, p.Namespace, p.Name, p.Profile, p.Priority, short(p.WaitedSeconds), column(p.Starts.text(q.At)), p.Verdict, p.Says)
	}
	w.Flush()
	if more := q.Total - len(q.Pods); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
}

// Text draws the cluster at a glance, with so many nodes.
func (t *Top) Text(out io.Writer, nodes int) {
	percent := func(part, of int) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%d %%", part*100/of)
	}
	fmt.Fprintf(out, "nodes   %d, %d take work\n", t.Nodes, t.NodesReady)
	fmt.Fprintf(out, "GPUs    %d, %d held (%s)", t.GPUs, t.GPUsHeld, percent(t.GPUsHeld, t.GPUs))
	if t.Fragments != nil {
		fmt.Fprintf(out, ", %.1f %% in fragments", 100**t.Fragments)
	}
	fmt.Fprintf(out, "\npods    %d bound, %d binding, %d in line, %d after a refused bind, %d held back\n",
		t.Pods.Bound, t.Pods.Binding, t.Pods.Waiting, t.Pods.Paused, t.Pods.Held)
	fmt.Fprintf(out, "work    %d decisions, %.1f per second, %d refused, %d cycles\n", t.Work.Decisions, t.Work.PerSecond, t.Work.Refused, t.Work.Cycles)
	w := tabwriter.NewWriter(out, 0, 0, padding, ' ', 0)
	supplies := func(title string, rows []Supply) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\tNODES\tGPUS\tHELD\tIN USE\n", title)
		for _, s := range rows {
			n := "-"
			if s.Nodes > 0 {
				n = fmt.Sprint(s.Nodes)
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", s.Name, n, s.GPUs, s.Held, percent(s.Held, s.GPUs))
		}
	}
	supplies("MODEL", t.Models)
	w.Flush()
	supplies("CLASS", t.Classes)
	w.Flush()
	if nodes > 0 && len(t.NodeList) > 0 {
		fmt.Fprintln(w, "\nNODE\tLIFE\tGPUS\tHELD\tPODS\tFREE CPU\tFREE MEMORY")
		for i := range t.NodeList[:min(nodes, len(t.NodeList))] {
			n := &t.NodeList[i]
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%.1f\t%.1f GiB\n", n.Name, n.Life, n.GPUs, n.Held, n.Pods, float64(n.CPU)/1000, float64(n.Memory)/(1<<30))
		}
		if more := t.Nodes - min(nodes, len(t.NodeList)); more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
		w.Flush()
	}
	if len(t.Queues) > 0 {
		fmt.Fprintln(out)
		tenantsText(out, t.Queues)
	}
	if len(t.Reasons) > 0 {
		fmt.Fprintln(w, "\nWAITING\tBECAUSE")
		for _, r := range t.Reasons {
			fmt.Fprintf(w, "%d\t%s\n", r.Count, r.Says)
		}
		w.Flush()
	}
}

// short is a span as people read it: 8s, 3m10s, 2h5m, 3d4h.
func short(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
