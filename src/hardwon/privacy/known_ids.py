"""Prefixes of the ids of sessions, messages and calls: these ids are random but not secret."""

from __future__ import annotations

KNOWN_ID_PREFIXES = (
    *("toolu_", "session_", "msg_", "req_", "call_", "resp_", "chatcmpl-", "item_", "thread_", "run_", "asst_"),
    *("ses_", "prt_", "agent_", "agent-", "rs_", "fc_"),
)
