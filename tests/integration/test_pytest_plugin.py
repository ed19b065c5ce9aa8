"""reach's pytest plugin as the suites of other people see it: each test runs a pytest of its own in its own folder."""

from __future__ import annotations

import signal

import pytest

from support.processes import eventually
from support.sshd import Sshd
from support.suite import Suite

A_SESSION = """
import subprocess, pathlib, os, time
HERE = pathlib.Path(__file__).parent

def noted(session):
    (HERE / "runtime").write_text(f"{session.paths.runtime}\\n{session.paths.state}\\n")
    assert session.paths.socket(session.name).exists()
    return session
"""
PASSES = """
import platform

def test_a_command_runs_on_the_target(reach_target, reach_session):
    ran = noted(reach_session).run("uname -n; pwd; echo oops >&2; exit 7")
    assert ran.stdout.splitlines() == [reach_session.hostname, reach_session.folder]
    assert (ran.stderr, ran.exit_status) == ("oops\\n", 7)
    assert reach_session.run("kill -9 $$").exit_status is None
    assert [entry.command for entry in reach_session.audit_log][1] == "kill -9 $$"

def test_the_target_is_another_machine_by_its_name(reach_target, reach_session):
    assert reach_session.hostname == reach_target.hostname
    assert reach_target.has_own_hostname == (reach_target.hostname != platform.node())

def test_files_can_be_laid_out_there(reach_target, reach_session):
    assert list(reach_target.folder.iterdir()) == []
    (reach_target.folder / "notes.txt").write_text("laid out")
    assert reach_session.run("cat notes.txt").stdout == "laid out"

def test_the_environment_puts_the_shim_first(reach_session):
    ran = subprocess.run(["bash", "-c", "uname -n; pwd"], env=reach_session.environment, capture_output=True, text=True)
    assert ran.stdout.splitlines() == [reach_session.hostname, reach_session.folder], ran.stderr

def test_what_is_left_running_ends_with_the_session(reach_session):
    child = subprocess.Popen(["sleep", "1000"], env=reach_session.environment)
    globals()["child"] = child
    reach_session.run("sleep 1000 >/dev/null 2>&1 </dev/null &")

def test_it_has_ended(reach_session):
    assert child.wait(20) == -9

def test_each_session_has_its_own_log(reach_session):
    assert reach_session.audit_log == []
"""


def test_a_suite_has_a_target_and_sessions_and_nothing_is_left(suite: Suite) -> None:
    suite.write(A_SESSION + PASSES)
    done = suite.run()
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_a_test_that_fails_leaves_nothing_either(suite: Suite) -> None:
    suite.write(
        A_SESSION
        + """
def test_it(reach_session):
    assert noted(reach_session).run("echo a").stdout == "b"
"""
    )
    done = suite.run()
    assert done.returncode == 1
    assert "AssertionError: assert 'a\\n' == 'b'" in done.stdout
    assert suite.told("runtime")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("ssh://127.0.0.1:9", "reach: connecting to 127.0.0.1 port 9: "),
        ("a b", "reach: "),
    ],
    ids=["refused", "no-target"],
)
def test_a_target_that_cant_be_had_fails_in_one_line(suite: Suite, option: str, said: str) -> None:
    suite.write("def test_it(reach_session): pass\n")
    done = suite.run("--reach-target", option)
    assert done.returncode == 1
    assert said in done.stdout
    assert "Traceback" not in done.stdout
    assert "another exception occurred" not in done.stdout
    assert "reach/testing" not in done.stdout


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("launch('gemini@9.9.9', [])", "HarnessNotFoundError: Gemini CLI 9.9.9 is not installed by reach; type: "),
        ("launch('codex', [])", "ConfigError: no harness named 'codex'; reach knows gemini"),
        ("verify('codex')", "ConfigError: no harness named 'codex'; reach knows gemini"),
        ("verify('gemini', binary=pathlib.Path('/gone'))", "HarnessNotFoundError: /gone is no program"),
        ("run('sleep 600', timeout_s=0.1)", "BrokerUnavailableError: "),
    ],
    ids=["launch-version", "launch-name", "verify-name", "verify-binary", "run"],
)
def test_what_reach_cant_do_is_shown_at_the_line_of_the_test(suite: Suite, call: str, said: str) -> None:
    suite.write(
        f"""
import pathlib
import pytest
from reach.errors import ReachError

def test_shown(reach_session):
    reach_session.{call}

def test_expected(reach_session):
    with pytest.raises(ReachError):
        reach_session.{call}
"""
    )
    done = suite.run()
    assert done.returncode == 1
    assert f"E       reach.errors.{said}" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "another exception" not in done.stdout
    assert ".py:" not in done.stdout.replace("test_theirs.py:", "")


