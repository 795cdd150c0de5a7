package web

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/headrace-dev/headrace/internal/meter"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/report.html"))

// ErrNoResults says that there is nothing to draw.
var ErrNoResults = errors.New("report: no results to show")

// defaultTitle stands in for an empty one: a page without a title is hard to
// find again among browser tabs.
const defaultTitle = "Headrace simulation"

// Report writes one self-contained HTML page about the results. It writes
// nothing unless the whole page could be made.
func Report(w io.Writer, title string, results []meter.Result) error {
	if len(results) == 0 {
		return ErrNoResults
	}
	p, err := newPage(title, results)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := layout.Execute(&out, p); err != nil {
		return fmt.Errorf("fill in the report: %w", err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// page is what assets/report.html fills in.
type page struct {
	Title   string
	Style   template.CSS
	Script  template.JS
	Data    template.JS // the payload; escaped for HTML by encoding/json
	Facts   []fact
	Studies []section
	Heat    *heatView
	Runs    []runRow
	MoreRun int // runs left out of Runs
}

// fact is one line of "what was run".
type fact struct{ Name, Value string }

// section is one study: its sentence, table, charts and reasons.
type section struct {
	ID       int
	Heading  string // empty when the page has one study
	Sentence string
	Table    table
	Sizes    table // no columns: not known
	Policies []string
	Charts   []chart
	Reasons  reasonTable
	Detail   string // which seed the single-run charts show
}

// payload is what the scripts read.
type payload struct {
	Studies []studyData `json:"studies"`
	Heat    *heatData   `json:"heat,omitempty"`
}

type studyData struct {
	Policies []string `json:"policies"`
	Charts   []chart  `json:"charts"`
}

func newPage(title string, results []meter.Result) (*page, error) {
	if title == "" {
		title = defaultTitle
	}
	studies := studiesOf(results)
	p := &page{Title: title, Facts: factsOf(studies)}
	var data payload
	for i, s := range studies {
		sec := newSection(i, s)
		sec.Heading = heading(studies, s)
		p.Studies = append(p.Studies, sec)
		data.Studies = append(data.Studies, studyData{Policies: sec.Policies, Charts: sec.Charts})
	}
	heat, err := heatOf(studies)
	if err != nil {
		return nil, err
	}
	if heat != nil {
		data.Heat = &heat.data
		p.Heat = heat
	}
	p.Runs, p.MoreRun = runRows(studies)
	return p, p.embed(data)
}

// heading names a study where there are several to tell apart.
func heading(studies []study, s study) string {
	if len(studies) < 2 {
		return ""
	}
	return s.describe()
}

func newSection(id int, s study) section {
	sec := section{
		ID:       id,
		Sentence: sentence(s),
		Table:    tableOf(s),
		Sizes:    sizesOf(s),
		Charts:   chartsOf(s),
		Reasons:  reasonsOf(s),
		Detail:   s.detailNote(),
	}
	for _, g := range s.groups {
		sec.Policies = append(sec.Policies, g.policy)
	}
	return sec
}

// embed puts style, scripts and data into the page.
func (p *page) embed(data payload) error {
	// Marshal writes <, > and & as \u003c and so on, hence no name in the data
	// can close the script element.
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode the report's data: %w", err)
	}
	p.Data = template.JS(raw)

	style, err := assets.ReadFile("assets/report.css")
	if err != nil {
		return fmt.Errorf("read the report's style: %w", err)
	}
	p.Style = template.CSS(style)

	var script strings.Builder
	for _, name := range []string{"scale.js", "chart.js", "heat.js", "report.js"} {
		part, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return fmt.Errorf("read the report's script: %w", err)
		}
		script.Write(part)
	}
	p.Script = template.JS(script.String())
	return nil
}

// maxRuns bounds the table of runs in the footer: 20 policies with 10 seeds.
const maxRuns = 200

// runRow is one line of the footer: enough to find and to repeat a run.
type runRow struct {
	Setting              string // empty when the page has one study
	Policy, Seed, Digest string
	Decisions            int
	P50, P99, Wall       string
}

func runRows(studies []study) (rows []runRow, left int) {
	for _, s := range studies {
		for _, g := range s.groups {
			for _, r := range g.runs {
				if len(rows) == maxRuns {
					left++
					continue
				}
				rows = append(rows, runRow{
					Setting:   heading(studies, s),
					Policy:    g.policy,
					Seed:      strconv.FormatInt(r.Seed, 10),
					Digest:    r.Digest,
					Decisions: r.Decisions,
					P50:       figure(r.DecideP50Us, 1),
					P99:       figure(r.DecideP99Us, 1),
					Wall:      figure(r.WallMs, 0),
				})
			}
		}
	}
	return rows, left
}
