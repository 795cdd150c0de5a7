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
	eachScalar(reflect.ValueOf(Result{}), func(name string, _ reflect.Value) { names = append(names, name) })
	return names
}

// Scalars lists the values of those fields as text; absent ones are empty.
func (r *Result) Scalars() []string {
	var values []string
	eachScalar(reflect.ValueOf(*r), func(_ string, v reflect.Value) { values = append(values, scalarText(v)) })
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

// TrainingNames lists those of a run of elastic training jobs.
func TrainingNames() []string {
	var names []string
	eachScalar(reflect.ValueOf(Training{}), func(name string, _ reflect.Value) { names = append(names, name) })
	return names
}

// Scalars lists their values.
func (t *Training) Scalars() []string {
	var values []string
	eachScalar(reflect.ValueOf(*t), func(_ string, v reflect.Value) { values = append(values, scalarText(v)) })
	return values
}

// eachScalar visits the fields in order; those of an embedded struct are its own,
// but for the count of jobs, whose place a list takes in a Training.
func eachScalar(v reflect.Value, visit func(name string, v reflect.Value)) {
	_, isTraining := v.Interface().(Training)
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			eachScalar(v.Field(i), func(name string, v reflect.Value) {
				if !isTraining || name != "jobs" {
					visit(name, v)
				}
			})
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "-" && v.Field(i).Kind() != reflect.Slice {
			visit(name, v.Field(i))
		}
	}
}
