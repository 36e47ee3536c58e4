// Package listing lists the files below a folder.
package listing

import "slices"

// Index is the files of a folder, in order. A file costs the bytes of its
// name and 8 more, and no pointer, so that a million of them are nothing to the
// garbage collector; a run costs 32 and the path of its folder.
type Index struct {
	// Classes are the names of the folders of the first level, "" first if there
	// are files beside them.
	Classes []string
	// Others is the number of files that are left out for their extensions.
	Others int

	names nameList // of the files, without their folders
	runs  []run
}

// run is neighbours in the order that are in one folder.
type run struct {
	prefix string // what comes before a file's name in its path
	class  int32
	first  int // number of the first file
}

// Len returns the number of files.
func (x *Index) Len() int { return x.names.len() }

// run returns the run that file i is in.
func (x *Index) run(i int) run {
	k, found := slices.BinarySearchFunc(x.runs, i, func(r run, i int) int { return r.first - i })
	if !found {
		k-- // i is behind the first file of the run before
	}
	return x.runs[k]
}

// Path returns the path of file i.
func (x *Index) Path(i int) string {
	return x.run(i).prefix + string(x.names.at(i))
}

// Class returns the class of file i, an index into Classes.
func (x *Index) Class(i int) int32 { return x.run(i).class }

// Count returns the number of files that have one of those extensions.
func (x *Index) Count(extensions []string) (n int) {
	for i := range x.Len() {
		if HasExtension(string(x.names.at(i)), extensions) {
			n++
		}
	}
	return n
}

// Filter returns the list of the files that have one of those extensions.
func (x *Index) Filter(extensions []string) *Index {
	n := x.Count(extensions)
	if n == x.Len() {
		return x
	}
	y := &Index{Classes: x.Classes, Others: x.Others + x.Len() - n}
	for k, r := range x.runs {
		end := x.Len()
		if k+1 < len(x.runs) {
			end = x.runs[k+1].first
		}
		r.first, end = y.Len(), end-r.first
		for i := range end {
			if name := x.names.at(x.runs[k].first + i); HasExtension(string(name), extensions) {
				y.names.add(name)
			}
		}
		if y.Len() > r.first {
			y.runs = append(y.runs, r)
		}
	}
	// Where no file is left beside the folders, they begin at 0.
	if len(x.Classes) > 0 && x.Classes[0] == "" && (len(y.runs) == 0 || y.runs[0].class > 0) {
		y.Classes = x.Classes[1:]
		for k := range y.runs {
			y.runs[k].class--
		}
	}
	return y
}

// addTop adds a whole folder with its class folders: its own files first.
func (x *Index) addTop(top *subtree, classes []string) error {
	if n := top.files.len(); n > 0 {
		x.Classes = []string{""}
		x.addRun(top.prefix(), 0, &top.files, 0, n)
	}
	for k, t := range top.folders {
		x.Classes = append(x.Classes, classes[k])
		if err := x.add(t, int32(len(x.Classes)-1)); err != nil {
			return err
		}
	}
	return nil
}

// add adds a subtree in order, up to the first error in it.
func (x *Index) add(t *subtree, class int32) error {
	from, prefix := 0, t.prefix() // one string for all runs of a folder
	for k, sub := range t.folders {
		x.addRun(prefix, class, &t.files, from, t.places[k])
		from = t.places[k]
		if err := x.add(sub, class); err != nil {
			return err
		}
	}
	x.addRun(prefix, class, &t.files, from, t.files.len())
	return t.err
}

// addRun adds files from to before end of a list, if there are any.
func (x *Index) addRun(prefix string, class int32, list *nameList, from, end int) {
	if from == end {
		return
	}
	x.runs = append(x.runs, run{prefix, class, x.Len()})
	for i := from; i < end; i++ {
		x.names.add(list.at(i))
	}
}

// nameList is a list of strings, one behind the other.
type nameList struct {
	bytes []byte
	ends  []int // of each name in bytes
}

func (l *nameList) len() int { return len(l.ends) }

// grow makes room for so many names of so many bytes together.
func (l *nameList) grow(names, bytes int) {
	l.ends = slices.Grow(l.ends, names)
	l.bytes = slices.Grow(l.bytes, bytes)
}

func (l *nameList) add(name []byte) {
	l.bytes = append(l.bytes, name...)
	l.ends = append(l.ends, len(l.bytes))
}

// at returns name i. It is part of the list.
func (l *nameList) at(i int) []byte {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.bytes[start:l.ends[i]]
}
