package web

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/headrace-dev/headrace/internal/meter"
)

// Plot is one chart of the report as a picture that stands alone.
type Plot struct {
	Name string // as a file is named, without ending
	SVG  []byte
}

// The measures of a picture, in pixels.
const (
	plotWidth, plotHeight = 760, 340
	plotLeft, plotRight   = 64, 16
	plotTop, plotBottom   = 62, 44
	plotTicks             = 6
)

// plotColours are those of the report's lines on paper: told apart by people who do
// not see all colours, too.
func plotColours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b1f24", "#b3a600"}
}

// Plots draws the charts of the results, one picture for each.
func Plots(results []meter.Result) []Plot {
	var out []Plot
	for i, s := range studiesOf(results) {
		for _, c := range append(chartsOf(s), tidiedCharts(s)...) {
			name := plotName(c.Title)
			if i > 0 {
				name = fmt.Sprintf("%s-%d", name, i+1)
			}
			var names []string
			for _, g := range s.groups {
				names = append(names, g.policy)
			}
			out = append(out, Plot{Name: name, SVG: draw(&c, names)})
		}
	}
	return out
}

// plotName is a title as a file is named.
func plotName(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return strings.Join(words, "-")
}

// axis takes values to pixels.
type axis struct {
	from, to float64
	log      bool
	ticks    []tick
}

type tick struct {
	at   float64
	text string
}

// part is where a value lies between the ends, 0 to 1.
func (a *axis) part(v float64) float64 {
	from, to := a.from, a.to
	if a.log {
		v, from, to = math.Log10(max(v, a.from)), math.Log10(from), math.Log10(to)
	}
	if to <= from {
		return 0
	}
	return min(max((v-from)/(to-from), 0), 1)
}

func draw(c *chart, policies []string) []byte {
	x, y := axisOf(c.X, c.Lines, func(l *line) []number { return l.X }), axisOf(c.Y, c.Lines, func(l *line) []number { return l.Y })
	px := func(v float64) float64 { return plotLeft + x.part(v)*(plotWidth-plotLeft-plotRight) }
	py := func(v float64) float64 { return plotHeight - plotBottom - y.part(v)*(plotHeight-plotTop-plotBottom) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotWidth, plotHeight)
	title := html.EscapeString(c.Title + ": " + c.Unit)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", title)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="14">%s</text>`+"\n", plotLeft, title)
	for _, t := range y.ticks {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#555">%s</text>`+"\n",
			plotLeft, py(t.at), plotWidth-plotRight, plotLeft-6, py(t.at)+4, t.text)
	}
	for _, t := range x.ticks {
		fmt.Fprintf(&b, `<path d="M%.1f %dv4" stroke="#555"/><text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n",
			px(t.at), plotHeight-plotBottom, px(t.at), plotHeight-plotBottom+18, t.text)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#555">%s</text>`+"\n", plotWidth-plotRight, plotHeight-8, html.EscapeString(c.XLabel))
	colours, at := plotColours(), plotLeft
	for i := range c.Lines {
		l := &c.Lines[i]
		colour, name := colours[l.Policy%len(colours)], html.EscapeString(policies[l.Policy])
		fmt.Fprintf(&b, `<path d="M%d 40h16" stroke="%s" stroke-width="3"/><text x="%d" y="44">%s</text>`+"\n", at, colour, at+20, name)
		at += 36 + 7*len(policies[l.Policy])
		b.WriteString(`<path fill="none" stroke="` + colour + `" stroke-width="1.5" d="`)
		for k := range l.X {
			fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(k, 1)], px(float64(l.X[k])), py(float64(l.Y[k])))
		}
		b.WriteString(`"/>` + "\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// axisOf spans the values of all lines.
func axisOf(kind string, lines []line, of func(*line) []number) axis {
	a := axis{from: math.Inf(1)}
	for i := range lines {
		for _, v := range of(&lines[i]) {
			if f := float64(v); finite(f) {
				a.from, a.to = min(a.from, f), max(a.to, f)
			}
		}
	}
	switch kind {
	case axisLog:
		return logAxis(a)
	case axisTime:
		u := timeUnitFor(a.to)
		if a.to >= 4*86400 {
			u = timeUnit{"d", 86400}
		}
		return even(0, a.to, u.seconds, u.name)
	case axisShare:
		return even(0, 100, 1, "")
	case axisNear:
		return even(math.Floor(a.from*10)/10, math.Ceil(a.to*10)/10, 1, "")
	}
	return even(0, a.to, 1, "")
}

// even puts ticks on round numbers of a unit.
func even(from, to, unit float64, name string) axis {
	a := axis{from: from, to: max(to, from+unit/10, unit)}
	step := math.Pow(10, math.Floor(math.Log10((a.to-from)/unit/plotTicks)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (a.to-from)/unit <= plotTicks*step*m {
			step *= m
			break
		}
	}
	for k := 0.0; k*step*unit <= a.to-from; k++ {
		v := k * step
		a.ticks = append(a.ticks, tick{from + v*unit, strings.TrimSpace(figure(from/unit+v, max(0, int(-math.Floor(math.Log10(step))))) + " " + name)})
	}
	return a
}

// logAxis puts ticks on times that people count in.
func logAxis(span axis) axis {
	a := axis{from: max(span.from, 1), to: max(span.to, 2), log: true}
	for _, t := range []tick{{1, "1 s"}, {10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {36000, "10 h"}, {4 * 86400, "4 d"}, {40 * 86400, "40 d"}} {
		if t.at >= a.from && t.at <= a.to {
			a.ticks = append(a.ticks, t)
		}
	}
	return a
}
