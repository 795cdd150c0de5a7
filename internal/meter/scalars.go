package meter

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ScalarNames lists the JSON names of the fields that are not curves, in order.
func ScalarNames() []string {
	var names []string
	eachScalar(&Result{}, func(name string, _ reflect.Value) { names = append(names, name) })
	return names
}

// Scalars lists the values of those fields as text; absent ones are empty.
func (r *Result) Scalars() []string {
	var values []string
	eachScalar(r, func(_ string, v reflect.Value) { values = append(values, scalarText(v)) })
	return values
}

func scalarText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Float64 {
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}

func eachScalar(r *Result, visit func(name string, v reflect.Value)) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "-" && v.Field(i).Kind() != reflect.Slice {
			visit(name, v.Field(i))
		}
	}
}
