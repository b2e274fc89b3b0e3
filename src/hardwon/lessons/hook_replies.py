"""Answer hook events with what an agent and its person are told.

The fallback imports this module, so keep its imports light.
"""

from __future__ import annotations

from hardwon.lessons.call_replies import AFTER_CALL_EVENTS, reply_after_call, reply_before_call
from hardwon.lessons.delivery import SessionClaims

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hardwon.lessons.delivery import HookSources
    from hardwon.lessons.manifest_index import ManifestIndex
    from hardwon.types import Event, HookReply


def reply_to_event(event: Event, index: ManifestIndex, home: str, sources: HookSources) -> HookReply:
    """Return what the agent and the person are told about an event; EMPTY_REPLY if nothing.

    This also claims what is told, so that the session is not told it again.
    """
    session_claims = SessionClaims(home, event)
    if event.kind == "PreToolUse":
        return reply_before_call(event, index, home, session_claims, sources)
    if event.kind in AFTER_CALL_EVENTS:
        return reply_after_call(event, index, session_claims, sources)
    # Imported here because tool calls, which are most events, need none of it.
    from hardwon.lessons.session_replies import reply_to_session_event

    return reply_to_session_event(event, index, home, session_claims, sources)
