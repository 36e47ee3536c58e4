"""Prints a short table of a folder of results.

    python3 bench/summary.py bench/results/FOLDER
"""

import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])


def load(name):
    path = folder / name
    return json.loads(path.read_text()) if path.exists() else None


def link():
    ours = load("link-curves.json") or load("link.json")
    if not ours:
        return
    peers = {n: {r["name"]: r for r in d["rows"]}
             for n in ("cpp-link", "cpp-link-again", "torch-link", "torch-link-again") if (d := load(n + ".json"))}
    values = {f'{b["path"]} {b["direction"]}': b["gb_per_s"] for b in ours["bulk"]}
    values |= {t["what"]: t["seconds"] * 1e6 for t in ours["small_copies"]}
    values |= {"pin 1 GiB: " + t["what"]: t["seconds"] for t in ours["pin_cost"]}
    print(f'{"":32}{"Pinion":>10}' + "".join(f"{p:>16}" for p in peers))
    for name, value in values.items():
        key = "pin 1 GiB" if name.startswith("pin 1 GiB") else name.replace("staged", "pageable")
        print(f"{name:32}{value:10.4g}" + "".join(
            f'{rows[key]["value"]:16.4g}' if key in rows else f'{"":16}' for rows in peers.values()))


def targets(peers):
    """What each row of Pinion's has to reach: (at least, figure) or (at most, figure)."""
    least, most = ">=", "<="
    goals = {f"scattered {kib} KiB {d}": (least, 45 if kib == 16 else 48)
             for kib in (16, 64, 256) for d in ("h2d", "d2h")}
    goals |= {
        "pageable both": (least, 50),
        "pipeline in, pinned": (least, 95),
        "pipeline in and out, pinned": (least, 95),
        "file in page cache h2d": (least, 46),
        "chosen path, slower than the best": (most, 5),
    }
    return goals


def met(value, goal):
    """The words for a goal, and whether value reaches it."""
    sign, figure = goal
    reached = value >= figure if sign == ">=" else value <= figure
    return f'{sign} {figure:.4g} {"ok" if reached else "MISSED"}', reached


def variant(name, names):
    """Which of names a peer's row is about, and in which way it does it."""
    own = max((n for n in names if name == n or name.startswith(n + ", ")), key=len, default=None)
    return own, name[len(own) + 2:] if own else name


def moves(document, files, targets):
    ours = load(document + ".json")
    if not ours:
        return
    peers = {n: d["rows"] for n in files if (d := load(n + ".json"))}
    goals = targets(peers)
    names = [r["name"] for r in ours["rows"]]
    missed = []
    print(f'{document:50}{"Pinion":>9} {"min":>8} {"max":>8}  target')
    for row in ours["rows"]:
        name, value = row["name"], row["value"]
        mark = ""
        if name in goals:
            mark, reached = met(value, goals[name])
            if not reached:
                missed.append(name)
        path = f'  ({row["path"]})' if "path" in row else ""
        print(f'{name:50}{value:9.4g} {row["min"]:8.4g} {row["max"]:8.4g}  {row["unit"]:6} {mark}{path}')
        for file, rows in peers.items():
            for r in rows:
                own, way = variant(r["name"], names)
                if own == name:
                    spread = "".join(f" {r[k]:8.4g}" for k in ("min", "max") if k in r)
                    print(f'{"    " + file + (": " + way if way else ""):50}{r["value"]:9.4g}{spread}')
    for c in ours["choice"]:
        slower = 100 * (c["chosen_seconds"] / c["best_seconds"] - 1)
        print(f'{c["bytes"]:>12} {c["direction"]}: chosen {c["chosen_seconds"]:.4g} s, {c["best"]} {c["best_seconds"]:.4g} s, '
              f'{slower:+.1f} %{"  MISSED" if slower > 5 else ""}')
    for s in ours["not_available"]:
        print(f'not available: {s["name"]}: {s["reason"]}')
    for name in sorted(goals.keys() - set(names)):
        missed.append(name)
        print(f"no row for the target of {name}")
    if goals:
        print(f'{len(goals) - len(missed)} of {len(goals)} targets reached' + (", missed: " + "; ".join(missed) if missed else ""))


