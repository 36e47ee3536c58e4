package main

import (
	"regexp"
	"strings"
	"testing"
)

// torchrun takes a flag that begins one of its own for that one, behind the name of the
// program, too: "--max" would be its --max-restarts. These are PyTorch 2.11's.
var torchrunFlags = strings.Fields(`--nnodes --nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf
	--standalone --max-restarts --monitor-interval --start-method --event-log-handler --role --module --no-python
	--run-path --log-dir --redirects --tee --local-ranks-filter --duplicate-stdout-filters
	--duplicate-stderr-filters --node-rank --master-addr --master-port --local-addr --logs-specs
	--numa-binding --signals-to-handle --virtual-local-rank`)

func TestFlagsBehindTorchrun(t *testing.T) {
	for _, command := range [][]string{{"bench", "collectives"}, {"bench", "step"}} {
		r := pinion(t, append(command, "--help")...)
		flags := regexp.MustCompile(`(?m)^ +(?:-., )?(--[a-z0-9-]+)`).FindAllStringSubmatch(r.stdout, -1)
		if len(flags) < 5 {
			t.Errorf("%q has %d flags:\n%s", command, len(flags), r.stdout)
		}
		for _, f := range flags {
			for _, theirs := range torchrunFlags {
				if strings.HasPrefix(theirs, f[1]) {
					t.Errorf("%q: torchrun takes %s for %s", command, f[1], theirs)
				}
			}
		}
	}
}
