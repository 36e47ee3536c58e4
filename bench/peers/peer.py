"""What the Python peers share: timing in turn, and the JSON they print."""

import datetime
import json
import statistics
import time


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turn(samples, repeats):
    """Times every (name, unit, value, seconds) in turn, repeats times.

    seconds() returns the time of one run; value(seconds) makes a figure in
    unit of it. The first run of each is a warm-up.
    """
    for _, _, _, seconds in samples:
        seconds()
    times = [[] for _ in samples]
    for _ in range(repeats):
        for i, (_, _, _, seconds) in enumerate(samples):
            times[i].append(seconds())
    rows = []
    for (name, unit, value, _), t in zip(samples, times):
        figures = sorted(value(s) for s in t)
        rows.append(dict(name=name, value=value(statistics.median(t)), unit=unit,
                         min=figures[0], max=figures[-1]))
    return rows


def document(peer, what, machine, rows, **more):
    print(json.dumps(dict(
        peer=peer, what=what, machine=machine,
        measured_at=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **more, rows=rows), indent=2))
