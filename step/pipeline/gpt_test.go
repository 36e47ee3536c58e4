package pipeline_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

const vocabulary = 19

// gpt is a GPT of four layers with Adam.
func gpt(t *testing.T) *network {
	c := models.GPT{Layers: 4, Width: 16, Heads: 2, Batch: 2, Length: 8, Vocabulary: vocabulary, Optimizer: models.Adam, LearningRate: 1e-2}
	m := testkit.Must(c.Model())(t)
	n := &network{initial: map[graph.Value][]byte{}}
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	memory := testkit.Must(step.OpenMemory(dev, nil))(t)
	defer memory.Close()
	start := testkit.Must(m.Start(context.Background(), exec, memory, 7))(t)
	n.Step = m.Training()
	for i, p := range m.Graph.Parameters() {
		b := make([]byte, p.Shape().Bytes())
		testkit.OK(t, start[i].Read(b))
		testkit.OK(t, start[i].Free())
		if !slices.Contains(m.Batch, i) {
			n.initial[p] = b
		}
	}
	n.data = func(step, micro int) [][]byte {
		rng := rand.New(rand.NewPCG(uint64(step), uint64(micro)))
		both := make([][]byte, 2)
		for range c.Batch * c.Length {
			for k := range both {
				both[k] = binary.LittleEndian.AppendUint32(both[k], uint32(rng.IntN(vocabulary)))
			}
		}
		return both
	}
	return n
}

func name(p graph.Value) string { return p.Node().Attr.(*graph.Input).Name }

// tie has a net's head be the table of its tokens, turned.
func tie(t *testing.T, n *network) *network {
	var table, head, ofTable, ofHead graph.Value
	k := 0
	for _, s := range n.State {
		switch name(s.Param) {
		case "tokens' table":
			table = s.Param
		case "head":
			head = s.Param
		}
		if strings.HasSuffix(name(s.Param), ": mean") {
			switch name(s.Param) {
			case "tokens' table: mean":
				ofTable = n.Gradients[k]
			case "head: mean":
				ofHead = n.Gradients[k]
			}
			k++
		}
	}
	tied := &network{initial: map[graph.Value][]byte{}, data: n.data}
	g, now := graph.New("tied"), map[graph.Value]graph.Value{}
	for _, node := range n.Graph.Nodes() {
		if node.Op == graph.Parameter && strings.HasPrefix(name(node.Value(0)), "head") {
			now[node.Value(0)] = must(g.Fill(0, node.Shapes[0])) // what is left of its update is wanted by nobody
			if node.Value(0) == head {
				now[head] = must(g.Transpose(now[table], 1, 0))
			}
			continue
		}
		g.Copy(node, now)
		if node.Value(0) == ofTable {
			now[ofTable] = must(g.Binary(graph.Add, must(g.Transpose(now[ofHead], 1, 0)), now[ofTable]))
		}
	}
	tied.Graph, tied.Loss, tied.Batch = g, now[n.Loss], graph.Translated(n.Batch, now)
	for _, v := range n.Gradients {
		if v != ofHead {
			tied.Gradients = append(tied.Gradients, now[v])
		}
	}
	for _, s := range n.State {
		if !strings.HasPrefix(name(s.Param), "head") {
			tied.State = append(tied.State, train.State{Param: now[s.Param], Next: now[s.Next]})
			tied.initial[now[s.Param]] = n.initial[s.Param]
		}
	}
	return tied
}

// A GPT in stages comes to what one device comes to, with the same bits, also with a table
// that the first and the last stage share.
func TestGPT(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tied := range []bool{false, true} {
		n := gpt(t)
		if tied {
			n = tie(t, n)
		}
		want := map[int]outcome{}
		for _, c := range [][3]int{{1, 1, 2}, {1, 2, 2}, {2, 1, 4}, {2, 2, 4}, {4, 1, 4}, {4, 2, 4}, {4, 1, 2}} {
			what := fmt.Sprintf("tied %v, %d ranks with %d stages, %d micro-batches", tied, c[0], c[1], c[2])
			if want[c[2]].losses == nil {
				want[c[2]] = n.alone(t, c[2], 3)
			}
			got, err := n.staged(t, c[0], 3, pipeline.Options{Micro: c[2], Chunks: c[1]})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			same(t, what, n, got, want[c[2]])
		}
	}
}

// A report says what crosses, what stages hold, and how long ranks wait.
func TestReport(t *testing.T) {
	n := gpt(t)
	report := testkit.Must(pipeline.Plan(n.Step, 4, pipeline.Options{Micro: 8, Link: 1e9}))(t)
	rows := int64(4 * 16 * 16) // bytes of what goes from layer to layer
	operations, below, least := 0, 0.0, 0.0
	for s, stage := range report.Stages {
		operations += stage.Operations
		// The first micro-batch comes up to a stage, all go through it, and the last goes down.
		one := stage.ForwardSeconds + stage.BackwardSeconds
		least, below = max(least, below+8*one), below+one
		switch up, down := s < 3, s > 0; {
		case stage.Rank != s || stage.InFlight != 2*(4-s)-1 || stage.KeptBytes == 0 || stage.StateBytes == 0:
			t.Errorf("stage %d: %+v", s, stage)
		case up != (stage.UpBytes > 0) || down != (stage.DownBytes > 0) || stage.UpBytes > 3*rows || stage.DownBytes > 3*rows:
			t.Errorf("stage %d sends %d bytes up and %d down", s, stage.UpBytes, stage.DownBytes)
		}
	}
	if report.Bubble != 3./8 || report.Simulated <= 0 || report.Simulated > 1 || report.Seconds < least || operations < 500 {
		t.Errorf("%+v", report)
	}
	errs := n.opened(t, 2, pipeline.Options{Micro: 2}, func(c parallel.Comm, r *pipeline.Runner) error {
		if _, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) { return n.tensors(r, 0, m) }); err != nil {
			return err
		}
		report, err := r.Report()
		if err == nil && (report.Took <= 0 || len(report.Stages) != 2) {
			t.Errorf("rank %d: %+v", c.Rank(), report)
		}
		return err
	})
	testkit.OK(t, errors.Join(errs...))
}

// Passes come back to the same memory, however many micro-batches there are: they are
// recorded in the first steps, and launched as one from then on.
func TestRecorded(t *testing.T) {
	n := gpt(t)
	for _, c := range [][3]int{{2, 1, 4}, {2, 1, 16}, {2, 2, 8}, {4, 1, 16}} {
		errs := n.opened(t, c[0], pipeline.Options{Micro: c[2], Chunks: c[1]}, func(comm parallel.Comm, r *pipeline.Runner) error {
			var before []step.CaptureStats
			for i := range 5 {
				if i == 4 {
					before = r.CaptureStats()
				}
				if _, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) { return n.tensors(r, i, m) }); err != nil {
					return err
				}
			}
			for i, s := range r.CaptureStats() {
				if s.Recorded > 4*c[0] || s.Recorded != before[i].Recorded || s.Launched-before[i].Launched != c[2] || s.Err != nil {
					t.Errorf("%v, rank %d, program %d: %+v, and %+v a step before", c, comm.Rank(), i, s, before[i])
				}
			}
			return nil
		})
		testkit.OK(t, errors.Join(errs...))
	}
}
