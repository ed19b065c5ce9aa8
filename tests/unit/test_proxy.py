from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.proxy import Proxy

TESTS = Path(__file__).parents[1]


@pytest.fixture
def echo_server() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets, until the client has shut its side."""
    listener = socket.create_server(("127.0.0.1", 0))

    def echo(connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(65536):
                    connection.sendall(chunk)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


def send_all_and_end(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(payload)
    connection.shutdown(socket.SHUT_WR)


def read_exactly(connection: socket.socket, n_bytes: int) -> bytes:
    got = bytearray()
    while len(got) < n_bytes and (chunk := connection.recv(n_bytes - len(got))):
        got += chunk
    return bytes(got)


def test_proxy_passes_bytes_unchanged_and_counts_them(echo_server: tuple[str, int]) -> None:
    payload = bytes(range(256)) * 40_000
    with Proxy(echo_server, delay_s=0.002) as proxy, connect(proxy.port) as client:
        sender = threading.Thread(target=send_all_and_end, args=(client, payload))
        sender.start()
        got = read_exactly(client, len(payload) + 1)
        sender.join()
        assert got == payload
        assert (proxy.bytes_to_server, proxy.bytes_to_client) == (len(payload), len(payload))
        assert proxy.connections_total == 1


def test_proxy_delays_each_way(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server, delay_s=0.05) as proxy, connect(proxy.port) as client:
        started = time.monotonic()
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert time.monotonic() - started >= 0.1


def test_proxy_cut_resets_both_sides(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server) as proxy, connect(proxy.port) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert proxy.cut() == 1
        assert proxy.connection_count == 0
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_proxy_cut_in_good_order_is_an_end_of_file(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server) as proxy, connect(proxy.port) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        assert proxy.cut("fin") == 1
        assert client.recv(1) == b""


def test_proxy_cuts_after_exactly_the_given_bytes(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server) as proxy, connect(proxy.port) as client:
        proxy.cut_after(1000, how="fin")
        client.sendall(b"y" * 5000)
        assert read_exactly(client, 5000) == b"y" * 1000
        with connect(proxy.port) as another:
            another.sendall(b"z" * 5000)
            assert len(read_exactly(another, 5000)) == 5000


def test_proxy_frozen_forwards_nothing_and_loses_nothing(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server) as proxy, connect(proxy.port) as client:
        client.sendall(b"1")
        assert client.recv(1) == b"1"
        proxy.freeze()
        client.sendall(b"23")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(20)
        proxy.unfreeze()
        assert read_exactly(client, 2) == b"23"


def test_proxy_refuses_and_accepts_again_on_the_same_port(echo_server: tuple[str, int]) -> None:
    with Proxy(echo_server) as proxy, connect(proxy.port) as before:
        before.sendall(b"x")
        assert before.recv(1) == b"x"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy.port)
        before.sendall(b"y")
        assert before.recv(1) == b"y"
        proxy.accept()
        with connect(proxy.port) as after:
            after.sendall(b"z")
            assert after.recv(1) == b"z"


def test_proxy_resets_the_client_when_nothing_listens_behind_it() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen: nobody else can, while it is there
        nobody = silent.getsockname()
        # the reset may come before connect has returned
        with Proxy(nobody) as proxy, pytest.raises(ConnectionResetError), connect(proxy.port) as client:
            client.recv(1)


def test_proxy_runs_as_a_process(echo_server: tuple[str, int]) -> None:
    argv = [sys.executable, "-m", "support.proxy", "--to", f"127.0.0.1:{echo_server[1]}", "--delay-ms", "1"]
    with subprocess.Popen(argv, cwd=TESTS, stdout=subprocess.PIPE) as process:
        assert process.stdout
        with connect(json.loads(process.stdout.readline())["port"]) as client:
            client.sendall(b"hello")
            assert read_exactly(client, 5) == b"hello"
        process.terminate()
        assert process.wait(20) == 0
