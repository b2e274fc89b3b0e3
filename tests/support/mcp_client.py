"""The official MCP client, connected to our server in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from hardwon.mcp.server import MCPServer


@asynccontextmanager
async def connect_in_process(server: MCPServer) -> AsyncIterator[Any]:
    """Yield the client's streams; each message goes through the server as the line it would be on stdin."""
    from mcp.shared.memory import create_client_server_memory_streams
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async def answer_messages(requests: Any, replies: Any) -> None:
        async for request in requests:
            line = request.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            reply = server.answer_line(line)
            if reply is not None:
                await replies.send(SessionMessage(jsonrpc_message_adapter.validate_json(reply, by_name=False)))

    async with (
        create_client_server_memory_streams() as (client_streams, server_streams),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(answer_messages, *server_streams)
        yield client_streams
        tasks.cancel_scope.cancel()
