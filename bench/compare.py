"""Sets the results of two builds side by side: what bench/compare.sh measured.

    python3 bench/compare.py OUT [--all]

A figure is the median of the runs' medians. RATIO is how fast the new build is
beside the base, above 1 where it is faster, whatever the unit. A row is "slower"
if it has less than 97 % of the speed and not even its best run reaches the worst
run of the base; "unsure" if the runs overlap, or if there is one of each: the
repeats of a process vary less than runs do. Only these rows are printed, and a
line for each group; --all prints every row. Rows that only say what the machine
can do (by the driver, by libturbojpeg) do not count. The exit status is 1 if a
row is slower.
"""

import json
import pathlib
import statistics
import sys

TIMES = ("s", "ms", "us", "ns")
SLOWER = 0.97


def rows_of(document):
    """(group, name, unit, value) of each figure of a document."""
    for r in document.get("bulk", []):
        yield "link", f'{r["path"]} {r["direction"]}', "GB/s", r["gb_per_s"]
    for key, prefix in (("small_copies", ""), ("pin_cost", "pin: ")):
        for r in document.get(key, []):
            yield "link", prefix + r["what"], "us", 1e6 * r["seconds"]
    for r in document.get("curves") or []:
        yield f'curve {r["path"]} {r["direction"]}', size(r["bytes"]), "GB/s", r["gb_per_s"]
    if "peak_reserved_bytes" in document:
        name = pathlib.Path(document["trace"]).stem
        for key in ("alloc_p50", "alloc_p99", "free_p50"):
            ns = document[key + "_seconds"] * 1e9 if key + "_seconds" in document else document[key.replace("_p", "_ns_p")]
            yield "hold", f"replay {name}: {key}", "ns", ns
        yield "hold", f"replay {name}: reserved", "MiB", document["peak_reserved_bytes"] / 2**20
    for r in document.get("rows", []):
        what = {"hold": "hold", "feeding": "feed"}.get(document.get("what"), document.get("what"))
        if not r.get("by", "Pinion").startswith("Pinion"):
            continue
        name = r["name"] + (f', {r["by"]}' if r.get("by") else "")
        if "gb_per_s" in r:  # of a row in per cent
            yield what, name, "GB/s", r["gb_per_s"]
        elif r["unit"] in TIMES or r["unit"].endswith("/s"):
            yield what, name, r["unit"], r["value"]


def size(n):
    for unit in ("B", "KiB", "MiB"):
        if n < 1024 or unit == "MiB":
            return f"{n} {unit}"
        n //= 1024


def load(folder):
    """{(group, name): (unit, values)} of all runs of a build."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        for group, name, unit, value in rows_of(json.loads(path.read_text())):
            found.setdefault((group, name), (unit, []))[1].append(value)
    return found


class Row:
    def __init__(self, group, name, base, new):
        self.group, self.name, self.unit = group, name, base[0]
        self.lower = self.unit in TIMES or self.unit == "MiB"
        self.base, self.new = statistics.median(base[1]), statistics.median(new[1])
        self.runs = min(len(base[1]), len(new[1]))
        speed = (lambda v: 1 / v if v else float("inf")) if self.lower else (lambda v: v)
        self.ratio = self.base / self.new if self.lower and self.new else self.new / self.base if not self.lower and self.base else 1.0
        apart = self.runs > 1 and max(map(speed, new[1])) < min(map(speed, base[1]))
        self.mark = "" if self.ratio >= SLOWER else "slower" if apart else "unsure"

    def line(self):
        return (f"    {self.name[:75]:76}"
                f"{self.base:10.4g} {self.new:10.4g} {self.unit:9}{self.ratio:6.3f}  {self.mark}")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    folder, everything = pathlib.Path(arguments[0]), "--all" in sys.argv
    base, new = load(folder / "base"), load(folder / "new")
    rows = [Row(*key, base[key], new[key]) for key in base if key in new]
    if not rows:
        raise SystemExit(f"nothing to compare in {folder}/base and {folder}/new")
    groups = {}
    for r in rows:
        if r.base or r.new:
            groups.setdefault(r.group, []).append(r)
    print(f'{"":80}{"base":>10} {"new":>10} {"":9} ratio')
    for group, members in groups.items():
        ratios = [r.ratio for r in members]
        print(f"{group:30}{len(members):4} figures of {members[0].runs} runs: ratio {statistics.median(ratios):.3f} in the middle, "
              f"{min(ratios):.3f} to {max(ratios):.3f}")
        for r in members:
            if everything or r.mark:
                print(r.line())
    for which, ours, theirs in (("base", base, new), ("new", new, base)):
        if missing := [f"{group}: {name}" for group, name in ours if (group, name) not in theirs]:
            print(f"\nonly in {which}: " + "; ".join(missing))
    slower = [r for r in rows if r.mark == "slower"]
    ratios = [r.ratio for r in rows]
    print(f"\n{len(rows)} figures, ratio {statistics.median(ratios):.3f} in the middle, {min(ratios):.3f} at worst, "
          f"{sum(r.mark == 'unsure' for r in rows)} below {SLOWER} that may be noise, {len(slower)} slower")
    for r in slower:
        print(f"SLOWER {r.group}:{r.line()}")
    sys.exit(bool(slower))


main()
