package device

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Devices that can do some things and are asked about others.
type (
	plain  struct{ Device }
	pins   struct{ Pinner }
	maps   struct{ Mapper }
	manage struct{ Manager }
	batch  struct{ BatchCopier }

	capable struct {
		plain
		pins
		HostAllocator
		manage
		maps
		batch
		BoxCopier
		PeerCopier
		Launcher
		Caller
		can bool
	}
)

func (c capable) CanMap() bool       { return c.can }
func (c capable) CanManage() bool    { return c.can }
func (c capable) CanReserve() bool   { return c.can }
func (c capable) CanCopyBatch() bool { return c.can }

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		dev  Device
		want []string
	}{
		{nil, nil},
		{plain{}, nil},
		{capable{can: false}, []string{
			"pinned", "write-combined", "box", "peer", "kernels", "go-kernels"}},
		{capable{can: true}, []string{
			"pinned", "mapped", "write-combined", "managed", "virtual-memory", "batch", "box", "peer", "kernels", "go-kernels"}},
		{Wrapper{capable{can: true}}, Capabilities(capable{can: true})},
	} {
		if got := Capabilities(c.dev); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

// Every interface of the package that a device may have is listed. A new one
// that no device is asked for joins the list of exceptions.
func TestCapabilitiesAreAll(t *testing.T) {
	handed := []string{"Device", "Stream", "Event", "File", "Module", "Kernel", "Graph"} // what devices hand out
	source, err := os.ReadFile("capabilities.go")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	visit := func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() || slices.Contains(handed, spec.Name.Name) {
			return true
		}
		if _, ok := spec.Type.(*ast.InterfaceType); ok {
			found++
			if asks := regexp.MustCompile(`has[\[(]` + spec.Name.Name + `\b`); !asks.Match(source) {
				t.Errorf("%s is not among the capabilities", spec.Name)
			}
		}
		return true
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, visit)
	}
	if found < 13 {
		t.Errorf("%d interfaces found", found)
	}
}
