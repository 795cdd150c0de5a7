package command

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headrace-dev/headrace/internal/core/cluster"
	"github.com/headrace-dev/headrace/internal/core/moment"
	"github.com/headrace-dev/headrace/internal/core/quantity"
	"github.com/headrace-dev/headrace/internal/world"
)

// slaForm is what --sla-class takes.
const slaForm = "must be NAME:KEY=VALUE[,KEY=VALUE] with total=TIME (as 6h), per-run=TIMES (as 1.5), gives=first|normal|last|never, lends=yes|no, from-priority=N|none"

func classNames() (out []string) {
	for _, s := range cluster.DefaultSLAs() {
		out = append(out, s.Name)
	}
	return out
}

// parseSLAs reads --sla-class. A world takes them one by one, so that what does not go
// together is refused here.
func parseSLAs(texts []string) ([]world.SLADefined, error) {
	w := world.New()
	var out []world.SLADefined
	for _, text := range texts {
		e, err := parseSLA(w.View(), text)
		if err == nil {
			err = w.Apply(0, e)
		}
		if err != nil {
			return nil, fmt.Errorf("--sla-class %s: %w", text, err)
		}
		out = append(out, e)
	}
	return out, nil
}

func parseSLA(v *cluster.View, text string) (world.SLADefined, error) {
	name, terms, said := strings.Cut(text, ":")
	if name == "" || !said || terms == "" {
		return world.SLADefined{}, fmt.Errorf("%s", slaForm)
	}
	e := world.SLADefined{Name: name}
	if old := v.SLA(name); old != nil {
		e.SLATerms = old.SLATerms
	}
	for _, term := range strings.Split(terms, ",") {
		key, value, _ := strings.Cut(term, "=")
		if !setTerm(&e.SLATerms, key, value) {
			return e, fmt.Errorf("%q: %s", term, slaForm)
		}
	}
	return e, nil
}

// setTerm sets one term; false where it cannot be read.
func setTerm(t *cluster.SLATerms, key, value string) bool {
	const longest = 10 * 366 * 24 * time.Hour
	switch key {
	case "total":
		d, err := time.ParseDuration(value)
		t.Total = moment.Span(d.Microseconds())
		return err == nil && d >= 0 && d <= longest
	case "per-run":
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= 0 && f <= world.MostPerRun/1000) {
			return false
		}
		t.PerRun = quantity.Milli(math.Round(f * 1000))
	case "gives":
		i := slices.Index(cluster.GivingNames(), value)
		t.Gives = cluster.Giving(max(i, 0))
		return i >= 0
	case "lends":
		t.Keeps = value == "no"
		return value == "yes" || value == "no"
	case "from-priority":
		if value == "none" {
			t.ByPriority, t.From = false, 0
			return true
		}
		n, err := strconv.ParseInt(value, 10, 32)
		t.ByPriority, t.From = true, int32(n)
		return err == nil
	default:
		return false
	}
	return true
}
