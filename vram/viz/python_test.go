package viz

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// python loads a file as torch/cuda/_memory_viz.py does, and checks what Go
// cannot: that Python's types are right, and that the page knows every opcode.
const python = `
import pickle, pickletools, sys
data = open(sys.argv[1], 'rb').read()
s = pickle.loads(data)
# Rule: the page's unpickler throws on any other opcode.
known = set('''PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
  SHORT_BINUNICODE BINUNICODE EMPTY_LIST APPEND APPENDS LIST EMPTY_DICT SETITEM SETITEMS DICT
  EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET'''.split())
used = {op.name for op, arg, pos in pickletools.genops(data)}
assert used <= known, used - known
assert data[:2] in (b'\x80\x02', b'\x80\x03', b'\x80\x04'), data[:2]
assert type(s) is dict and {'segments', 'device_traces', 'allocator_settings'} <= set(s)
for seg in s['segments']:
    assert {'device', 'address', 'total_size', 'allocated_size', 'stream', 'blocks', 'frames'} <= set(seg), seg
    assert type(seg['segment_pool_id']) is tuple
    assert seg['total_size'] == sum(b['size'] for b in seg['blocks'])
    for b in seg['blocks']:
        assert {'size', 'requested_size', 'state', 'frames'} <= set(b), b
        assert all(type(f['filename']) is str and type(f['name']) is str and type(f['line']) is int for f in b['frames'])
assert type(s['device_traces']) is list and len(s['device_traces']) == 2
n = 0
for e in s['device_traces'][1]:
    assert type(e['action']) is str and type(e['addr']) is int and type(e['size']) is int, e
    assert e['action'] != 'oom' or type(e['device_free']) is int
    assert type(e['frames']) is list
    n += 1
print(n, 'events,', len(s['segments']), 'segments')
`

func TestTorchPython(t *testing.T) {
	python3, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	m := newModel(7)
	for len(m.events) < 2000 {
		m.step()
	}
	file := filepath.Join(t.TempDir(), "snapshot.pickle")
	if err := os.WriteFile(file, torchBytes(t, m.snapshot(1500)), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python3, "-c", python, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
