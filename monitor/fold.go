package monitor

import (
	"cmp"
	"reflect"
	"strings"
	"sync"
)

// field is what the tags of a struct's field say.
type field struct {
	index int
	kind  kind
	float bool
	name  string // of the label or metric, without the prefixes of lists
	help  string // or the prefix of a list
}

type kind uint8

const (
	isLabel kind = iota
	isList
	isCount
	isAmount
	isMost
)

var known sync.Map // reflect.Type -> []field: reading tags takes longer than all else

// fieldsOf lists the fields of a struct that are part of the metrics.
func fieldsOf(t reflect.Type) []field {
	if list, ok := known.Load(t); ok {
		return list.([]field)
	}
	var list []field
	for i := range t.NumField() {
		tag, of := t.Field(i).Tag, t.Field(i).Type.Kind()
		f := field{index: i, float: of == reflect.Float64, name: cmp.Or(tag.Get("metric"), tag.Get("json"))}
		switch {
		case of == reflect.String:
			f.kind = isLabel
		case of == reflect.Slice:
			f.kind, f.help = isList, tag.Get("prefix")
		case tag.Get("count") != "":
			f.kind, f.help, f.name = isCount, tag.Get("count"), f.name+"_total"
		case tag.Get("most") != "":
			f.kind, f.help = isMost, tag.Get("most")
		default:
			f.kind, f.help = isAmount, tag.Get("amount")
		}
		list = append(list, f)
	}
	known.Store(t, list)
	return list
}

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
	for _, f := range fieldsOf(x.Type()) {
		from, to := x.Field(f.index), to.Field(f.index)
		switch {
		case f.kind == isLabel:
			to.SetString(from.String())
		case f.kind == isList:
			if to.IsNil() { // a list is there even when it is empty
				to.Set(reflect.MakeSlice(to.Type(), 0, from.Len()))
			}
			for k := range from.Len() {
				mergeElement(to, from.Index(k), counts)
			}
		case counts && f.kind != isCount:
		case f.kind == isMost:
			to.SetInt(max(to.Int(), from.Int()))
		case f.float:
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
		for _, f := range fieldsOf(x.Type()) {
			from, to := before.Field(f.index), x.Field(f.index)
			switch {
			case f.kind == isList:
				subtract(to, from)
			case f.kind != isCount:
			case f.float:
				to.SetFloat(to.Float() - from.Float())
			default:
				to.SetInt(to.Int() - from.Int())
			}
		}
	}
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
	for _, f := range fieldsOf(a.Type()) {
		if f.kind == isLabel {
			if c := strings.Compare(a.Field(f.index).String(), b.Field(f.index).String()); c != 0 {
				return c
			}
		}
	}
	return 0
}
