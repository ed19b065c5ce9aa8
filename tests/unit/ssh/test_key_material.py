"""Key files, certificates and agents whose bytes may be anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from reach.ssh.certificate import HOST_CERTIFICATE, Certificate, parse_certificate
from reach.ssh.key_file import KeyFileError, PassphraseNeededError, load_private_key, load_public_blob
from reach.ssh.known_hosts import HostKey, KnownHost, parse_known_hosts
from reach.ssh.signer import LoadedKey
from reach.ssh.wire_format import WireFormatError, string


@pytest.fixture
def keygen() -> None:
    if subprocess.run(["which", "ssh-keygen"], capture_output=True).returncode:
        pytest.skip("no ssh-keygen: install Debian's openssh-client")


def certificate(**changes: object) -> Certificate:
    plain = HostKey(string("ssh-ed25519") + string(bytes(32)))
    fields: dict[str, object] = {
        "type": "ssh-ed25519-cert-v01@openssh.com",
        "plain_key": plain,
        "serial": 1,
        "role": HOST_CERTIFICATE,
        "key_id": "",
        "principals": ("box", "*.lan"),
        "valid_after": 100,
        "valid_before": 200,
        "critical_options": (),
        "authority": plain,
        "signature": b"",
        "signed": b"",
    }
    return Certificate(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "name", "now_s", "objection"),
    [
        ({}, "box", 100, None),
        ({}, "a.lan", 199, None),
        ({}, "box", 99, "not valid yet"),
        ({}, "box", 200, "expired"),
        ({}, "cat", 150, "not for cat"),
        ({"principals": ()}, "box", 150, "no host"),
        ({"role": 1}, "box", 150, "no host certificate"),
        ({"critical_options": ("force",)}, "box", 150, "'force'"),
        ({"valid_before": 2**64 - 1}, "box", 2**40, None),
    ],
)
def test_certificate_speaks_for_its_hosts_in_its_time(
    changes: dict[str, object], name: str, now_s: float, objection: str | None
) -> None:
    found = certificate(**changes).objection(name, now_s)
    assert (found is None) if objection is None else (objection in str(found))


def test_certificate_with_a_forged_field_is_not_signed_by_its_authority(keygen: None, tmp_path: Path) -> None:
    for name in ("ca", "host"):
        subprocess.run(["ssh-keygen", "-qt", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    argv = ["ssh-keygen", "-qs", str(tmp_path / "ca"), "-I", "x", "-h", "-n", "box", str(tmp_path / "host.pub")]
    subprocess.run(argv, check=True)
    blob = load_public_blob(tmp_path / "host-cert.pub")
    assert blob
    genuine = parse_certificate(blob)
    assert genuine.principals == ("box",)
    assert genuine.plain_key.blob == load_public_blob(tmp_path / "host")
    assert genuine.is_signed_by_its_authority(["ssh-ed25519"])
    assert not genuine.is_signed_by_its_authority(["rsa-sha2-512"])
    forged = parse_certificate(blob.replace(b"\0\0\0\3box", b"\0\0\0\3cat"))
    assert forged.principals == ("cat",)
    assert not forged.is_signed_by_its_authority(["ssh-ed25519"])
    with pytest.raises(WireFormatError):
        parse_certificate(blob + b"x")


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_certificate_reader(data: bytes) -> None:
    for blob in (data, string("ssh-ed25519-cert-v01@openssh.com") + data):
        with pytest.raises(WireFormatError):
            parse_certificate(blob)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200))
def test_no_text_crashes_the_known_hosts_reader(text: str) -> None:
    for entry in parse_known_hosts(f"{text}\n@revoked {text}", Path("f")):
        if isinstance(entry, KnownHost):
            entry.matches("box")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff",
        b"ssh-ed25519",
        b"ssh-ed25519 ???",
        b"ssh-ed25519 AAAA",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n???\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
    ],
)
def test_file_that_is_no_key_is_none(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    file.chmod(0o600)
    assert load_public_blob(file) is None
    with pytest.raises(KeyFileError):
        load_private_key(file, None)


def test_folder_or_nothing_is_no_key(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        assert load_public_blob(path) is None
        with pytest.raises(KeyFileError):
            load_private_key(path, None)


@pytest.mark.parametrize("form", ["RFC4716", "PEM", "PKCS8"])
def test_passphrase_opens_and_its_absence_is_told_apart_from_damage(keygen: None, tmp_path: Path, form: str) -> None:
    file = tmp_path / "key"
    argv = ["ssh-keygen", "-qt", "rsa", "-b", "2048", "-m", form, "-N", "right", "-f", str(file)]
    subprocess.run(argv, check=True)
    for wrong in (None, "", "wrong"):
        with pytest.raises(PassphraseNeededError):
            load_private_key(file, wrong)
    assert load_private_key(file, "right").public_blob == load_public_blob(file)
    subprocess.run(["ssh-keygen", "-qp", "-P", "right", "-N", "", "-f", str(file)], check=True, capture_output=True)
    assert load_private_key(file, "right").public_blob == load_public_blob(file)


def test_loaded_key_does_not_show_itself() -> None:
    assert repr(LoadedKey(Ed25519PrivateKey.generate())) == "LoadedKey(…)"
