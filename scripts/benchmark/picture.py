"""The latency distribution as an SVG: one panel for each distance, in it reach above ssh.

Shape: plain SVG 1.1 with a style sheet inside; its colours can be read on a light and on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from benchmark.row import Row
from benchmark.spawn import median

WIDTH = 760
LEFT, RIGHT = 64, 40
PANEL_HEIGHT = 190
ROW_HEIGHT = 54
SHAPE_HEIGHT = 36
TOP = 46
BINS = 90
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #57606a }
.title { font-weight: 600 } .number { font-weight: 600 }
.axis { stroke: #8c959f; stroke-width: 1 } .limit { stroke: #8c959f; stroke-dasharray: 3 3 }
.reach { fill: #1a7f5a } .ssh { fill: #b3552d } .shape { fill-opacity: 0.75 }
@media (prefers-color-scheme: dark) {
  text { fill: #b1bac4 } .reach { fill: #3fb68b } .ssh { fill: #e08a5b }
}
"""


@dataclass(frozen=True)
class Panel:
    """Two samples of one thing, in milliseconds."""

    title: str
    reach: Sequence[float]
    ssh: Sequence[float]
    floor_ms: float = 0.0
    """What physics asks for: drawn as a line where it is not zero."""


def panels_of(rows: Sequence[Row]) -> list[Panel]:
    """What can be drawn of ROWS."""
    found = {row.figure: row for row in rows}
    wanted = (("one call, loopback", "loopback"), ("one call, 50 ms", "50 ms round trip"))
    trip = found.get("one call, 50 ms, by round trip")
    panels = []
    for figure, title in wanted:
        if figure in found:
            detail = found[figure].detail
            floor = trip.baseline if trip and trip.baseline and "50" in figure else 0.0
            panels.append(Panel(title, detail["reach_ms"], detail["ssh_ms"], floor))
    return panels


def draw(panels: Sequence[Panel], caption: str) -> str:
    """The whole picture."""
    height = TOP + PANEL_HEIGHT * len(panels) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<title>{escape(caption)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text x="{LEFT}" y="24">{escape(caption)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, TOP + number * PANEL_HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: float) -> list[str]:
    low, high = _range(panel)
    axis_y = top + 16 + 2 * ROW_HEIGHT + 8

    def x(value: float) -> float:
        return LEFT + (min(value, high) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    parts = [f'<text class="title" x="{LEFT}" y="{top + 10}">{escape(panel.title)}</text>']
    tallest = max(max(_counts(samples, low, high)) for samples in (panel.reach, panel.ssh))
    for row, (name, samples) in enumerate((("reach", panel.reach), ("ssh", panel.ssh))):
        base = top + 16 + (row + 1) * ROW_HEIGHT
        parts.append(f'<text x="8" y="{base - 4}">{name}</text>')
        parts.append(f'<path class="{name} shape" d="{_outline(samples, low, high, base, tallest, x)}"/>')
        parts += _median(name, median(samples), base, x)
    if panel.floor_ms:
        at = x(panel.floor_ms)
        parts.append(f'<line class="limit" x1="{at:.1f}" x2="{at:.1f}" y1="{top + 20}" y2="{axis_y}"/>')
        parts.append(f'<text x="{at + 5:.1f}" y="{axis_y - 10}">one round trip</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{axis_y}" y2="{axis_y}"/>')
    for tick in _ticks(low, high):
        parts.append(f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{axis_y}" y2="{axis_y + 4}"/>')
        parts.append(f'<text x="{x(tick):.1f}" y="{axis_y + 18}" text-anchor="middle">{tick:g} ms</text>')
    return parts


def _median(name: str, value: float, base: float, x) -> list[str]:  # type: ignore[no-untyped-def]
    at = x(value)
    return [
        f'<rect class="{name}" x="{at - 1:.1f}" y="{base - SHAPE_HEIGHT - 8}" width="2" height="{SHAPE_HEIGHT + 8}"/>',
        f'<text class="number {name}" x="{at + 5:.1f}" y="{base - SHAPE_HEIGHT - 1}">{value:.1f} ms</text>',
    ]


def _range(panel: Panel) -> tuple[float, float]:
    """From a round number below everything to one above nearly everything: the last bin takes the stragglers."""
    samples = sorted([*panel.reach, *panel.ssh])
    step = _step(samples[-1])
    low = 0.0 if not panel.floor_ms else math.floor(min(samples[0], panel.floor_ms) / step) * step
    high = math.ceil(samples[int(len(samples) * 0.98)] * 1.08 / step) * step
    return low, max(high, low + step)


def _step(largest: float) -> float:
    return 5.0 if largest < 60 else 10.0 if largest < 150 else 25.0


def _ticks(low: float, high: float) -> list[float]:
    step = _step(high)
    return [low + step * number for number in range(int((high - low) / step) + 1)]


def _counts(samples: Sequence[float], low: float, high: float) -> list[float]:
    """How many samples fall into each bin, as a share, smoothed over the neighbours."""
    counts = [0.0] * BINS
    for sample in samples:
        counts[min(BINS - 1, max(0, int((sample - low) / (high - low) * BINS)))] += 1 / len(samples)
    padded = [counts[0], *counts, counts[-1]]
    return [(padded[i] + 2 * padded[i + 1] + padded[i + 2]) / 4 for i in range(BINS)]


def _outline(samples, low, high, base, tallest, x) -> str:  # type: ignore[no-untyped-def]
    width = (high - low) / BINS
    points = [f"M{x(low):.1f},{base}"]
    for number, count in enumerate(_counts(samples, low, high)):
        points.append(f"L{x(low + (number + 0.5) * width):.1f},{base - count / tallest * SHAPE_HEIGHT:.1f}")
    return "".join([*points, f"L{x(high):.1f},{base}Z"])
