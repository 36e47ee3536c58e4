package monitor

import "testing"

// What the page shows of loaders is what they did lately, as `pinion top` has it: of a
// second in which no batch was delivered it does not say that there are no samples.
func TestLoaderValues(t *testing.T) {
	const host = "host"
	s := Snapshot{Seconds: 1, Loader: []Loader{{Device: host, Loaders: 1, DeviceBytes: 7}}, Tier: []Tier{{Device: host, Stores: 1, FillBytes: 5}}}
	lately := RecentLoader{Loader{Device: host, Loaders: 1, Samples: 24, H2DBytes: 400, DeviceWaitSeconds: 2,
		Stages: []Stage{{Stage: "decode", Where: "worker", Seconds: 6}}}, 4}
	got := map[string]float64{}
	for _, v := range s.values(true, []RecentLoader{lately}) {
		got[v.Chart+" "+v.Name] = v.Value
	}
	for name, want := range map[string]float64{
		"device_bytes loader": 7, "samples_per_s samples": 6, "link_bytes_per_s h2d loader": 100, "stage_busy wait": 0.5,
		"stage_busy worker decode": 1.5, "tier_bytes_per_s to the device": 5,
	} {
		if v, there := got[name]; !there || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}
