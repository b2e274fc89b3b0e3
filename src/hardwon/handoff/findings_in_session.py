"""What a session holds and nobody wrote down: what was tried and taken back, accepted, assumed, mentioned, left out.

Each looks for words that people and agents really use for it and gives the sentence itself, so that whoever reads it
can judge; where the words are common, something that was done has to bear them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from hardwon.agents.transcript_steps import Step
from hardwon.distil.phrasing import pick_first_sentence
from hardwon.handoff.transcript_story import (
    Exchange,
    Story,
    get_final_message,
    get_spoken_sentences,
    has_match,
    pair_calls,
    quote_step,
    split_exchanges,
)
from hardwon.shell.failures import list_simple_commands
from hardwon.store.reflection_types import Finding, ReflectionContext
from hardwon.text.excerpts import is_informative, shorten_line, split_sentences
from hardwon.types import EDIT_TOOLS

MAX_PER_ITEM = 2  # findings of an item in one session
_MAX_CHARS = 240
_MIN_SENTENCE_WORDS = 7
_MAX_LISTED = 4
_POINTS_BACK = re.compile(r"(?:this|it|that|these|those|they|which)\b", re.I)
_SCRATCH = re.compile(r"(?:^|[/_.-])(?:tmp|temp|scratch|repro|probe|debug|demo|playground|zz)(?:[/_.-]|$)", re.I)
_TAKES_BACK = re.compile(
    r"\b(?:revert(?:ed|ing)?|redundant|undo(?:ing)?|mistake|roll(?:ed|ing)? (?:it )?back|discard(?:ing)?|wrong"
    r"|(?:did|does|do)(?:n't| not) work|not needed|no longer need\w*|unnecessary|instead|from scratch|already built"
    r"|start(?:ing)? over|abandon\w*|dead end|back out|swapping|switch(?:ing)? back)\b",
    re.I,
)
_DISCARD_ALL_COMMANDS = (("git", "reset", "--hard"), ("git", "branch", "-D"), ("git", "revert"), ("gh", "pr", "close"))
_DISCARD_FILE_COMMANDS = (("rm",), ("git", "restore"), ("git", "checkout"), ("git", "stash"), ("git", "rm"))
_ASKS_BACK = re.compile(
    r"\b(?:revert (?:your|that|this|it|the|those|these|all|my|to)|undo (?:your|that|this|it|the|those|these|all)"
    r"|(?:put|change|switch|roll|bring) (?:it|that|this|them|everything) back|go back to (?:the|how|what)"
    r"|start (?:over|again|from scratch)|(?:do|try) (?:that|this|it) from scratch|throw (?:that|this|it) away)\b",
    re.I,
)
_ACCEPTS = re.compile(
    r"\W*(?:ok(?:ay)?|yes|yeah|yep|yup|sure|fine|good|great|perfect|cool|agreed?|alright|lgtm|go (?:ahead|for it)"
    r"|do (?:it|that|so)|let'?s (?:do (?:it|that|this)|go)|proceed|sounds good|makes sense|works for me"
    r"|(?:that'?s|it'?s|this is) (?:fine|good|ok(?:ay)?)|apply (?:it|that)|implement (?:it|that))\b[^?]*",
    re.I,
)
_OBJECTS = re.compile(
    r"\b(?:but|instead|however|not|don'?t|rather|option|only|except|no|maybe|first|commit|push|prs?|merge"
    r"|delete|next)\b|\d",
    re.I,
)
_CHOOSES = re.compile(
    r"\b(?:I(?:'d| would)? (?:recommend|suggest|propose|lean|go with|prefer)|my (?:recommendation|suggestion"
    r"|pick|vote)"
    r"|I(?:'ll| will) (?:go with|default to|keep|leave|use)|by default,? I|the default (?:is|would be)|recommended"
    r"|(?:best|cleanest|simplest|safest|right|preferred) (?:option|approach|choice|fix|path|way) (?:is|would be"
    r"|here))\b",
    re.I,
)
_WEIGHS = re.compile(
    r"\b(?:instead of|rather than|compromise|trade-?off|(?:clean|simpl|saf)(?:er|est)"
    r"|the (?:approach|plan) (?:is|would be)|would be (?:better|enough)|worth doing|no need (?:to|for)"
    r"|skip(?:ping)? (?:the|an?))\b",
    re.I,
)
_ASSUMES = re.compile(
    r"\b(?:(?:I(?:'m|'ll| am| will)?|we(?:'re|'ll| are)?) (?:also )?(?:assum(?:ed?|ing)|presum(?:ed?|ing)|treating)"
    r"|(?:my|our|one|the|key|main) assumptions?(?: here)? (?:is|are|was|that)|under the assumption|on the assumption"
    r"|(?:this|that|it|which|the \w+(?: \w+)?) (?:all |still |only )?(?:assumes|presumes)"
    r"|(?:and|but|,|^) ?assuming (?:that )?(?:the|we|you|it|they|no|your|our|all|every))\b",
    re.I,
)
_LISTS_ASSUMED = re.compile(r"\W*(?:key |my |main |working )?assumptions\b\W*", re.I)
_DOUBTED = re.compile(
    r"\b(?:wrong(?:ly)?|incorrect\w*|instead of assuming|not assume|refused|invariant|doesn't hold)\b", re.I
)
_PARTIES = (
    r"(?:the |our |a |an |my |their |one of (?:the|our) )?(?:\w+ )?(?:customers?|clients?|boss|manager|ceo|cto"
    r"|colleagues?|coworkers?|co-workers?|stakeholders?|investors?|vendors?|maintainers?|legal|marketing|sales"
    r"|designers?|partners?|contractors?|auditors?|regulators?|support(?: team)?|team(?: lead)?|dev(?:eloper)?s?)"
)
_HAPPENED = (
    r"(?:just |now |already |also )?(?:said|says|reported|complained|escalated|asked(?: us| me)?|wants?|requested"
    r"|pushed back|decided|agreed|approved|rejected|signed off|told (?:me|us)|confirmed|flew in|left|joined"
    r"|quit|resigned|is (?:asking|waiting|leaving|away|out|on (?:leave|vacation|holiday))|are (?:asking|waiting"
    r"|complaining)"
    r"|noticed|mentioned|promised|cancell?ed|merged|released|announced|deprecated)"
)
_DAYS = (
    r"(?:(?:on|by|until|before|after|next|this|since) (?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight"
    r"|yesterday|next (?:week|month|quarter|sprint)|end of (?:the )?(?:week|month|day|quarter|sprint|year)"
    r"|(?:on|by|until|before) (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w* \d{1,2})"
)
_EVENTS = re.compile(
    rf"\b{_PARTIES} {_HAPPENED}\b|\b(?:a|the|our|some) users? (?:report|complain|ask)ed\b"
    rf"|\b(?-i:[A-Z][a-z]{{2,}}) (?:just )?(?:flew in|pushed back|escalated|quit|resigned|signed off|left the"
    rf"|joined the"
    rf"|is (?:away|on leave|on vacation|on holiday|out (?:until|this|next)))\b"
    rf"|\b(?:we|they) got a (?:question|report|complaint|request|ticket|bug report)\b"
    rf"|\bwe had an? (?:internal )?(?:discussion|meeting|call|incident|outage)\b"
    rf"|\b(?:freez\w+|launch\w*|releas\w+|ship\w*|migrat\w+|deadline|demo|go(?:ing)? live|meeting|due|rollout"
    rf"|switch\w*|present\w*|announc\w+)\b[^.?!]{{0,60}}\b{_DAYS}\b"
    rf"|\bwe (?:also )?(?:re)?named (?:the )?\w+|\b(?:repo|project|company|package|service|product)\b[^.?!]{{0,20}}"
    rf"\b(?:has been|was|is now|got) (?:renamed|moved|acquired|sold|deprecated|archived|made public)\b"
    rf"|\b(?:prod(?:uction)?|the site|the server|the api)\b[^.?!]{{0,15}} (?:is|went|was) down\b",
    re.I,
)
_ASKS = re.compile(
    r"^(?:please|(?:can|could|would|will) (?:you|we)|let'?s|how|what|why|is|are|do|does)\b|\bcan you\b|\?", re.I
)
_RENAMES = (
    re.compile(
        r"\brenam(?:e|ed|ing) (?:the |this |it "
        r"|that )?(?:\w+ ){0,3}?(?:from )?[\"'`“‘]?(?P<old>[\w./-]{3,40})[\"'`”’]?"
        r"(?: \w+){0,2} (?:to|into) [\"'`“‘]?(?P<new>[\w./-]{3,40})[\"'`”’]?",
        re.I,
    ),
    re.compile(
        r"\b(?:it'?s|this is|that'?s|they'?re|should be|is) (?:now )?(?:called|named) "
        r"[\"'`“‘]?(?P<new>[\w./-]{3,40})[\"'`”’]?,? (?:and )?(?:not|instead of|rather than"
        r"|no longer) [\"'`“‘]?(?P<old>[\w./-]{3,40})",
        re.I,
    ),
)
_OMITS = re.compile(
    r"\b(?:(?:I|we)(?:'ve| have)? (?:intentionally |deliberately )?(?:skipped|deferred|left out|postponed"
    r"|(?:did(?:n't| not)|have(?:n't| not)|could(?:n't| not)|(?:was|were)(?:n't| not) able to)"
    r" (?:yet )?(?:implement|add|touch|run|test|fix|verify|include|push|commit|migrate|update|reproduce)\w*)"
    r"|(?:is|are|was|were|remains?) (?:still )?(?:not (?:yet )?(?:implemented|done|covered|tested|verified|wired"
    r"|addressed|included|fixed|supported)|out of scope|still open|left for later|unimplemented|untested|unverified)"
    r"|(?:intentionally )?out of scope\b(?=:| for| v1)|good follow-?ups?"
    r"|(?:for|in|as) a (?:follow[- ]?up|later|separate|future)(?: (?:pr|commit|change|session|pass|issue|task"
    r"|step))?)\b",
    re.I,
)
_LISTS_OMITTED = re.compile(
    r"\W*(?:not (?:done|included|covered|addressed)|skipped|deferred|out of scope|left out|still open"
    r"|remaining(?: work)?|known limitations)\b[^.?!]{0,40}",
    re.I,
)
_CONDITIONAL = re.compile(r"^(?:if|when|unless|once)\b|\?$|\bdiagnostics\b|\b(?:break|find|found)\b", re.I)
_POSTPONES = re.compile(
    r"\b(?:(?:let'?s )?(?:skip|leave|drop|defer|postpone) (?:that|this|it|the \w+)"
    r"|(?:do|fix|handle|address|tackle|add) (?:that|this|it|them) (?:later|another time|in (?:a|another"
    r"|the next) \w+)"
    r"|(?:not|nothing) (?:for )?now|(?:fine|ok) to do it later|for a (?:later|separate|follow[- ]?up) \w+"
    r"|out of scope"
    r"|we(?:'ll| will) (?:do|come back to|revisit|get to|handle) [^.?!]{1,40}(?:later|another|next))\b",
    re.I,
)
_PICKS_OPTION = re.compile(
    r"(?:ok(?:ay)?,? |yes,? )?(?:let'?s )?(?:do|go with|take) (?:option |number |#)?\w{1,2}\W*", re.I
)
_POSTPONE_WORDS = re.compile(r"\blater|now\b|another|next|scope|follow|separate|defer|postpone", re.I)


def detect_failed_experiments(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What was made and taken back: by a person's word, or by the agent where it says why."""
    findings, previous = list[Finding](), None
    for exchange in split_exchanges(story):
        requested = _find_requested_reverts(story, exchange, previous)
        findings += requested or list(_find_reverted_edits(story, exchange))[:1]
        previous = exchange
    return findings[:MAX_PER_ITEM]