def runs(pattern):
    """The medians of runs that took turns."""
    values = {}
    for path in sorted(folder.glob(pattern)):
        for r in json.loads(path.read_text())["rows"]:
            values.setdefault(r["name"], []).append(r["value"])
    return values


def queued():
    """Queued copies on one core: the fastest of the runs' medians, because a
    process is in one of two modes, of which one takes half as long again."""
    ours, raw = runs("queued-[0-9]*.json"), runs("queued-cpp-*.json")
    goals = {name: ("<=", min(values) + 0.4) for name, values in raw.items()}
    for name, values in ours.items():
        goal = ("<=", 0) if name.endswith("allocations") else goals.get(name)
        mark = met(min(values), goal)[0] if goal else ""
        print(f'{name:50}{min(values):9.4g} of {values}  {mark}')
        if name in raw:
            print(f'{"    C++":50}{min(raw[name]):9.4g} of {raw[name]}')


def disk(name):
    """The disk, against what it gives by the best number of threads."""
    ours, raw = runs(f"disk-{name}[0-9]*.json"), runs(f"disk-c-{name}[0-9]*.json")
    for name, values in raw.items():
        print(f'{name:60}{statistics.median(values):9.4g} of {values}')
    for name, values in ours.items():
        best = max(statistics.median(v) for v in raw.values()) if raw else 0
        print(f'{name:60}{statistics.median(values):9.4g} of {values}  {met(statistics.median(values), (">=", 0.95 * best))[0]}')


def side_by_side(ours, peers, goal):
    """Rows by name and by who did it, Pinion's first. goal(name, row, rows) is
    what a row of Pinion's has to reach, and the figure that has to, or None;
    rows are all of Pinion's."""
    files = {n: d for n in (ours, *peers) if (d := load(n + ".json"))}
    if ours not in files:
        return
    own, groups = files[ours], {}
    for file, d in files.items():
        for r in d["rows"]:
            groups.setdefault(r["name"], []).append((r["by"] if d is own else f'{file}: {r["by"]}', r))
    for name, group in groups.items():
        print(name)
        for by, r in group:
            slower = r.get("slower_fraction")
            mark = goal(name, r, own["rows"]) if r in own["rows"] else None
            spread = "".join(f" {r.get(k, r['value']):11.4g}" for k in ("value", "min", "max"))
            print(f'    {by:52}{spread}  {r["unit"]:8}'
                  + (f" {100 * slower:+.1f} %" if slower is not None else "") + (" " + met(*mark)[0] if mark else ""))
    for s in own["not_available"]:
        print("not available: " + " by ".join(s[k] for k in ("name", "by") if k in s) + ": " + s["reason"])


def hold_goal(name, row, rows):
    """Memory for a while."""
    if row["by"] != "Pinion":
        return None
    value = row["value"]
    if name == "loop of 100: 400 MB":
        return row["slower_fraction"], ("<=", 0.02)
    if name == "alloc and free 4 KiB":
        return value, ("<=", 150)
    if "goroutines" in name:
        one = next(r["value"] for r in rows if r["by"] == "Pinion" and r["name"] == name.split(",")[0])
        return value, ("<=", one)
    if name.endswith(": allocations"):
        return round(value, 2), ("<=", 0)  # the runtime's own come in between
    if "holes" in name:
        return value, ("<=", 1000)
    return None


def feeding_goal(name, row, rows):
    """Datasets into device memory: rows say themselves what they have to reach."""
    for key, sign in (("at_least", ">="), ("at_most", "<=")):
        if key in row:
            return row["value"], (sign, row[key])
    return None


