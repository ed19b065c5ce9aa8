"""Why an ssh that should have become a master ended: its last words as one of reach's errors."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reach.errors import ConfigError, ConnectError, HostKeyMismatchError, ReachError
from reach.ssh.algorithms import CERTIFICATE_SUFFIX
from reach.ssh.host_key import HostKeyRecord
from reach.ssh.host_key_error import describe_key, host_key_changed, host_key_revoked, host_key_unknown
from reach.ssh.host_settings import HostSettings
from reach.ssh.known_hosts import Marker
from reach.ssh.openssh_attempts import NEXT_HOST, Answers, record_of
from reach.ssh.openssh_transcript import FAILURES, NOISE
from reach.ssh.translation import as_reach_error

_SERVER_KEY = re.compile(r"debug1: Server host (?:key|certificate): (\S+) (SHA256:[^\s,]+)")
_ALLOWED = re.compile(r"debug1: Authentications that can continue: (\S+)|Permission denied \(([^)]*)\)")
_FORWARD_REASONS = {
    "administratively prohibited": "the server does not allow it",
    "connect failed": "the server could not connect there",
    "unknown channel type": "the server does not know that kind of channel",
    "resource shortage": "the server is short of resources",
}


@dataclass(frozen=True)
class ShownKey:
    """A server's host key as ssh names it."""

    type: str
    fingerprint: str


@dataclass(frozen=True)
class Failure:
    """A login that failed, up to the line that says why."""

    settings: HostSettings
    """The host on which it failed."""
    lines: Sequence[str]
    answers: Answers
    found: re.Match[str]

    @property
    def what(self) -> str:
        return f"connecting to {self.settings.label}"

    @property
    def key(self) -> ShownKey:
        shown = [found for line in self.lines if (found := _SERVER_KEY.match(line))]
        if not shown:
            return ShownKey("host", "of an unknown fingerprint")
        return ShownKey(shown[-1][1].removesuffix(CERTIFICATE_SUFFIX), shown[-1][2])


def login_error(
    lines: Sequence[str], settings: HostSettings, answers: Answers, exit_code: int | None
) -> ReachError:
    """The error for a login with SETTINGS that ended with LINES. EXIT_CODE is None where ssh was given up."""
    chain = _chain(settings)
    done = sum(bool(NEXT_HOST.match(line)) for line in lines)
    hop = chain[min(done, len(chain) - 1)]
    if exit_code is None and answers.unanswered:
        return record_of(lines, hop, answers).denied(_allowed(lines))
    for number, line in enumerate(lines):
        for pattern, judge in _JUDGES:
            if found := pattern.search(line):
                return judge(Failure(hop, lines[: number + 1], answers, found))
    said = "; ".join([line for line in lines if not NOISE.match(line)][-2:])[:400]
    return ConnectError(
        f"connecting to {hop.label}: {said or f'ssh ended with exit code {exit_code} and no word why'}",
        fix=f"see what ssh makes of it: {hop.ssh_command} -v",
    )


def _chain(settings: HostSettings) -> list[HostSettings]:
    """The hosts on the way, in the order in which they are logged in to."""
    return [*(_chain(settings.jump) if settings.jump else []), settings]


def _allowed(lines: Sequence[str]) -> tuple[str, ...]:
    """What the server last said that it would take."""
    for line in reversed(lines):
        if found := _ALLOWED.search(line):
            return tuple((found[1] or found[2]).split(","))
    return ()


# --- host keys


def _changed(failure: Failure) -> ReachError:
    others = [entry for entry in HostKeyRecord.load(failure.settings).known if entry.marker is Marker.NONE]
    if others:
        return host_key_changed(failure.settings, failure.key, others)
    return HostKeyMismatchError(
        f"the host key of {failure.settings.label} has changed: it shows the {describe_key(failure.key)}; "
        "someone may be in between",
        fix=f"see what ssh makes of it: {failure.settings.ssh_command}",
    )


def _revoked(failure: Failure) -> ReachError:
    record = HostKeyRecord.load(failure.settings)
    for entry in record.known + record.portless:
        if entry.marker is Marker.REVOKED and entry.key.fingerprint == failure.key.fingerprint:
            return host_key_revoked(failure.settings, failure.key, f"which {entry} marks as revoked")
    return host_key_revoked(failure.settings, failure.key, "which is marked as revoked")


def _revoked_by_file(failure: Failure) -> ReachError:
    where = f"which {failure.found[1]} (RevokedHostKeys) lists"
    return host_key_revoked(failure.settings, failure.key, where)


def _revocations_unreadable(failure: Failure) -> ReachError:
    return ConfigError(f"RevokedHostKeys {failure.found[1]} can't be read", fix="correct it in ssh_config")


def _unknown(reason: str) -> Callable[[Failure], ReachError]:
    def judge(failure: Failure) -> ReachError:
        shown = f"the {describe_key(failure.key)}"
        objections = [line for line in failure.lines if line.startswith("Certificate invalid: ")]
        if objections:
            shown += f" (its certificate does not count: {objections[-1].removeprefix('Certificate invalid: ')})"
        return host_key_unknown(failure.settings, shown, reason)

    return judge


# --- logins


def _denied(failure: Failure) -> ReachError:
    return record_of(failure.lines, failure.settings, failure.answers).denied(_allowed(failure.lines))


