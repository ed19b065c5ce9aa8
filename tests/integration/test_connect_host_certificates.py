"""Hosts that an authority vouches for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reach.errors import HostKeyMismatchError, HostKeyUnknownError
from support.login import connected, make_key, public_line, sign_key, write_config
from support.sshd import Sshd

pytestmark = pytest.mark.sshd


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_key(tmp_path_factory.mktemp("authority") / "authority", kind="rsa")


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with Sshd() as server:
        server.options["HostCertificate"] = server.folder / "certificate.pub"
        yield server


@pytest.fixture
def enter(server: Sshd, authority: Path, tmp_path: Path) -> Callable[..., str]:
    """Have the server show a certificate made with ssh-keygen's ARGUMENTS; the algorithm that was agreed upon."""

    def enter(*arguments: str, known: str | None = None, kind: str = "ed25519", **options: object) -> str:
        certificate = sign_key(authority, server.folder / f"host_{kind}", "-h", *arguments)
        certificate.replace(server.folder / "certificate.pub")
        server.restart()
        known_hosts = tmp_path / "known_hosts"
        known_hosts.write_text(known or f"@cert-authority 127.0.0.1,[127.0.0.1]:* {public_line(authority)}")
        given = {"UserKnownHostsFile": known_hosts, "IdentityFile": server.client_key, **options}
        with connected(write_config(tmp_path / "config", server, given)) as transport:
            return str(transport.host_key_type)

    return enter


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_certificate_of_a_known_authority_is_enough(enter: Callable[..., str], kind: str) -> None:
    assert enter("-n", "127.0.0.1", kind=kind).endswith("-cert-v01@openssh.com")


def test_certificate_speaks_for_the_alias(enter: Callable[..., str], authority: Path) -> None:
    known = f"@cert-authority *.example {public_line(authority)}"
    assert enter("-n", "box.example", known=known, HostKeyAlias="box.example").endswith("-cert-v01@openssh.com")


@pytest.mark.parametrize(
    ("arguments", "objection"),
    [
        (["-n", "other.example"], "it is for other.example, not for 127.0.0.1"),
        ([], "it is for no host"),
        (["-n", "127.0.0.1", "-V", "19990101:20000101"], "it has expired"),
        (["-n", "127.0.0.1", "-V", "20900101:20910101"], "it is not valid yet"),
    ],
    ids=["another-host", "no-principal", "expired", "not-yet"],
)
def test_certificate_that_does_not_hold_leaves_the_key_unknown(
    enter: Callable[..., str], arguments: list[str], objection: str
) -> None:
    with pytest.raises(HostKeyUnknownError, match=objection):
        enter(*arguments)


def test_certificate_of_an_unknown_authority_leaves_the_key_unknown(enter: Callable[..., str], tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    with pytest.raises(HostKeyUnknownError):
        enter("-n", "127.0.0.1", known=f"@cert-authority * {public_line(other)}")


def test_authority_of_other_hosts_does_not_count(enter: Callable[..., str], authority: Path) -> None:
    with pytest.raises(HostKeyUnknownError):
        enter("-n", "127.0.0.1", known=f"@cert-authority *.example {public_line(authority)}")


def test_authority_as_an_ordinary_key_does_not_count(enter: Callable[..., str], authority: Path) -> None:
    with pytest.raises(HostKeyMismatchError):
        enter("-n", "127.0.0.1", known=f"* {public_line(authority)}")


def test_revoked_authority_is_refused(enter: Callable[..., str], authority: Path) -> None:
    key = public_line(authority)
    with pytest.raises(HostKeyMismatchError, match="revoked"):
        enter("-n", "127.0.0.1", known=f"@cert-authority * {key}@revoked * {key}")


def test_revoked_key_is_refused_whoever_vouches_for_it(
    enter: Callable[..., str], authority: Path, server: Sshd
) -> None:
    key = server.host_key_line().split(" ", 1)[1]
    with pytest.raises(HostKeyMismatchError, match="revoked"):
        enter("-n", "127.0.0.1", known=f"@cert-authority * {public_line(authority)}@revoked * {key}\n")


def test_signature_by_an_excluded_algorithm_does_not_count(enter: Callable[..., str]) -> None:
    with pytest.raises(HostKeyUnknownError, match="signature"):
        enter("-n", "127.0.0.1", CASignatureAlgorithms="ssh-ed25519")


def test_plain_key_that_is_known_needs_no_certificate(enter: Callable[..., str], server: Sshd) -> None:
    assert enter("-n", "other.example", known=server.host_key_line()) == "ssh-ed25519"


def test_known_key_under_a_certificate_that_does_not_hold_is_still_known(
    enter: Callable[..., str], server: Sshd, authority: Path
) -> None:
    known = f"@cert-authority * {public_line(authority)}{server.host_key_line()}\n"
    assert enter("-n", "other.example", known=known) == "ssh-ed25519-cert-v01@openssh.com"
