"""Find the steps that a message says remain: below a heading, after a label, or in a sentence."""

from __future__ import annotations

import re

from hardwon.text.excerpts import list_prose_lines, shorten_line, split_sentences, to_plain_line
from hardwon.types import frozen

MAX_STEP_CHARS = 300
_MAX_MESSAGE_CHARS = 12_000
_MAX_LISTED = 5
_MIN_WORDS = 2
_MIN_OWN_WORDS = 6  # "Push whenever ready." does not say what to push; the sentence before it does

_LABELS = (
    r"(?:(?:suggested|recommended|possible|immediate|your|the|my|concrete) )?next (?:steps?|actions?|up|tasks?)"
    r"|next|remaining(?: (?:work|steps?|items?|tasks?|issues?|todos?|pieces?|gaps?))?|what(?:'s| is| remains)"
    r"(?: still)? (?:left|next|missing|open|to do)|still (?:open|to do|missing|pending|left)|to-?dos?"
    r"|follow[- ]?ups?|loose ends?|open (?:items?|questions?|ends?|points?|decisions?|issues?|tasks?)"
    r"|outstanding(?: \w+)?|left to do|pending|unfinished|not (?:yet )?(?:done|covered|included|addressed)"
    r"|(?:the )?required (?:work|steps?|changes?)(?: is| are)?|before (?:merging|release|you merge)|deferred|left out"
    r"|out of scope|to finish|action items?|recommendations?"
)
_LABEL_LINE = re.compile(
    rf"^\W*(?:{_LABELS})\b(?P<rest>(?!\.)(?:[^.:!?\n]|\.(?=\w)){{0,40}})(?P<end>:|$)\W*(?P<step>.*)$", re.I
)
# "Remaining files are pre-existing" and "the next commit" only look like labels: without a colon nothing may follow.
_BARE_LABEL_REST = re.compile(r"\W*(?:\([^)]*\)\W*|(?:for|in|on|from|per|before|after|to|you|we|if)\b.*)?", re.I)
_DESCRIBES = re.compile(
    r"^\W*(?:pending|deferred|left out|unfinished|outstanding)\b", re.I
)  # "Pending state is kept in:"
_RETRY_LINE = re.compile(
    r"^\W*(?:please )?(?:now )?(?:try|run) (?:it |this |that )?again(?: \w+){0,3}:(?P<step>)", re.I
)
_COMMAND_LINE = re.compile(r"^\s*[\w./~$][^\n]*$")
_SECTION_START = re.compile(r"^\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*$|[-=*_]{3,}\s*$)")
# Below these headings "uncommitted" and "remaining" describe what there is.
_REPORT_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s+|\*\*)(?:overview|summary|context|background|what (?:changed|i did|was done)"
    r"|changes(?: made)?)\b",
    re.I,
)
_LIST_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+(?:\[ \]\s+)?")
_DONE_ITEM = re.compile(r"^\s*(?:[-*+•]\s+)?\[[xX]\]|✅|☑|✔|~~", re.I)

