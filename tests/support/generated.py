"""Commands that hypothesis makes: text that no parser was made for, and programs of the shell's own grammar.

Each gives the same every time it is run: nothing in them depends on the time, on process ids or on what runs beside.
"""

from __future__ import annotations

from hypothesis import strategies as st

_PIECES = [
    b"'", b'"', b"\\", b"$x", b"`", b"$(", b")", b"{", b"}", b"\n", b";", b"&&", b"||", b"|", b"<", b">f", b"#",
    b" ", b"\t", b"*", b"~", b"!", b"$'", b"$\"", b"<<E\n", b"E\n", b"<<<", b"echo", b"printf %s", b"cat",
    b"set -e", b"false", b"exit 3", b"(",
    b"[[", b"]]", b"if", b"then", b"fi", b"trap 'echo t' EXIT", b"x=1", b"2>&1", b"&",
]  # fmt: skip
_BYTES = st.binary(min_size=1, max_size=6).map(lambda data: data.replace(b"\0", b"n"))
_TEXT = st.text(min_size=1, max_size=4).map(lambda text: text.replace("\0", "n").encode("utf-8", "replace"))
_PIECE = st.one_of(st.sampled_from(_PIECES), _BYTES, _TEXT)


def _quoted(data: bytes) -> bytes:
    return b"'" + data.replace(b"\0", b"n").replace(b"'", b"'\\''") + b"'"


_WORD = st.one_of(
    st.binary(max_size=60).map(_quoted),
    st.text(max_size=20).map(lambda text: _quoted(text.encode("utf-8", "replace"))),
    st.sampled_from([b'"$x"', b"$x", b'"a  b"', b"$'\\x01\\e[1m\\177'", b"$((1 + 2))", b"{a,b}c", b"~+", b'""', b"*"]),
)
_DELIMITER = st.sampled_from([b"E", b"'E'", b'"E"', b"\\E"])


def _heredoc(delimiter: bytes, lines: list[bytes]) -> bytes:
    body = b"".join(line.replace(b"\nE\n", b"\n") + b"\n" for line in lines if line != b"E")
    return b"cat <<" + delimiter + b"\n" + body + b"E\n"


_SIMPLE = st.one_of(
    st.lists(_WORD, max_size=4).map(lambda words: b" ".join([b"printf '<%s>'", *words])),
    st.lists(_WORD, max_size=3).map(lambda words: b" ".join([b"echo", *words])),
    st.builds(_heredoc, _DELIMITER, st.lists(_WORD, max_size=3)),
    st.integers(0, 255).map(lambda status: b"(exit %d)" % status),
    st.sampled_from(
        [b"false", b"true", b"cat", b"echo err >&2", b"read -r x", b"x='a b'", b"set -- p q; shift", b"cd /; pwd",
         b"echo $? $# $-", b"set -e", b"set -u; echo $nothing", b"set -f", b"set -x", b"set -o pipefail",
         b"shopt -s nullglob", b"IFS=:", b"umask 027; umask", b"nosuchcommand", b"return 3", b"break", b"unset x",
         b"kill -TERM $$", b"trap '' PIPE", b"trap - EXIT", b"exec 3>&1; echo three >&3; exec 3>&-", b"jobs; wait"]
    ),
)  # fmt: skip
_FRAMES = [
    b"( %s\n)", b"{ %s\n}", b"if %s\nthen echo yes; else echo no; fi", b"for i in 1 2; do %s\ndone", b"eval \"%s\"",
    b"f() { %s\n}; f a b", b"while read -r x; do %s\ndone <<<$'1\\n2'", b"trap 'echo bye $?' EXIT\n%s",
    b"trap 'echo err' ERR\n%s", b"! { %s\n}", b"{ %s\n} >f; cat f", b"{ %s\n} 2>&1", b"{ %s\n} </dev/null",
    b"{ %s\n} | tr a-z A-Z", b"echo in | { %s\n}", b"echo \"$( %s\n)\"", b"{ %s\n} >>f 2>>f", b"exec 2>&1\n%s",
    b"bash -c 'echo inner'\n%s", b"{ %s\n}; echo \"${PIPESTATUS[*]}\"", b"case x in x) %s\n;; esac",
    b"set -e\n%s", b"%s\nexit 7", b"# a comment\n%s", b"%s # a comment that is 'open",
]  # fmt: skip


def _framed(frame: bytes, inner: bytes) -> bytes:
    return frame.replace(b"%s", inner)


def _joined(first: bytes, operator: bytes, second: bytes) -> bytes:
    return b"{ " + first + b"\n}" + operator + b"{ " + second + b"\n}"


def _larger(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.builds(_framed, st.sampled_from(_FRAMES), inner),
        st.builds(_joined, inner, st.sampled_from([b" && ", b" || ", b"; ", b"\n"]), inner),
    )


TEXTS = st.one_of(
    st.lists(_PIECE, min_size=1, max_size=12).map(b" ".join),
    st.lists(_PIECE, min_size=1, max_size=12).map(b"".join),
).map(lambda text: text.replace(b"&&", b"\0").replace(b"&", b" ").replace(b"\0", b"&&").replace(b"coproc", b"co"))
"""Mostly syntax errors. Nothing in the background: what runs beside has no order to compare."""
PROGRAMS = st.recursive(_SIMPLE, _larger, max_leaves=6)
"""Nothing but complete commands, nested."""
