package control

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

// Ranks that do not fit end the joining of all, with the number of the one at fault.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(o *Options)
		says   []string
	}{
		{"another version", func(o *Options) { o.version = "v2" }, []string{"rank 2 (host c)", "runs Pinion v2, rank 0 (host a) runs v1"}},
		{"another size", func(o *Options) { o.World.Size = 8 }, []string{"rank 2 (host c)", "counts 8 ranks, rank 0 (host a) counts 4"}},
		{"another patience", func(o *Options) { o.Lost = time.Minute }, []string{"has Options.Lost of 1m0s, rank 0 (host a) of 10s"}},
		{"twice", func(o *Options) { o.World.Rank = 1 }, []string{"has come twice", "host b", "host c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.NoLeaks(t)
			options := optionsOf(t, 4, 0)
			for r := range options {
				options[r].version = "v1"
			}
			c.change(&options[2])
			_, failures := attempt(t, options)
			for r, err := range failures {
				wantRank(t, fmt.Sprint("rank ", r), err, options[2].World.Rank, c.says...)
			}
		})
	}
}

// A stranger to a run that is complete is refused, and does not disturb it.
func TestLate(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	groups, failures := attempt(t, options)
	for _, err := range failures {
		testkit.OK(t, err)
	}
	refused := func(change func(o *Options)) error {
		o := options[1]
		o.Name = "a stranger"
		change(&o)
		_, err := Join(background, o)
		return err
	}
	wantRank(t, "twice", refused(func(o *Options) {}), 1, "a stranger", "has come twice", "host b")
	wantRank(t, "another size", refused(func(o *Options) { o.World.Size = 5 }), 1, "counts 5 ranks")
	wantRank(t, "another version", refused(func(o *Options) { o.version = "v9" }), 1, "runs Pinion v9")
	testkit.WantError(t, "another job", refused(func(o *Options) { o.World.Job, o.Timeout = "other", 100*time.Millisecond }), ErrTimeout,
		`rank 0 of another job is there: "TestLate", this is "other"`)
	testkit.WantError(t, "the next start", refused(func(o *Options) { o.World.Restart, o.Timeout = 1, 100*time.Millisecond }), ErrTimeout, "its run has not ended yet")
	for _, err := range each(t, groups, func(_ int, g *Group) error { return g.Agree(background, "all", "well") }) {
		testkit.OK(t, err)
	}
}

// Names as long as they may be pass, and a stranger to a run that has failed hears why,
// however long that is.
func TestLongNames(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 2, 0)
	for r := range options {
		options[r].World.Job, options[r].Name = strings.Repeat("\x01", maxName), strings.Repeat("\x02", maxName)
	}
	groups, failures := attempt(t, options)
	for _, err := range failures {
		testkit.OK(t, err)
	}
	groups[0].Fail(fmt.Errorf("bad %s", strings.Repeat("x", maxData)))
	wantEnd(t, groups, 0, "bad xx")
	o := options[1]
	o.World.Size = 3
	_, err := Join(background, o)
	wantRank(t, "a stranger", err, 1, "counts 3 ranks")
}

// A greeting that no Pinion of today sends is answered in a way that it understands.
func TestOtherProtocol(t *testing.T) {
	groups := group(t, 2, 0)
	for what, g := range map[string]greeting{
		"speaks protocol 9, rank 0 (host a) speaks 1": {Protocol: 9, Version: "v1", Job: t.Name(), Size: 2, Rank: 1},
		`belongs to job "x", rank 0 to "TestOther`:    {Protocol: 1, Job: "x"},
		"there are 2 ranks":                           {Protocol: 1, Version: builtVersion(), Job: t.Name(), Size: 2, Rank: -1, Lost: groups[0].lost},
	} {
		conn := testkit.Must(net.Dial("tcp", groups[0].listener.Addr().String()))(t)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testkit.Hang))
		theirs := testkit.Must(readGreeting(conn))(t)
		if theirs.Job != t.Name() || theirs.Size != 2 {
			t.Errorf("%+v", theirs)
		}
		testkit.OK(t, g.write(conn))
		m := testkit.Must(readMessage(conn, maxHello))(t)
		if m.kind != failed || !strings.Contains(string(m.data), what) {
			t.Errorf("%d %s, want %q", m.kind, m.data, what)
		}
	}
}

