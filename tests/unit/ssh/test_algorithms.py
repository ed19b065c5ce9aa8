"""The order in which ciphers are offered."""

from __future__ import annotations

import pytest

from reach.ssh.algorithms import available, quickest_first

OPENSSH_9 = (
    "chacha20-poly1305@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com"
)


@pytest.mark.parametrize(
    ("wanted", "offered"),
    [
        (OPENSSH_9, "aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr"),
        ("aes256-ctr,aes128-gcm@openssh.com", "aes256-ctr,aes128-gcm@openssh.com"),
        ("chacha20-poly1305@openssh.com,aes256-ctr", "aes256-ctr"),
    ],
    ids=["ssh's-own-list", "the-operator's-list-keeps-its-order", "nothing-is-added"],
)
def test_gcm_goes_first_unless_the_operator_ordered_otherwise(wanted: str, offered: str) -> None:
    names = tuple(wanted.split(","))
    assert quickest_first(available("Ciphers", names, "box"), names) == tuple(offered.split(","))
