"""How long may a client take? A request, its answer and the pause after it end in time or never."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["TimedProtocol"]


class TimedProtocol(H11Protocol):
    """HTTP/1.1 that ends a connection whose next step takes too long, however it trickles.

    There is one deadline for the head of a request, counted from the connection or the answer
    before it, and one for its body and its answer. Bytes that arrive do not move it.
    """

    seconds = 60.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._renew()

    def data_received(self, data: bytes) -> None:
        """Take bytes; once a head is whole, wait for the rest."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._renew()

    def on_response_complete(self) -> None:
        """Wait for the next head."""
        super().on_response_complete()
        self._renew()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _renew(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.seconds, self.transport.abort)
