from __future__ import annotations

import base64
from pathlib import Path

import pytest

from reach.ssh.known_hosts import (
    HostKey,
    KnownHost,
    Marker,
    append_known_host,
    hashed_name,
    load_known_hosts,
    matches_patterns,
    parse_known_hosts,
)
from reach.ssh.wire_format import string

KEY = HostKey(string("ssh-ed25519") + string(bytes(32)))
OTHER = HostKey(string("ssh-ed25519") + string(bytes(31) + b"\1"))
FILE = Path("known_hosts")


def line(names: str, key: HostKey = KEY, marker: str = "") -> str:
    return f"{marker + ' ' if marker else ''}{names} {key.type} {key.base64}"


def parsed(text: str) -> list[KnownHost | str]:
    return list(parse_known_hosts(text, FILE))


@pytest.mark.parametrize(
    ("patterns", "name", "is_met"),
    [
        ("box", "box", True),
        ("Box", "box", True),
        ("box", "BOX", True),
        ("box", "box2", False),
        ("a,box,c", "box", True),
        ("*.lan", "box.lan", True),
        ("*.lan", "lan", False),
        ("bo?", "box", True),
        ("*.lan,!box.lan", "box.lan", False),
        ("!box.lan,*.lan", "box.lan", False),
        ("!other.lan", "box.lan", False),
        ("*.lan,!box.lan", "cat.lan", True),
        ("[box]:2222", "[box]:2222", True),
        ("[box]:2222", "box", False),
        ("box", "[box]:2222", False),
        ("[*.lan]:2222", "[box.lan]:2222", True),
        ("[box]:22", "b:22", False),
        ("::1", "::1", True),
        ("", "box", False),
        ("|1|not|enough", "box", False),
        ("|1|!!|AAAA", "box", False),
    ],
)
def test_patterns_mean_the_hosts_that_ssh_takes_them_to_mean(patterns: str, name: str, is_met: bool) -> None:
    assert matches_patterns(patterns, name) is is_met


def test_hashed_name_fits_its_host_alone() -> None:
    hashed = hashed_name("[Box]:2222")
    assert matches_patterns(hashed, "[box]:2222")
    assert not matches_patterns(hashed, "box")
    assert "box" not in hashed.lower().split("|")


def test_hashed_name_depends_on_its_salt_as_in_openssh() -> None:
    # printf box | openssl dgst -sha1 -mac HMAC -macopt hexkey:<20 zero bytes>
    salt = bytes(20)
    digest = "Y3fdIUhI6ok6TfdZbpCE4efB350="
    assert hashed_name("box", salt) == f"|1|{base64.b64encode(salt).decode()}|{digest}"


@pytest.mark.parametrize(
    "bad",
    [
        "box ssh-ed25519",
        "box ssh-ed25519 ???",
        "box ssh-ed25519 AAAA",
        line("box").replace("ssh-ed25519", "ssh-rsa", 1),
        "@frob " + line("box"),
        "@revoked",
        "box 1024 35 1234567890",
        "\udcff\udcfe",
    ],
    ids=["no-key", "no-base64", "short-key", "other-type", "unknown-marker", "marker-alone", "protocol-1", "bytes"],
)
def test_line_that_cannot_be_read_leaves_the_others_in_use(bad: str) -> None:
    entries = parsed(f"{line('a')}\n{bad}\n{line('b')}\n")
    assert [e.patterns for e in entries if isinstance(e, KnownHost)] == ["a", "b"]
    complaints = [e for e in entries if isinstance(e, str)]
    assert len(complaints) == 1
    assert "line 2" in complaints[0]


def test_markers_comments_and_spacing_are_read() -> None:
    text = "\n".join(
        [
            "# a comment",
            "",
            "  " + line("a") + " and a comment\r",
            line("b", marker="@revoked"),
            "\t",
            line("c", marker="@cert-authority").replace(" ", "\t"),
        ]
    )
    entries = [e for e in parsed(text) if isinstance(e, KnownHost)]
    assert [(e.patterns, e.marker, e.line) for e in entries] == [
        ("a", Marker.NONE, 3),
        ("b", Marker.REVOKED, 4),
        ("c", Marker.CERT_AUTHORITY, 6),
    ]


def test_key_types_that_nobody_knows_are_still_keys() -> None:
    odd = HostKey(string("ssh-future@example.org") + string(b"x"))
    [entry] = parsed(line("box", odd))
    assert isinstance(entry, KnownHost)
    assert entry.key == odd


def test_files_are_read_in_order_and_missing_ones_skipped(tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.write_text(line("a"))
    second.write_text(line("b", OTHER))
    known = load_known_hosts([first, tmp_path / "none", first / "below", second, first])
    assert [(e.file, e.patterns) for e in known] == [(first, "a"), (second, "b")]


@pytest.mark.parametrize("is_hashed", [False, True])
def test_added_line_is_found_again(tmp_path: Path, is_hashed: bool) -> None:
    file = tmp_path / "new" / "known_hosts"
    append_known_host(file, "[box]:2222", KEY, is_hashed=is_hashed)
    append_known_host(file, "cat", OTHER, is_hashed=is_hashed)
    known = load_known_hosts([file])
    assert [e.key for e in known if e.matches("[box]:2222")] == [KEY]
    assert [e.key for e in known if e.matches("cat")] == [OTHER]
    assert ("[box]" in file.read_text()) is not is_hashed
    assert file.stat().st_mode & 0o777 == 0o600


def test_adding_after_a_line_without_its_newline_keeps_both(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line("a"))
    append_known_host(file, "b", OTHER, is_hashed=False)
    known = load_known_hosts([file])
    assert [e.patterns for e in known] == ["a", "b"]


def test_fingerprint_is_the_one_that_ssh_keygen_prints() -> None:
    # printf 'ssh-ed25519 <base64 of KEY>' | ssh-keygen -lf -
    assert KEY.fingerprint == "SHA256:kmYcvdi2GkPeWxB6XLjrZB8JHsy2Hm8luHMFp9GMvqk"