def _find_requested_reverts(story: Story, exchange: Exchange, previous: Exchange | None) -> list[Finding]:
    sentence = next((line for line in get_spoken_sentences(exchange.prompt) if has_match(_ASKS_BACK, line)), "")
    if not (sentence and exchange.prompt and previous and any(map(_is_change, previous.steps))):
        return []
    outcome = pick_first_sentence(get_final_message(previous), 120)
    outcome = (
        outcome
        if is_informative(outcome)
        else pick_first_sentence(previous.prompt.text, 120)
        if previous.prompt
        else ""
    )
    text = f"Tried, then taken back at the person's word: “{shorten_line(exchange.prompt.text, _MAX_CHARS)}”" + (
        f" It was: {outcome}" if outcome else ""
    )
    return [Finding("failed experiments", text, 0.85, "learning", (quote_step(story, exchange.prompt, sentence),))]


def _is_change(step: Step) -> bool:
    return step.kind == "call" and (step.tool in EDIT_TOOLS or "git commit" in step.command)


def _find_reverted_edits(story: Story, exchange: Exchange) -> Iterator[Finding]:
    """Edits of the session thrown away, where the words before say that they were wrong or not needed."""
    edited_names = frozenset(
        _get_base_name(step.path) for step in story.steps if step.tool in EDIT_TOOLS and not _is_scratch(step, story)
    )
    call_pairs, source_step = pair_calls(story), exchange.prompt
    for step in exchange.steps:
        source_step = step if step.kind == "agent" else source_step
        undo_command = (
            _find_undo_command(step, edited_names) if step.kind == "call" and edited_names and source_step else ""
        )
        result = call_pairs[step.call or step.id][1] if undo_command else None
        if not undo_command or not source_step or (result and result.failed):
            continue
        sentences = (
            get_spoken_sentences(source_step) if source_step.kind == "person" else split_sentences(source_step.text)
        )
        index = next((number for number, line in enumerate(sentences) if has_match(_TAKES_BACK, line)), -1)
        if index >= 0:
            excerpt = " ".join(sentences[max(index - 1, 0) : index + 1])
            text = (
                f"Tried, then taken back (`{_shorten_command(undo_command, story)}`): "
                f"“{shorten_line(excerpt, _MAX_CHARS)}”"
            )
            evidence = (quote_step(story, source_step, sentences[index]), quote_step(story, step, undo_command))
            yield Finding("failed experiments", text, 0.7, "learning", evidence)


