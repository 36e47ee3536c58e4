package monitor

import (
	"reflect"
	"strings"
)

// merge adds x to the element of list that has its labels, or to a new one: counts,
// and amounts unless only counts are wanted. It keeps nothing of x.
func merge[S any](list []S, x S, counts bool) []S {
	mergeElement(reflect.ValueOf(&list).Elem(), reflect.ValueOf(x), counts)
	return list
}

func mergeElement(list, x reflect.Value, counts bool) {
	to := find(list, x)
	if !to.IsValid() {
		list.Set(reflect.Append(list, reflect.Zero(x.Type())))
		to = list.Index(list.Len() - 1)
	}
	for i := range x.NumField() {
		field, from, to := x.Type().Field(i), x.Field(i), to.Field(i)
		isCount := isCount(field)
		switch {
		case from.Kind() == reflect.String:
			to.SetString(from.String())
		case from.Kind() == reflect.Slice:
			if to.IsNil() { // a list is there even when it is empty
				to.Set(reflect.MakeSlice(to.Type(), 0, from.Len()))
			}
			for k := range from.Len() {
				mergeElement(to, from.Index(k), counts)
			}
		case counts && !isCount:
		case field.Tag.Get("agg") == "max":
			to.SetInt(max(to.Int(), from.Int()))
		case from.Kind() == reflect.Float64:
			to.SetFloat(to.Float() + from.Float())
		default:
			to.SetInt(to.Int() + from.Int())
		}
	}
}

// since returns a copy of list whose counts are less those of earlier.
func since[S any](list, earlier []S) []S {
	d := []S{}
	for _, x := range list {
		d = merge(d, x, false)
	}
	subtract(reflect.ValueOf(d), reflect.ValueOf(earlier))
	return d
}

func subtract(list, earlier reflect.Value) {
	for k := range list.Len() {
		x := list.Index(k)
		before := find(earlier, x)
		if !before.IsValid() {
			continue
		}
		for i := range x.NumField() {
			from, to := before.Field(i), x.Field(i)
			switch {
			case to.Kind() == reflect.Slice:
				subtract(to, from)
			case !isCount(x.Type().Field(i)):
			case to.Kind() == reflect.Float64:
				to.SetFloat(to.Float() - from.Float())
			default:
				to.SetInt(to.Int() - from.Int())
			}
		}
	}
}

// isCount reports whether a field is a count, which only grows.
func isCount(f reflect.StructField) bool {
	return strings.HasSuffix(f.Tag.Get("metric"), "_total")
}

// find returns the element of list with the labels of x, or an invalid value.
func find(list, x reflect.Value) reflect.Value {
	for k := range list.Len() {
		if compareLabels(list.Index(k), x) == 0 {
			return list.Index(k)
		}
	}
	return reflect.Value{}
}

// compareLabels orders two structs of one type by their labels.
func compareLabels(a, b reflect.Value) int {
	for i := range a.NumField() {
		if a.Type().Field(i).Tag.Get("label") != "" {
			if c := strings.Compare(a.Field(i).String(), b.Field(i).String()); c != 0 {
				return c
			}
		}
	}
	return 0
}
