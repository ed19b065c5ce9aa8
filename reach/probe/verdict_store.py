"""Verdicts, kept until what they were found on changes. One small file for each harness program."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reach.errors import ConfigError
from reach.paths import Paths, ensure_private_dir, write_private
from reach.probe.verdict import Verdict

SCHEMA = 1
MAX_KEPT = 8
"""For one program: a version manager's may stand for several versions."""


@dataclass(frozen=True)
class Subject:
    """What a verdict holds for; of anything else it says nothing."""

    harness: str
    binary: str
    """Real path."""
    version: str | None
    content: str
    """As `content_digest` gives it."""
    reach_version: str
    settings: str
    """Preparation.fingerprint."""


@dataclass(frozen=True)
class StoredVerdict:
    subject: Subject
    verdict: Verdict
    detail: str
    leaks: list[str] = field(default_factory=list)
    checked_at: float = field(default_factory=time.time)
    """Seconds since the epoch."""


class VerdictStore:
    """All verdicts below one cache folder. A file that can't be read counts as none: verdicts can be found again."""

    def __init__(self, paths: Paths) -> None:
        self._root = paths.cache
        self._folder = paths.cache / "verdicts"

    def find(self, subject: Subject) -> StoredVerdict | None:
        return next((each for each in self.of_program(subject.binary) if each.subject == subject), None)

    def of_program(self, binary: str) -> list[StoredVerdict]:
        """Those of the program with real path BINARY, the newest first."""
        return list(_load(self._path(binary)))

    def save(self, stored: StoredVerdict) -> None:
        """Keep it. An ERROR is no verdict and is never kept; a disk that is full costs another probe."""
        if stored.verdict is Verdict.ERROR:
            return
        with contextlib.suppress(OSError, ConfigError):
            ensure_private_dir(self._root)
            ensure_private_dir(self._folder)
            others = [each for each in self.of_program(stored.subject.binary) if each.subject != stored.subject]
            kept = [asdict(each) for each in [stored, *others][:MAX_KEPT]]
            text = json.dumps({"schema_version": SCHEMA, "verdicts": kept}, indent=1)
            write_private(self._path(stored.subject.binary), text.encode())

    def _path(self, binary: str) -> Path:
        digest = hashlib.sha256(os.fsencode(binary)).hexdigest()[:24]
        return self._folder / f"{digest}.json"


def _load(path: Path) -> Iterator[StoredVerdict]:
    try:
        content: Any = json.loads(path.read_bytes())
        entries = content["verdicts"] if content["schema_version"] == SCHEMA else []
        found = [
            StoredVerdict(
                Subject(**entry["subject"]),
                Verdict(entry["verdict"]),
                str(entry["detail"]),
                [str(leak) for leak in entry["leaks"]],
                float(entry["checked_at"]),
            )
            for entry in entries
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return
    yield from (each for each in found if each.verdict is not Verdict.ERROR)