def _broken_off(failure: Failure) -> ReachError:
    record = record_of(failure.lines, failure.settings, failure.answers)
    return record.broken_off("the server ended the connection", failure.found[1])


# --- ways to the server


def _no_name(failure: Failure) -> ReachError:
    return as_reach_error(socket.gaierror(socket.EAI_NONAME, failure.found[1]), failure.what, connecting=True)


def _no_algorithm(failure: Failure) -> ReachError:
    return ConnectError(
        f"{failure.what}: no algorithm in common with the server ({failure.found[1]})",
        fix="see `ssh -vv`; widen Ciphers, MACs, KexAlgorithms or HostKeyAlgorithms in ssh_config",
    )


def _os_error(number: int) -> Callable[[Failure], ReachError]:
    def judge(failure: Failure) -> ReachError:
        reason = failure.found[0].rpartition(": ")[2]
        return as_reach_error(OSError(number, reason), failure.what, connecting=True)

    return judge


def _hung_up(failure: Failure) -> ReachError:
    """The server, or a proxy on the way to it, ended the connection."""
    if any("SSH2_MSG_SERVICE_ACCEPT received" in line for line in failure.lines):
        return record_of(failure.lines, failure.settings, failure.answers).broken_off(
            "the server ended the connection", ""
        )
    has_version = any("Remote protocol version" in line for line in failure.lines)
    if failure.settings.proxy_command is not None and not has_version:
        return ConnectError(f"{failure.what} by its ProxyCommand: {_proxys_words(failure.lines)}")
    if not has_version:
        return _no_server(failure)
    return as_reach_error(EOFError(), failure.what, connecting=True)


def _proxys_words(lines: Sequence[str]) -> str:
    said = [re.sub(r"debug\d: .*", "", FAILURES.sub("", line)) for line in lines if not NOISE.match(line)]
    return "; ".join(line for line in said if line)[-400:] or "it said nothing"


def _no_server(failure: Failure) -> ReachError:
    """The words of the other transport; a busy server hangs up like this as well."""
    error = ConnectError(f"{failure.what}: no SSH server answered there", fix="check the port and what listens on it")
    error.may_pass = True
    return error


def _other_version(failure: Failure) -> ReachError:
    versions = [line.partition("Remote protocol version ")[2] for line in failure.lines]
    spoken = next((version.partition(",")[0] for version in versions if version), "")
    return ConnectError(f"{failure.what}: the server speaks SSH {spoken or 'of another version'}, which is too old")


def _not_forwarded(failure: Failure) -> ReachError:
    why, _, said = failure.found[1].partition(": ")
    way = failure.settings.jump.label if failure.settings.jump else "the jump host"
    told = f"{_FORWARD_REASONS.get(why, why)}" + (f" ({said})" if said else "")
    return ConnectError(
        f"connecting to {failure.settings.label} through {way}: {told}",
        fix=f"check from {way}; its sshd needs AllowTcpForwarding",
    )


def _configuration(failure: Failure) -> ReachError:
    return ConfigError(
        f"ssh can't read its configuration for {failure.settings.host}: {failure.found[0]}",
        fix=f"try: ssh -G {failure.settings.host}",
    )


_JUDGES: list[tuple[re.Pattern[str], Callable[[Failure], ReachError]]] = [
    (re.compile(r"REMOTE HOST IDENTIFICATION HAS CHANGED"), _changed),
    (re.compile(r"Host key .* revoked by file (.+)"), _revoked_by_file),
    (re.compile(r"Error checking host key .* in revoked keys file ([^:]+)"), _revocations_unreadable),
    (re.compile(r"REVOKED HOST KEY DETECTED"), _revoked),
    (
        re.compile(r"host (?:key|certificate) is known for .* and you have requested strict checking"),
        _unknown("StrictHostKeyChecking is yes"),
    ),
    (re.compile(r"^Host key verification failed"), _unknown("nobody has confirmed it")),
    (re.compile(r"^\S+: Permission denied \(([^)]*)\)\."), _denied),
    (re.compile(r"^Received disconnect from .*?:\d+: (.*)"), _broken_off),
    (re.compile(r"^ssh: Could not resolve hostname \S+: (.*)"), _no_name),
    (re.compile(r"^Unable to negotiate with [^:]+: (.*)"), _no_algorithm),
    (re.compile(r"^ssh: connect to host .*: Connection refused"), _os_error(errno.ECONNREFUSED)),
    (re.compile(r"^ssh: connect to host .* timed out"), _os_error(errno.ETIMEDOUT)),
    (re.compile(r"timed out (?:during banner exchange|waiting)"), _os_error(errno.ETIMEDOUT)),
    (re.compile(r"^ssh: connect to host .*: (.*)"), _os_error(errno.EHOSTUNREACH)),
    (re.compile(r"^channel \d+: open failed: (.*)"), _not_forwarded),
    (re.compile(r"^Protocol major versions differ"), _other_version),
    (re.compile(r"^banner exchange: .* invalid format"), _no_server),
    (re.compile(r"Bad configuration option: .*|bad configuration options"), _configuration),
    (re.compile(r"^Connection (?:closed|reset) by |kex_exchange_identification: |^ssh_dispatch_run_fatal: "), _hung_up),
]
"""By the first line that one of these fits."""