// Ranks that come late are waited for.
func TestLateRanks(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	joined := make(chan error, 3)
	var mu sync.Mutex
	var groups []*Group
	join := func(r int) {
		go func() {
			g, err := Join(background, options[r])
			mu.Lock()
			groups = append(groups, g)
			mu.Unlock()
			joined <- err
		}()
	}
	join(2) // before there is a rank 0
	dial := func() bool {
		conn, err := net.Dial("tcp", options[0].World.Master)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	join(0)
	testkit.Eventually(t, "rank 0 listens", dial)
	join(1)
	for range 3 {
		testkit.OK(t, testkit.Receive(t, "joining", joined))
	}
	closeAll(t, groups)
}

func TestTimeout(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 5, 0)
	options[0].Timeout = time.Second // it ends the others' waiting
	var here []Options
	for _, r := range []int{0, 1, 3} {
		here = append(here, options[r])
	}
	_, failures := attempt(t, here)
	says := "not all ranks have come within 1s: 3 of 5 ranks have come, missing: ranks 2, 4"
	testkit.WantError(t, "rank 0", failures[0], ErrTimeout, says, "rank 0 cannot join")
	wantRank(t, "rank 1", failures[1], 0, says)
	wantRank(t, "rank 3", failures[2], 0, says)

	options = optionsOf(t, 5, 2*time.Second)
	options[1].Timeout = time.Second // and here it is another that gives up
	_, failures = attempt(t, options[:2])
	testkit.WantError(t, "rank 1", failures[1], ErrTimeout, "within 1s: 2 of 5 ranks have come, missing: ranks 2-4")
	wantRank(t, "rank 0", failures[0], 1, "cannot join", "missing: ranks 2-4")

	options[1].Timeout = 300 * time.Millisecond
	_, failures = attempt(t, options[1:2])
	testkit.WantError(t, "no rank 0", failures[0], ErrTimeout, "within 300ms", "no answer of rank 0 at "+options[1].World.Master+" and 15 more", "refused")
}

