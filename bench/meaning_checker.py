"""Whether a line about a session is supported: reads the transcript by itself and shares no code with the product.

A line is a sentence that somebody said, or it is made of names: commands in backticks, quotations, commits, files,
addresses and numbers, with words that claim what became of them. A sentence must stand in the transcript, said by the
one it is put down to. Each name must stand there too, and the calls it belongs to must have ended as the line claims.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_HARNESS = re.compile(
    r"<(system-reminder|environment_context|user_instructions|local-command-\w+|command-message|task-notification"
    r"|permissions instructions|INSTRUCTIONS|skills_instructions)[^>]*>.*?(?:</\1>|\Z)",
    re.S,
)
_EDIT_TOOL_NAMES = (
    "Edit Write MultiEdit NotebookEdit apply_patch replace write_file str_replace_based_edit_tool create_file"
)
_EDIT_TOOLS = frozenset(_EDIT_TOOL_NAMES.split())
_WORD = re.compile(r"[^\W_]+")
_COMMAND_START = r"(?:^|[\n;&|(]\s*)"
_RUNNING = "running with session"
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\((?!http)[^()\s]{1,400}\)")
_CODE = re.compile(r"`([^`]+)`")
_QUOTATION = re.compile(r"“([^“”]+)”")
_URL = re.compile(r"https?://[^\s)>\]”]+")
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_PATH = re.compile(
    r"(?<![\w/@.-])(?:…/)?[\w.@~+-]*(?:/[\w.@+\[\]()-]+)+/?|(?<![\w/@.-])[\w@+-][\w.@+-]*\.[a-zA-Z]\w{0,9}\b"
)
_NUMBER = re.compile(r"\b\d+\b")
_COMMIT_REPORT = re.compile(r"\[[^\]\s]+(?: \([^)]*\))? ([0-9a-f]{7,40})\]")
_EXIT_CODE = re.compile(r"(?:Exit code|exited with code|\"exit_code\")\W{1,3}(-?\d+)")
_FAILED_COUNT = re.compile(r"\b(\d+) (?:failed|failing|failures?|fail)\b")
_FAILED_OUTPUT = re.compile(r"(?m)^(?:FAIL|--- FAIL)\b|error TS\d+|BUILD FAILED")
_TROUBLE = re.compile(
    r"error|fail|fatal|traceback|panic|not found|cannot|denied|invalid|unknown|issues?|problems?|✖|✗", re.I
)
# A line that begins so makes a claim about calls, whatever it quotes.
_CLAIM = re.compile(
    r"^(?:\w+: )?(?:Committed [0-9a-f]{7}|Passing at the end|Changed |Edited |Wrote |Opened http"
    r"|`[^`]+`,? (?:still |then )?(?:fail|pass|work))"
)
# What the product may say around names; everything else in a line has to stand in the transcript.
_FRAME_TEXT = """
    a about added after agent all already an and answered are as asked at be because before branch but by changed
    changes check checks command commit commits committed created decided did done edited editing edits ended
    error exit code fail failed failing fails file files first fixed for from further given has have in into is it
    its last later left line lines look made mb merged more next no not now of on once one only open opened or
    other out passed passes passing pull pushed quoted ran read rejected refused request requests result right
    ruled run runs said says searched session since so still sub-agent subagent subagents sub agents tests than
    that the their them then there these they this those time times to too tried twice under unchanged uncommitted
    unfinished until up wanted was way went were what when which while who will with without work worked working
    works wrote yet put person user looked found never nothing unanswered interrupted topic outcome plan todo step
    steps task tasks item learned cause reason remaining remains waiting states stated pending your another form
    accepted recorded nowhere end package packages ok call taken back
