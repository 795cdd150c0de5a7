package trace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A field is one member of a record of Headrace's own format: how its JSON and
// its CSV form are read and written. A read returns what would have been
// allowed, "" if all is well.
type field[T any] struct {
	name     string
	required bool // written even when zero, and missed when absent
	fromJSON func(x *T, raw []byte) (allowed string)
	fromText func(x *T, text string) (allowed string)
	// toJSON and toText give nil and "" for the zero value of a field that is not
	// required.
	toJSON func(x *T) []byte
	toText func(x *T) string
}

func (f field[T]) need() field[T] {
	f.required = true
	return f
}

func allowedNumber(least, most int64) string {
	return fmt.Sprintf("want an integer from %d to %d", least, most)
}

func formatNumber[N ~int | ~int32 | ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }

func joinNumbers(list []int32) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = formatNumber(n)
	}
	return strings.Join(words, "|")
}

// number is a field that holds an integer.
func number[T any, N ~int | ~int32 | ~int64](name string, least, most N, at func(*T) *N) field[T] {
	read := func(x *T, text string) string {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < int64(least) || n > int64(most) {
			return allowedNumber(int64(least), int64(most))
		}
		*at(x) = N(n)
		return ""
	}
	return field[T]{
		name:     name,
		fromJSON: func(x *T, raw []byte) string { return read(x, string(raw)) },
		fromText: read,
		toJSON: func(x *T) []byte {
			if *at(x) == 0 {
				return nil
			}
			return []byte(formatNumber(*at(x)))
		},
		toText: func(x *T) string {
			if *at(x) == 0 {
				return ""
			}
			return formatNumber(*at(x))
		},
	}
}

// text is a field that holds a name.
func text[T any](name string, at func(*T) *string) field[T] {
	return written(name, validText, allowedText, at)
}

// word is a text without a vertical bar.
func word[T any](name string, at func(*T) *string) field[T] {
	return written(name, validWord, allowedText+" and vertical bars", at)
}

func written[T any](name string, valid func(string) bool, allowed string, at func(*T) *string) field[T] {
	read := func(x *T, s string) string {
		if !valid(s) {
			return allowed
		}
		*at(x) = s
		return ""
	}
	return field[T]{
		name: name,
		fromJSON: func(x *T, raw []byte) string {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				return allowed
			}
			return read(x, s)
		},
		fromText: read,
		toJSON: func(x *T) []byte {
			if *at(x) == "" {
				return nil
			}
			return marshal(*at(x))
		},
		toText: func(x *T) string { return *at(x) },
	}
}

// truth is a field that holds true or false.
func truth[T any](name string, at func(*T) *bool) field[T] {
	read := func(x *T, s string) string {
		if s != "true" && s != "false" {
			return "want true or false"
		}
		*at(x) = s == "true"
		return ""
	}
	write := func(x *T) string {
		if *at(x) {
			return "true"
		}
		return ""
	}
	return field[T]{
		name:     name,
		fromJSON: func(x *T, raw []byte) string { return read(x, string(raw)) },
		fromText: read,
		toJSON: func(x *T) []byte {
			if s := write(x); s != "" {
				return []byte(s)
			}
			return nil
		},
		toText: write,
	}
}

// words is a field that holds a list of texts, whose order is kept. In CSV a
// vertical bar separates them.
func words[T any](name string, at func(*T) *[]string) field[T] {
	allowed := fmt.Sprintf("want a list of at most %d texts without vertical bars", MaxList)
	read := func(x *T, list []string) string {
		if len(list) > MaxList || slices.ContainsFunc(list, func(s string) bool { return !validWord(s) }) {
			return allowed
		}
		if len(list) > 0 {
			*at(x) = list
		}
		return ""
	}
	return field[T]{
		name: name,
		fromJSON: func(x *T, raw []byte) string {
			var list []string
			if json.Unmarshal(raw, &list) != nil {
				return allowed
			}
			return read(x, list)
		},
		fromText: func(x *T, s string) string { return read(x, strings.Split(s, "|")) },
		toJSON: func(x *T) []byte {
			if len(*at(x)) == 0 {
				return nil
			}
			return marshal(*at(x))
		},
		toText: func(x *T) string { return strings.Join(*at(x), "|") },
	}
}

// maxPlace is the highest number of an island or a NUMA node.
const maxPlace = 1023

// places is a field that holds one small number per GPU, -1 for none. In CSV a
// vertical bar separates them.
func places[T any](name string, at func(*T) *[]int32) field[T] {
	allowed := fmt.Sprintf("want one number per GPU, each from -1 to %d", maxPlace)
	read := func(x *T, list []string) string {
		if len(list) > MaxGPUs {
			return allowed
		}
		numbers := make([]int32, len(list))
		for i, s := range list {
			n, err := strconv.ParseInt(s, 10, 32)
			if err != nil || n < -1 || n > maxPlace {
				return allowed
			}
			numbers[i] = int32(n)
		}
		if len(numbers) > 0 {
			*at(x) = numbers
		}
		return ""
	}
	return field[T]{
		name: name,
		fromJSON: func(x *T, raw []byte) string {
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) != nil {
				return allowed
			}
			texts := make([]string, len(list))
			for i, n := range list {
				texts[i] = string(n)
			}
			return read(x, texts)
		},
		fromText: func(x *T, s string) string { return read(x, strings.Split(s, "|")) },
		toJSON: func(x *T) []byte {
			if len(*at(x)) == 0 {
				return nil
			}
			return marshal(*at(x))
		},
		toText: func(x *T) string { return joinNumbers(*at(x)) },
	}
}

// labels is a field that holds keys with values. In CSV it is written
// key=value|key=value.
func labels[T any](name string, at func(*T) *map[string]string) field[T] {
	allowed := fmt.Sprintf("want at most %d labels; keys without = and |, values without |", MaxList)
	read := func(x *T, set map[string]string) string {
		if len(set) > MaxList {
			return allowed
		}
		for key, value := range set { // order: each is checked alone.
			if !validWord(key) || strings.Contains(key, "=") || value != "" && !validWord(value) {
				return allowed
			}
		}
		if len(set) > 0 {
			*at(x) = set
		}
		return ""
	}
	return field[T]{
		name: name,
		fromJSON: func(x *T, raw []byte) string {
			var set map[string]string
			if json.Unmarshal(raw, &set) != nil {
				return allowed
			}
			return read(x, set)
		},
		fromText: func(x *T, s string) string {
			set := map[string]string{}
			for _, pair := range strings.Split(s, "|") {
				key, value, ok := strings.Cut(pair, "=")
				if _, twice := set[key]; twice || !ok {
					return allowed
				}
				set[key] = value
			}
			return read(x, set)
		},
		toJSON: func(x *T) []byte {
			if len(*at(x)) == 0 {
				return nil
			}
			return marshal(*at(x)) // encoding/json sorts the keys.
		},
		toText: func(x *T) string {
			var pairs []string
			for _, key := range slices.Sorted(maps.Keys(*at(x))) {
				pairs = append(pairs, key+"="+(*at(x))[key])
			}
			return strings.Join(pairs, "|")
		},
	}
}

// marshal is the JSON of a text, a list or a map of texts, which always has
// one.
func marshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("trace: JSON of %#v: %v", v, err))
	}
	return data
}
