"""What the Python peers share: timing in turn, and the JSON they print."""

import datetime
import json
import statistics
import sys
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


def compare(name, unit, ways, repeats):
    """Times ways to do name in turn, repeats times; of each, (by, figure), who
    does it and what gives a figure in unit. The first run is a warm-up."""
    for _, figure in ways:
        figure()
    figures = [[] for _ in ways]
    for _ in range(repeats):
        for values, (_, figure) in zip(figures, ways):
            values.append(figure())
    return [dict(name=name, by=by, value=statistics.median(v), unit=unit, min=min(v), max=max(v))
            for (by, _), v in zip(ways, figures)]


def step(what):
    """Says on standard error what is measured next."""
    print(what, file=sys.stderr, flush=True)


def document(peer, what, machine, rows, **more):
    print(json.dumps(dict(
        peer=peer, what=what, machine=machine,
        measured_at=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **more, rows=rows), indent=2))
