"""The guard at launch: a harness starts only with a good verdict, or knowingly without one.

Light to import: a launch with a verdict in store must not wait for what a probe needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from reach import __version__
from reach.errors import HarnessError, ReachError, SeamBypassedError, SurfaceLeakyError
from reach.harness.base import Harness
from reach.paths import Paths
from reach.probe.identity import content_digest
from reach.probe.verdict import Verdict
from reach.probe.verdict_store import StoredVerdict, Subject, VerdictStore

if TYPE_CHECKING:
    from reach.probe.result import ProbeResult
    from reach.session import Session
    from reach.ssh.operator import Operator

GUARD_CHECKS = ("seam", "surface", "home", "denied-tool")
"""What has to hold before a launch; the other checks of a probe are about comfort."""


class Finding(Protocol):
    """The part of a ProbeResult that the guard needs."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def detail(self) -> str: ...
    @property
    def leaks(self) -> list[str]: ...


Probe = Callable[[], Finding]


class Action(StrEnum):
    LAUNCH = "launch"
    WARN = "warn"
    """Launch, and say what is known."""
    ASK = "ask"
    REFUSE = "refuse"


def decide(verdict: Verdict, *, force: bool) -> Action:
    """What to do with a harness of VERDICT. FORCE is the operator's own word for "in spite of it"."""
    if verdict is Verdict.OK:
        return Action.LAUNCH
    if force or verdict is Verdict.FAULTY:
        return Action.WARN
    return Action.ASK if verdict is Verdict.ERROR else Action.REFUSE


def ensure_verdict(
    paths: Paths,
    session: Session,
    harness: Harness,
    binary: Path,
    version: str | None,
    fingerprint: str,
    *,
    force: bool,
    operator: Operator,
    echo: Callable[[str], None],
    probe: Probe | None = None,
) -> str | None:
    """Return if HARNESS's program BINARY may be launched: it has a good verdict, gets one now, or the operator
    insists.

    FINGERPRINT is that of the launch's preparation. ECHO shows a line of progress or warning. PROBE finds a verdict,
    the real probe if None. Returns the warning that came with --force, for the harness to keep in view.

    Raises: SeamBypassedError, SurfaceLeakyError; HarnessError where nothing is proven and nobody says yes.
    """
    subject = identify(harness, binary, version, fingerprint)
    store = VerdictStore(paths)
    stored = store.find(subject)
    name = f"{harness.title} {version or '(version unknown)'}"
    if stored is None:
        echo(_progress(name, subject, store.of_program(subject.binary)))
        found = (probe or _real_probe(paths, session, harness, binary, version, operator))()
        stored = StoredVerdict(subject, found.verdict, found.detail, list(found.leaks))
        store.save(stored)
    action = decide(stored.verdict, force=force)
    if action is Action.WARN:
        warning = _warning(name, stored)
        echo(warning)
        return warning if stored.verdict is not Verdict.FAULTY else None
    if action is Action.ASK:
        _ask(name, stored, operator)
    elif action is Action.REFUSE:
        raise _refusal(name, harness, stored)
    return None


def remember(paths: Paths, harness: Harness, binary: Path, result: ProbeResult) -> None:
    """Keep the verdict of a probe that was asked for by hand, if it answered what a launch needs to know."""
    answered = {check.name for check in result.checks if check.status != "skipped"}
    if result.fingerprint is not None and answered.issuperset(GUARD_CHECKS):
        subject = identify(harness, binary, result.version, result.fingerprint)
        VerdictStore(paths).save(StoredVerdict(subject, result.verdict, result.detail, result.leaks))


def known_verdict(paths: Paths, harness: Harness, binary: Path, version: str | None) -> StoredVerdict | None:
    """The newest verdict on BINARY as it is now, whatever reach's settings for it were."""
    now = identify(harness, binary, version, "")
    for stored in VerdictStore(paths).of_program(now.binary):
        if replace(stored.subject, settings="") == now:
            return stored
    return None


def identify(harness: Harness, binary: Path, version: str | None, fingerprint: str) -> Subject:
    """What a verdict on BINARY as it is now would hold for."""
    real = os.path.realpath(binary)
    return Subject(harness.name, real, version, content_digest(harness, binary), __version__, fingerprint)


def _real_probe(
    paths: Paths, session: Session, harness: Harness, binary: Path, version: str | None, operator: Operator
) -> Probe:
    def probe() -> Finding:
        from reach.probe.verify import verify

        return verify(paths, session.name, harness, binary, operator, checks=GUARD_CHECKS, version=version)

    return probe


def _progress(name: str, subject: Subject, earlier: list[StoredVerdict]) -> str:
    why = "for the first time"
    if earlier:
        before = earlier[0].subject
        changes = {
            f"it was {before.version}": before.version != subject.version,
            "its files changed": before.version == subject.version and before.content != subject.content,
            f"reach was {before.reach_version}": before.reach_version != subject.reach_version,
            "what reach sets for it changed": before.settings != subject.settings,
        }
        why = "again: " + (" and ".join(text for text, is_so in changes.items() if is_so) or "nothing is known of it")
    return f"verifying {name} {why}; this takes some seconds"


def _warning(name: str, stored: StoredVerdict) -> str:
    if stored.verdict is Verdict.ERROR:
        return f"WARNING: nothing is proven about {name}: {stored.detail}. Its commands may run on THIS machine"
    if stored.verdict is Verdict.FAULTY:
        return f"{name} is not quite right here: {stored.detail}"
    risk = "its commands run on THIS machine" if stored.verdict is Verdict.BYPASSED else "it can touch THIS machine"
    return f"WARNING: {name} is {stored.verdict}, {risk}: {stored.detail}"


def _ask(name: str, stored: StoredVerdict, operator: Operator) -> None:
    answer = operator.ask(
        f"nothing is proven about {name}: {stored.detail}\nIts commands may run on this machine. Launch it? [y/N] ",
        echo=True,
    )
    if answer is None or answer.strip().lower() not in ("y", "yes"):
        raise HarnessError(
            f"{name} was not launched, for nothing is proven about it: {stored.detail}",
            fix="mend that, or launch it all the same with --force",
        )


def _refusal(name: str, harness: Harness, stored: StoredVerdict) -> ReachError:
    kind = SeamBypassedError if stored.verdict is Verdict.BYPASSED else SurfaceLeakyError
    seen = stored.detail
    missing = [leak for leak in stored.leaks if leak not in seen]
    if missing:
        seen += f" (tools: {', '.join(missing)})"
    return kind(
        f"{name} was not launched, it is {stored.verdict}: {seen}",
        fix=f"look closer with: reach harness verify {harness.name} --binary {stored.subject.binary}",
    )
