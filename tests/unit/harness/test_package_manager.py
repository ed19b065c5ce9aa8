from __future__ import annotations

import sys

import pytest

from reach.errors import HarnessError
from reach.harness.package_manager import explain_npm, run_installer

LOG = "npm error A complete log of this run can be found in: /here/.npm/_logs/2026-11-30T21_47_26_840Z-debug-0.log\n"
NO_SUCH_VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for @google/gemini-cli@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting a package version that doesn't exist.
"""
NO_SUCH_PACKAGE = """\
npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/@google%2fgemini-cli
npm error 404
npm error 404  The requested resource '@google/gemini-cli@1.0.0' could not be found or you do not have permission.
npm error 404
"""
REFUSED = """\
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/@google%2fgemini-cli failed, reason: connect ECONNREFUSED
npm error     at ClientRequest.<anonymous> (/usr/lib/node_modules/npm/index.js:130:14) {
npm error   code: 'ECONNREFUSED',
npm error }
npm error
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'
"""
NO_NAME = """\
npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to http://no.invalid/@google%2fgemini-cli failed, reason: getaddrinfo ENOTFOUND no.invalid
npm error network This is a problem related to network connectivity.
npm error network
"""
NO_ACCESS = """\
npm error code EACCES
npm error syscall mkdir
npm error path /here/.npm/_cacache
npm error errno -13
npm error Error: EACCES: permission denied, mkdir '/here/.npm/_cacache'
npm error     at async mkdir (node:internal/fs/promises:856:10)
"""
VERSIONS = "see which versions there are, with: npm view @google/gemini-cli versions"
PING = "see whether npm reaches its registry, with: npm ping"


@pytest.mark.parametrize("prefix", ["npm error", "npm ERR!"])
@pytest.mark.parametrize(
    ("said", "reason", "fix"),
    [
        (NO_SUCH_VERSION, "No matching version found for @google/gemini-cli@99.0.0", VERSIONS),
        (NO_SUCH_PACKAGE, "404 Not Found - GET https://registry.npmjs.org/@google%2fgemini-cli", VERSIONS),
        (REFUSED, "request to http://127.0.0.1:9/@google%2fgemini-cli failed, reason: connect ECONNREFUSED", PING),
        (NO_NAME, "request to http://no.invalid/@google%2fgemini-cli failed, reason: getaddrinfo ENOTFOUND", PING),
        (NO_ACCESS, "EACCES: permission denied, mkdir '/here/.npm/_cacache'", "npm's own log has more: /here/.npm/"),
        ("npm error Tracker \"x\" already exists\n", 'Tracker "x" already exists', "npm's own log has more: "),
    ],
    ids=["no-such-version", "no-such-package", "refused", "no-such-name", "no-access", "something-else"],
)
def test_what_npm_said_comes_to_the_line_that_tells_why(prefix: str, said: str, reason: str, fix: str) -> None:
    error = explain_npm((said + LOG).replace("npm error", prefix), "@google/gemini-cli", "npm")
    assert error.message.startswith(f"npm could not install: {reason}")
    assert error.fix is not None
    assert error.fix.startswith(fix)
    assert "npm error" not in str(error)
    assert "proxy" not in str(error)
    assert "\n" not in str(error)


def test_what_is_not_npms_own_way_of_saying_it_is_shown_by_its_end() -> None:
    error = explain_npm("node: bad option\n\n1\n2\n", "@google/gemini-cli", "npm")
    assert error.message == "npm could not install: node: bad option; 1; 2"


def test_a_failure_without_a_word_has_its_exit_code() -> None:
    argv = [sys.executable, "-c", "raise SystemExit(3)"]
    with pytest.raises(HarnessError, match="npm could not install: exit code 3"):
        run_installer(argv, {}, 60.0, "npm", lambda output: explain_npm(output, "x", "npm"))
