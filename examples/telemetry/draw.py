#!/usr/bin/env python3
"""Draws a trace, or every panel of dashboard.json, as SVG. Needs nothing but Python.

  draw.py trace spans.json trace.svg
  draw.py panels http://127.0.0.1:9090 OUT_DIR [--minutes 10] [--until SECONDS]

`panels` runs every query of the dashboard in Prometheus, and fails where one is refused or finds nothing.
"""

import argparse
import datetime
import html
import json
import pathlib
import sys
import urllib.parse
import urllib.request

COLOURS = ["#2563eb", "#dc2626", "#16a34a", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#65a30d"]
INK, FAINT, GROUND = "#1f2937", "#d1d5db", "#ffffff"


def text(x, y, words, size=12, anchor="start", colour=INK):
    words = html.escape(str(words))
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def svg(width, height, title, parts):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" role="img"><title>{html.escape(title)}</title>'
        f'<rect width="{width}" height="{height}" fill="{GROUND}"/>'
    )
    return head + "\n".join(parts) + "</svg>\n"


def shown_time(ms):
    return f"{ms / 1000:.2f} s" if ms >= 1000 else f"{ms:.1f} ms"


def draw_trace(spans, title):
    """One line per span, in the order of the tree."""
    for span in spans:
        span["from"] = int(span["startTimeUnixNano"]) / 1e6
        span["to"] = int(span["endTimeUnixNano"]) / 1e6
    ids = {span["spanId"] for span in spans}
    children = {}
    for span in sorted(spans, key=lambda span: (span["from"], -span["to"])):
        parent = span.get("parentSpanId")
        children.setdefault(parent if parent in ids else None, []).append(span)
    lines = []

    def walk(parent, depth):
        for span in children.get(parent, []):
            lines.append((depth, span))
            walk(span["spanId"], depth + 1)

    walk(None, 0)
    begin = min(span["from"] for span in spans)
    whole = max(max(span["to"] for span in spans) - begin, 0.001)
    left, width, row, top = 260, 960, 20, 46
    room = width - left - 90
    parts = [text(12, 22, title, 15)]
    for tick in range(5):
        x = left + room * tick / 4
        parts.append(f'<line x1="{x:.1f}" y1="{top - 8}" x2="{x:.1f}" y2="{top + row * len(lines)}" stroke="{FAINT}"/>')
        parts.append(text(x, top - 12, shown_time(whole * tick / 4), 10, "middle"))
    kinds = {"message": 0, "invoke_agent": 1, "execute_tool": 3, "approval": 4, "send": 2, "commit": 5, "queue": 6}
    for number, (depth, span) in enumerate(lines):
        y = top + row * number
        x = left + room * (span["from"] - begin) / whole
        long = max(room * (span["to"] - span["from"]) / whole, 1.5)
        colour = COLOURS[kinds.get(span["name"].split(" ")[0], 7)]
        parts.append(text(12 + 14 * depth, y + 14, span["name"], 12))
        parts.append(f'<rect x="{x:.1f}" y="{y + 4}" width="{long:.1f}" height="12" rx="2" fill="{colour}"/>')
        parts.append(text(min(x + long + 5, width - 60), y + 14, shown_time(span["to"] - span["from"]), 10))
    return svg(width, top + row * len(lines) + 12, title, parts)


def ask(prometheus, path, **query):
    url = f"{prometheus.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"Prometheus refuses {query.get('query')}: {error.read().decode()}")


def shown(value, unit):
    if unit == "s":
        return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"
    if unit == "bytes":
        return f"{value / 1e6:.0f} MB"
    return f"{value:.3g}"


def draw_panel(panel, series, begin, end):
    width, height, left, top, bottom = 640, 260, 62, 40, 62
    unit = panel["fieldConfig"]["defaults"]["unit"]
    values = [value for _, points in series for _, value in points]
    highest = max(values, default=0) or 1
    room, tall = width - left - 16, height - top - bottom
    parts = [text(12, 22, panel["title"], 15)]
    for tick in range(5):
        y = top + tall * (1 - tick / 4)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - 16}" y2="{y:.1f}" stroke="{FAINT}"/>')
        parts.append(text(left - 6, y + 4, shown(highest * tick / 4, unit), 10, "end"))
    for tick in range(4):
        at = begin + (end - begin) * tick / 3
        clock = datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%H:%M:%S")
        x = left + room * tick / 3
        parts.append(text(x, height - bottom + 16, clock, 10, "middle" if 0 < tick < 3 else ("start", "end")[tick > 0]))
    x = left
    for number, (name, points) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(
            f"{left + room * (at - begin) / (end - begin):.1f},{top + tall * (1 - value / highest):.1f}"
            for at, value in points
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if x + 7 * len(name) + 20 < width:
            parts.append(f'<rect x="{x}" y="{height - 24}" width="10" height="10" fill="{colour}"/>')
            parts.append(text(x + 14, height - 15, name, 11))
            x += 7 * len(name) + 30
    return svg(width, height, panel["title"], parts)


def draw_panels(prometheus, out, minutes, until):
    here = pathlib.Path(__file__).parent
    dashboard = json.loads((here / "dashboard.json").read_text())
    end = until or float(ask(prometheus, "query", query="time()")["result"][1])
    begin = end - 60 * minutes
    step = max((end - begin) / 200, 1)
    empty = 0
    for panel in dashboard["panels"]:
        series = []
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
            found = ask(prometheus, "query_range", query=query, start=begin, end=end, step=step)["result"]
            if not found:
                print(f"{panel['title']}: nothing found by {query}", file=sys.stderr)
                empty += 1
            for one in found:
                name = target["legendFormat"]
                for label, value in one["metric"].items():
                    name = name.replace("{{%s}}" % label, value)
                points = [(at, float(value)) for at, value in one["values"]]
                series.append((name, [point for point in points if point[1] == point[1]]))
        name = panel["title"].lower().replace(" ", "-")
        (out / f"{name}.svg").write_text(draw_panel(panel, series, begin, end))
    print(f"{len(dashboard['panels'])} panels drawn, {empty} queries found nothing")
    return 1 if empty else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    trace = kinds.add_parser("trace")
    trace.add_argument("spans", type=pathlib.Path, help="a JSON list of spans, as OTLP/JSON has them")
    trace.add_argument("out", type=pathlib.Path)
    trace.add_argument("--title", default="A message")
    panels = kinds.add_parser("panels")
    panels.add_argument("prometheus")
    panels.add_argument("out", type=pathlib.Path)
    panels.add_argument("--minutes", type=float, default=10)
    panels.add_argument("--until", type=float, help="seconds since 1970; now where nothing is said")
    args = parser.parse_args()
    if args.kind == "trace":
        args.out.write_text(draw_trace(json.loads(args.spans.read_text()), args.title))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    return draw_panels(args.prometheus, args.out, args.minutes, args.until)


if __name__ == "__main__":
    sys.exit(main())
