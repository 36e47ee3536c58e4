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


link, again = load("link.json"), load("cpp-link-again.json")
if link:
    peers = {n: {r["name"]: r for r in d["rows"]}
             for n in ("cpp-link", "cpp-link-again", "torch-link") if (d := load(n + ".json"))}
    ours = {f'{b["path"]} {b["direction"]}': b["gb_per_s"] for b in link["bulk"]}
    ours |= {t["what"]: t["seconds"] * 1e6 for t in link["small_copies"]}
    ours |= {"pin 1 GiB: " + t["what"]: t["seconds"] for t in link["pin_cost"]}
    print(f'{"":32}{"Pinion":>10}' + "".join(f"{p:>16}" for p in peers))
    for name, value in ours.items():
        key = "pin 1 GiB" if name.startswith("pin 1 GiB") else name.replace("staged", "pageable")
        print(f"{name:32}{value:10.4g}" + "".join(
            f'{rows[key]["value"]:16.4g}' if key in rows else f'{"":16}' for rows in peers.values()))

sums = {}
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
