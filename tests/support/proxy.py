"""A TCP proxy that stands for a network: delay each way, cuts, freezes, refusals, counts.

In a test it runs in a thread of its own: `with Proxy(("127.0.0.1", port), delay_s=0.025) as proxy:`, then
`proxy.port`. Alone: `python -m support.proxy --listen 0 --to HOST:PORT --delay-ms 25` prints one JSON line
with the port and runs until SIGTERM, SIGINT or the death of its parent.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import selectors
import signal
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Self, TypeVar

CHUNK_BYTES = 256 << 10
MIN_BUFFER_BYTES = 256 << 10
BANDWIDTH_BYTES_PER_S = 1 << 30
"""What the delay must not limit: each way holds this much for the length of the delay."""

Way = Literal["to_server", "to_client"]
How = Literal["rst", "fin"]
_T = TypeVar("_T")


class _Flow:
    """One way of one connection: what was read waits here until its time has come."""

    def __init__(self, proxy: Proxy, way: Way, source: socket.socket, sink: socket.socket) -> None:
        self._proxy = proxy
        self._way = way
        self._source = source
        self._sink = sink
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Forward until end of file has been passed on. Raises: OSError when either side is gone."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read())
            group.create_task(self._write())

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._proxy._thawed.wait()
            chunk = await loop.sock_recv(self._source, CHUNK_BYTES)
            async with self._changed:
                self._waiting.append((loop.time() + self._proxy.delay_s, chunk))
                self._waiting_bytes += len(chunk)
                self._changed.notify_all()
                if not chunk:
                    return
                await self._changed.wait_for(lambda: self._waiting_bytes < self._proxy._buffer_bytes)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
                due, chunk = self._waiting.popleft()
            if (early_s := due - loop.time()) > 0:
                await asyncio.sleep(early_s)
            await self._proxy._thawed.wait()
            if not chunk:
                self._sink.shutdown(socket.SHUT_WR)
                return
            await self._proxy._pass_on(self._way, chunk, self._sink)
            async with self._changed:
                self._waiting_bytes -= len(chunk)
                self._changed.notify_all()


class Proxy:
    """Forward every connection made to 127.0.0.1:`port` to one address, until closed.

    All methods may be called from any thread and have taken effect when they return.
    """

    def __init__(self, to: tuple[str, int], *, delay_s: float = 0.0, listen_port: int = 0) -> None:
        self.to = to
        self.delay_s = delay_s
        """Added each way, so that a round trip takes twice as much. May be set at any time."""
        self.port = listen_port
        self.connections_total = 0
        self.bytes_to_server = 0
        self.bytes_to_client = 0
        self._open: dict[asyncio.Task[None], list[socket.socket]] = {}
        self._cut_after: dict[Way, tuple[int, How]] = {}
        self._listening: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        # select(2) keeps microseconds; epoll would round every delay up to a whole millisecond.
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thawed = asyncio.Event()
        self._thawed.set()

    def start(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def close(self) -> None:
        """Refuse new connections, cut the open ones and end the thread."""
        if self._loop.is_closed():
            return
        self.refuse()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection_count(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    def cut(self, how: How = "rst") -> int:
        """End every open connection, both sides of it, by a reset or in good order; how many there were."""
        return self._call(self._cut(how))

    def cut_after(self, n_bytes: int, way: Way = "to_client", how: How = "rst") -> None:
        """Cut all connections as soon as exactly N_BYTES more (of all connections) have gone that way."""
        self._on_loop(lambda: self._cut_after.update({way: (n_bytes, how)}))

    def freeze(self) -> None:
        """Forward nothing more either way; connections stay open and new ones are accepted."""
        self._on_loop(self._thawed.clear)

    def unfreeze(self) -> None:
        self._on_loop(self._thawed.set)

    def refuse(self) -> None:
        """Let new connections be refused by the kernel, as where nothing listens."""
        self._call(self._stop_listening())

    def accept(self) -> None:
        """Take new connections again, on the same port."""
        self._call(self._listen())

    def _call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _on_loop(self, function: Callable[[], object]) -> None:
        async def call() -> None:
            function()

        self._call(call())

    @property
    def _buffer_bytes(self) -> int:
        return max(MIN_BUFFER_BYTES, int(self.delay_s * BANDWIDTH_BYTES_PER_S))

    async def _listen(self) -> None:
        if self._listener:
            return
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._listening = asyncio.ensure_future(self._accept_each(self._listener))

    async def _stop_listening(self) -> None:
        if not self._listener or not self._listening:
            return
        self._listening.cancel()
        await asyncio.gather(self._listening, return_exceptions=True)
        self._listener.close()
        self._listener = None

    async def _accept_each(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(listener)
            self.connections_total += 1
            sockets = [client]
            task = asyncio.ensure_future(self._forward(client, sockets))
            self._open[task] = sockets
            task.add_done_callback(self._forget)

    async def _forward(self, client: socket.socket, sockets: list[socket.socket]) -> None:
        server = socket.socket()
        sockets.append(server)
        for each in sockets:
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await asyncio.get_running_loop().sock_connect(server, self.to)
            async with asyncio.TaskGroup() as group:
                group.create_task(_Flow(self, "to_server", client, server).run())
                group.create_task(_Flow(self, "to_client", server, client).run())
        except* OSError:
            _close(sockets, "rst")

    async def _pass_on(self, way: Way, chunk: bytes, sink: socket.socket) -> None:
        limit = self._cut_after.get(way)
        if limit:
            chunk = chunk[: limit[0]]
            self._cut_after[way] = (limit[0] - len(chunk), limit[1])
        await asyncio.get_running_loop().sock_sendall(sink, chunk)
        if way == "to_server":
            self.bytes_to_server += len(chunk)
        else:
            self.bytes_to_client += len(chunk)
        if limit and limit[0] == len(chunk):
            del self._cut_after[way]
            # A task of its own: this one is among those that the cut cancels.
            self._cutting = asyncio.ensure_future(self._cut(limit[1]))
            await asyncio.Event().wait()

    async def _cut(self, how: How) -> int:
        cut = dict(self._open)
        for task in cut:
            task.cancel()
        await asyncio.gather(*cut, return_exceptions=True)
        for sockets in cut.values():
            _close(sockets, how)
        return len(cut)

    def _forget(self, task: asyncio.Task[None]) -> None:
        sockets = self._open.pop(task)
        if not task.cancelled():
            _close(sockets, "fin")
            task.exception()


def _close(sockets: list[socket.socket], how: How) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            if how == "rst":
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            else:
                each.shutdown(socket.SHUT_RDWR)
        each.close()


def _die_with_parent() -> None:
    import ctypes

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m support.proxy", description=__doc__.partition("\n")[0])
    parser.add_argument("--listen", type=int, default=0, metavar="PORT")
    parser.add_argument("--to", required=True, metavar="HOST:PORT")
    parser.add_argument("--delay-ms", type=float, default=0.0, help="added each way")
    options = parser.parse_args()
    host, _, port = options.to.rpartition(":")
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    _die_with_parent()
    with Proxy((host, int(port)), delay_s=options.delay_ms / 1000, listen_port=options.listen) as proxy:
        print(json.dumps({"port": proxy.port}), flush=True)
        signal.sigwait(stop)


if __name__ == "__main__":
    main()
