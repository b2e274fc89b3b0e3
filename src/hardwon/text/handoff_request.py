"""What hardwon says to an agent and its person about writing a handoff. The hook imports this, so it is only text."""

HANDOFF_EXAMPLE = """\
{"topic": "Tail lines were counted twice",
 "summary": ["Fixed the off-by-one in tail.py: the newline was counted as a line", "Added tests/test_tail.py"],
 "decisions": [{"decision": "Read the file backwards", "reason": "logs reach 2 GB"}],
 "failed": [{"tried": "mmap", "why": "it fails on empty files"}],
 "open_ends": ["Windows line ends are untested"],
 "resume_prompt": "Test tail.py with CRLF files, then close the ticket.",
 "confidence": "M",
 "memories": [{"type": "project", "text": "Logs here reach 2 GB."}]}"""
HANDOFF_REQUEST = f"""\
The person asks for a handoff of this session to the next one. Write it now, from all you know of the session, not only
its end:

```
hardwon handoff write --json <<'HANDOFF'
{HANDOFF_EXAMPLE}
HANDOFF
```

- State facts, one per item. Name files, commands and commits as they are. Put `[]` where there is nothing to say.
- `resume_prompt` is what you would want to be told first. `confidence` in the next step is H, M or L.
- `memories` (user, feedback, project or reference) are what every later session must know; leave them out if unsure.
- hardwon adds the files, commits and checks that it recorded, and lists claims that these contradict. Correct those,
  and run it again.
- It is a draft. Show the person its text, and the command that it printed for them (`hardwon accept H3`).
  Do not run that yourself."""
# A person types this to the agent; agents without our slash command understand it as well.
HANDOFF_PROMPT = "hardwon handoff"
PROPOSAL = "hardwon: no handoff yet for {}. Type “hardwon handoff” to have the agent write it"
# Claude Code gives this to the model that writes the summary, and shows it to the person after /compact.
COMPACTION_PROPOSAL = (
    "hardwon: no handoff yet for {}. Keep decisions with their reasons, failed attempts and open ends in the summary,"
    " and tell the person once that typing “hardwon handoff” has you write the handoff."
)
