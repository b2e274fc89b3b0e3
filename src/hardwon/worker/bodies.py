"""What the API is sent, checked as it is read. The names are those that editors' extensions already use."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f/\\]+(?![\s\S])")]
Text = Annotated[str, msgspec.Meta(max_length=900_000)]
Short = Annotated[str, msgspec.Meta(max_length=4_000, pattern=r"^[^\x00]*$")]


class Init(msgspec.Struct, rename="camel"):
    """A person's prompt; the session is made with its first."""

    claude_session_id: Id
    user_prompt: Text = ""
    project: Short = ""
    cwd: Short = ""
    host: Short = "api"


class InitOf(msgspec.Struct, rename="camel"):
    """The same for a session that the path names."""

    user_prompt: Text = ""
    prompt_number: int = 0
    project: Short = ""
    cwd: Short = ""
    host: Short = "api"


class Observed(msgspec.Struct):
    """A tool call and how it ended."""

    claudeSessionId: Id
    tool_name: Short
    tool_input: Any = None
    tool_response: Any = None
    cwd: Short = ""
    host: Short = "api"
    tool_use_id: Short = ""
    failed: bool = False


class Summarize(msgspec.Struct):
    """The end of a turn, with the last that was said."""

    claudeSessionId: Id
    last_user_message: Text = ""
    last_assistant_message: Text = ""
    cwd: Short = ""
    host: Short = "api"


class Complete(msgspec.Struct):
    """The end of a session."""

    claudeSessionId: Id
    reason: Short = "other"
    host: Short = "api"


class Batch(msgspec.Struct):
    """Ids of what is to be read whole; a number alone is an observation's."""

    ids: Annotated[list[Annotated[str, msgspec.Meta(max_length=300)] | int], msgspec.Meta(min_length=1, max_length=200)]


class Processing(msgspec.Struct, rename="camel"):
    """Whether an editor shows that something is being worked on."""

    is_processing: bool
