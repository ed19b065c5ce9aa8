"""npm and pip as programs that are run: their time limit, and what their failures come to in one line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

from reach.errors import HarnessError
from reach.harness.base import Environment

MAX_REASON_CHARS = 300
_NETWORK_CODES = ("ECONN", "ENOTFOUND", "EAI_", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH", "ERR_SOCKET_TIMEOUT")
_NPM_LINE = re.compile(r"npm (?:error|ERR!)(?: (.*))?")
"""Source: npm 11.19; before npm 10.6 it was ERR!."""
_NPM_NOISE = re.compile(r"(?:code|syscall|errno|path|dest) |\s|[{}]|A complete log|See: ")
_NPM_LABEL = re.compile(r"(?:notarget|network|(?:Fetch)?Error:) ")
_NPM_LOG = re.compile(r"\S+-debug-\d+\.log")

Explain = Callable[[str], HarnessError]
"""What a package manager's output says of its failure."""


def run_installer(
    argv: list[str], environment: Environment, timeout_s: float, name: str, explain: Explain | None = None
) -> None:
    """Run a package manager to its end.

    Raises: HarnessError as EXPLAIN words it, or with the last of what was said.
    """
    try:
        done = subprocess.run(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HarnessError(f"{name} did not end within {timeout_s:g} s", fix="see whether the network is up") from None
    except OSError as error:
        raise HarnessError(f"{argv[0]} can't be started: {error.strerror}") from None
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace")
        raise explain(output) if explain and output.strip() else _last_lines(output, name, done.returncode)


def explain_npm(output: str, package: str, npm: str) -> HarnessError:
    """The line of OUTPUT that tells why PACKAGE (a name without a version) could not be installed; NPM is what to type
    for npm."""
    lines = [match[1] or "" for line in output.splitlines() if (match := _NPM_LINE.fullmatch(line.rstrip()))]
    code = next((line.removeprefix("code ") for line in lines if line.startswith("code ")), "")
    telling = [line for line in lines if line.strip() and not _NPM_NOISE.match(line)]
    reasons = [line for line in telling if "reason: " in line or (code and code in line)]
    shown = next(iter(reasons or telling), "")
    if not shown:
        return _last_lines(output, "npm", 1)
    message = f"npm could not install: {_NPM_LABEL.sub('', shown, count=1).strip().rstrip('.')[:MAX_REASON_CHARS]}"
    return HarnessError(message, fix=_npm_fix(code, output, package, npm))


def _npm_fix(code: str, output: str, package: str, npm: str) -> str:
    if code in ("ETARGET", "E404"):
        return f"see which versions there are, with: {npm} view {package} versions"
    if code.startswith(_NETWORK_CODES):
        return f"see whether npm reaches its registry, with: {npm} ping"
    if code == "ENOSPC":
        return "make room on that disk, and type it again"
    log = _NPM_LOG.search(output)
    return f"npm's own log has more: {log[0]}" if log else "see whether the network is up, and type it again"


def _last_lines(output: str, name: str, returncode: int) -> HarnessError:
    said = [line.strip() for line in output.splitlines() if line.strip()]
    shown = "; ".join(said[-3:]) or f"exit code {returncode}"
    return HarnessError(f"{name} could not install: {shown}", fix="see whether the network is up, and type it again")