// A context ends joining at every stage.
func TestJoinContext(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	for _, some := range [][]Options{options[:1], options[1:2], options[:2]} {
		ctx, cancel := context.WithCancel(background)
		failures := make(chan error, len(some))
		for _, o := range some {
			go func() {
				_, err := Join(ctx, o)
				failures <- err
			}()
		}
		time.AfterFunc(50*time.Millisecond, cancel)
		for range some {
			err := testkit.Receive(t, "the end", failures)
			if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestBadOptions(t *testing.T) {
	for name, w := range map[string]launch.World{
		"rank 3 of 3":               {Rank: 3, Size: 3, Master: "a:1"},
		"rank 0 of 0":               {},
		"rank -1 of 2":              {Rank: -1, Size: 2},
		"Master does not say":       {Size: 2},
		`Master is "a": not`:        {Rank: 1, Size: 2, Master: "a"},
		`Master is "a:0": not`:      {Size: 2, Master: "a:0"},
		`Master is "a:70000": not `: {Size: 2, Master: "a:70000"},
	} {
		_, err := Join(background, Options{World: w})
		testkit.WantError(t, name, err, ErrArgument, name)
	}
	_, err := Join(background, Options{World: launch.World{Size: 2, Master: "a:1", Job: strings.Repeat("x", maxName+1)}})
	testkit.WantError(t, "a long job", err, ErrArgument, "a job of 1025")
	l := testkit.Must(Listen(background))(t)
	_, err = Join(background, Options{World: launch.World{Rank: 1, Size: 2}, Listener: l})
	testkit.WantError(t, "a listener of rank 1", err, ErrArgument, "Listener")
	if err := l.Close(); err == nil {
		t.Error("the listener was left open")
	}
}

// A run whose address is known only when rank 0 listens.
func TestListen(t *testing.T) {
	testkit.NoLeaks(t)
	l := testkit.Must(Listen(background))(t)
	_, port, err := net.SplitHostPort(l.listener.Addr().String())
	testkit.OK(t, err)
	if !strings.Contains(l.Addr(), ":"+port) {
		t.Errorf("%s, at port %s", l.Addr(), port)
	}
	options := optionsOf(t, 3, 0)
	for r := range options {
		options[r].World.Master = "127.0.0.1:" + port + ",[::1]:" + port
	}
	options[0].World.Master, options[0].Listener = "", l
	_, failures := attempt(t, options)
	for _, err := range failures {
		testkit.OK(t, err)
	}
}

func TestIPv6(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	master := "[::1]:" + freePort(t, "::1")
	for r := range options {
		options[r].World.Master = master
	}
	groups, failures := attempt(t, options)
	for _, err := range failures {
		testkit.OK(t, err)
	}
	if host, _, _ := net.SplitHostPort(groups[0].listener.Addr().String()); host != "::1" {
		t.Errorf("it listens at %s", host)
	}
}

// serve is another program that holds a port, with what it does with a connection.
func serve(t *testing.T, address string, fn func(net.Conn)) (string, *sync.WaitGroup) {
	t.Helper()
	l := testkit.Must(net.Listen("tcp", address))(t)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				fn(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String(), &all
}

// Where another program holds the port, the next one is taken, and nothing is sent to it.
func TestForeign(t *testing.T) {
	for name, fn := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"closes": func(c net.Conn) { _ = c.Close() },
		"speaks": func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")) },
		"floods": func(c net.Conn) {
			for _, err := c.Write([]byte(magic)); err == nil; _, err = c.Write(bytes.Repeat([]byte{0xff}, 1<<16)) {
			}
		},
		"another run":               func(c net.Conn) { _ = greeting{Protocol: 1, Job: "another", Size: 3}.write(c) },
		"a run of another protocol": func(c net.Conn) { _ = greeting{Protocol: 9, Job: "another"}.write(c) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.NoLeaks(t)
			options := optionsOf(t, 3, 0)
			received := make(chan string, 1000)
			serve(t, options[0].World.Master, func(c net.Conn) {
				fn(c)
				text, _ := io.ReadAll(c)
				received <- string(text)
			})
			groups, failures := attempt(t, options)
			for _, err := range failures {
				testkit.OK(t, err)
			}
			if groups[0].listener.Addr().String() == options[0].World.Master {
				t.Error("the port was free")
			}
			for range len(received) {
				if text := <-received; text != "" {
					t.Errorf("%q was sent there", text)
				}
			}
		})
	}
}

// Where it is known that another program holds it, it is left alone.
func TestShared(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	for r := range options {
		options[r].World.Shared = true
	}
	serve(t, options[0].World.Master, func(net.Conn) { t.Error("a connection to torchrun's store") })
	_, failures := attempt(t, options)
	for _, err := range failures {
		testkit.OK(t, err)
	}
}

// Whatever strangers send to rank 0 leaves the run alone.
func TestNoise(t *testing.T) {
	testkit.NoLeaks(t)
	options := optionsOf(t, 3, 0)
	noise := func(address string) {
		for _, text := range []string{
			"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", magic, magic + "\x01", magic + strings.Repeat("\xff", headerSize), "\x16\x03\x01",
			magic + string(message{kind: hello, data: []byte("{")}.appendTo(nil)), magic + string(message{kind: hello, data: []byte("null")}.appendTo(nil)),
			magic + string(message{kind: part, data: make([]byte, maxData)}.appendTo(nil)), strings.Repeat("x", 1<<20),
		} {
			conn, err := net.Dial("tcp", address)
			testkit.OK(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, text)
		}
		for range 2*len(options) + 64 { // which say nothing, and hold all places
			conn, err := net.Dial("tcp", address)
			testkit.OK(t, err)
			time.AfterFunc(100*time.Millisecond, func() { _ = conn.Close() })
		}
	}
	joined := make(chan *Group, len(options))
	join := func(o Options) {
		g, err := Join(background, o)
		if err != nil {
			t.Error(err)
		}
		joined <- g
	}
	go join(options[0])
	testkit.Eventually(t, "rank 0 listens", func() bool {
		conn, err := net.Dial("tcp", options[0].World.Master)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	noise(options[0].World.Master)
	go join(options[1])
	go join(options[2])
	groups := make([]*Group, len(options))
	for range options {
		if g := testkit.Receive(t, "joining", joined); g != nil {
			groups[g.world.Rank] = g
		}
	}
	defer closeAll(t, groups)
	noise(options[0].World.Master)
	for _, err := range each(t, groups, func(_ int, g *Group) error { return g.Agree(background, "all", "well") }) {
		testkit.OK(t, err)
	}
}

// A rank that sends what is none of its business ends the run, and is named.
func TestBadRank(t *testing.T) {
	for name, m := range map[string]message{
		"of another exchange": {kind: part, number: 9},
		"twice":               {kind: part, number: 2},
		"a kind":              {kind: welcome},
		"a length":            {kind: kind(99)},
	} {
		t.Run(name, func(t *testing.T) {
			groups := group(t, 3, 0)
			groups[2].up.send(m)
			groups[2].up.send(m)
			wantEnd(t, groups[:2], 2, "it sent what no rank sends")
		})
	}
	t.Run("rank 0", func(t *testing.T) {
		groups := group(t, 3, 0)
		groups[0].hub.links()[0].send(message{kind: hello})
		wantEnd(t, groups[1:2], 0, "it sent what no rank sends")
	})
}

// A name of a host that is a loopback address there is none to others.
func TestOwnAddress(t *testing.T) {
	for master, want := range map[string]string{"127.0.0.1:1": "[127.0.0.1]", "[::1]:1": "[::1]", "192.0.2.7:1": "[192.0.2.7]", "no.such.host.invalid:1": "[]"} {
		if got := fmt.Sprint(ownAddress(background, master)); got != want {
			t.Errorf("%s: %s, want %s", master, got, want)
		}
	}
	port := freePort(t, "127.0.0.1")
	l := testkit.Must(listenAt(background, launch.World{Size: 2, Master: "192.0.2.7:" + port}))(t) // not of this host
	defer l.Close()
	if host, got, _ := net.SplitHostPort(l.Addr().String()); host != "::" && host != "0.0.0.0" || got != port {
		t.Errorf("%s", l.Addr())
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range []struct {
		master      string
		shared      bool
		n           int
		first, last string
	}{
		{"a:100", false, 16, "a:100", "a:115"},
		{"a:100", true, 15, "a:101", "a:115"},
		{"[::1]:65530", false, 6, "[::1]:65530", "[::1]:65535"},
		{"a:1,b:1", false, 2, "a:1", "b:1"},
	} {
		got := testkit.Must(candidates(launch.World{Master: c.master, Shared: c.shared}))(t)
		if len(got) != c.n || got[0] != c.first || got[len(got)-1] != c.last {
			t.Errorf("%s: %v", c.master, got)
		}
	}
}

func TestRanksText(t *testing.T) {
	for want, ranks := range map[string][]int{
		"rank 3": {3}, "ranks 0-2": {0, 1, 2}, "ranks 0, 2": {0, 2}, "ranks 0-1, 5, 7-9": {0, 1, 5, 7, 8, 9},
	} {
		if got := ranksText(ranks); got != want {
			t.Errorf("%v: %q", ranks, got)
		}
	}
	var all []camp
	for r := range 9 {
		all = append(all, camp{strconv.Itoa(r), []int{r}})
	}
	if got := campsText(all, "has", "have"); got != "rank 0 has 0, rank 1 has 1, rank 2 has 2, rank 3 has 3, rank 4 has 4, rank 5 has 5, and 3 more" {
		t.Errorf("%q", got)
	}
}

// A link that is ended in the middle of much to send ends.
func TestLinkStops(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := net.Pipe()
	defer b.Close()
	l := newLink(a, bufio.NewReader(a))
	var all sync.WaitGroup
	all.Go(l.write)
	for range 10 {
		l.send(message{kind: part, data: make([]byte, maxData)})
	}
	l.stop()
	l.drain(nil)
	all.Wait()
	kept := len(l.queue)
	if l.send(message{kind: part}); len(l.queue) > kept {
		t.Error("a link that has ended keeps what it is given")
	}
}
