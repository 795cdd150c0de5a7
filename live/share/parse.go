package share

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/headrace-dev/headrace/internal/core/quantity"
)

// Ask is what one container asks for: Count devices, of each Milli and Memory.
type Ask struct {
	Count  int
	Milli  quantity.MilliGPU // 1000: the whole card
	Memory quantity.Bytes    // 0: none in particular
	Models []string          // empty: any
}

const (
	// maxCount is the most devices of one claim, a limit of Kubernetes.
	maxCount = 32
	// maxModels and maxModelLength keep the selector within what Kubernetes takes.
	maxModels, maxModelLength = 16, 64
	// minMemory catches a number without its unit: 20 is not 20 GiB.
	minMemory = 1 << 20
	// maxMemory is above any card.
	maxMemory = 1 << 50
	// maxLength bounds what is read at all.
	maxLength = 2048
)

// Grammar says what is allowed, in one line.
const Grammar = `[COUNT x] SHARE [, MEMORY] [, model=NAME|NAME], with COUNT from 1 to 32, SHARE from 1m to 1000m of a card or as 0.5, MEMORY from 1Mi per card`

// model is what a name may consist of.
var model = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._+()/-]*$`) // const: a pattern

// Parse reads an annotation. The error names what is wrong and what is allowed.
func Parse(text string) (Ask, error) {
	if len(text) > maxLength {
		return Ask{}, fmt.Errorf("%d characters: at most %d", len(text), maxLength)
	}
	fields := strings.Split(text, ",")
	a, err := amount(strings.TrimSpace(fields[0]))
	if err != nil {
		return Ask{}, err
	}
	for _, field := range fields[1:] {
		field = strings.TrimSpace(field)
		key, value, named := strings.Cut(field, "=")
		switch {
		case named && strings.TrimSpace(key) == "model":
			if a.Models != nil {
				return Ask{}, fmt.Errorf("model given twice: %q", field)
			}
			if a.Models, err = models(value); err != nil {
				return Ask{}, err
			}
		case named:
			return Ask{}, fmt.Errorf("option %q: only model= is known", field)
		case a.Memory != 0:
			return Ask{}, fmt.Errorf("memory given twice: %q", field)
		default:
			if a.Memory, err = memory(field); err != nil {
				return Ask{}, err
			}
		}
	}
	return a, nil
}

// amount reads COUNT x SHARE.
func amount(text string) (Ask, error) {
	count, share, several := strings.Cut(text, "x")
	a := Ask{Count: 1}
	if !several {
		share = text
	} else {
		n, ok := digits(strings.TrimSpace(count))
		if !ok || n < 1 || n > maxCount {
			return Ask{}, fmt.Errorf("count %q: a number from 1 to %d", strings.TrimSpace(count), maxCount)
		}
		a.Count = int(n)
	}
	share = strings.TrimSpace(share)
	milli, ok := millis(share)
	if !ok || milli < 1 || milli > int64(quantity.WholeGPU) {
		return Ask{}, fmt.Errorf("share %q: from 1m to 1000m of a card, or as 0.5", share)
	}
	a.Milli = quantity.MilliGPU(milli)
	return a, nil
}

// millis reads 500m, 1 or 0.25.
func millis(text string) (int64, bool) {
	if whole, isMilli := strings.CutSuffix(text, "m"); isMilli {
		return digits(whole)
	}
	ones, fraction, some := strings.Cut(text, ".")
	if some && (fraction == "" || len(fraction) > 3) {
		return 0, false
	}
	n, ok := digits(ones)
	if !ok || !some {
		return n * 1000, ok
	}
	f, ok := digits((fraction + "00")[:3])
	return n*1000 + f, ok
}

// digits reads a plain number of at most six digits.
func digits(text string) (int64, bool) {
	if text == "" || len(text) > 6 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// memory reads bytes as Kubernetes writes them.
func memory(text string) (quantity.Bytes, error) {
	q, err := resource.ParseQuantity(text)
	wrong := fmt.Errorf("memory %q: from 1Mi per card, as 20Gi", text)
	if err != nil {
		return 0, wrong
	}
	n, exact := q.AsInt64()
	if !exact || n < minMemory || n > maxMemory {
		return 0, wrong
	}
	return quantity.Bytes(n), nil
}

func models(text string) ([]string, error) {
	var out []string
	for _, name := range strings.Split(text, "|") {
		name = strings.TrimSpace(name)
		if len(name) > maxModelLength || !model.MatchString(name) {
			return nil, fmt.Errorf("model %q: letters, digits, blanks and . _ + ( ) / -, up to %d", name, maxModelLength)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > maxModels {
		return nil, fmt.Errorf("%d models: at most %d", len(out), maxModels)
	}
	return out, nil
}

// String writes the ask as Parse reads it.
func (a Ask) String() string {
	out := fmt.Sprintf("%d x %dm", a.Count, a.Milli)
	if a.Memory > 0 {
		out += ", " + resource.NewQuantity(int64(a.Memory), resource.BinarySI).String()
	}
	if len(a.Models) > 0 {
		out += ", model=" + strings.Join(a.Models, "|")
	}
	return out
}
