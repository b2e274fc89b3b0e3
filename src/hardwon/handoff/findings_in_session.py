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
_LINE = 240
_LEAST_WORDS = 7
_MOST_LISTED = 4
_POINTS_BACK = re.compile(r"(?:this|it|that|these|those|they|which)\b", re.I)
_SCRATCH = re.compile(r"(?:^|[/_.-])(?:tmp|temp|scratch|repro|probe|debug|demo|playground|zz)(?:[/_.-]|$)", re.I)
_TAKES_BACK = re.compile(
    r"\b(?:revert(?:ed|ing)?|redundant|undo(?:ing)?|mistake|roll(?:ed|ing)? (?:it )?back|discard(?:ing)?|wrong"
    r"|(?:did|does|do)(?:n't| not) work|not needed|no longer need\w*|unnecessary|instead|from scratch|already built"
    r"|start(?:ing)? over|abandon\w*|dead end|back out|swapping|switch(?:ing)? back)\b",
    re.I,
)
_THROWS_ALL = (("git", "reset", "--hard"), ("git", "branch", "-D"), ("git", "revert"), ("gh", "pr", "close"))
_THROWS_SOME = (("rm",), ("git", "restore"), ("git", "checkout"), ("git", "stash"), ("git", "rm"))
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
_LEFT_OUT = re.compile(
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
_LISTS_LEFT = re.compile(
    r"\W*(?:not (?:done|included|covered|addressed)|skipped|deferred|out of scope|left out|still open"
    r"|remaining(?: work)?|known limitations)\b[^.?!]{0,40}",
    re.I,
)
_NOT_SAID = re.compile(r"^(?:if|when|unless|once)\b|\?$|\bdiagnostics\b|\b(?:break|find|found)\b", re.I)
_CUTS = re.compile(
    r"\b(?:(?:let'?s )?(?:skip|leave|drop|defer|postpone) (?:that|this|it|the \w+)"
    r"|(?:do|fix|handle|address|tackle|add) (?:that|this|it|them) (?:later|another time|in (?:a|another"
    r"|the next) \w+)"
    r"|(?:not|nothing) (?:for )?now|(?:fine|ok) to do it later|for a (?:later|separate|follow[- ]?up) \w+"
    r"|out of scope"
    r"|we(?:'ll| will) (?:do|come back to|revisit|get to|handle) [^.?!]{1,40}(?:later|another|next))\b",
    re.I,
)
_PICKS = re.compile(r"(?:ok(?:ay)?,? |yes,? )?(?:let'?s )?(?:do|go with|take) (?:option |number |#)?\w{1,2}\W*", re.I)
_CUT_LATER = re.compile(r"\blater|now\b|another|next|scope|follow|separate|defer|postpone", re.I)


def detect_failed_experiments(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What was made and taken back: by a person's word, or by the agent where it says why."""
    found, before = list[Finding](), None
    for one in split_exchanges(story):
        asked = _asked_back(story, one, before)
        found += asked or list(_taken_back(story, one))[:1]
        before = one
    return found[:MAX_PER_ITEM]


def _asked_back(story: Story, one: Exchange, before: Exchange | None) -> list[Finding]:
    said = next((line for line in get_spoken_sentences(one.prompt) if has_match(_ASKS_BACK, line)), "")
    if not (said and one.prompt and before and any(map(_changes, before.steps))):
        return []
    done = pick_first_sentence(get_final_message(before), 120)
    done = done if is_informative(done) else pick_first_sentence(before.prompt.text, 120) if before.prompt else ""
    text = f"Tried, then taken back at the person's word: “{shorten_line(one.prompt.text, _LINE)}”" + (
        f" It was: {done}" if done else ""
    )
    return [Finding("failed experiments", text, 0.85, "learning", (quote_step(story, one.prompt, said),))]


def _changes(step: Step) -> bool:
    return step.kind == "call" and (step.tool in EDIT_TOOLS or "git commit" in step.command)


def _taken_back(story: Story, one: Exchange) -> Iterator[Finding]:
    """Edits of the session thrown away, where the words before say that they were wrong or not needed."""
    made = frozenset(
        _name(step.path) for step in story.steps if step.tool in EDIT_TOOLS and not _is_scratch(step, story)
    )
    results, words = pair_calls(story), one.prompt
    for step in one.steps:
        words = step if step.kind == "agent" else words
        way = _undoes(step, made) if step.kind == "call" and made and words else ""
        ended = results[step.call or step.id][1] if way else None
        if not way or not words or (ended and ended.failed):
            continue
        said = get_spoken_sentences(words) if words.kind == "person" else split_sentences(words.text)
        place = next((number for number, line in enumerate(said) if has_match(_TAKES_BACK, line)), -1)
        if place >= 0:
            told = " ".join(said[max(place - 1, 0) : place + 1])
            text = f"Tried, then taken back (`{_shown(way, story)}`): “{shorten_line(told, _LINE)}”"
            evidence = (quote_step(story, words, said[place]), quote_step(story, step, way))
            yield Finding("failed experiments", text, 0.7, "learning", evidence)


def _is_scratch(step: Step, story: Story) -> bool:
    """Whether a file is one to throw away, by its path inside the project: the project itself may be called demo."""
    path = step.path
    for folder in filter(None, (story.project, story.cwd)):
        if path.startswith(f"{folder}/"):
            path = path.removeprefix(f"{folder}/")
            break
    return bool(_SCRATCH.search(path))


def _name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _shown(command: str, story: Story) -> str:
    for folder in filter(None, (story.project, story.cwd)):
        command = command.replace(f"{folder}/", "")
    return shorten_line(command, 80)


def _undoes(step: Step, made: frozenset[str]) -> str:
    """The part of a call that throws away what the session made; nothing if none does."""
    if step.tool == "TaskStop":
        return "TaskStop"
    for part in list_simple_commands(step.command):
        way = (part.program, *part.words[1:3])
        own = made.intersection(_name(word.strip("'\"")) for word in part.words)
        if any(way[: len(one)] == one for one in (*_THROWS_ALL, *(_THROWS_SOME if own else ()))):
            return part.full_text.partition("\n")[0]
    return ""


def detect_implicit_decisions(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A choice of the agent's that a person let pass with a word, and that was then built upon."""
    found = list[Finding]()
    before: Exchange | None = None
    for one in split_exchanges(story):
        teller = _last_said(before) if before and one.prompt and _lets_pass(one.prompt.text) else None
        chosen, told = _choice(teller.text) if teller and any(map(_changes, one.steps)) else ("", "")
        if teller and one.prompt and chosen:
            text = (
                f"Accepted with “{shorten_line(one.prompt.text, 40)}” and recorded nowhere: "
                f"“{shorten_line(told, _LINE)}”"
            )
            evidence = (quote_step(story, teller, chosen), quote_step(story, one.prompt, one.prompt.text))
            found.append(Finding("implicit decisions", text, 0.65, "adr", evidence))
        before = one
    return found[-MAX_PER_ITEM:]


def _lets_pass(said: str) -> bool:
    return len(said) < 60 and bool(_ACCEPTS.fullmatch(said.strip())) and not has_match(_OBJECTS, said)


def _choice(said: str) -> tuple[str, str]:
    """The sentence in which an agent chose and the same as it is told; what it recommends before what it weighs."""
    every = split_sentences(said)
    places = [place for place in reversed(range(len(every))) if is_informative(every[place])]
    for sign in (_CHOOSES, _WEIGHS):
        for place in places:
            if has_match(sign, every[place]):
                return every[place], _with_before(every, place)
    return "", ""


def _with_before(every: Sequence[str], place: int) -> str:
    """A sentence, after the one before if it says little by itself."""
    bare = _POINTS_BACK.match(every[place]) or len(every[place].split()) < _LEAST_WORDS
    return " ".join(every[place - 1 if bare and place else place : place + 1])


def _last_said(exchange: Exchange) -> Step | None:
    return next((step for step in reversed(exchange.steps) if step.kind == "agent"), None)


def detect_assumptions(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What somebody says is taken for granted, in a sentence or in a list under that heading."""
    found = list[Finding]()
    for one in split_exchanges(story):
        score = 0.6 if any(map(_changes, one.steps)) else 0.5
        for step in (*([one.prompt] if one.prompt else ()), *one.steps):
            for line in _assumed(step):
                text = f"Rests on an assumption: “{shorten_line(line, _LINE)}”"
                found.append(Finding("assumptions", text, score, "adr", (quote_step(story, step, line),)))
    return list({one.text: one for one in found}.values())[-MAX_PER_ITEM:]


def _assumed(step: Step) -> list[str]:
    said = (
        get_spoken_sentences(step)
        if step.kind == "person"
        else split_sentences(step.text)
        if step.kind == "agent"
        else []
    )
    head = next((place for place, line in enumerate(said) if _LISTS_ASSUMED.fullmatch(line)), len(said))
    listed = list(takewhile(is_informative, said[head + 1 : head + 1 + _MOST_LISTED]))
    named = [line for line in said if has_match(_ASSUMES, line) and "?" not in line and not has_match(_DOUBTED, line)]
    return [line for line in (*named, *listed) if is_informative(line)]


def detect_external_events(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What a person mentions of the world outside the repository."""
    found = list[Finding]()
    for one in split_exchanges(story):
        for line in get_spoken_sentences(one.prompt):
            if one.prompt and has_match(_EVENTS, line) and not line.endswith(":"):
                text = f"Mentioned in passing: “{shorten_line(line, _LINE)}”"
                memory = "" if has_match(_ASKS, line) else "project"  # words for the work at hand are none to remember
                shown = (quote_step(story, one.prompt, line),)
                found.append(Finding("external events", text, 0.7, "memory", shown, memory))
    return found[:MAX_PER_ITEM]


def detect_naming_inconsistencies(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """A thing that a person renamed and that is called by its old name afterwards."""
    found = list[Finding]()
    for place, step in enumerate(story.steps):
        for line in get_spoken_sentences(step):
            for match in filter(None, (pattern.search(line) for pattern in _RENAMES)):
                old, new = match["old"].strip("./-"), match["new"].strip("./-")
                later = _last_named(story.steps[place + 1 :], old, new)
                if later and _is_name(old) and old.lower() != new.lower():
                    text = f"“{old}” became “{new}”, and is still called “{old}” later on: pick one"
                    evidence = (quote_step(story, step, line), quote_step(story, later, _around(later.text, old)))
                    found.append(Finding("naming inconsistencies", text, 0.55, "convention", evidence))
    return found[:MAX_PER_ITEM]


def _is_name(word: str) -> bool:
    """Not a plain word, as in "rename the button to"."""
    return not word.isalpha() or word.lower() != word


def _last_named(steps: Iterable[Step], old: str, new: str) -> Step | None:
    named = re.compile(rf"(?<![\w./-]){re.escape(old)}(?![\w/-])")
    said = [step for step in steps if step.kind == "person" and named.search(step.text) and new not in step.text]
    return said[-1] if said else None


def _around(text: str, word: str) -> str:
    return next((line for line in text.splitlines() if word in line), "")


def detect_unfinished_work(story: Story, past: ReflectionContext) -> Iterable[Finding]:
    """What a person put off, what the agent says it left out, and a last request without an answer."""
    every, found = split_exchanges(story), list[Finding]()
    for number, one in enumerate(every, 1):
        said = get_spoken_sentences(one.prompt)
        is_done = any(_takes_up(after.prompt.text) for after in every[number : number + 1] if after.prompt)
        for place, line in enumerate(said):
            if one.prompt and not is_done and has_match(_CUTS, line) and has_match(_CUT_LATER, line):
                text = f"Put off by the person: “{shorten_line(_with_before(said, place), _LINE)}”"
                found.append(Finding("not done", text, 0.7, "workstream", (quote_step(story, one.prompt, line),)))
    for one in every[-MAX_PER_ITEM:]:
        teller = _last_said(one) if any(map(_changes, one.steps)) else None
        for line in _left_out(teller.text) if teller else ():
            text = f"Left out, says the agent: “{shorten_line(line, _LINE)}”"
            found += (
                [Finding("not done", text, 0.65, "workstream", (quote_step(story, teller, line),))] if teller else []
            )
    last = every[-1] if every else None
    if last and last.prompt and not last.steps and len(every) > 1 and len(last.prompt.text.split()) > 2:
        text = f"The last request was not answered: “{shorten_line(last.prompt.text, _LINE)}”"
        found.insert(
            0, Finding("not done", text, 0.8, "workstream", (quote_step(story, last.prompt, last.prompt.text),))
        )
    return found[:MAX_PER_ITEM]


def _takes_up(said: str) -> bool:
    """Whether a person has done now what they had just put to the agent."""
    return bool(_PICKS.fullmatch(said.strip())) or _lets_pass(said)


def _left_out(said: str) -> list[str]:
    every = split_sentences(said)
    return [
        line
        for place, line in enumerate(every)
        if is_informative(line)
        and not has_match(_NOT_SAID, line)
        and (has_match(_LEFT_OUT, line) or (place and _LISTS_LEFT.fullmatch(every[place - 1])))
    ]