_ACTS = (
    "push|merge|deploy|publish|post|run|re-?run|commit|review|restart|reload|retry|test|verify|check|open|create"
    "|release|ship|submit|tag|activate|install|rotate|set|add|update|remove|delete|configure|enable|implement|fix"
    "|migrate|write|plan|start|rebase|squash|send|approve|decide|confirm|try|build|regenerate|replace"
)
# Sentences that tell somebody what to do.
_INSTRUCTIONS = (
    r"^(?:please )?(?:try|run|test|start|launch) (?:it |this |that )?again\b",  # Try again: ./run.sh
    # Push whenever you're ready.
    rf"\b(?:{_ACTS})\b[^.?!]{{0,60}}\b(?:whenever|when)(?: you(?:'re| are)?)? ?(?:ready|want|like|have time)\b",
    rf"\bready (?:to|for you to|for) (?:be )?(?:{_ACTS})\w*",  # The document is ready to post.
    r"\bready when you are\b",
    rf"\byou(?:'ll| will)? (?:(?:still|now|just|also|then|probably) )?(?:need|have) to (?:\w+ )?(?:{_ACTS})\b",
    rf"\byou (?:should|must) (?:now |then |also |still )?(?:{_ACTS})\b",
    rf"\bwill need to (?:be )?(?:\w+ )?(?:{_ACTS})",  # The fix will need to update the fixtures.
    rf"\bI(?:'d| would) (?:next |then |also |first )?(?:suggest|recommend|tackle|{_ACTS})\b",
    r"\bI(?:'d| would) [^.?!]{3,80} next\b",
    # After merging #12, push a new tag.
    rf"\b(?:after|once|when) [^.?!]{{4,90}}, (?:then )?(?:you can |please )?(?:{_ACTS})\b",
    rf"\bif (?:this|that|it) (?:still )?(?:fails|doesn't work)(?: again)?, (?:(?:we|you) (?:can|could|should) )?"
    rf"(?:{_ACTS})\b",
    r"\bworth (?:running|doing|checking|adding|testing|verifying|fixing|considering|a (?:follow|separate))\b",
    r"\b(?:good|natural|obvious|logical|sensible|real|only) (?:next|follow[- ]?up)s?(?: steps?)?\b",
)
# Sentences that say what is missing.
_GAPS = (
    r"\b(?:still|yet) (?:needs?|to be \w+ed|has to|have to|must|lacks?|fails?|failing|missing|pending|unpushed"
    r"|uncommitted|open|not (?:pushed|committed|merged|done))\b",
    r"\b(?:remains? (?:to (?:be )?|open|undone|unresolved)|remaining (?:work|step|item|task|piece|issue|gap)s?\b)",
    r"(?<!was )(?<!were )(?<!\()\b(?:not|nothing(?: is| has been| was)?)(?: yet| been)* (?:pushed|committed|merged"
    r"|deployed|published|posted|released|implemented|wired up|on `?(?:main|master)`?)\b",
    r"(?<!was )(?<!were )\bnot yet \w+",
    r"(?<!the )\b(?:unpushed|uncommitted)\b(?! (?:and|changes? (?:were|was)))",
    rf"\byou (?:can|could|may|might)(?: want to)? (?:now |then |also )?(?:{_ACTS})\b",
    rf"\b(?:would|still) need (?:to (?:be )?(?:\w+ )?(?:{_ACTS})|an?\b)",
    r"\b(?:I|we) (?:recommend|suggest|propose) (?!(?:that|this|it)\b)",
    r"\bwaiting (?:on|for)\b",
    r"\bopen (?:decision|question|item|point)s?\b",
    r"\b(?:I|we)(?:'ve| have)? (?:intentionally |deliberately )?(?:skipped|deferred|left out|postponed"
    r"|(?:did(?:n't| not)|have(?:n't| not)|could(?:n't| not)) (?:yet )?(?:implement|add|run|test|fix|verify|push|commit"
    r"|migrate|reproduce)\w*)\b",
    r"\b(?:is|are|was|were) (?:still )?(?:not (?:yet )?(?:implemented|covered|tested|verified|wired|addressed|fixed"
    r"|supported)|out of scope|left for later|unimplemented|untested|unverified)\b",
    r"\b(?:for|in|as) a (?:follow[- ]?up|later|separate|future)(?: (?:pr|commit|change|session|pass|issue|task|step))?",
)
_INSTRUCTS = re.compile("|".join(_INSTRUCTIONS), re.I)
_HAS_GAP = re.compile("|".join(_GAPS), re.I)
# Describes a state with work left but does not say what, so these come last.
_IS_STATE = re.compile(r"\b(?:not|nothing|unpushed|uncommitted|waiting)\b", re.I)
_OFFERS = re.compile(
    r"\b(?:want me to|would you like (?:me )?to|shall I|should I|do you want (?:me )?to"
    r"|if you(?:'d| would)? (?:want|like|prefer),? I(?:'ll| can| could| will)|I (?:can|could) (?:also )?[^.?!]{3,100}"
    r"if you(?:'d| would)? (?:want|like))\b(?P<work>.*)",
    re.I,
)
# An offer to talk, or to continue with nothing named, leaves no work.
_EMPTY_OFFER = re.compile(
    r"^\W*(?:also |then |just )?(?:watch|monitor|explain|show|sketch|summari[sz]e|walk|elaborate|help|proceed|continue"
    r"|go (?:ahead|on|deeper)|keep (?:going|an eye)|wait|clarify|describe|dig|look at (?:anything|something)"
    r"|do (?:that|it|this|next|now|instead)|work on(?: next)?\W*$|anything|make any)\b",
    re.I,
)
_NO_WORK = re.compile(
    r"\b(?:pre-?existing|unrelated|already (?:\w+ )?(?:in|done|fixed|handled|covered|pushed|committed|merged)|but now"
    r"|no longer needed|nothing (?:else )?(?:is )?(?:left|remains|to do|further)|no (?:remaining|further|open|next)"
    r"|as expected|no action|not needed|not required|none)\b|→",
    re.I,
)
# Conditions for some readers only, and what the agent is about to do itself.
_NOT_FOR_LATER = re.compile(
    r"^scope:|^(?:if|when|unless|whenever) (?:you|the user|someone|a |an |the |there|no )|^here(?:'s| is| are)\b"
    r"|^(?:now )?(?:let me|I'll|I will)\b",
    re.I,
)
# Names neither the work nor what to do with it: "Ready to commit."
_NAMES_NO_WORK = re.compile(
    r"\W*(?:(?:it|this|that|all|everything)(?:'s| is| are)? )?(?:now )?ready (?:to|for) (?:be )?"
    r"(?:commit|push|merge|review|ship)\w*\W*",
    re.I,
)
# Tells what a text says: "The PR body flags it as a follow-up."
_REPORTS_TEXT = re.compile(
    r"\b(?:PR|commit|body|message|description|changelog|readme|doc\w*) (?:also |now )?(?:flags|notes|mentions|lists)\b",
    re.I,
)


@frozen
class NextStep:
    """A step to do; an offer is a question of the agent whether to do it."""

    text: str
    is_offer: bool = False
    is_firm: bool = False  # below a label such as "Next:", or an instruction
    is_state: bool = False  # describes the state of the work, such as "not pushed"


