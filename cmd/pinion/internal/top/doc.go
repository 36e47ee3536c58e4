// Package top looks at this machine, its GPUs and the processes that offer their
// snapshots (package monitor/local), and shows what they do: pinion top.
//
// A [Looker] takes a [Look] every so often, which is what --json prints; [Render] makes
// lines of text of one, and [Live] shows them until the user has seen enough.
package top
