"""What the Python peers share: timing in turn, and the JSON they print."""

import datetime
import json
import os
import platform
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


def epochs(name, unit, ways, repeats):
    """Times ways to feed epochs in turn, repeats times; of each, (by, run), who
    does it and what gives two figures in unit, as epoch_and_middle does: rows of
    the full pipeline, and of whole epochs. The first run is a warm-up."""
    for _, run in ways:
        run()
    figures = [[] for _ in ways]
    for _ in range(repeats):
        for values, (_, run) in zip(figures, ways):
            values.append(run())
    rows = []
    for i, title in ((1, name), (0, name + ", whole epochs")):
        for (by, _), values in zip(ways, figures):
            v = [both[i] for both in values]
            rows.append(dict(name=title, by=by, value=statistics.median(v), unit=unit, min=min(v), max=max(v)))
    return rows


def epoch_and_middle(loader, batches, work, wait):
    """Works on each of so many batches of loader, and returns how many samples a
    second there were in the whole epoch and in its middle half, from one batch to
    another. There the pipeline is full: its workers have started and still have
    work to do. work returns the samples of a batch; wait waits for the device."""
    first, last = max(1, batches // 4), batches - batches // 4
    total = middle = 0
    start = time.perf_counter()
    for i, batch in enumerate(loader, 1):
        n = work(batch)
        total += n
        if first < i <= last:
            middle += n
        if i == first:
            wait()
            begin = time.perf_counter()
        if i == last:
            wait()
            end = time.perf_counter()
    wait()
    seconds = time.perf_counter() - start
    assert i == batches, f"{i} batches, want {batches}"
    return total / seconds, middle / (end - begin)


def step(what):
    """Says on standard error what is measured next."""
    print(what, file=sys.stderr, flush=True)


def document(peer, what, device_name, rows, **more):
    print(json.dumps(dict(
        peer=peer, what=what, device_name=device_name, cpus=os.cpu_count(),
        platform=f"{sys.platform}/{platform.machine()} Python {platform.python_version()}",
        measured_at=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **more, rows=rows), indent=2))
