"""The shell text that a worker is given. Pure: bytes in, bytes out.

A worker's shell reads scripts from its standard input and evaluates each. The last one it gets replaces it by the
command, so that the command keeps the process id, group and session that the worker announced, and the server itself
reports how it ended. The shell is bash; a target without it is served by its sh.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reach.broker.remote_group import BY_PS, PS_START
from reach.broker.remote_words import for_posix_shell, is_name, quote, quote_for_terminal

MAX_ARGUMENT_BYTES = 120_000
"""A single kernel argument ends at 128 KiB; a longer command travels in a file that only its own shell has open."""
STARTED, NO_FOLDER, NO_ROOM = b"+", b"-", b"!"
SIDE_MARK = b"\x1e"
"""Comes before the token around a side file's content: a byte that output seldom ends with, since that end is held
back until it is clear whether a mark follows."""


@dataclass(frozen=True)
class Descriptors:
    """Which numbers a worker uses beside the standard ones."""

    side: int
    """The pipe that takes a harness's side file."""
    script: int
    """The script that prints what is in that pipe."""
    report: int
    """Where that script prints."""
    text: int
    """Text that is too long, or too early, for an argument."""


# Numbers that neither bash (10 and up, 63 and down) nor people (3 to 9, 200) take for themselves, and low enough for
# a small `ulimit -n`.
BASH_DESCRIPTORS = Descriptors(side=52, script=51, report=50, text=53)
POSIX_DESCRIPTORS = Descriptors(side=9, script=8, report=7, text=6)
"""dash knows no number of two digits."""

BY_LENGTH_SINCE = 5
"""bash's major version from which `read -N` is relied on: it reads in blocks, where `read -d` asks for every byte."""

LATE_NAMES = frozenset({b"TMOUT", b"EXECIGNORE"})
"""Variables of a login environment that would end a shell while it waits, or hide the bash that it is to become; its
command gets them all the same."""

_PLAIN_PATH = re.compile(r"/[A-Za-z0-9/._+-]+")


def new_token() -> str:
    """32 hexadecimal digits that nothing on the target can know beforehand."""
    return secrets.token_hex(16)


def is_posix_only(shell: str | None) -> bool:
    """Whether SHELL (None: bash, wherever it is) is the sh of a target without bash."""
    return shell is not None and shell.rsplit("/", 1)[-1] != "bash"


def bootstrap(token: str, shell: str | None, *, pty: bool) -> str:
    """The exec request that makes a channel a worker.

    It goes through the account's login shell, whichever that is, so it holds no quote, backslash before a quote,
    exclamation mark or newline inside its single-quoted part. Both streams announce TOKEN after whatever the shell's
    start-up files printed; standard output adds the process id, what tells this process from a later one of the
    same number (see remote_group) where the target has that, and bash's major version.
    """
    program = shell if shell and _PLAIN_PATH.fullmatch(shell) else ("sh" if is_posix_only(shell) else "bash")
    announcement = (
        f"IFS= read -r __reach </proc/$$/stat; set -- \"${{__reach##*)}}\"; "
        f"IFS= read -r __reach </proc/sys/kernel/random/boot_id || "
        f"{{ set -- \"{BY_PS} $({PS_START} $$)\"; __reach=; }}; "
        f'printf "%s %s %s %s,%s;" {token} $$ "$1" "$__reach" "${{BASH_VERSION%%.*}}"; shift; printf %s {token} >&2; '
    )
    text = announcement + (_posix_loop(token, pty=pty) if is_posix_only(shell) else _bash_loop(token, pty=pty))
    # bash takes a shell of level 1 under sshd for one that should read ~/.bashrc; the login shell has done so already.
    return f"exec env SHLVL=1 {program} -c '{text}'"


def _bash_loop(token: str, *, pty: bool) -> str:
    # On a terminal bash turns echo and line editing off while it reads so, and prompts only after that: what is sent
    # before the prompt would be echoed.
    read = f'read -rsd "" -p {token}.' if pty else 'read -rd ""'
    return f'while IFS= {read} __reach; do eval "$__reach"; done'


def _posix_loop(token: str, *, pty: bool) -> str:
    """Scripts of lines, each script ended by a line that is TOKEN: sh's `read` knows no other delimiter."""
    prompt = f"printf %s {token}.; " if pty else ""
    terminal = "__reach_tty=$(stty -g); stty raw -echo; " if pty else ""
    return (
        f'{terminal}__reach_nl=$(printf "\\n."); __reach=; {prompt}while IFS= read -r __reach_line; do '
        f'case $__reach_line in {token}) __reach_line=$__reach; __reach=; eval "$__reach_line"; {prompt};; '
        f"*) __reach=$__reach$__reach_line${{__reach_nl%.}} ;; esac; done"
    ).replace("; ;;", " ;;")


