from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.errors import TargetSyntaxError
from reach.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("build-box", Target("build-box")),
        ("box.example.org", Target("box.example.org")),
        ("10.0.0.7", Target("10.0.0.7")),
        ("box:", Target("box")),
        ("box:src/app", Target("box", folder="src/app")),
        ("box:/srv/app", Target("box", folder="/srv/app")),
        ("box:~/app", Target("box", folder="~/app")),
        ("box:a:b", Target("box", folder="a:b")),
        ("box:/with space/x", Target("box", folder="/with space/x")),
        ("me@box:", Target("box", user="me")),
        ("me@box", Target("box", user="me")),
        ("a@b@box:x", Target("box", user="a@b", folder="x")),
        ("[::1]:", Target("::1")),
        ("me@[fe80::1%eth0]:/srv", Target("fe80::1%eth0", user="me", folder="/srv")),
        ("ssh://box", Target("box")),
        ("ssh://box:2222", Target("box", port=2222)),
        ("ssh://me@box:2222/src", Target("box", user="me", port=2222, folder="src")),
        ("ssh://box//srv/app", Target("box", folder="/srv/app")),
        ("ssh://box/~/app", Target("box", folder="~/app")),
        ("ssh://[::1]:22//srv", Target("::1", port=22, folder="/srv")),
        ("ssh://box/a%20b%3Fc", Target("box", folder="a b?c")),
        ("box:proj/", Target("box", folder="proj")),
        ("box:./proj", Target("box", folder="proj")),
        ("box:a//./b/", Target("box", folder="a/b")),
        ("box:.", Target("box")),
        ("box:./", Target("box")),
        ("box:/", Target("box", folder="/")),
        ("box:~/", Target("box", folder="~")),
        ("box:../x/..", Target("box", folder="../x/..")),
        ("box:.hidden/", Target("box", folder=".hidden")),
        ("ssh://box/./proj/", Target("box", folder="proj")),
        ("ssh://box////srv/", Target("box", folder="/srv")),
        ("demo:", Target("demo", is_demo=True)),
        ("demo:./sub", Target("demo", folder="sub", is_demo=True)),
        ("demo:sub", Target("demo", folder="sub", is_demo=True)),
    ],
)
def test_parse_target_reads_each_spelling_and_writes_it_back(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a b", "./here", "/tmp", "box/path", "-oProxyCommand=x", "-box:", "@box", "me@", ":x", "::1",
        "fe80::1", "ssh://", "ssh:///x", "ssh://box:0", "ssh://box:70000", "ssh://box:x", "ssh://-x", "http://box",
        "box\n", "b\x1bx", "ssh://-l@box", "[::1", "[::1]x", "ssh://box/a?b",
    ],
)  # fmt: skip
def test_parse_target_refuses_what_is_no_target_with_a_line_that_names_the_spellings(text: str) -> None:
    with pytest.raises(TargetSyntaxError, match="HOST") as caught:
        parse_target(text)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


HOSTS = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)
FOLDERS = st.none() | st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30).map(str.strip)


@given(
    HOSTS,
    FOLDERS,
    st.none() | st.integers(1, 65535),
    st.none() | st.from_regex(r"[a-z_][a-z0-9_@.]{0,8}", fullmatch=True),
)
def test_every_target_survives_its_own_spelling(
    host: str, folder: str | None, port: int | None, user: str | None
) -> None:
    read = parse_target(str(Target(host, user, port, folder or None)))
    assert parse_target(str(read)) == read
    assert (read.host, read.user, read.port) == (host, user, port)
    assert _parts(read.folder) == _parts(folder)


def _parts(folder: str | None) -> tuple[bool, list[str]]:
    """What names a folder, however often and with how many dots it is written."""
    return (folder or "").startswith("/"), [part for part in (folder or "").split("/") if part not in ("", ".")]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("build-box", "build-box"),
        ("me@box.example.org:x", "box.example.org"),
        ("[fe80::1]:", "fe80-1"),
        ("demo:", "demo"),
    ],
)
def test_a_target_names_its_session(text: str, name: str) -> None:
    assert parse_target(text).session_name == name
