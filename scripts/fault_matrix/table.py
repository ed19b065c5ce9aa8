"""The tables, as Markdown that reads well on a terminal too."""

from __future__ import annotations

from collections.abc import Sequence

from fault_matrix.row import Row
from fault_matrix.soak import Growth


def row_table(rows: Sequence[Row]) -> list[str]:
    head = ("fault", "times", "outcomes of the commands", "lost", "hung", "run twice")
    several = len({row.transport for row in rows}) > 1
    body = [
        (
            f"{row.transport}: {row.fault}" if several else row.fault,
            str(row.times),
            row.outcomes_text(),
            str(row.lost),
            str(row.hung),
            str(row.run_twice),
        )
        for row in rows
    ]
    return _table(head, body)


def growth_table(growths: Sequence[Growth]) -> list[str]:
    head = ("soak", "before", "after", "bound", "")
    body = [
        (each.what, f"{each.before:g}", f"{each.after:g}", f"+{each.allowed:g}", "ok" if each.is_bounded else "GREW")
        for each in growths
    ]
    return _table(head, body)


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
    rule = ["-" * width for width in widths]
    return ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
            for row in (head, rule, *body)]  # fmt: skip