def framed(script: bytes, token: str, *, version: int, pty: bool) -> bytes:
    """SCRIPT as a worker reads it. VERSION is its bash's major version, 0 where it is no bash."""
    if not version:
        return script + b"\n" + token.encode() + b"\n"
    if version < BY_LENGTH_SINCE or pty or len(script) < 200:
        return script + b"\0"
    # and not a semicolon: what a lost connection cut short must not be run
    head = b'IFS= LC_ALL=C read -rN %d __reach && eval "$__reach"\0' % len(script)
    return head + script


def preparation(environment: Mapping[bytes, bytes], token: str, *, side_file: bool, posix: bool) -> bytes:
    """What a worker does while it waits for its command: the login environment, and a place for a side file."""
    lines = []
    for name, value in environment.items():
        if name in LATE_NAMES:
            continue
        if is_name(name):
            lines.append(b"export " + name + b"=" + quote(value))
        elif (function := _FUNCTION.fullmatch(name)) and value.startswith(b"() {") and not posix:
            definition = b"function " + function[1] + b" " + value
            lines.append(b"eval " + quote(definition) + b" && export -f " + function[1])
    if side_file:
        lines.append(_posix_side_file(token) if posix else _side_file(token))
    return b"{\n" + b"\n".join([*lines, b":"]) + b"\n} >/dev/null 2>&1"


_FUNCTION = re.compile(rb"BASH_FUNC_([A-Za-z_][\w:.+-]*)%%", re.ASCII)


def _side_file(token: str) -> bytes:
    """A pipe that this shell alone holds: nothing is left behind however the command ends, and `set -C` lets it be
    written. What the model's command left of itself in the shell that reports neither stops the report nor shows it."""
    numbers = BASH_DESCRIPTORS
    read = b"builtin printf '\\0' >&%d; IFS= builtin read -rd '' __reach <&%d" % (numbers.side, numbers.side)
    script = read + b"; " + _show(token, b"builtin", numbers)
    return b"exec %d<> <(:) %d< <(printf %%s %s)" % (numbers.side, numbers.script, quote(script))


def _posix_side_file(token: str) -> bytes:
    """The same as files that have no name any more, for a shell that has no process substitution."""
    numbers = POSIX_DESCRIPTORS
    script = b"__reach=$(cat <&%d); " % numbers.side + _show(token, b"command", numbers)
    return b"""for __reach_file in "${TMPDIR:-/tmp}" /dev/shm "$HOME"; do
__reach_file=$__reach_file/.reach-$$
if (umask 077; set -C; printf %%s %s >"$__reach_file" && : >"$__reach_file.side"); then
exec %d<"$__reach_file" %d<>"$__reach_file.side"; rm -f -- "$__reach_file" "$__reach_file.side"; break; fi
rm -f -- "$__reach_file"
done""" % (quote(script), numbers.script, numbers.side)