@pytest.mark.sshd
@pytest.mark.parametrize("way", ["option", "variable", "ini"])
def test_a_host_of_ones_own_may_be_named(suite: Suite, sshd: Sshd, way: str) -> None:
    suite.write(
        "def test_it(reach_target, reach_session):\n"
        f"    assert reach_session.run('uname -n').stdout.strip() == reach_session.hostname == {sshd.hostname!r}\n"
        "    assert not reach_target.is_embedded\n"
    )
    variables = {"REACH_SSH_CONFIG": str(sshd.config)}
    if way == "ini":
        suite.write(f"[pytest]\nreach_target = {sshd.alias}\n", "pytest.ini")
    elif way == "variable":
        variables["REACH_TEST_TARGET"] = sshd.alias
    options = ["--reach-target", sshd.alias] if way == "option" else []
    done = suite.run(*options, **variables)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_run_that_is_ended_leaves_nothing(suite: Suite, number: signal.Signals) -> None:
    suite.write(
        A_SESSION
        + """
def test_it(reach_session, mock_gemini):
    noted(reach_session)
    with subprocess.Popen(["bash", "-c", "echo up; sleep 1000"], env=reach_session.environment,
                          stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        (HERE / "is_up").touch()
        child.wait()
"""
    )
    with suite.start() as process:
        assert eventually((suite.folder / "is_up").exists)
        process.send_signal(number)
        output, _ = process.communicate()
    assert process.returncode == (2 if number == signal.SIGINT else -number), output
    assert suite.told("runtime")


MOCK = """
import json, urllib.request
from mock_server import Expectation, Script, Turn

def ask(mock, text):
    body = {"contents": [{"role": "user", "parts": [{"text": text}]}],
            "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]}
    request = urllib.request.Request(f"{mock.url}/v1beta/models/any:generateContent", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["candidates"][0]["content"]["parts"]
"""


def test_the_mock_plays_what_the_test_gives_it_and_keeps_the_requests(suite: Suite) -> None:
    suite.write(
        MOCK
        + """
def test_turns(mock_gemini):
    mock_gemini.play(mock_gemini.shell("ls", "id"), Turn(text="Done."))
    calls = [part["functionCall"]["args"]["command"] for part in ask(mock_gemini, "go")]
    assert calls == ["ls", "id"]
    assert mock_gemini.turns_left == 1
    assert ask(mock_gemini, "and then?") == [{"text": "Done."}]
    assert [request.reading.user_text for request in mock_gemini.requests] == ["go", "and then?"]

def test_a_second_script_takes_over(mock_gemini):
    mock_gemini.play(Script(turns=[Turn(text="one")]))
    assert ask(mock_gemini, "go") == [{"text": "one"}]
    mock_gemini.play(Turn(text="two"))
    assert ask(mock_gemini, "go") == [{"text": "two"}]

def test_the_environment_is_enough(mock_gemini):
    environment = mock_gemini.environment
    assert environment["GOOGLE_GEMINI_BASE_URL"] == mock_gemini.url
    assert environment["GEMINI_CLI_HOME"] == str(mock_gemini.home)
    assert json.loads((mock_gemini.home / ".gemini" / "settings.json").read_text())
"""
    )
    done = suite.run()
    assert done.returncode == 0, done.stdout


def test_an_expectation_that_is_not_met_fails_the_test(suite: Suite) -> None:
    suite.write(
        MOCK
        + """
def test_met(mock_gemini):
    mock_gemini.play(Turn(text="hi", expect=Expectation(text={"contains": "please"})))
    ask(mock_gemini, "please go")

def test_failed(mock_gemini):
    mock_gemini.play(Turn(text="hi", expect=Expectation(text={"contains": "please"})))
    ask(mock_gemini, "go")

def test_never_asked(mock_gemini):
    mock_gemini.play(Turn(text="hi", expect=Expectation(text={"contains": "please"})))
"""
    )
    done = suite.run()
    assert done.returncode == 1
    assert "3 passed, 2 errors" in done.stdout
    assert "mock_gemini: turn 1, request 1: " in done.stdout
    assert "mock_gemini: turn 1: no request came" in done.stdout


def test_the_plugin_can_be_left_out(suite: Suite) -> None:
    suite.write("def test_without(): pass\ndef test_with(reach_session): pass\n")
    done = suite.run("-p", "no:reach")
    assert "fixture 'reach_session' not found" in done.stdout
    assert "1 passed, 1 error" in done.stdout


def test_a_suite_may_have_fixtures_and_options_of_the_same_names(suite: Suite) -> None:
    suite.write("import pytest\n@pytest.fixture\ndef reach_target(): return 'theirs'\n", "conftest.py")
    suite.write("def test_it(reach_target): assert reach_target == 'theirs'\n")
    assert suite.run().returncode == 0
