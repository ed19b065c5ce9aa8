"""Process groups on the target: which one is meant, and the shell text that signals it and no other.

A process id alone is reused sooner or later. With the start time and the boot that it counts from, it names one
process for ever, so that a group can be ended over another connection, hours later, without hitting a stranger.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

START_FIELD = 19
"""Where the start time stands in /proc/PID/stat, counted from 0 behind the parenthesis. Source: proc(5)."""

BY_PS = "ps"
"""In place of a boot id where the target has no /proc (macOS, BSD): its `ps` tells the start to the second, by the
calendar, which no boot begins anew."""
PS_START = "LC_ALL=C TZ=UTC0 ps -o lstart= -p"
"""Shell text; the process id follows. Prints five words, as `Mon Nov 30 20:20:03 2026`. Source: ps(1) of FreeBSD 14,
macOS 14 and procps 4."""

_NUMBER = re.compile(r"[0-9]{1,20}")
_BOOT_ID = re.compile(r"[0-9a-f-]{36}")
_PS_WORDS = re.compile(r"[A-Za-z]{3}-[A-Za-z]{3}-[0-9]{1,2}-[0-9]{2}:[0-9]{2}:[0-9]{2}-[0-9]{4}")


@dataclass(frozen=True, slots=True)
class RemoteGroup:
    """The session and process group of one worker; its leader has the same number."""

    pid: int
    started: str = ""
    """In clock ticks since the target's boot, or as `ps` tells it, its words joined by dashes; empty where the target
    tells neither."""
    boot: str = ""
    """The boot's id, or BY_PS."""

    @property
    def is_certain(self) -> bool:
        """Whether it can be told from a later process of the same number."""
        return bool(self.started and self.boot)


def parse_group(announced: bytes) -> RemoteGroup | None:
    """Read `PID STAT-AFTER-THE-NAME BOOT-ID`, or `PID ps START`, as a worker announces it.

    Shape: one line of the target's, not trusted.
    """
    fields = announced.decode("ascii", "replace").split()
    if not fields or not _NUMBER.fullmatch(fields[0]) or int(fields[0]) < 2:
        return None
    group = RemoteGroup(int(fields[0]))
    if fields[1:2] == [BY_PS]:
        start = "-".join(fields[2:])
        return RemoteGroup(group.pid, start, BY_PS) if _PS_WORDS.fullmatch(start) else group
    if len(fields) <= START_FIELD + 2:
        return group
    started, boot = fields[1 + START_FIELD], fields[-1]
    if not _NUMBER.fullmatch(started) or not _BOOT_ID.fullmatch(boot):
        return group
    return RemoteGroup(group.pid, started, boot)


@dataclass(frozen=True, slots=True)
class Step:
    """A signal to each group, and how long to wait for their end before the next one."""

    signal: str
    grace_s: float = 0.0


END = (Step("TERM", 1.0), Step("KILL"))


def signal_script(groups: Sequence[RemoteGroup], steps: Sequence[Step], done: str) -> bytes:
    """Take each step with every one of GROUPS whose leader is still the process that was meant; then print DONE.

    Where a group is not certain, its number is all there is to go by.
    """
    lines = [_FUNCTIONS, "__reach_groups="]
    for group in groups:
        started, boot = (group.started, group.boot) if group.is_certain else ("-", "-")
        lines.append(f"__reach_is {group.pid} {started} {boot} && __reach_groups=\"$__reach_groups {group.pid}\"")
    for step in steps:
        lines.append(f"__reach_send {step.signal}")
        if step.grace_s:
            lines.append(f"__reach_wait {int(step.grace_s * 20)}")
    lines.append(f"printf %s {done}")
    return ("\n".join(lines) + "\0").encode()


_FUNCTIONS = f"""\
__reach_is() {{
[ "$2" = - ] && return
if [ "$3" = {BY_PS} ]; then
set -- "$2" $({PS_START} "$1" 2>/dev/null)
[ "$2-$3-$4-$5-$6" = "$1" ]
return
fi
""" """\
{ IFS= read -r __reach_boot </proc/sys/kernel/random/boot_id && [ "$__reach_boot" = "$3" ] &&
IFS= read -r __reach_stat <"/proc/$1/stat"; } 2>/dev/null || return
set -- "$2" ${__reach_stat##*)}
[ "${21}" = "$1" ]
}
__reach_send() {
for __reach_group in $__reach_groups; do kill -s "$1" -- "-$__reach_group"; done 2>/dev/null
}
__reach_wait() {
__reach_left=$1
while [ "$__reach_left" -gt 0 ]; do
__reach_alive=
for __reach_group in $__reach_groups; do
kill -0 -- "-$__reach_group" 2>/dev/null && __reach_alive="$__reach_alive $__reach_group"
done
__reach_groups=$__reach_alive
[ "$__reach_groups" ] || return
sleep 0.05
__reach_left=$((__reach_left-1))
done
}"""