def find_next_steps(message: str) -> list[NextStep]:
    """Return the remaining steps that a message names, labelled ones first."""
    message = message[-_MAX_MESSAGE_CHARS:].replace("’", "'")
    labelled = _find_labelled_steps(message)
    paragraphs = [split_sentences(line) for line in list_prose_lines(message)]
    mentioned = [
        step
        for sentences in paragraphs
        for index in range(len(sentences))
        if (step := _read_sentence(sentences, index))
    ]
    steps = [*labelled]
    report = _find_report_text(message)
    for step in mentioned:
        if not step.is_firm and not step.is_offer and step.text in report:
            continue
        if not any(step.text in other.text or other.text in step.text for other in labelled):
            steps.append(step)
    ordered = sorted(steps, key=lambda step: (step.is_state, step.is_offer))
    return list({step.text: step for step in ordered}.values())


def _find_report_text(message: str) -> str:
    """Return the plain text below the headings that report what was done."""
    report_lines, is_report = list[str](), False
    for line in message.splitlines():
        if _SECTION_START.match(line):
            is_report = bool(_REPORT_HEADING.match(line))
        elif is_report:
            report_lines.append(line)
    return "\n".join(list_prose_lines("\n".join(report_lines)))


def _find_labelled_steps(message: str) -> list[NextStep]:
    steps, lines = list[NextStep](), message.splitlines()
    for index, raw_line in enumerate(lines):
        line = " ".join(list_prose_lines(raw_line))
        for sentence in split_sentences(line)[1:]:  # It works. Next: the tail.
            inline = _LABEL_LINE.match(sentence)
            if inline and inline["end"] and inline["step"]:
                steps.append(NextStep(inline["step"], is_firm=True))
        if retry := _RETRY_LINE.match(line):
            command = next(
                (following.strip() for following in lines[index + 1 :] if _COMMAND_LINE.match(following)), ""
            )
            steps.append(NextStep(f"{retry[0].strip()} {retry['step'] or command}".strip(), is_firm=True))
            continue
        label = _LABEL_LINE.match(line)
        if not label or (not label["end"] and not _BARE_LABEL_REST.fullmatch(label["rest"])):
            continue
        if label["rest"].strip(" *") and _DESCRIBES.match(line):
            continue
        if label["step"]:
            steps.append(NextStep(label["step"], is_firm=True))
        elif label["end"] or _SECTION_START.match(raw_line):
            steps += _read_listed_steps(lines[index + 1 :])
    return [step for step in steps if _is_work(step.text)]


def _read_listed_steps(lines: list[str]) -> list[NextStep]:
    """Return the items below a label: a list, a command in a code fence, or the next sentence."""
    steps, is_list = list[NextStep](), False
    for line in lines:
        text = line.strip()
        if _SECTION_START.match(line) or len(steps) == _MAX_LISTED:
            break
        if not text or text.startswith(("```", "|")):
            if steps and not is_list:
                break
            continue
        is_item = bool(_LIST_ITEM.match(line))
        if steps and is_list and not is_item:
            if line[:1].isspace():
                continue  # continues the item above
            break
        is_list = is_list or is_item
        if not _DONE_ITEM.search(line):
            plain = " ".join(list_prose_lines(text)) or to_plain_line(text)
            steps.append(NextStep(shorten_line(plain, MAX_STEP_CHARS), is_firm=True))
    return steps


def _read_sentence(sentences: list[str], index: int) -> NextStep | None:
    sentence = sentences[index]
    if _DONE_ITEM.search(sentence) or sentence.endswith(":"):
        return None
    offer = _OFFERS.search(sentence)
    if offer:
        is_work = not _EMPTY_OFFER.match(offer["work"]) and len(offer["work"].split()) >= _MIN_WORDS
        return NextStep(_join_previous(sentences, index), is_offer=True) if is_work else None
    is_instruction = bool(_INSTRUCTS.search(sentence))
    is_gap = bool(_HAS_GAP.search(sentence)) and not _REPORTS_TEXT.search(sentence)
    is_step = is_instruction or is_gap
    if sentence.endswith("?") or not is_step or _NOT_FOR_LATER.match(sentence) or not _is_work(sentence):
        return None
    is_state = not is_instruction and bool(_IS_STATE.search(sentence))
    text = _join_previous(sentences, index)
    return None if _NAMES_NO_WORK.fullmatch(text) else NextStep(text, is_firm=is_instruction, is_state=is_state)


def _join_previous(sentences: list[str], index: int) -> str:
    """Return a sentence, with up to two before it in the paragraph if it is too short to stand alone."""
    start = index
    while start and index - start < 2 and len(sentences[index].split()) < _MIN_OWN_WORDS:
        if len(" ".join(sentences[start - 1 : index + 1])) > MAX_STEP_CHARS:
            break
        start -= 1
    return shorten_line(" ".join(sentences[start : index + 1]), MAX_STEP_CHARS)


def _is_work(text: str) -> bool:
    return len(text.split()) >= _MIN_WORDS and "?" not in text and not _NO_WORK.search(text)
