"""bash's own argument grammar, read only as far as to tell where the commands come from."""

FORWARD = "forward"
PASS = "pass"
REFUSE = "refuse"

# With or without a second dash, but before the first short option only: bash takes them so.
_LONG = {
    "debug", "debugger", "login", "noediting", "noprofile", "norc", "posix", "pretty-print", "protected",
    "restricted", "verbose", "wordexp",
}  # fmt: skip
_LONG_WITH_FILE = {"init-file", "rcfile"}
_LONG_LOCAL = {"dump-po-strings", "dump-strings", "help", "version"}
_SHORT = frozenset("abefhikmnprtuvxBCEHPTcls")
_STDIN_FILES = {"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
_DESCRIPTOR_FOLDERS = ("/dev/fd/", "/proc/self/fd/")


def parse_bash_arguments(arguments: list[str]) -> tuple[str, list[str], int]:
    """Tell what `bash ARGUMENTS` would read its commands from.

    Shape: (plan, arguments for the target's bash, index in them of the command string, or of the script file with
    PASS; else -1).
    FORWARD: a command string or standard input. PASS: a script file of this machine, help, version, a usage error:
    the real shell's business. REFUSE: commands from a descriptor that can't be sent.
    Source: bash 5.2, shell.c, parse_long_options and parse_shell_options.
    """
    at = 0
    kept: list[str] = []
    while at < len(arguments) and arguments[at][:1] == "-":
        name = arguments[at][1:].removeprefix("-")
        if name in _LONG_LOCAL:
            return PASS, arguments, -1
        if name in _LONG_WITH_FILE:  # a file of this machine: the target has none of that name
            if at + 1 >= len(arguments):
                return PASS, arguments, -1
            at += 2
        elif name in _LONG:
            kept.append(arguments[at])
            at += 1
        elif arguments[at][:2] == "--" and name:
            return PASS, arguments, -1
        else:
            break
    return _parse_short(arguments, at, kept)


def _parse_short(arguments: list[str], at: int, kept: list[str]) -> tuple[str, list[str], int]:
    wants_command = reads_stdin = False
    first = at
    while at < len(arguments) and arguments[at][:1] in ("-", "+") and arguments[at]:
        word = arguments[at]
        at += 1
        if word in ("-", "--"):
            break
        for letter in word[1:]:
            if letter in "oO":
                at += 1  # a missing name makes bash print the options and go on
            elif letter == "D" or letter not in _SHORT:
                return PASS, arguments, -1
            elif letter == "c":
                wants_command = True
            elif letter == "s":
                reads_stdin = True
    at = min(at, len(arguments))
    kept += arguments[first:at]
    rest = arguments[at:]
    if wants_command:
        return (FORWARD, kept + rest, len(kept)) if rest else (PASS, arguments, -1)
    if reads_stdin or not rest:
        return FORWARD, kept + rest, -1
    if rest[0] in _STDIN_FILES:
        return FORWARD, [*_without_end_marker(kept), "-s", "--", *rest[1:]], -1
    if rest[0].startswith(_DESCRIPTOR_FOLDERS):
        return REFUSE, arguments, -1
    return PASS, arguments, len(arguments) - len(rest)


def _without_end_marker(options: list[str]) -> list[str]:
    return options[:-1] if options and options[-1] in ("-", "--") else options
