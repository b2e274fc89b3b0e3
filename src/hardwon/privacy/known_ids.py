"""How the ids begin that agents and models give to sessions, messages and calls: random, and no secrets."""

from __future__ import annotations

KNOWN_ID_PREFIXES = (
    *("toolu_", "session_", "msg_", "req_", "call_", "resp_", "chatcmpl-", "item_", "thread_", "run_", "asst_"),
    *("ses_", "prt_", "agent_", "agent-", "rs_", "fc_"),
)
