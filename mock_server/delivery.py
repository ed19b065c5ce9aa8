"""The bytes of a reply on their way out, whole or spoilt."""

from __future__ import annotations

import asyncio

from aiohttp import web

from mock_server.api import Delivery, DeliveryMode, Framing, Reply


async def deliver(
    request: web.Request, reply: Reply, delivery: Delivery, ending: asyncio.Event
) -> web.StreamResponse:
    """Send REPLY. ENDING lets go of a stalled client when the server ends."""
    chunks = list(reply.chunks())
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_type = reply.content_type
    if reply.framing is Framing.JSON:
        response.content_length = sum(map(len, chunks))
        chunks = [b"".join(chunks)]
    await response.prepare(request)
    if delivery.mode is DeliveryMode.TRICKLE:
        for byte in b"".join(chunks):
            await response.write(bytes([byte]))
            await asyncio.sleep(0)  # one loop turn each, so that the bytes leave in writes of their own
    elif delivery.mode is DeliveryMode.WHOLE:
        for chunk in chunks:
            await response.write(chunk)
    else:
        for chunk in chunks[: delivery.after_events]:
            await response.write(chunk)
        if delivery.mode is DeliveryMode.STALL:
            await ending.wait()  # ends sooner when the client goes: the handler is cancelled
        else:
            broken = chunks[delivery.after_events]
            await response.write(broken[: len(broken) // 2])
        _hang_up(request)
        return response
    await response.write_eof()
    return response


def _hang_up(request: web.Request) -> None:
    """Close the connection without the end that chunked encoding or Content-Length promised."""
    if request.transport is not None:
        request.transport.close()
