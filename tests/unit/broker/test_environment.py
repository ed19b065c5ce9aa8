from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reach.broker.environment import forwarded_environment, is_hook
from reach.paths import Paths
from reach.session.launch import Launch, create_launch

OPERATOR = {b"EDITOR": b"vi", b"AWS_SECRET": b"s3cret", b"LANG": b"de_DE.UTF-8", b"PATH": b"/bin", b"EMPTY": b""}


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    root = tmp_path_factory.mktemp("reach")
    paths = Paths(root, root, root, root)
    return create_launch(
        paths, "t", harness="gemini", workspace=Path("/w"), environment=OPERATOR, extra_env={"PROOF": "x"}
    )


PROOF = {b"PROOF": b"x"}
LOCAL = ["/home/me", "/home/me/.local/state/reach/sessions/t"]


@pytest.mark.parametrize(
    ("added", "travels"),
    [
        ({b"GEMINI_CLI": b"1"}, True),
        ({b"EDITOR": b"cat"}, True),
        ({b"EMPTY": b"now set"}, True),
        ({b"LANG": b""}, True),
        ({b"TWO_LINES": b"a\nb"}, True),
        ({b"QUOTE": b"'\"\\$x`"}, True),
        ({b"LATIN": b"caf\xe9"}, True),
        ({b"BASH_FUNC_f%%": b"() {  echo hi\n}"}, True),
        ({b"dotted.name": b"1"}, True),
        ({b"DISPLAY": b""}, True),
        ({b"SSH_ASKPASS": b""}, True),
        ({b"CHROOT": b"/srv/home/melon"}, True),
        ({b"SIMILAR": b"/home/menu:/home/mexico"}, True),
        ({b"PATH": b"/other"}, False),
        ({b"HOME": b"/managed"}, False),
        ({b"PWD": b"/w/sub"}, False),
        ({b"TMPDIR": b"/var/tmp"}, False),
        ({b"SHLVL": b"3"}, False),
        ({b"SSH_AUTH_SOCK": b"/tmp/agent"}, False),
        ({b"SSH_ASKPASS": b"/usr/bin/ask"}, False),
        ({b"REACH_HOME": b"/x"}, False),
        ({b"XDG_RUNTIME_DIR": b"/run/user/1"}, False),
        ({b"LD_PRELOAD": b"x.so"}, False),
        ({b"NODE_OPTIONS": b"--x"}, False),
        ({b"BASH_ENV": b"/x"}, False),
        ({b"NAMES_HOME": b"/home/me/notes"}, False),
        ({b"NAMES_HOME": b"a:/home/me:b"}, False),
        ({b"NAMES_HOME": b"--config=/home/me"}, False),
    ],
    ids=lambda value: repr(value) if isinstance(value, dict) else None,
)
def test_what_the_harness_set_travels_and_what_is_local_does_not(
    launch: Launch, added: dict[bytes, bytes], travels: bool
) -> None:
    seen = forwarded_environment({**OPERATOR, **added}, launch, LOCAL)
    assert seen == {**(added if travels else {}), **PROOF}


@given(
    added=st.dictionaries(
        st.binary(min_size=1, max_size=10).filter(lambda n: b"=" not in n and b"\0" not in n),
        st.binary(max_size=30).filter(lambda v: b"\0" not in v),
    )
)
def test_no_value_of_the_operator_s_travels(launch: Launch, added: dict[bytes, bytes]) -> None:
    seen = forwarded_environment({**added, **OPERATOR}, launch, LOCAL)
    assert not set(seen) & set(OPERATOR)


def test_without_a_launch_nothing_travels() -> None:
    assert forwarded_environment({b"A": b"1"}, None, LOCAL) == {}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({b"GEMINI_PROJECT_DIR": b"/w", b"GEMINI_SESSION_ID": b"x"}, True),
        ({b"GEMINI_PROJECT_DIR": b"/w"}, False),
        ({b"GEMINI_SESSION_ID": b"x"}, False),
        ({}, False),
    ],
)
def test_a_hook_is_told_by_what_the_harness_puts_in_its_environment(
    environment: dict[bytes, bytes], expected: bool
) -> None:
    assert is_hook(environment) is expected
