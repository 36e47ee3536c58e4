package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Bounds of what is kept of a child.
const (
	outputBytes = 1 << 20
	saidBytes   = 64 << 10
	quotedBytes = 200
	killGrace   = 300 * time.Millisecond // for a killed process to go
	readGrace   = 3 * time.Second        // for the rest of what an ended process wrote, on a busy machine
)

// startChild runs a probe in a new process, which ends with ctx, and returns what
// it printed last. Its errors are [brokenError] and [refusedError].
func (o Options) startChild(ctx context.Context, name string, req request) ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	// Cmd's own waiting does not end where a killed process does not: one that
	// hangs in the kernel is left behind.
	cmd := exec.Command(exe, slices.Concat(o.Child, []string{name, string(text)})...)
	stdout, stderr := &head{most: outputBytes}, &head{most: saidBytes}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = readGrace // a process that it started may keep them open
	isolate(cmd)
	alive, err := cmd.StdinPipe() // it ends when this process does, however that ends
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, &brokenError{what: "its process did not start: " + err.Error()}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		alive.Close()
	case <-ctx.Done():
		cmd.Process.Kill()
		what := fmt.Sprintf("no answer within %s", units.Duration(time.Since(begin).Round(100*time.Millisecond)))
		select {
		case <-ended:
		case <-time.After(killGrace + readGrace):
			return nil, &brokenError{what: what + ", and it cannot even be killed: it hangs in the kernel"}
		}
		return nil, &brokenError{what: what, said: quote(stderr.kept)}
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return answer(stdout.kept)
	case errors.As(err, &exit):
		return nil, &brokenError{what: "its process ended: " + exit.Error(), said: quote(stderr.kept)}
	}
	return nil, &brokenError{what: err.Error(), said: quote(stderr.kept)}
}

// reply is what a child prints, on a line of its own: libraries may print too.
type reply struct {
	Facts   json.RawMessage `json:"facts,omitempty"`
	Refused string          `json:"refused,omitempty"` // a reason why there are none
	Broken  string          `json:"broken,omitempty"`  // a reason that is a failure
	Lost    bool            `json:"lost,omitempty"`    // that the GPU is gone
}

// answer reads the last line.
func answer(output []byte) ([]byte, error) {
	output = bytes.TrimRight(output, "\n")
	var r reply
	if err := json.Unmarshal(output[bytes.LastIndexByte(output, '\n')+1:], &r); err != nil {
		return nil, &brokenError{what: "its process printed no answer"}
	}
	switch {
	case r.Broken != "":
		return nil, &brokenError{what: r.Broken, lost: r.Lost}
	case r.Refused != "":
		return nil, &refusedError{r.Refused}
	}
	return r.Facts, nil
}

// quote is what is worth telling of what a process said on standard error: the
// first line of a crash of Go, behind which are stacks; else the end.
func quote(said []byte) string {
	for _, mark := range []string{"fatal error: ", "panic: ", "SIG"} {
		if at := bytes.Index(said, []byte(mark)); at >= 0 {
			line, _, _ := bytes.Cut(said[at:], []byte("\n"))
			return string(line[:min(len(line), quotedBytes)])
		}
	}
	return string(said[max(0, len(said)-quotedBytes):])
}

// head keeps the first bytes that are written to it.
type head struct {
	most int
	kept []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.kept = append(h.kept, b[:min(len(b), h.most-len(h.kept))]...)
	return len(b), nil
}
