"""What the API is sent, checked as it is read. The names are those that editors' extensions already use."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

SessionId = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+(?![\s\S])")]
LongText = Annotated[str, msgspec.Meta(max_length=900_000)]
ShortText = Annotated[str, msgspec.Meta(max_length=4_000, pattern=r"^[^\x00]*$")]


class Init(msgspec.Struct, rename="camel"):
    """A person's prompt; the session is made with its first. One of the two ids is required, unless the path names the
    session. A prompt whose number is known is not stored again."""

    claude_session_id: SessionId | msgspec.UnsetType = msgspec.UNSET
    session_id: SessionId | msgspec.UnsetType = msgspec.UNSET
    user_prompt: LongText = ""
    prompt_number: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    project: ShortText = ""
    cwd: ShortText = ""
    host: ShortText = "api"


class Observed(msgspec.Struct, kw_only=True):
    """A tool call and how it ended. One of the two ids is required, unless the path names the session."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    tool_name: ShortText
    tool_input: Any = None
    tool_response: Any = None
    cwd: ShortText = ""
    host: ShortText = "api"
    tool_use_id: ShortText = ""
    failed: bool = False


class Summarize(msgspec.Struct):
    """The end of a turn, with what was said last. One of the two ids is required, unless the path names the session."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    last_user_message: LongText = ""
    last_assistant_message: LongText = ""
    cwd: ShortText = ""
    host: ShortText = "api"


class Complete(msgspec.Struct):
    """The end of a session. One of the two ids is required, unless the path names the session."""

    claudeSessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    sessionId: SessionId | msgspec.UnsetType = msgspec.UNSET
    reason: ShortText = "other"
    host: ShortText = "api"


SessionBody = Init | Observed | Summarize | Complete
SESSION_ID_FIELDS = ("claudeSessionId", "sessionId")


def get_session_id(body: SessionBody) -> str:
    """Return the agent's id of the session that a body names, under either of its two field names."""
    if isinstance(body, Init):
        values = (body.claude_session_id, body.session_id)
    else:
        values = (body.claudeSessionId, body.sessionId)
    session_ids = [value for value in values if value is not msgspec.UNSET]
    if not session_ids:
        raise msgspec.ValidationError("Object missing required field `claudeSessionId` (or `sessionId`)")
    if session_ids[0] != session_ids[-1]:
        raise msgspec.ValidationError("`claudeSessionId` and `sessionId` name different sessions")
    return session_ids[0]


class Batch(msgspec.Struct):
    """Ids of what is to be read whole; a number alone is an observation's."""

    ids: Annotated[list[Annotated[str, msgspec.Meta(max_length=300)] | int], msgspec.Meta(min_length=1, max_length=200)]


class Processing(msgspec.Struct, rename="camel"):
    """Whether an editor shows that something is being worked on."""

    is_processing: bool
