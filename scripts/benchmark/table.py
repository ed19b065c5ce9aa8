"""The rows as text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence

from benchmark.row import Row, Unit

_WIDTHS = (32, 12, 12, 6, 11, 3)


def header() -> str:
    return _line(("figure", "reach", "against", "ratio", "goal", "met"))


def line(row: Row) -> str:
    return _line(
        (
            row.figure,
            _number(row.value, row.unit),
            "" if row.baseline is None else _number(row.baseline, row.unit),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            str(row.goal),
            "yes" if row.is_met else "NO",
        )
    )


def failure_line(figure: str, reason: str) -> str:
    return f"{figure:<{_WIDTHS[0]}} not measured: {reason}"


def _line(cells: Sequence[str]) -> str:
    first, *numbers, last = cells
    middle = "".join(f"{cell:>{width}}" for cell, width in zip(numbers, _WIDTHS[1:-1], strict=True))
    return f"{first:<{_WIDTHS[0]}}{middle} {last:>{_WIDTHS[-1]}}"


def _number(value: float, unit: Unit) -> str:
    text = f"{value:.1f}" if value < 1000 else f"{value:.0f}"
    if unit is Unit.COUNT:
        text = f"{value:g}"
    return f"{text} {unit}".rstrip()