"""
_FRAME_WORDS = frozenset(_FRAME_TEXT.split())
_OWN_WORK = re.compile(
    r"\b(?:I|we)(?:'ve| have)? (?:now |also |just |already )?\w+(?:t|ne|de|en|an|ot)\b|\b\w{3,}ed\b"
    r"|\b(?:is|are|was|were|been|be|now|has|have|had|no longer|pass|passes|passing|done|complete|works?|clean|green"
    r"|ready|success\w*|found|shows?|built|written|made|there|in place|live|up to date)\b|[✅✓]",
    re.I,
)
_NOT_DONE = re.compile(
    r"\?\s*$|^\W*(?:if|would you|do you want|should|shall|want me|let me|let's|I'll|I will|I'm going|next|please"
    r"|now let|you can|to \w+)\b|\b(?:want me to|would you like|let me know)\b",
    re.I,
)


_EDITED_FILE = re.compile(r"[\w@./~+-]+\.(\w{1,8})\b")
_WRITTEN_FILE = re.compile(r"\bcat >>? ?[\w@-][\w@./-]*\.(\w{1,8})\b")  # in the project: a relative path
_PROSE_SUFFIXES = frozenset(("md", "mdx", "rst", "txt", "adoc"))


def to_words(text: str) -> str:
    """The words of a text with single spaces around each, so that markup and line breaks do not matter."""
    words = " ".join(_WORD.findall(text.lower()))
    return f" {words} "


@dataclass(frozen=True, slots=True)
class Entry:
    """A piece of a transcript: said by a person or an agent, a call, or its result."""

    line: int
    role: str
    text: str
    words: str
    tool: str = ""
    call: str = ""
    is_failed: bool = False


@dataclass(slots=True)
class Transcript:
    entries: list[Entry] = field(default_factory=list)

    def add(self, line: int, role: str, text: str, tool: str = "", call: str = "", is_failed: bool = False) -> None:
        if role == "person":
            text = _HARNESS.sub("", text)
            text = re.sub(r"</?command-(?:args|name)>", " ", text)
        if text.strip():
            words = to_words(_LINK.sub(r"\1", text))
            self.entries.append(Entry(line, role, text, words, tool, call, is_failed))

    def select(self, *roles: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.role in roles]


def read_transcript(path: str) -> Transcript:
    transcript = Transcript()
    with open(path, encoding="utf-8", errors="replace") as file:
        content = file.read()
    if path.endswith(".json"):
        for number, message in enumerate(json.loads(content)["messages"], 1):
            _add_gemini(transcript, number, message)
        return transcript
    for number, line in enumerate(content.split("\n"), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            _add_codex(transcript, number, record) if "payload" in record else _add_claude(transcript, number, record)
    return transcript


def _add_gemini(transcript: Transcript, number: int, message: dict[str, Any]) -> None:
    role = "person" if message.get("type") == "user" else "agent"
    transcript.add(number, role, _collect_text(message.get("content", "")))
    for call in message.get("toolCalls", ()):
        name, call_id = str(call.get("name", "")), str(call.get("id", ""))
        transcript.add(number, "call", _collect_text(call.get("args")), name, call_id)
        is_failed = call.get("status") not in ("success", None)
        transcript.add(number, "result", _collect_text(call.get("result")) or "-", name, call_id, is_failed)


def _add_claude(transcript: Transcript, number: int, record: dict[str, Any]) -> None:
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
        transcript.add(number, "person", _collect_text(attachment.get("prompt")))
    message = record.get("message")
    if not isinstance(message, dict) or record.get("type") not in ("user", "assistant"):
        return
    is_person = record["type"] == "user" and not record.get("isMeta")
    role = "other" if record["type"] == "user" and not is_person else "person" if is_person else "agent"
    content = message.get("content", "")
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        kind = block.get("type") if isinstance(block, dict) else ""
        if kind == "text":
            transcript.add(number, role, str(block.get("text", "")))
        elif kind == "tool_use":
            text = _collect_text(block.get("input"))
            transcript.add(number, "call", text or "-", str(block.get("name", "")), str(block.get("id", "")))
        elif kind == "tool_result":
            text = _collect_text(block.get("content")) + "\n" + _collect_text(record.get("toolUseResult"))
            call_id = str(block.get("tool_use_id", ""))
            transcript.add(number, "result", text.strip() or "-", "", call_id, bool(block.get("is_error")))


def _add_codex(transcript: Transcript, number: int, record: dict[str, Any]) -> None:
    payload = record["payload"] if isinstance(record["payload"], dict) else {}
    kind = payload.get("type")
    if kind == "message":
        role = {"user": "person", "assistant": "agent"}.get(str(payload.get("role")), "other")
        transcript.add(number, role, _collect_text(payload.get("content")))
    elif kind in ("user_message", "agent_message"):
        transcript.add(number, "person" if kind == "user_message" else "agent", _collect_text(payload.get("message")))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        arguments = payload.get("arguments") or payload.get("input") or payload.get("action") or ""
        try:
            arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            pass
        transcript.add(
            number, "call", _collect_text(arguments) or "-", str(payload.get("name", "")), str(payload.get("call_id"))
        )
    elif kind in ("function_call_output", "custom_tool_call_output"):
        text = _collect_text(payload.get("output"))
        exit_code = _EXIT_CODE.search(text[:600])
        transcript.add(
            number,
            "result",
            text or "-",
            "",
            str(payload.get("call_id")),
            bool(exit_code and exit_code[1] != "0"),
        )


def _collect_text(value: object) -> str:
    if isinstance(value, str):
        if value[:1] in "{[" and len(value) < 2_000_000:
            try:
                parsed = json.loads(value)
            except ValueError:
                return value
            return f"{value}\n{_collect_text(parsed)}" if isinstance(parsed, dict | list) else value
        return value
    if isinstance(value, dict):
        return "\n".join(filter(None, map(_collect_text, value.values())))
    if isinstance(value, list):
        return "\n".join(filter(None, map(_collect_text, value)))
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


class Checker:
    """Checks lines against one transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._results: dict[str, list[Entry]] = {}
        for entry in transcript.select("result"):
            self._results.setdefault(entry.call, []).append(entry)
        self._calls = transcript.select("call")
        self._said = {role: transcript.select(role) for role in ("person", "agent")}
        self._all_text = "".join(entry.words for entry in transcript.entries)
        self._all_words = frozenset(word for entry in transcript.entries for word in entry.words.split())

    def find_fault(self, text: str, kind: str = "", cited_lines: Iterable[int] = ()) -> str:
        """Return why a line is not supported, or nothing if it is; `kind` is asked, done, next or another part."""
        cited = frozenset(cited_lines)
        speakers = {"asked": ("person",), "done": ("agent",)}.get(kind, ("agent", "person"))
        for sentence in () if _CLAIM.match(text) else _strip_leads(text):
            for role in speakers:
                entry = self._find_sentence(sentence, self._said[role], cited)
                if entry:
                    return self._judge_sentence(sentence, entry, kind, text)
        return self._check_names(text, kind)

    def _find_sentence(self, sentence: str, entries: list[Entry], cited: frozenset[int]) -> Entry | None:
        pieces = [to_words(piece) for piece in re.split(r"…|\[redacted[^\]]*\]", sentence)]
        pieces = [piece for piece in pieces if piece.strip()]
        if not pieces or sum(len(piece.split()) for piece in pieces) < 2:
            return None
        matching = [entry for entry in entries if all(piece in entry.words for piece in pieces)]
        return next((entry for entry in matching if entry.line in cited), next(iter(matching), None))

    def _judge_sentence(self, sentence: str, entry: Entry, kind: str, line: str) -> str:
        if kind == "asked" and _is_fragment(sentence, entry.text):
            return "a fragment of what was asked"
        if kind == "done" and (_NOT_DONE.search(sentence) or not _OWN_WORK.search(sentence)):
            return "no statement of finished work"
        if kind == "done" and _is_proposal(sentence, entry.text):
            return "a proposed text, not work that was done"
        return ""

    def _check_names(self, text: str, kind: str) -> str:
        faults = [*self._check_parts(text), *self._check_claims(text)]
        if faults:
            return faults[0]
        rest = text
        for pattern in (_URL, _CODE, _QUOTATION, _PATH, _HASH, _NUMBER):
            rest = pattern.sub(" ; ", rest)
        unknown = [word for word in to_words(rest).split() if word not in _FRAME_WORDS and len(word) > 1]
        missing = [word for word in unknown if word not in self._all_words]
        if missing:
            return f"not in the transcript: {' '.join(missing[:5])}"
        for piece in re.split(r"[;:()`“”…,/\"'|=<>]|\.\s", rest):
            if not self._stands_together(to_words(piece).split()):
                return f"nobody said so: {piece.strip()[:60]}"
        has_name = any(pattern.search(text) for pattern in (_URL, _CODE, _QUOTATION, _PATH, _HASH))
        return "" if has_name or unknown else "it rests on nothing"

    def _stands_together(self, words: list[str]) -> bool:
        """Whether most neighbours in a piece of free text are neighbours in the transcript too."""
        if sum(word not in _FRAME_WORDS for word in words) < 4:
            return True
        triples = [f" {' '.join(words[start : start + 3])} " for start in range(len(words) - 2)]
        return sum(triple in self._all_text for triple in triples) >= 0.6 * len(triples)

    def _check_parts(self, text: str) -> Iterator[str]:
        for url in _URL.findall(text):
            if not any(url.rstrip(".,…:") in entry.text for entry in self._transcript.entries):
                yield f"no such address: {url}"
        for quotation in _QUOTATION.findall(text):
            pieces = [to_words(piece) for piece in quotation.split("…") if piece.strip()]
            entries = self._transcript.entries
            if not any(all(piece in entry.words for piece in pieces) for entry in entries):
                yield f"not said: {quotation[:60]}"
        for code in _CODE.findall(text):
            if not self._find_calls(code) and not self._stands_anywhere(code):
                yield f"no such command or code: {code[:60]}"

    def _stands_anywhere(self, code: str) -> bool:
        pieces = [to_words(piece) for piece in re.split("[…~]", code) if piece.strip()]
        return any(all(piece in entry.words for piece in pieces) for entry in self._transcript.entries)

    def _find_calls(self, code: str) -> list[Entry]:
        """The calls of this command, else those that begin with it or have all of its parts."""
        plain = " ".join(code.split())
        end = r"\s*(?:$|[;&|>\n)\"']|\d>)"
        exact = [call for call in self._calls if re.search(_COMMAND_START + re.escape(plain) + end, call.text)]
        if exact:
            return exact
        pieces = [to_words(piece) for part in code.split(" && ") for piece in re.split("[…~\"']", part)]
        pieces = [piece for piece in pieces if piece.strip()]
        return [call for call in self._calls if all(piece in call.words for piece in pieces)] if pieces else []

    def _check_claims(self, text: str) -> Iterator[str]:
        plain = _QUOTATION.sub(" ", text)
        prose = _CODE.sub(" ", plain)
        if re.search(r"\b(?:[Cc]ommitted|[Cc]ommit)\b", prose):
            for commit in _HASH.findall(prose):
                if not self._is_committed(commit, text):
                    yield f"no such commit: {commit}"
        if re.search(r"\b(?:[Cc]hanged|[Ee]dited|[Ee]diting|[Ww]rote)\b", plain):
            claim = re.split(
                r"\b(?:[Cc]hanged|[Ee]dited|[Ee]diting|[Ww]rote)\b", _CODE.sub(" ", _URL.sub(" ", plain)), maxsplit=1
            )[1]
            for path in _PATH.findall(claim.partition(": ")[0] if "(" in claim else claim):
                if "." in path and not self._is_changed(path):
                    yield f"not changed: {path}"
        yield from self._check_outcomes(plain)

    def _is_committed(self, commit: str, text: str) -> bool:
        for results in self._results.values():
            for result in results:
                reported = [
                    commit_id for commit_id in _COMMIT_REPORT.findall(result.text) if commit_id.startswith(commit[:7])
                ]
                if reported:
                    return all(
                        to_words(piece) in result.words
                        for quotation in _QUOTATION.findall(text)
                        for piece in quotation.split("…")
                        if piece.strip()
                    )
        return False

    def _is_changed(self, path: str) -> bool:
        name = path.strip("…/").rstrip(".,").split("/")[-1]
        for call in self._calls:
            is_edit = call.tool in _EDIT_TOOLS or re.search(r"sed -i|perl|>|tee|patch|cat <<|write", call.text)
            results = self._results.get(call.call)
            if name in call.text and is_edit and not (results and all(result.is_failed for result in results)):
                return True
        every_result = (result for results in self._results.values() for result in results)
        return any(name in result.text and "following files" in result.text for result in every_result)

    def _check_outcomes(self, plain: str) -> Iterator[str]:
        for match in _CODE.finditer(plain):
            text_after = plain[match.end() : match.end() + 30]
            text_before = plain[: match.start()]
            results = [results[-1] for call in self._find_calls(match[1]) if (results := self._results.get(call.call))]
            is_lasting = "Passing at the end" in text_before or text_after.startswith(" passes")
            calls = self._find_calls(match[1]) if is_lasting else []
            if calls and (edited := self._find_later_edit(calls[-1])):
                yield f"{edited} was edited after it passed: {match[1][:50]}"
            if not results or any(_RUNNING in result.text for result in results):
                continue  # how it ended stands in a later call that looks at it
            name = match[1][:50]
            if re.match(r" (?:still fails|fails)\b", text_after) and not _has_trouble(results[-1]):
                yield f"it did not fail last: {name}"
            elif re.match(r" failed\b", text_after) and not any(map(_has_trouble, results)):
                yield f"it never failed: {name}"
            elif re.match(r" (?:passes|passed|worked)\b", text_after) and all(map(_has_failed, results)):
                yield f"it never passed: {name}"
            elif "Passing at the end" in text_before and "…" not in match[1] and _has_failed(results[-1]):
                yield f"it failed last: {name}"

    def _find_later_edit(self, call: Entry) -> str:
        """Return the first file of code that was edited after a call; empty if there is none."""
        for later in self._calls:
            if later.line <= call.line:
                continue
            path = (_EDITED_FILE if later.tool in _EDIT_TOOLS else _WRITTEN_FILE).search(later.text)
            results = self._results.get(later.call, [])
            if path and path[1] not in _PROSE_SUFFIXES and not any(result.is_failed for result in results):
                return path[0]
        return ""


