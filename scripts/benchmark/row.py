"""One line of the table: a measured value, what it is held against, and its goal."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Unit(StrEnum):
    """What a value counts."""

    MS = "ms"
    MIB_PER_S = "MiB/s"
    MIB = "MiB"
    COUNT = ""


@dataclass(frozen=True)
class Goal:
    """A limit for a row's value, or for its ratio to the baseline."""

    limit: float
    of_ratio: bool = True
    at_least: bool = False
    unit: Unit = Unit.COUNT

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.limit:g}" + ("" if self.of_ratio else f" {self.unit}".rstrip())


@dataclass(frozen=True)
class Row:
    """One figure as measured."""

    figure: str
    """As the table names it: at most 30 characters."""
    value: float
    baseline: float | None
    """The same with the system's ssh, or what else the goal is a multiple of."""
    goal: Goal
    unit: Unit = Unit.MS
    detail: dict[str, Any] = field(default_factory=dict)
    """Goes into the JSON alone: the single samples, above all."""

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def is_met(self) -> bool:
        judged = self.ratio if self.goal.of_ratio else self.value
        if judged is None:
            return False
        return judged >= self.goal.limit if self.goal.at_least else judged <= self.goal.limit

    def as_json(self) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "value": self.value,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "unit": str(self.unit),
            "goal": str(self.goal),
            "goal_is_for": "ratio" if self.goal.of_ratio else "value",
            "met": self.is_met,
            **self.detail,
        }


def at_most(ratio: float) -> Goal:
    return Goal(ratio)


def at_least(ratio: float) -> Goal:
    return Goal(ratio, at_least=True)


def at_most_value(limit: float, unit: Unit) -> Goal:
    return Goal(limit, of_ratio=False, unit=unit)
