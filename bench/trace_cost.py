"""Says what a recording costs pinion feed, from runs with --trace and without that took
turns, and from BenchmarkFeed of package timeline, in which a loader with a recording and
one without have turns.

    python3 bench/trace_cost.py OUT

reads what there is of OUT/timeline/WHAT-off-N.json and WHAT-on-N.json, and the benchmark's
output in OUT/timeline/feed.txt, and writes OUT/timeline-cost.json in the form of
bench/benchdoc. The pace of a run is the median over its epochs but the first two, in which
it finds its pace; the cost is the median over the rounds of the time that a batch takes
with --trace over that without, in the two runs of a round.
"""

import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])
WANTED = {"at_most": 1.03}


def pace(path):
    document = json.loads(path.read_text())
    epochs = document["epochs"]
    rates = [e["samples_per_s"] for e in (epochs[2:] or epochs)]
    return document, statistics.median(rates)


def row(name, by, unit, values, **more):
    return {"name": name, "by": by, "unit": unit, "value": statistics.median(values),
            "min": min(values), "max": max(values)} | more


out = {"what": "timeline", "rows": []}
for what in ("arrays", "photos"):
    rounds = len(list((folder / "timeline").glob(f"{what}-on-*.json")))
    if rounds == 0:
        continue
    rates, times = {"off": [], "on": []}, []
    for i in range(1, rounds + 1):
        for v in ("off", "on"):
            document, rate = pace(folder / "timeline" / f"{what}-{v}-{i}.json")
            rates[v].append(rate)
        times.append(rates["off"][-1] / rates["on"][-1])
    out = {k: document[k] for k in ("measured_at", "commit", "platform", "cpus", "device", "device_name") if k in document} | out
    out["repeats"] = rounds
    out["rows"] += [
        row(f"{what}: time of a batch with --trace", "Pinion", "of that without", times, **WANTED),
        row(f"{what}: rate", "Pinion", "samples/s", rates["off"]),
        row(f"{what}: rate", "Pinion, --trace", "samples/s", rates["on"]),
    ]
    # What half of the rounds lie within.
    low, _, high = statistics.quantiles(times, n=4, method="inclusive") if rounds > 1 else times * 3
    print(f"{what}: a batch takes {statistics.median(times):.3f} of the time with --trace, in half of {rounds} rounds {low:.3f} to {high:.3f}")
for line in (folder / "timeline" / "feed.txt").read_text().splitlines():
    if not line.startswith("BenchmarkFeed/"):
        continue
    words = line.split()
    what = words[0].removeprefix("BenchmarkFeed/").rsplit("-", 1)[0]
    figures = {unit: float(value) for value, unit in zip(words[2::2], words[3::2])}
    out["rows"].append(row(f"{what}: time of a batch with a recording, in one process", "Pinion", "of that without",
                           [figures["ratio-low"], figures["ratio"], figures["ratio-high"]]))
    out["rows"].append(row(f"{what}: time of processors for a batch with a recording, in one process", "Pinion", "of that without",
                           [figures["cpu-ratio-low"], figures["cpu-ratio"], figures["cpu-ratio-high"]]))
    for name in ("ratio", "cpu-ratio"):
        print(f"{what}: {name} {figures[name]:.3f} in one process, in half of {words[1]} pairs {figures[name + '-low']:.3f} to {figures[name + '-high']:.3f}")
(folder / "timeline-cost.json").write_text(json.dumps(out, indent=1) + "\n")
