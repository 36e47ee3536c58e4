package pcie

import (
	"encoding/binary"
	"os"
	"testing"
)

// config is the configuration space of a device with that chain of
// capabilities: offset, kind, offset, kind, …
func config(size int, deviceControl uint16, chain ...byte) []byte {
	b := make([]byte, 256)
	b[0x06] = 1 << 4
	at := byte(0x34)
	for i := 0; i < len(chain); i += 2 {
		b[at] = chain[i]
		b[chain[i]] = chain[i+1]
		if chain[i+1] == 0x10 {
			binary.LittleEndian.PutUint16(b[chain[i]+8:], deviceControl)
		}
		at = chain[i] + 1
	}
	return b[:size]
}

func TestPayload(t *testing.T) {
	const power, msi, express = 0x01, 0x05, 0x10
	noList := config(256, 0x20, 0x60, express)
	noList[0x06] = 0
	for name, c := range map[string]struct {
		config []byte
		want   int64
	}{
		"first, 128":        {config(256, 0x0000, 0x40, express), 128},
		"first, 256":        {config(256, 0x2930, 0x40, express), 256},
		"third, 512":        {config(256, 0xff5f, 0x60, power, 0x68, msi, 0x78, express), 512},
		"4096":              {config(256, 5<<5, 0x78, express), 4096},
		"reserved":          {config(256, 6<<5, 0x78, express), 0},
		"other capability":  {config(256, 0, 0x60, power), 0},
		"no list":           {noList, 0},
		"circle":            {config(256, 0, 0x60, power, 0x70, msi, 0x60, power), 0},
		"into the header":   {config(256, 0, 0x10, express), 0},
		"at the end":        {config(256, 0, 0xfc, express)[:250], 0},
		"what anybody sees": {config(64, 0x20, 0x60, express), 0},
		"nothing":           {nil, 0},
	} {
		if got := payload(c.config); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	for _, id := range []string{"", "nosuch", "../../../etc", "0000:00:00.0/.."} {
		if got := Payload(os.DirFS("/"), id); got != 0 {
			t.Errorf("%q: %d", id, got)
		}
	}
}

func FuzzPayload(f *testing.F) {
	f.Fuzz(func(t *testing.T, config []byte) {
		if n := payload(config); n != 0 && (n < 128 || n > 4096 || n&(n-1) != 0) {
			t.Errorf("a payload of %d bytes", n)
		}
	})
}
