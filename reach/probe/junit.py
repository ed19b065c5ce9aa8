"""Probe results as JUnit XML, which every CI system shows."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from reach.errors import ConfigError
from reach.probe.result import CheckStatus, ProbeResult

_ELEMENTS = {CheckStatus.FAILED: "failure", CheckStatus.ERROR: "error", CheckStatus.SKIPPED: "skipped"}


def check_junit_path(path: Path) -> None:
    """See before minutes of probing whether write_junit could write there. Raises: ConfigError."""
    folder = path.parent
    if not path.name:
        raise ConfigError("--junit names no file", fix="give it one: --junit verify.xml")
    if not folder.is_dir():
        fix = f"type: mkdir -p {shlex.quote(str(folder))}" if not folder.exists() else "name a file in another folder"
        raise ConfigError(f"--junit {str(path)!r}: there is no folder {str(folder)!r}", fix=fix)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"--junit {str(path)!r} can't be written", fix="name a file in a folder of yours")


def write_junit(path: Path, results: Sequence[ProbeResult]) -> None:
    """One suite for each result, one case for each check. Raises: OSError."""
    root = ElementTree.Element("testsuites", name="reach harness verify")
    for result in results:
        root.append(_suite(result))
    ElementTree.indent(root)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(result: ProbeResult) -> ElementTree.Element:
    name = f"{result.harness} {result.version or 'unknown'}"
    suite = ElementTree.Element("testsuite", name=name, time=f"{result.duration_s:.2f}")
    suite.set("tests", str(len(result.checks)))
    for status, attribute in (
        (CheckStatus.FAILED, "failures"),
        (CheckStatus.ERROR, "errors"),
        (CheckStatus.SKIPPED, "skipped"),
    ):
        suite.set(attribute, str(sum(check.status is status for check in result.checks)))
    properties = ElementTree.SubElement(suite, "properties")
    for key in ("verdict", "binary", "reach_version", "target_hostname", "observed_hostname", "detail"):
        ElementTree.SubElement(properties, "property", name=key, value=str(getattr(result, key) or ""))
    for check in result.checks:
        case = ElementTree.SubElement(suite, "testcase", classname=f"reach.verify.{name}", name=check.name)
        case.set("time", f"{check.duration_s:.2f}")
        if check.status is CheckStatus.PASSED:
            ElementTree.SubElement(case, "system-out").text = check.evidence
        else:
            ElementTree.SubElement(case, _ELEMENTS[check.status], message=check.evidence)
    return suite