def _is_scratch(step: Step, story: Story) -> bool:
    """Whether a file is one to throw away, by its path inside the project: the project itself may be called demo."""
    path = step.path
    for folder in filter(None, (story.project, story.cwd)):
        if path.startswith(f"{folder}/"):
            path = path.removeprefix(f"{folder}/")
            break
    return bool(_SCRATCH.search(path))


def _get_base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _shorten_command(command: str, story: Story) -> str:
    for folder in filter(None, (story.project, story.cwd)):
        command = command.replace(f"{folder}/", "")
    return shorten_line(command, 80)


def _find_undo_command(step: Step, edited_names: frozenset[str]) -> str:
    """The part of a call that throws away what the session made; nothing if none does."""
    if step.tool == "TaskStop":
        return "TaskStop"
    for part in list_simple_commands(step.command):
        command_words = (part.program, *part.words[1:3])
        matched_names = edited_names.intersection(_get_base_name(word.strip("'\"")) for word in part.words)
        if any(
            command_words[: len(prefix)] == prefix
            for prefix in (*_DISCARD_ALL_COMMANDS, *(_DISCARD_FILE_COMMANDS if matched_names else ()))
        ):
            return part.full_text.partition("\n")[0]
    return ""


def detect_implicit_decisions(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A choice of the agent's that a person let pass with a word, and that was then built upon."""
    findings = list[Finding]()
    previous: Exchange | None = None
    for exchange in split_exchanges(story):
        agent_step = (
            _find_last_message(previous)
            if previous and exchange.prompt and _is_acceptance(exchange.prompt.text)
            else None
        )
        choice, excerpt = (
            _find_choice(agent_step.text) if agent_step and any(map(_is_change, exchange.steps)) else ("", "")
        )
        if agent_step and exchange.prompt and choice:
            text = (
                f"Accepted with “{shorten_line(exchange.prompt.text, 40)}” and recorded nowhere: "
                f"“{shorten_line(excerpt, _MAX_CHARS)}”"
            )
            evidence = (quote_step(story, agent_step, choice), quote_step(story, exchange.prompt, exchange.prompt.text))
            findings.append(Finding("implicit decisions", text, 0.65, "adr", evidence))
        previous = exchange
    return findings[-MAX_PER_ITEM:]


def _is_acceptance(text: str) -> bool:
    return len(text) < 60 and bool(_ACCEPTS.fullmatch(text.strip())) and not has_match(_OBJECTS, text)


def _find_choice(text: str) -> tuple[str, str]:
    """The sentence in which an agent chose and the same as it is told; what it recommends before what it weighs."""
    sentences = split_sentences(text)
    indexes = [index for index in reversed(range(len(sentences))) if is_informative(sentences[index])]
    for pattern in (_CHOOSES, _WEIGHS):
        for index in indexes:
            if has_match(pattern, sentences[index]):
                return sentences[index], _join_previous(sentences, index)
    return "", ""


def _join_previous(sentences: Sequence[str], index: int) -> str:
    """A sentence, after the one before if it says little by itself."""
    needs_previous = _POINTS_BACK.match(sentences[index]) or len(sentences[index].split()) < _MIN_SENTENCE_WORDS
    return " ".join(sentences[index - 1 if needs_previous and index else index : index + 1])


def _find_last_message(exchange: Exchange) -> Step | None:
    return next((step for step in reversed(exchange.steps) if step.kind == "agent"), None)


def detect_assumptions(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What somebody says is taken for granted, in a sentence or in a list under that heading."""
    findings = list[Finding]()
    for item in split_exchanges(story):
        score = 0.6 if any(map(_is_change, item.steps)) else 0.5
        for step in (*([item.prompt] if item.prompt else ()), *item.steps):
            for line in _find_assumptions(step):
                text = f"Rests on an assumption: “{shorten_line(line, _MAX_CHARS)}”"
                findings.append(Finding("assumptions", text, score, "adr", (quote_step(story, step, line),)))
    return list({item.text: item for item in findings}.values())[-MAX_PER_ITEM:]


def _find_assumptions(step: Step) -> list[str]:
    sentences = (
        get_spoken_sentences(step)
        if step.kind == "person"
        else split_sentences(step.text)
        if step.kind == "agent"
        else []
    )
    heading_index = next(
        (index for index, line in enumerate(sentences) if _LISTS_ASSUMED.fullmatch(line)), len(sentences)
    )
    listed = list(takewhile(is_informative, sentences[heading_index + 1 : heading_index + 1 + _MAX_LISTED]))
    stated = [
        line for line in sentences if has_match(_ASSUMES, line) and "?" not in line and not has_match(_DOUBTED, line)
    ]
    return [line for line in (*stated, *listed) if is_informative(line)]


def detect_external_events(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What a person mentions of the world outside the repository."""
    findings = list[Finding]()
    for exchange in split_exchanges(story):
        for line in get_spoken_sentences(exchange.prompt):
            if exchange.prompt and has_match(_EVENTS, line) and not line.endswith(":"):
                text = f"Mentioned in passing: “{shorten_line(line, _MAX_CHARS)}”"
                memory = "" if has_match(_ASKS, line) else "project"  # words for the work at hand are none to remember
                evidence = (quote_step(story, exchange.prompt, line),)
                findings.append(Finding("external events", text, 0.7, "memory", evidence, memory))
    return findings[:MAX_PER_ITEM]


def detect_naming_inconsistencies(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A thing that a person renamed and that is called by its old name afterwards."""
    findings = list[Finding]()
    for index, step in enumerate(story.steps):
        for line in get_spoken_sentences(step):
            for match in filter(None, (pattern.search(line) for pattern in _RENAMES)):
                old, new = match["old"].strip("./-"), match["new"].strip("./-")
                later = _find_last_use(story.steps[index + 1 :], old, new)
                if later and _is_name(old) and old.lower() != new.lower():
                    text = f"“{old}” became “{new}”, and is still called “{old}” later on: pick one"
                    evidence = (
                        quote_step(story, step, line),
                        quote_step(story, later, _find_line_with(later.text, old)),
                    )
                    findings.append(Finding("naming inconsistencies", text, 0.55, "convention", evidence))
    return findings[:MAX_PER_ITEM]


def _is_name(word: str) -> bool:
    """Not a plain word, as in "rename the button to"."""
    return not word.isalpha() or word.lower() != word


def _find_last_use(steps: Iterable[Step], old: str, new: str) -> Step | None:
    pattern = re.compile(rf"(?<![\w./-]){re.escape(old)}(?![\w/-])")
    matching_steps = [
        step for step in steps if step.kind == "person" and pattern.search(step.text) and new not in step.text
    ]
    return matching_steps[-1] if matching_steps else None


def _find_line_with(text: str, word: str) -> str:
    return next((line for line in text.splitlines() if word in line), "")


def detect_unfinished_work(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What a person put off, what the agent says it left out, and a last request without an answer."""
    exchanges, findings = split_exchanges(story), list[Finding]()
    for number, exchange in enumerate(exchanges, 1):
        sentences = get_spoken_sentences(exchange.prompt)
        is_done = any(
            _is_taken_up(next_exchange.prompt.text)
            for next_exchange in exchanges[number : number + 1]
            if next_exchange.prompt
        )
        for index, line in enumerate(sentences):
            if exchange.prompt and not is_done and has_match(_POSTPONES, line) and has_match(_POSTPONE_WORDS, line):
                text = f"Put off by the person: “{shorten_line(_join_previous(sentences, index), _MAX_CHARS)}”"
                findings.append(
                    Finding("not done", text, 0.7, "workstream", (quote_step(story, exchange.prompt, line),))
                )
    for exchange in exchanges[-MAX_PER_ITEM:]:
        agent_step = _find_last_message(exchange) if any(map(_is_change, exchange.steps)) else None
        for line in _find_omissions(agent_step.text) if agent_step else ():
            text = f"Left out, says the agent: “{shorten_line(line, _MAX_CHARS)}”"
            findings += (
                [Finding("not done", text, 0.65, "workstream", (quote_step(story, agent_step, line),))]
                if agent_step
                else []
            )
    last = exchanges[-1] if exchanges else None
    if last and last.prompt and not last.steps and len(exchanges) > 1 and len(last.prompt.text.split()) > 2:
        text = f"The last request was not answered: “{shorten_line(last.prompt.text, _MAX_CHARS)}”"
        findings.insert(
            0, Finding("not done", text, 0.8, "workstream", (quote_step(story, last.prompt, last.prompt.text),))
        )
    return findings[:MAX_PER_ITEM]


def _is_taken_up(text: str) -> bool:
    """Whether a person has done now what they had just put to the agent."""
    return bool(_PICKS_OPTION.fullmatch(text.strip())) or _is_acceptance(text)


def _find_omissions(text: str) -> list[str]:
    sentences = split_sentences(text)
    return [
        line
        for index, line in enumerate(sentences)
        if is_informative(line)
        and not has_match(_CONDITIONAL, line)
        and (has_match(_OMITS, line) or (index and _LISTS_OMITTED.fullmatch(sentences[index - 1])))
    ]