def replays():
    """Traces on allocators: what is reserved for what is live."""
    most = {"random-1000": 1.15, "random-10000": 1.15, "growing": 1.05, "cycles": 1.03}
    found = []
    for path in sorted(folder.glob("replay-*.json")):
        d = json.loads(path.read_text())
        found.append((path.stem.removeprefix("replay-"), d))
    for d in (load("torch-replay.json") or {"replays": []})["replays"] + (load("torch-replay-again.json") or {"replays": []})["replays"]:
        found.append((f'{d["trace"]}-torch {d["allocator"]}' + ("-full" if d["peak_trace_bytes"] > 0.9 * d["capacity_bytes"] else ""), d))
    for name, d in sorted(found, key=lambda f: f[0]):
        ratio = d["peak_reserved_bytes"] / d["peak_live_bytes"]
        mark = ""
        if name.endswith("-pinion") and (goal := most.get(name.removesuffix("-pinion"))):
            mark = met(ratio, ("<=", goal))[0]
        elif name.endswith("-pinion-full"):
            mark = "out of memory " + met(d["ooms"], ("<=", 0))[0]
        fails = f' from {100 * d["least_oom_bytes"] / d["capacity_bytes"]:.1f} % on' if d["ooms"] else ""
        print(f'{name:44}live {d["peak_live_bytes"] / 2**30:7.2f} GiB, reserved {d["peak_reserved_bytes"] / 2**30:7.2f}, '
              f'ratio {ratio:.3f}, {d["ooms"]} ooms{fails}, {d["driver_calls"]} calls, alloc p50 {1e9 * d["alloc_p50_seconds"]:.0f} ns, '
              f'p99 {1e9 * d["alloc_p99_seconds"]:.0f}  {mark}')


def processes():
    """Shared pinned memory against private pinned memory, in each process."""
    ours = load("processes.json")
    if not ours:
        return
    print(f'{"processes":42}{"alone":>8}{"together":>10} GB/s{"":6}of private pinned, per cent')
    for c in ours["copies"]:
        for p in c["each_process"]:
            what = f'{c["memory"]} {c["direction"]}, process {p["process"]}'
            shares = [100 * p.get(k + "_of_private_pinned_ratio", 0) for k in ("alone", "together")]
            goal = (">=", 95) if c["memory"] == "shared pinned" else None
            marks = [f"{s:.1f}" + (" " + met(s, goal)[0] if goal else "") for s in shares]
            print(f'{what:42}{p["alone"]["gb_per_s"]:8.4g}{p["together"]["gb_per_s"]:10.4g}{"":11}{marks[0]}, {marks[1]}')
    for name in ("pageable", "private pinned", "serialised pinned", "shared pinned"):
        for file in ("torch-processes", "torch-processes-again"):
            rows = {r["name"]: r for r in (load(file + ".json") or {"rows": []})["rows"]}
            for r in filter(None, (rows.get(f"{name} {d} {w}") for d in ("h2d", "d2h") for w in ("alone", "together"))):
                print(f'    torch: {r["name"]:40}{r["value"]:8.4g} {r["unit"]}, {100 * r.get("of_private_pinned_ratio", 0):.1f} %')
    for s in ours["not_available"]:
        print(f'not available: {s["name"]}: {s["reason"]}')


def feeds():
    for path in sorted(folder.glob("feed-*.json")):
        d = json.loads(path.read_text())
        epochs = d["epochs"]
        held = {(e["device_free_bytes"], e["host_bytes"]) for e in epochs}
        print(f'{path.stem:24}{d["samples_per_s"]:10.0f} samples/s, {d["errors"]} errors, waits '
              f'{100 * d["device_wait_fraction"]:.0f} %, pinned {d["pinned"]}, {len(epochs)} epochs, '
              f'{len(held)} different memory figures, {d.get("checksum", "")[:23]}')
    for loader in filter(None, (load("torch-loader.json"), load("torch-loader-again.json"))):
        for r in loader["rows"]:
            print(f'{loader["peer"]}, {r.get("by", r["name"])}: {r["value"]:.0f} {r["unit"]} ({r["min"]:.0f}-{r["max"]:.0f})')


link()
moves("moves", ("cpp-moves", "cpp-moves-again", "torch-moves", "torch-moves-again"), targets)
disk("")
queued()
moves("peer", ("cpp-peer", "cpp-peer-again"), lambda peers: {})
side_by_side("loop", ("torch-loop", "torch-loop-again"), hold_goal)
replays()
processes()
feeds()
side_by_side("feeding", [f"torch-{what}{turn}" for what in ("loader", "decode", "arrays") for turn in ("", "-again")], feeding_goal)
side_by_side("weights", ("weights-again", "torch-weights"), feeding_goal)
side_by_side("weights-cold", ("torch-weights-cold",), feeding_goal)
disk("weights-")
