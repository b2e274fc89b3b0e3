"""What a scripted reply looks like on the wire of each agent, as far as the agent uses it.

Claude Code speaks Anthropic's Messages, Codex OpenAI's Responses, opencode OpenAI's chat completions, Gemini CLI its
own. Each stream gives a block in one piece: no agent minds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from .model_server import Body, Reply, Wire, iter_texts

CUSTOM = "apply_patch"  # the one tool that Codex's model gives free text, not arguments


def _format_events(events: Iterable[dict[str, Any]], *, with_names: bool = False) -> str:
    name = "event: {type}\n" if with_names else ""
    return "".join(f"{name.format_map(event)}data: {json.dumps(event)}\n\n" for event in events)


# Anthropic's Messages


def _build_blocks(reply: Reply, message_id: str) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    for number, call in enumerate(reply.calls):
        call_id = f"toolu_{message_id}_{number}"
        blocks.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": dict(call.given)})
    return blocks


def _build_message(reply: Reply, message_id: str, model: str) -> dict[str, Any]:
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": _build_blocks(reply, message_id),
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": 20},
    }


def _build_message_events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _answer_message(reply: Reply, message_id: str, body: Body) -> str:
    message = _build_message(reply, message_id, body["model"])
    return (
        _format_events(_build_message_events(message), with_names=True) if body.get("stream") else json.dumps(message)
    )


MESSAGES = Wire(
    asks=lambda path: path == "/v1/messages",
    conversation=lambda body: body.get("messages"),
    opening=lambda body: body["messages"][0],
    compacts=lambda body: any("create a detailed summary of" in text for text in iter_texts(body["messages"][-1])),
    answer=_answer_message,
)


# OpenAI's Responses


def _build_items(reply: Reply, message_id: str) -> Iterator[dict[str, Any]]:
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        yield {"type": "message", "id": message_id, "role": "assistant", "content": content}
    for number, call in enumerate(reply.calls):
        ids = {"id": f"fc_{message_id}_{number}", "call_id": f"call_{message_id}_{number}"}
        namespace, _, name = call.tool.rpartition(".")
        if name == CUSTOM:
            yield {"type": "custom_tool_call", **ids, "name": name, "input": call.given["input"]}
        else:
            within = {"namespace": namespace} if namespace else {}
            yield {"type": "function_call", **ids, "name": name, "arguments": json.dumps(call.given), **within}


def _answer_response(reply: Reply, message_id: str, body: Body) -> str:
    response_id = f"resp_{message_id}"
    item_events = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in enumerate(_build_items(reply, message_id))
    ]
    usage = {"input_tokens": reply.input_tokens, "output_tokens": 20, "total_tokens": reply.input_tokens + 20}
    created_event = {"type": "response.created", "response": {"id": response_id}}
    return _format_events(
        [created_event, *item_events, {"type": "response.completed", "response": {"id": response_id, "usage": usage}}],
        with_names=True,
    )


RESPONSES = Wire(
    asks=lambda path: path.endswith("/responses"),
    conversation=lambda body: body["input"],
    opening=lambda body: [item for item in body["input"] if item.get("role") == "user"],
    answer=_answer_response,
)


# OpenAI's chat completions


def _answer_completion(reply: Reply, message_id: str, body: Body) -> str:
    """Return one chunk with the whole reply and one with the finish reason; opencode always asks for a stream."""
    calls = [
        {
            "index": number,
            "id": f"call_{message_id}_{number}",
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.given)},
        }
        for number, call in enumerate(reply.calls)
    ]
    usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": 20, "total_tokens": reply.input_tokens + 20}
    every = {"id": message_id, "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    delta = {"role": "assistant", "content": reply.text or None} | ({"tool_calls": calls} if calls else {})
    reply_chunk = every | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    ending = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    return _format_events([reply_chunk, every | {"choices": [ending], "usage": usage}]) + "data: [DONE]\n\n"


COMPLETIONS = Wire(
    asks=lambda path: path.endswith("/chat/completions"),
    conversation=lambda body: body["messages"],
    opening=lambda body: next((message for message in body["messages"] if message["role"] == "user"), None),
    answer=_answer_completion,
)


# Gemini's


def _answer_content(reply: Reply, message_id: str, body: Body) -> str:
    parts: list[dict[str, Any]] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": call.tool, "args": dict(call.given)}} for call in reply.calls]
    tokens = reply.input_tokens
    content = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 20, "totalTokenCount": tokens + 20},
        "modelVersion": "scripted",
        "responseId": message_id,
    }
    return f"data: {json.dumps(content)}\r\n\r\n"


def _list_user_texts(body: Body) -> list[str]:
    """Return the texts of the person or the parent agent; tool results have the role "user", too."""
    user_parts = [part for content in body["contents"] if content["role"] == "user" for part in content["parts"]]
    return [part["text"] for part in user_parts if "text" in part]


GENERATE = Wire(
    asks=lambda path: path.endswith(":streamGenerateContent"),
    conversation=lambda body: [body.get("systemInstruction"), body["contents"]],
    opening=_list_user_texts,
    answer=_answer_content,
)
