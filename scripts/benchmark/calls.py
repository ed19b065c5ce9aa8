"""Single calls: what one `bash -c true` takes."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from benchmark.row import Row, at_most
from benchmark.spawn import Pipes, in_turn, median, time_ms, time_on_terminal_ms
from benchmark.stage import Site, Stage


def call_on_loopback(stage: Stage, *, quick: bool) -> list[Row]:
    reach, ssh = _samples(stage, stage.near, 1 if quick else 4, 50)
    return [Row("one call, loopback", median(reach), median(ssh), at_most(1.5), detail=_detail(reach, ssh))]


def call_at_a_distance(stage: Stage, *, quick: bool) -> list[Row]:
    reach, ssh = _samples(stage, stage.far, 1 if quick else 2, 50)
    value = median(reach)
    return [
        Row("one call, 50 ms", value, median(ssh), at_most(0.58), detail=_detail(reach, ssh)),
        Row("one call, 50 ms, by round trip", value, stage.round_trip_ms, at_most(1.25)),
    ]


def call_on_terminal(stage: Stage, *, quick: bool) -> list[Row]:
    # a session of its own: where devpts is mounted without gid=5, an sshd of an ordinary user dies of a terminal
    argv = _argv(stage.another("near", "terminal"))
    with closing(Pipes()) as pipes:
        plain, terminal = in_turn(
            1 if quick else 3,
            30,
            partial(time_ms, argv, pipes, stage.environment),
            partial(time_on_terminal_ms, argv, stage.environment),
        )
    return [
        Row(
            "one call, pty over pipes",
            median(terminal),
            median(plain),
            at_most(1.2),
            detail={"pty_ms": terminal, "pipes_ms": plain},
        )
    ]


def _argv(site: Site) -> list[str]:
    return [site.shim, "-c", "true"]


def _samples(stage: Stage, site: Site, rounds: int, in_a_row: int) -> tuple[list[float], list[float]]:
    with closing(Pipes()) as pipes:
        reach, ssh = in_turn(
            rounds,
            in_a_row,
            partial(time_ms, _argv(site), pipes, stage.environment),
            partial(time_ms, [*site.ssh, "true"], pipes, stage.environment),
        )
    return reach, ssh


def _detail(reach: list[float], ssh: list[float]) -> dict[str, list[float]]:
    return {"reach_ms": reach, "ssh_ms": ssh}
