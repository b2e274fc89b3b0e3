"""What hardwon can do on each agent, and why not more: the table that docs/hosts.md is made from.

A test holds it against the code: which events a host has, what its answers carry, whether its transcripts are read.
"""

from __future__ import annotations

YES, PARTLY, NO = "yes", "partly", "no"

CAPABILITIES = {
    "note": "a lesson is told at the call it is about",
    "hold": "a call is stopped once, with the lesson as the reason, and runs when it is made again",
    "block": "a call is stopped every time",
    "start": "a session opens with lessons, memories and where the last one left off",
    "prompt": "a person decides and teaches by what they type, and is answered; what fits a prompt is recalled",
    "capture": "what happens is recorded while it happens",
    "transcripts": "the agent's own record is mined for lessons, and fills what hooks did not tell",
    "MCP": "the agent asks for what it wants to know",
}

SUPPORT_BY_AGENT: dict[str, dict[str, tuple[str, str]]] = {
    "claude-code": {
        "note": (YES, "beside the call's result: the call was decided before anybody could be told"),
        "hold": (YES, "the reason is the call's result"),
        "block": (YES, "the reason is the call's result"),
        "start": (YES, "at the start, when resumed, after /clear and after a compaction; sub-agents get theirs"),
        "prompt": (YES, "with the prompt itself; a typed decision is answered and does not reach the model"),
        "capture": (YES, "prompts, calls, failures, sub-agents, compactions and ends, each told as such"),
        "transcripts": (YES, "JSON lines in its folder, sub-agents' too"),
        "MCP": (YES, "by `hardwon install claude-code --mcp`, or the plugin"),
    },
    "codex": {
        "note": (YES, "as a message beside the call's result"),
        "hold": (YES, "once a person has trusted the hooks: Codex runs none before, and does not say so"),
        "block": (YES, "once a person has trusted the hooks: Codex runs none before, and does not say so"),
        "start": (YES, "at the start, when resumed, after /clear and after a compaction; sub-agents get theirs"),
        "prompt": (YES, "with the prompt itself; a typed decision is answered and does not reach the model"),
        "capture": (
            PARTLY,
            "no hook tells of a failure: the exit code comes from the rollout, and so does a tool that could not run",
        ),
        "transcripts": (YES, "rollouts, also those in which the model writes code that makes the calls"),
        "MCP": (
            YES,
            "by `hardwon install codex --mcp`, or the plugin; the model searches for the tools",
        ),
    },
    "gemini": {
        "note": (YES, "with the call's result: what is said before a call is not shown to the model"),
        "hold": (YES, "the reason is the call's error"),
        "block": (YES, "the reason is the call's error"),
        "start": (PARTLY, "with the first prompt, when resumed and after /clear; sub-agents cannot be told"),
        "prompt": (YES, "with the prompt itself; a typed decision is answered and does not reach the model"),
        "capture": (PARTLY, "prompts, calls, failures and ends; sub-agents by their calls alone, and no compaction"),
        "transcripts": (YES, "JSON lines that replace one another, read as the last of each"),
        "MCP": (YES, "by `hardwon install gemini --mcp`, or the extension"),
    },
    "opencode": {
        "note": (PARTLY, "with the call's result, so a tool that fails without one cannot carry it"),
        "hold": (YES, "the reason is the call's error"),
        "block": (YES, "the reason is the call's error"),
        "start": (YES, "with the first prompt, when resumed and after a compaction; sub-agents get theirs"),
        "prompt": (
            YES,
            "as a part of the prompt; what is for the person is a toast, and the model is told that a typed decision"
            " was answered",
        ),
        "capture": (YES, "prompts, calls, failures, sub-agents, compactions and ends, by a plugin"),
        "transcripts": (YES, "the sessions in its database, sub-agents' too, and what `opencode export` saved"),
        "MCP": (YES, "by `hardwon install opencode --mcp`"),
    },
}
