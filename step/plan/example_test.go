package plan_test

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/step/plan"
)

// Three layers, whose backward passes want what the layers before made.
func ExampleMake() {
	const mib = 1 << 20
	g := plan.Graph{Values: []plan.Value{{Name: "x", Bytes: 10 * mib}}}
	value := func(name string, bytes int64) int {
		g.Values = append(g.Values, plan.Value{Name: name, Bytes: bytes})
		return len(g.Values) - 1
	}
	layers := []int{0}
	for i := range 3 {
		layers = append(layers, value(fmt.Sprint("layer ", i+1), 100*mib))
		g.Ops = append(g.Ops, plan.Op{Name: fmt.Sprint("forward ", i+1), Seconds: 0.010, Reads: layers[i : i+1], Writes: layers[i+1:]})
	}
	gradient := value("gradient 3", 10*mib)
	g.Ops = append(g.Ops, plan.Op{Name: "loss", Seconds: 0.001, Reads: layers[3:], Writes: []int{gradient}})
	for i := 2; i >= 0; i-- {
		next := value(fmt.Sprint("gradient ", i), 10*mib)
		g.Ops = append(g.Ops, plan.Op{Name: fmt.Sprint("backward ", i+1), Seconds: 0.020, Reads: []int{layers[i], layers[i+1], gradient}, Writes: []int{next}})
		gradient = next
	}

	whole, err := plan.Make(g, plan.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(whole)
	p, err := plan.Make(g, plan.Options{Budget: 240 * mib, Out: 10e9, Back: 10e9})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(p)
	for _, run := range p.Runs {
		if run.Again {
			fmt.Println("again:", g.Ops[run.Op].Name)
		}
	}
	// Output:
	// 330 MiB of device memory, 0 B of it resident; at most 330 MiB in use
	// 91.0 ms a step; no plan takes less than 91.0 ms
	// nothing travels to the host
	// 230 MiB of device memory, 0 B of it resident; at most 230 MiB in use
	// 101 ms a step, 10.0 ms of it to run 1 operation again; no plan takes less than 91.0 ms
	// nothing travels to the host
	// again: forward 1
}

// A picture of a plan: the text of an SVG file.
func ExamplePlan_SVG() {
	g := plan.Graph{
		Values: []plan.Value{{Name: "x", Bytes: 1 << 20}, {Name: "y", Bytes: 1 << 20, Output: true}},
		Ops:    []plan.Op{{Name: "layer", Seconds: 0.001, Reads: []int{0}, Writes: []int{1}}},
	}
	p, err := plan.Make(g, plan.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	svg, err := p.SVG(g)
	if err != nil {
		fmt.Println(err)
		return
	}
	title, _, _ := strings.Cut(svg[strings.Index(svg, "<title"):], "\n")
	fmt.Println(title)
	// Output: <title id="t">memory of a step</title>
}
