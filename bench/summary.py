"""Prints a short table of a folder of results.

    python3 bench/summary.py bench/results/FOLDER
"""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])


def load(name):
    path = folder / name
    return json.loads(path.read_text()) if path.exists() else None


def link():
    ours = load("link.json")
    if not ours:
        return
    peers = {n: {r["name"]: r for r in d["rows"]}
             for n in ("cpp-link", "cpp-link-again", "torch-link") if (d := load(n + ".json"))}
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
        "pipeline, pinned": (least, 95),
        "pipeline, pageable": (least, 95),
        "file in page cache h2d": (least, 46),
        "4 KiB pinned h2d, queued: allocations": (most, 0),
        "chosen path, slower than the best": (most, 5),
    }
    # What the disk and the driver give on the day, the better of two runs.
    def best(name, pick):
        found = [r["value"] for rows in peers.values() for r in rows if r["name"] == name]
        return pick(found) if found else None

    if (disk := best("disk h2d, O_DIRECT reads without a copy", max)) is not None:
        goals["disk h2d"] = (least, 0.95 * disk)
    queued = [r["value"] for file, rows in peers.items() if file.startswith("cpp")
              for r in rows if r["name"] == "4 KiB pinned h2d, queued"]
    if queued:
        goals["4 KiB pinned h2d, queued"] = (most, min(queued) + 0.4)
    return goals


def variant(name, names):
    """Which of names a peer's row is about, and in which way it does it."""
    own = max((n for n in names if name == n or name.startswith(n + ", ")), key=len, default=None)
    return own, name[len(own) + 2:] if own else name


def moves():
    ours = load("moves.json")
    if not ours:
        return
    files = ("cpp-moves", "cpp-moves-again", "torch-moves", "direct-read", "direct-read-again")
    peers = {n: d["rows"] for n in files if (d := load(n + ".json"))}
    goals = targets(peers)
    names = [r["name"] for r in ours["rows"]]
    missed = []
    print(f'{"moves":50}{"Pinion":>9} {"min":>8} {"max":>8}  target')
    for row in ours["rows"]:
        name, value = row["name"], row["value"]
        mark = ""
        if name in goals:
            sign, goal = goals[name]
            met = value >= goal if sign == ">=" else value <= goal
            mark = f'{sign} {goal:.4g} {"ok" if met else "MISSED"}'
            if not met:
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
    for s in ours["skipped"]:
        print(f'skipped: {s["name"]}: {s["why"]}')
    for name in sorted(goals.keys() - set(names)):
        missed.append(name)
        print(f"no row for the target of {name}")
    print(f'{len(goals) - len(missed)} of {len(goals)} targets reached' + (", missed: " + "; ".join(missed) if missed else ""))


def feeds():
    for path in sorted(folder.glob("feed-*.json")):
        d = json.loads(path.read_text())
        epochs = d["epochs"]
        held = {(e["device_free_bytes"], e["host_bytes"]) for e in epochs}
        print(f'{path.stem:24}{d["samples_per_s"]:10.0f} samples/s, {d["errors"]} errors, waits '
              f'{100 * d["device_wait_fraction"]:.0f} %, pinned {d["pinned"]}, {len(epochs)} epochs, '
              f'{len(held)} different memory figures, {d.get("checksum", "")[:23]}')
    loader = load("torch-loader.json")
    if loader:
        for r in loader["rows"]:
            print(f'{loader["peer"]}, {r["name"]}: {r["value"]:.0f} {r["unit"]} ({r["min"]:.0f}-{r["max"]:.0f})')


link()
moves()
feeds()