def _show(token: str, prefix: bytes, numbers: Descriptors) -> bytes:
    one, two = token[: len(token) // 2].encode(), token[len(token) // 2 :].encode()
    form = b"'\\036%s%s=%s\\036%s%s.'"
    return prefix + b' printf %s %s %s "$__reach" %s %s >&%d' % (form, one, two, one, two, numbers.report)


@dataclass(frozen=True)
class Call:
    """One command, ready for a worker."""

    folder: bytes
    """Absolute, on the target."""
    argv: Sequence[bytes]
    """bash's arguments."""
    command_index: int
    """Where in argv the command string is, or -1."""
    environment: Mapping[bytes, bytes]
    keeps_side_file: bool = False
    merges_streams: bool = False
    """Both output streams are one file for the caller: one pipe keeps their order."""
    null_input: bool = False
    """The caller's standard input is /dev/null: programs ask whether theirs is a pipe that may have something."""
    null_errors: bool = False
    """Under a pty, the caller's standard error is /dev/null and not the terminal."""
    functions: bytes = b""
    """Shell text that the command's own shell evaluates before anything else, in place of BASH_ENV."""


def call_script(call: Call, token: str, *, pty: bool, posix: bool = False) -> bytes:
    """The script that replaces a worker by its command.

    Its first output, on the standard error that the command gets, is TOKEN and one byte: STARTED; or, when the command
    was not run, NO_FOLDER and what cd said, or NO_ROOM where a long command found none.
    """
    word = quote_for_terminal if pty and not posix else quote
    numbers = POSIX_DESCRIPTORS if posix else BASH_DESCRIPTORS
    parts = [b"exec 2>&1"] if call.merges_streams else []
    parts += [_enter(word(call.folder), token), b"unset OLDPWD __reach"]
    odd = []
    for name, value in call.environment.items():
        if is_name(name) and name not in _SPECIAL:
            parts.append(b"export " + name + b"=" + word(value))
        else:  # an exported function's name, which `export` does not take; or one that changes this shell itself
            odd.append(word(name + b"=" + value))
    if call.functions and not posix:
        parts.append(_hand_over(word(call.functions)))
    if not call.keeps_side_file:
        parts.append(b"exec %d<&- %d<&-" % (numbers.side, numbers.script))
    if call.null_input:
        parts.append(b"exec </dev/null")
    if pty and posix:
        parts.append(b'stty "$__reach_tty"')
    argv = list(call.argv)
    if call.command_index >= 0 and len(argv[call.command_index]) > MAX_ARGUMENT_BYTES:
        parts.append(_file_away(word(argv[call.command_index]), token, numbers.text))
        argv[call.command_index] = _EVALUATE_POSIX if posix else _EVALUATE
    parts.append(print_mark(token, STARTED))
    if call.null_errors:
        parts.append(b"exec 2>/dev/null")
    if posix:
        argv = for_posix_shell(argv, call.command_index)
    run = b"exec " + (b"env -- " + b" ".join(odd) + b" " if odd else b"") + (b"sh" if posix else b"bash")
    return b"; ".join([*parts, b" ".join([run, *map(word, argv)])])


_SPECIAL = frozenset(
    b"BASHOPTS BASHPID BASH_ARGV0 BASH_COMPAT BASH_SUBSHELL BASH_VERSINFO BASH_XTRACEFD CHILD_MAX COMP_WORDBREAKS "
    b"DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID EXECIGNORE FUNCNAME FUNCNEST GROUPS HISTCMD LINENO OPTIND PPID RANDOM "
    b"SECONDS SHELLOPTS SHLVL SRANDOM UID".split()
)
"""Variables that bash guards, computes or acts on when they are set."""


def _enter(folder: bytes, token: str) -> bytes:
    # `command`: the account may have a function of that name
    enter = b"command cd -- " + folder
    return enter + b" >/dev/null 2>&1 || { " + print_mark(token, NO_FOLDER) + b"; " + enter + b"; exit 125; }"


def print_mark(token: str, rest: bytes) -> bytes:
    """A shell command that prints TOKEN and REST on standard error. Its own text does not hold the token in one piece:
    whatever shows that text (an echo, `set -x`, $BASH_EXECUTION_STRING) shows no mark."""
    half = len(token) // 2
    return b"command printf %%s%%s %s %s%s >&2" % (token[:half].encode(), token[half:].encode(), rest)


def _file_away(text: bytes, token: str, number: int) -> bytes:
    """Put TEXT, a word, into a file without a name that is open for reading; a dot keeps its last newlines."""
    return (
        b'__reach=${TMPDIR:-/tmp}/.reach-$$-$RANDOM; { (umask 077; set -C; command printf %%s. %s >"$__reach") && '
        b'exec %d<"$__reach"; } 2>/dev/null || { rm -f -- "$__reach"; %s; exit 125; }; '
        b'rm -f -- "$__reach"; unset __reach'
    ) % (text, number, print_mark(token, NO_ROOM))


_EVALUATE = (
    b"IFS= read -rd '' BASH_EXECUTION_STRING <&%(text)d || :; exec %(text)d<&-; "
    b'BASH_EXECUTION_STRING=${BASH_EXECUTION_STRING%%.}; eval "$BASH_EXECUTION_STRING"'
) % {b"text": BASH_DESCRIPTORS.text}
_EVALUATE_POSIX = b'__reach=$(cat <&%(text)d); eval "exec %(text)d<&-; unset __reach; ${__reach%%.}"' % {
    b"text": POSIX_DESCRIPTORS.text
}


def _hand_over(functions: bytes) -> bytes:
    """Have the next bash evaluate FUNCTIONS, a word, as its first thing, and forget where they came from."""
    return (
        b'__reach="unset BASH_ENV"; [ -z "${BASH_ENV+x}" ] || '
        b"printf -v __reach 'BASH_ENV=%%q; . \"$BASH_ENV\"' \"$BASH_ENV\"; "
        b'exec %(text)d< <(command printf "%%s\\n" "exec %(text)d<&-" %(functions)s "$__reach"); unset __reach; '
        b"export BASH_ENV=/dev/fd/%(text)d"
    ) % {b"text": BASH_DESCRIPTORS.text, b"functions": functions}
