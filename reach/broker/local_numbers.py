"""The process ids of this machine that the model was shown, and the target's processes that they stand for.

A harness tells the model the number of the process that it started, which is the shim's. `kill` with that number has
to reach what the shim stands for, and what asks for processes by number has to find it; a number that came from the
target means the target's own.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable

MAX_NUMBERS = 4096

_PROGRAM = re.compile(rb"(?<![\w./-])(sudo|pgrep|pkill|ps|(?:(?:/usr)?/bin/)?kill)(?=\s)([^\n;|&]*)")
_NUMBER = re.compile(rb"(?:(?<![\w.])-?|(?<=\s-[A-Za-z]))([1-9][0-9]{0,9})(?![\w.])")


class LocalNumbers:
    """Thread-safe. The numbers of the latest commands of one session."""

    def __init__(self) -> None:
        self._remote: OrderedDict[int, int] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, local: int, remote: int) -> None:
        """The shim with number LOCAL, from now on, stands for the target's process and group REMOTE."""
        with self._lock:
            self._remote.pop(local, None)
            self._remote[local] = remote
            while len(self._remote) > MAX_NUMBERS:
                self._remote.popitem(last=False)

    def came_from_target(self, numbers: Iterable[int]) -> None:
        """The model is shown these as numbers of the target's: they stand for nothing else any more."""
        with self._lock:
            for number in numbers:
                self._remote.pop(number, None)

    def meant_by(self, command: bytes) -> dict[int, int]:
        """The numbers of shims among the arguments of `kill` and its like in COMMAND, and what they stand for."""
        found = {int(n[1]) for called in _PROGRAM.finditer(command) for n in _NUMBER.finditer(called[2])}
        if not found:
            return {}
        with self._lock:
            return {number: self._remote[number] for number in sorted(found) if number in self._remote}


def number_functions(command: bytes, numbers: dict[int, int]) -> bytes:
    """Shell functions for the programs that COMMAND calls with NUMBERS, for which these then mean others; nothing
    where there are none."""
    if not numbers:
        return b""
    names = {called[1].decode() for called in _PROGRAM.finditer(command) if _NUMBER.search(called[2])}
    functions = [_program_function(name, numbers) for name in sorted(names - {"kill"})]
    return b"\n".join([*functions, *([kill_function(numbers)] if "kill" in names else [])])


def _program_function(name: str, numbers: dict[int, int]) -> bytes:
    """NAME with its arguments translated; sudo's from where they are another program's."""
    cases = "".join(
        f"{local}) __reach_v[__reach_i]={remote} ;;\n"
        f"-{local}) ((__reach_i > __reach_f)) && __reach_v[__reach_i]=-{remote} ;;\n"
        for local, remote in numbers.items()
    )
    lists = "".join(f"__reach_a=${{__reach_a//,{local},/,{remote},}}\n" for local, remote in numbers.items())
    text = f"""{name}() {{
local __reach_i __reach_a __reach_p __reach_f=0 __reach_k={"" if name == "sudo" else name}
local -a __reach_v=("$@")
for ((__reach_i = 0; __reach_i < $#; __reach_i++)); do
__reach_a=${{__reach_v[__reach_i]}} __reach_p=
case $__reach_k in
'') case $__reach_a in
kill | /bin/kill | /usr/bin/kill | pgrep | pkill | ps) __reach_k=$__reach_a __reach_f=$((__reach_i + 1)) ;;
esac ;;
kill | */kill) case $__reach_a in
{cases}esac ;;
*) case $__reach_a in
--*=*) __reach_p=${{__reach_a%%=*}}= __reach_a=${{__reach_a#*=}} ;;
-[A-Za-z]*) __reach_p=${{__reach_a:0:2}} __reach_a=${{__reach_a:2}} ;;
esac
__reach_a=,$__reach_a,
{lists}__reach_a=${{__reach_a#,}}
__reach_v[__reach_i]=$__reach_p${{__reach_a%,}} ;;
esac
done
command {name} "${{__reach_v[@]}}"
}}"""
    return text.encode()


def kill_function(numbers: dict[int, int]) -> bytes:
    """bash's `kill`, for which these numbers mean others; nothing where there are none.

    Its messages are those of the builtin, with the numbers that the model knows.
    """
    if not numbers:
        return b""
    cases = "".join(
        f"{local}) __reach_v[__reach_i]={remote} ;;\n"
        f"-{local}) ((__reach_i)) && __reach_v[__reach_i]=-{remote} ;;\n"
        for local, remote in numbers.items()
    )
    restored = "".join(f"__reach_e=${{__reach_e//({remote})/({local})}}\n" for local, remote in numbers.items())
    restored += "".join(f"__reach_e=${{__reach_e//(-{remote})/(-{local})}}\n" for local, remote in numbers.items())
    text = f"""kill() {{
local __reach_i __reach_e
local -a __reach_v=("$@")
for ((__reach_i = 0; __reach_i < $#; __reach_i++)); do
case ${{__reach_v[__reach_i]}} in
{cases}esac
done
[[ "${{__reach_v[*]}}" != "$*" ]] || {{ builtin kill "$@"; return; }}
__reach_e=$(builtin kill "${{__reach_v[@]}}" 2>&1) && return
{restored}printf '%s: line %s: kill: %s\\n' "$0" "${{BASH_LINENO[0]}}" "${{__reach_e#*kill: }}" >&2
return 1
}}"""
    return text.encode()
