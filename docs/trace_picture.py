#!/usr/bin/env python3
"""Draws a part of a timeline, for docs/timeline.md:

    pinion feed ~/photos --epochs 3 --device host --trace trace.json
    python3 docs/trace_picture.py trace.json FROM TO >docs/img/timeline.svg

FROM and TO are seconds of the timeline. Rows are those of the loader and of the
streams of devices; arrows lead from calls to work, from the row that made the call.
"""
import json, sys
from xml.sax.saxutils import escape

WIDTH, LEFT, ROW, BAR = 960, 150, 30, 20
KINDS = [("wait", "waits"), ("read", "reads"), ("decode", "decodes"), ("resize", "resizes"), ("upload", "queues"), ("copy", "copies"), ("", "computes")]


def kind(name):
    return next(i for i, (word, _) in enumerate(KINDS) if word in name)


def main():
    path, begin, end = sys.argv[1], float(sys.argv[2]) * 1e6, float(sys.argv[3]) * 1e6
    with open(path) as f:
        events = json.load(f)["traceEvents"]
    process = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    order = {(e["pid"], e["tid"]): (e["pid"], e["args"]["sort_index"]) for e in events if e["name"] == "thread_sort_index"}
    label = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    shown = [t for t in sorted(label, key=order.get) if not process[t[0]].startswith(("calls", "transfer", "tier"))]
    spans = [e for e in events if e["ph"] == "X" and e["ts"] < end and e["ts"] + e["dur"] > begin
             and e["name"] != "samples" and (e["pid"], e["tid"]) in shown]
    rows = [t for t in shown if any((e["pid"], e["tid"]) == t for e in spans)]
    place = {t: i for i, t in enumerate(rows)}

    def x(ts):
        return LEFT + (min(max(ts, begin), end) - begin) / (end - begin) * (WIDTH - LEFT - 10)

    height = ROW * len(rows) + 62
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title">',
           "<title id=\"title\">Part of a timeline: what a loader and its device did at the same time</title>", """<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.bg { fill: #ffffff } .line { stroke: #d1d9e0 } .arrow { stroke: #59636e; fill: none }
.k0 { fill: #d1d9e0 } .k1 { fill: #8250df } .k2 { fill: #0a58ca } .k3 { fill: #1b7f83 } .k4 { fill: #b45309 } .k5 { fill: #1a7f37 } .k6 { fill: #bf3989 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .bg { fill: #0d1117 } .line { stroke: #3d444d } .arrow { stroke: #9198a1 } .k0 { fill: #3d444d } }
</style>""", '<rect class="bg" width="100%" height="100%"/>']
    for t, i in place.items():
        out.append(f'<text x="8" y="{i * ROW + 21}">{escape(label[t])}</text>')
        out.append(f'<line class="line" x1="0" x2="{WIDTH}" y1="{(i + 1) * ROW}" y2="{(i + 1) * ROW}"/>')
    for e in spans:
        y, a, b = place[e["pid"], e["tid"]] * ROW + 5, x(e["ts"]), x(e["ts"] + e["dur"])
        inner = 4 if "device buffer" in e["name"] else 0
        out.append(f'<rect class="k{kind(e["name"])}" x="{a:.1f}" y="{y + inner}" width="{max(b - a, 0.7):.1f}" height="{BAR - 2 * inner}"><title>{escape(e["name"])}</title></rect>')
    calls = {e["id"]: e for e in events if e["ph"] == "s"}
    uploads = [t for t in rows if label[t].startswith("upload")]
    for e in events:
        if e["ph"] == "f" and begin < e["ts"] < end and (e["pid"], e["tid"]) in place and begin < calls[e["id"]]["ts"] and uploads:
            a, b = x(calls[e["id"]]["ts"]), x(e["ts"])
            top, bottom = place[uploads[0]] * ROW + 25, place[e["pid"], e["tid"]] * ROW + 5
            out.append(f'<path class="arrow" d="M{a:.1f} {top}C{a:.1f} {(top + bottom) / 2} {b:.1f} {(top + bottom) / 2} {b:.1f} {bottom}"/>')
    at, base = LEFT, ROW * len(rows)
    for i in range(11):
        ts = begin + (end - begin) * i / 10
        if i % 2 == 0:
            out.append(f'<text x="{x(ts):.1f}" y="{base + 18}" text-anchor="{"end" if i == 10 else "middle"}">{ts / 1e3:.0f} ms</text>')
    for i, (_, word) in enumerate(KINDS):
        out.append(f'<rect class="k{i}" x="{at}" y="{base + 34}" width="14" height="14"/><text x="{at + 20}" y="{base + 46}">{word}</text>')
        at += 104
    print("\n".join(out) + "\n</svg>")


main()