def _has_failed(result: Entry) -> bool:
    exit_code = _EXIT_CODE.search(result.text[:600])
    counts = _FAILED_COUNT.findall(result.text)
    has_failed_count = bool(counts) and counts[-1] != "0"  # earlier ones may be what a test prints
    has_exit_code = bool(exit_code and exit_code[1] != "0")
    return result.is_failed or has_exit_code or has_failed_count or bool(_FAILED_OUTPUT.search(result.text[-4_000:]))


def _has_trouble(result: Entry) -> bool:
    return _has_failed(result) or bool(_TROUBLE.search(result.text))


def _strip_leads(text: str) -> Iterator[str]:
    """The text, then without each short lead such as `Asked:`; a text in quotation marks also without them."""
    for _ in range(4):
        yield text
        quoted = re.fullmatch(r"[^“”]{0,60}“([^“”]+)”[^“”]{0,60}", text)
        if quoted:
            yield quoted[1]
        lead, colon, rest = text.partition(": ")
        if not colon or len(lead.split()) > 8:
            return
        text = rest


def _is_fragment(sentence: str, source: str) -> bool:
    """Whether a short piece ends where the sentence goes on."""
    words = re.findall(r"[^\W_]+", sentence)
    if sentence.rstrip(" \\").endswith(("…", ".", "!", "?", ":", ")", "”", '"', "`")) or len(words) > 8:
        return False
    match = re.search(r"[\W_]+".join(map(re.escape, words)), source, re.I)
    return bool(match and re.match(r"[\W_]*[a-z`]", source[match.end() :]))


def _is_proposal(sentence: str, source: str) -> bool:
    """Whether a sentence is text that was written for somebody to use: in a quotation, a block, or one of options."""
    words = re.findall(r"[^\W_]+", sentence)[:8]
    match = re.search(r"[\W_]+".join(map(re.escape, words)), source, re.I)
    if not match:
        return False
    line_start = source.rfind("\n", 0, match.start()) + 1
    text_before = source[line_start : match.start()].strip()
    return (
        text_before.startswith(">")
        or text_before.endswith(('"', "“"))
        or source.count("```", 0, match.start()) % 2 == 1
    )
