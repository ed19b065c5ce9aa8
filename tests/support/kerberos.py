"""A real Kerberos realm on this machine: MIT's key distribution center, a host's key table, and a user's ticket."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Self

from support.processes import eventually

REALM = "REACH.TEST"
_TOOLS = ("krb5kdc", "kadmin.local", "kdb5_util", "kinit")
_PATH = f"{os.defpath}:/usr/sbin:/sbin"


def is_available() -> str | None:
    """Why there can be no realm here; None when there can."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool, path=_PATH)]
    return f"no {', '.join(missing)}: apt-get install krb5-kdc krb5-admin-server krb5-user" if missing else None


class Realm:
    """Serves tickets while the context lasts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config, self.key_table = folder / "krb5.conf", folder / "keytab"
        self._kdc: subprocess.Popen[bytes] | None = None
        self._password = secrets.token_hex(8)

    @property
    def environment(self) -> dict[str, str]:
        """What clients and servers of this realm need."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KTNAME": f"FILE:{self.key_table}",
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
        }

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n"
            f" rdns = false\n udp_preference_limit = 1\n[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
        )
        (self.folder / "kdc.conf").write_text(
            f"[kdcdefaults]\n kdc_listen = \"\"\n kdc_tcp_listen = 127.0.0.1:{port}\n[realms]\n {REALM} = {{\n"
            f"  database_name = {self.folder / 'principal'}\n  key_stash_file = {self.folder / 'stash'}\n"
            f"  acl_file = {self.folder / 'acl'}\n }}\n"
        )
        self._run("kdb5_util", "-P", secrets.token_hex(8), "create", "-s")
        argv = [self._tool("krb5kdc"), "-n"]
        self._kdc = subprocess.Popen(argv, env=self._kdc_environment(), stdin=subprocess.DEVNULL)
        assert eventually(lambda: _listens(port)), "the key distribution center does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        if self._kdc:
            self._kdc.kill()
            self._kdc.wait()

    def add_host(self, name: str) -> None:
        """Give a server that clients call NAME a key."""
        self._run("kadmin.local", "addprinc", "-randkey", f"host/{name}")
        self._run("kadmin.local", "ktadd", "-k", str(self.key_table), f"host/{name}")

    def log_in(self, user: str) -> None:
        """Have USER known to the realm, and a ticket that could be forwarded lie where `environment` says."""
        self._run("kadmin.local", "addprinc", "-pw", self._password, user)
        self._run("kinit", "-f", user, said=self._password + "\n")

    def _run(self, tool: str, *arguments: str, said: str = "") -> None:
        argv = [self._tool(tool), *arguments]
        done = subprocess.run(argv, env=self._kdc_environment(), input=said, capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stdout, done.stderr)

    def _kdc_environment(self) -> dict[str, str]:
        return {**self.environment, "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"), "PATH": _PATH}

    @staticmethod
    def _tool(name: str) -> str:
        return shutil.which(name, path=_PATH) or name


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
