"""Live updates: the last messages, and the clients that listen for more."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from hardwon import clock

MAX_CLIENTS = 200
_MAX_REPLAYED_MESSAGES = 500  # for clients that come back with the last id they saw
_MAX_QUEUED_MESSAGES = 100  # a client that is further behind is disconnected
_HEARTBEAT_SECONDS = 15.0  # proxies and browsers drop connections that are silent for longer


class LiveFeed:
    """Owns the listeners' queues and the last messages."""

    def __init__(self) -> None:
        # Milliseconds, so that ids are larger than those of any worker before this one.
        self._message_id = int(clock.now() * 1000)
        self._recent_messages: deque[tuple[int, bytes]] = deque(maxlen=_MAX_REPLAYED_MESSAGES)
        self._listeners: set[asyncio.Queue[bytes | None]] = set()

    @property
    def client_count(self) -> int:
        return len(self._listeners)

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= MAX_CLIENTS

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        """Send a message to all listeners without waiting for any of them.

        A client that does not read is disconnected; it comes back with the last id that it saw.
        """
        self._message_id += 1
        message = f"id: {self._message_id}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        self._recent_messages.append((self._message_id, message))
        for queue in list(self._listeners):
            if queue.full():
                # Make room for the end mark, which ends the listener's loop.
                self._listeners.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)

    async def listen(self, after_id: int | None) -> AsyncIterator[bytes]:
        """Yield the messages after an id that are still kept, then new ones, and a comment every 15 seconds."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_QUEUED_MESSAGES)
        self._listeners.add(queue)
        missed = []
        if after_id is not None:
            missed = [message for message_id, message in self._recent_messages if message_id > after_id]
        try:
            yield b": hardwon\n\n"
            for message in missed:
                yield message
            while True:
                try:
                    next_message = await asyncio.wait_for(queue.get(), _HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if next_message is None:
                    return
                yield next_message
        finally:
            self._listeners.discard(queue)
