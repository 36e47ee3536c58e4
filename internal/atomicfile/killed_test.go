package atomicfile

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestKilled: a process that is killed while it writes a file leaves what was
// there, and nothing else where drafts have no names.
func TestKilled(t *testing.T) {
	if path := os.Getenv("ATOMICFILE_TEST"); path != "" {
		f := testkit.Must(Create(path, 0o644))(t)
		testkit.Must(f.WriteString("half of it"))(t)
		testkit.OK(t, f.Sync())
		fmt.Println("written")
		select {}
	}
	dir := t.TempDir()
	path := testkit.WriteFile(t, "old", dir, "a")
	if file, err := openUnnamed(path, 0o600); err == nil {
		file.Close()
	} else if runtime.GOOS == "linux" {
		t.Skip(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), "ATOMICFILE_TEST="+path)
	out := testkit.Must(child.StdoutPipe())(t)
	testkit.OK(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	child.Process.Kill()
	child.Wait()
	if line != "written\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if runtime.GOOS == "linux" {
		holds(t, dir, "a", "old")
	} else if text := testkit.ReadFile(t, filepath.Join(dir, "a")); text != "old" {
		t.Errorf("%q", text)
	}
}
