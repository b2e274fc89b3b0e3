"""Write the statements of a draft without a model; each cites lines of the transcript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing, tool_actions
from hardwon.distil.failure_fixes import (
    describe_failure,
    find_failure_fixes,
    find_standing_failures,
    is_said_to_pass,
)
from hardwon.distil.phrasing import is_pasted_line, strip_severity
from hardwon.distil.summaries import MAX_STEP_CHARS, WORKING_KINDS, NextStep, find_next_steps, has_work
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.handoff import transcript_story
from hardwon.handoff.handoffs import OUTCOME_ARROW
from hardwon.handoff.transcript_story import Exchange, Story
from hardwon.store.reflections import Evidence
from hardwon.text.excerpts import (
    is_informative,
    join_names,
    list_prose_lines,
    shorten_line,
    split_sentences,
    to_plain_line,
)
from hardwon.text.similarity import compute_jaccard, tokenize
from hardwon.types import Turn, frozen, replace

MAX_LINE_CHARS = 220
POLL_TOOL = "BashOutput"
MAX_TOPIC_CHARS = 160
_MAX_REMEMBERED_CHARS = 200
_MAX_TOPICS, _MAX_COMMITS, _MAX_FILES, _MAX_CAUSES = 6, 5, 8, 3
_MAX_DECISIONS, MAX_OPEN_ENDS = 5, 6
_MAX_EARLIER_STEPS, _MAX_EXCHANGES_BACK = 2, 3
_RECENT_TURNS = 5  # a failure in an older turn no longer counts as open
_SAME_THRESHOLD = 0.6
# An earlier statement with this share of its words makes a statement redundant.
_MIN_CONTAINED_WORDS, _CONTAINED_SHARE = 4, 0.9
_TAKEN_UP_SHARE = 0.4  # a step counts as taken up if later requests and commands have this share of its words
# Matches a statement that only introduces a quotation, such as: Left out, says the agent: “The cache is missing.”
_QUOTED_STATEMENT = re.compile(r"[^“”]*: “([^“”]+)”")
_SENTENCE_START_CHARS = 60  # a decision word further into the sentence is about something else
_MAX_SENTENCES, _MIN_NAMED_WORDS = 6, 3  # the sentences of an answer that may tell the outcome, and what they name
_MIN_RESULT_WORDS, _MIN_TELLING_WORDS = 4, 5  # a closing sentence that names less says less than the changed files
_MAX_ANSWER_CHARS = 4_000  # the part of a message in which its outcome is searched
_MIN_SHARED_STEMS = 2  # a commit whose subject shares this many with a request is about it
_MIN_ORDER_WORDS = 2  # an order that names less, such as "Fix this", needs what follows it
_MIN_SENTENCE_WORDS = 8  # a line this long that ends with a full stop is no heading
_MAX_ITEM_WORDS = 4
_MIN_FINDING_WORDS = 6  # a shorter line with a severity is a heading
# An answer to the agent, not a request: "yes", "thanks".
_NOD = re.compile(r"^(?:no|nope|yes|yeah|yep|ok|okay|nice|great|good|thanks)\b", re.I)
# "go for option 1, and look at the tail too": does what the agent proposed.
_TAKES_UP = re.compile(r"\W*(?:(?:ok(?:ay)?|yes|yeah|sure|let'?s)\W+)*(?:go (?:for|with|ahead)|do (?:it|both|all)|option)\b", re.I)
_STARTS_BACK = re.compile(r"\W*(?:it|this|that|these|those|they|which)\b", re.I)  # a remark on what was said before
# The person wants something other than what was just done.
_RECONSIDERS = re.compile(
    r"^\W*(?:(?:hm+|ok(?:ay)?|so|but|well)\b\W*)*(?:(?:on second thoughts?|thinking (?:about it )?again|actually)\b"
    r"|(?:let'?s |can (?:we|you) |please )*(?:put|change|switch|roll|bring) (?:it|that|this|them) back\b"
    r"|(?:let'?s |can (?:we|you) |please )*(?:revert|undo) (?:it|that|this|them|the|your)\b"
    r"|(?:let'?s |can we )*(?:do|try|use) (?:this|that|\S+) instead\b)",
    re.I,
)
_POINTS_BACK = re.compile(r"\b(?:it|this|that|these|those|them)\b", re.I)
# Request words that name nothing; the remaining words say what the request is about.
_GENERIC_TEXT = """
    can could would should you we i me my our it this that these those them please look take see check read use want
    need like let lets make makes do does did get go fix change update add implement create write find tell talk know
    thing things issue issues problem error errors file files code following below above all any some more one new
    current still also just now then first next again ok yes yeah yep no not what why how when where which who is are
    was be have has had there here so and or but if for with from into about out up on in at to of a an the context
    task feedback functionality seems great really perform repo run work working latest changes branch question review
    feature way best right wrong good bad figure actually maybe sure currently sense definitely done commit commited
    committed push pushed pr prs open merge merged ahead everything main master back pull checkout
"""
_GENERIC_WORDS = frozenset(_GENERIC_TEXT.split())
# A line that only introduces the next: "Context: …", "Do the following:".
_INTRODUCES = re.compile(r"^(?:context|background|goal|note|task)\b[^.]{0,40}:|:\s*$|^\W*$", re.I)
# A pasted shell command, or a line of a configuration file.
_COMMAND_LINE = re.compile(r"\s&&\s|^\S+ (?:\S+ )?--?\w[\w-]*(?:[ =]|$)|^[\w-]+: [\"{\[]|^\"\"\"")
# Says how to do what another sentence asks for.
_SUPPLEMENTS = re.compile(
    r"^\W*(?:take into account|make sure|ensure|consider|keep in mind|use|do not|don'?t|also)\b", re.I
)
_REQUESTS = re.compile(
    r"\b(?:add|fix|implement|make|create|write|update|remove|rename|move|change|investigate|review|analy[sz]e|support"
    r"|migrate|refactor|document|build|replace|reproduce|verify|extract|explain|find|submit)\b",
    re.I,
)
# A request that opens with an order; what it pastes below is material, not the request.
_ORDERS = re.compile(
    r"(?:(?:please|just|then|now|can you|could you|would you|let'?s|i want you to|i need you to)\s+)*(?:add|analy[sz]e"
    r"|audit|build|bump|change|check|clean|close|compare|convert|create|debug|delete|deploy|document|draft|drop|extend"
    r"|extract|file|find|fix|generate|implement|improve|install|investigate|list|merge|migrate|move|open|port|publish"
    r"|rebase|refactor|release|remove|rename|replace|reproduce|resolve|revert|review|rewrite|run|set up|simplify|split"
    r"|stash|submit|summari[sz]e|support|switch|test|update|upgrade|validate|verify|write)\b",
    re.I,
)
# Asks for an answer; "can you add …?" is an order.
_ASKS = re.compile(
    r"\W*(?:(?:and|but|so|or|ok(?:ay)?|hm+|wait)\b\W*)*(?:what|why|how|when|where|which|who|do|does|did|is|are|was|were"
    r"|isn'?t|aren'?t|doesn'?t|has|have|will|would it|should"
    r"|(?:can|could) you (?:explain|tell|describe))\b(?! not\b|n'?t\b)",
    re.I,
)
# Hands over material for the request before: "here's the fourth: …".
_HANDS_OVER = re.compile(r"\W*(?:(?:and|ok(?:ay)?|so)\b\W*)?here(?:'s|’s| is| are)\b[^.\n]{0,60}:\s*\n", re.I)
_COMMAND_NAMES = re.compile(r"\A(?:/[\w:.-]+\s+)+(?=\S)")  # /review /simplify Scope: …
_MIN_ARGUMENT_WORDS = 5  # "/model opus 4" sets something, longer arguments ask for something
_LEADING_FILLER = re.compile(r"^(?:https?://\S+\s+|(?:ok(?:ay)?|and|so|now|hey \w+|hmm+)\b[,!.]*\s+)+", re.I)
_PLAN_TITLE = re.compile(r"^#+\s*(?:(?:implementation )?plan\s*[:–—-]\s*)?(.+)$", re.I | re.M)
_PLAN_STEP = re.compile(r"^#{2,4} +((?:\d+[.):]|(?:Step|Phase|Change|Part)\b)[^\n]*)", re.M | re.I)
# The section of a plan that says how to test it.
_VERIFICATION = re.compile(r"^#+ +(?:verif|test|validat)[^\n]*\n(?P<body>.*?)(?=^#|\Z)", re.M | re.S | re.I)
_MAX_MANUAL_CHECKS = 2
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(.+)$", re.M)
_TOLD_BY_ANSWER = re.compile(r"(?:summari[sz]e|report|present)\b", re.I)
# A check that a person has to make: "click", "in the browser".
_BY_HAND = re.compile(r"\b(?:manual\w*|by hand|visit|browser|click|navigate|in the (?:ui|app)|trigger)\b", re.I)
# Opens an answer without saying anything yet.
_OPENER = re.compile(
    r"(?:(?:scope|context|background|suggested [\w ]{1,30}|(?:option|step|phase) \w{1,2}):"
    r"|(?:this|that|these|those) (?:can|could|may|would)\b|here(?:'s|’s| is| are)"
    r"|let me|i(?:'ll|’ll| will)|i(?:'m|’m| am) (?:\w+ly )?\w+ing|if\b|now\b)(?!\w)",
    re.I,
)
# "Core execution and correctness." has none, so it is a heading.
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|can|can't|will|does|do|did|should|must|need|no|not|now|i|we|it|you|found|made"
    r"|built|wrote|ran|put|set|kept|left|got|took|split|\w+ed|\w+n't|\w+'s)\b|^\w+s\b"
    r"|\b\w+s (?:from|to|in|on|at|the|an?|it|with|into|as|by|for|no|only|both|all)\b",
    re.I,
)
# A sentence that names no result: "All green.", "You're right".
_VAGUE = re.compile(
    r"(?:(?:all|lint|tests?|build)\b[^.]{0,30}\b(?:green|clean|good|done|pass\w*)|done|you'?re (?:absolutely )?right"
    r"|that'?s (?:a|an|the|fair|right|much)|this is (?:a|an|the) \w+(?: \w+)?\.|good (?:call|point|catch|question)"
    r"|(?:the )?(?:implementation|work|task|feature|migration)s? (?:is|are) (?:now )?(?:complete|done|finished)"
    r"|great|perfect|\d+ (?:\w+ )?pass\w*|(?:yes|yep|no)\W*$|short answer(?!:)|analysis"
    r"|[^.]*\b(?:pre-?existing|unrelated to)"
    r"|I(?:'ve| have)? (?:successfully )?(?:completed|finished|done) (?:the|your|this|that|all)\b[^`]*$"
    r"|say the word|I(?:'ve| have)? made (?:\w+ )?changes"
    r"|I(?:'ve| have)? (?:dug|looked|gone|went|checked|read|reviewed) (?:into|at|through|over))(?!\w)",
    re.I,
)
_ANNOUNCES = re.compile(r"\b(?:I(?:'ll| will|'m| am)|let me|now (?:let me|I)|next,? I)\b|^(?:now )?(?:\w+ing)\b", re.I)
_TRANSITORY = re.compile(
    r"\bready\b|\b(?:try|run) (?:\w+ ){0,4}again\b|\bwhenever\b", re.I
)  # holds only at that moment
# Commands after which earlier changes may be committed, put aside or undone.
_MOVES_CHANGES = re.compile(
    r"\bgit\b[^|;&\n]*\b(?:commit|rebase|reset|merge|cherry-pick|revert|pull|stash|restore|checkout|switch|clean)\b"
)
# Commands that make or move commits, so that the last reported hash may be outdated.
_MOVES_HEAD = re.compile(r"\bgit\b[^|;&\n]*\b(?:commit|rebase|reset|merge|cherry-pick|revert|pull)\b")
_PUSHES = re.compile(r"\bgit\b[^|;&\n]*\bpush\b(?![^|;&\n]*(?:--dry-run|--delete|\s:))")
_FENCE = re.compile(r"```\w*")
_SINGLE_TEST = re.compile(r"::\w|\s(?:-k|-t|-run|--grep|--filter|--testNamePattern)[ =]")
_LITTLE_TALLY = re.compile(r"0 (?:issues?|problems?|errors?|warnings?)|Success: no issues|All checks passed|1 pass")
_REPORTS_FAULT = re.compile(
    r"\b(?:fail|error|bug|broke|crash|issue|problem|wrong|fix|why|regress|flak)|n't work|\bnot work", re.I
)
_ASKS_CAUSE = re.compile(r"\b(?:why|how come|what (?:caused|causes)|warum|wieso)\b", re.I)
# Asks for something to be made, so that an answer without any work is the thing itself and tells no outcome.
_MAKES = re.compile(
    r"\W*(?:(?:please|just|then|now|can you|could you|would you|let'?s)\s+)*(?:add|create|draft|generate|implement|make"
    r"|spawn?|suggest|write)\b",
    re.I,
)
_ASKS_FOR_WORK = re.compile(r"\b(?:please|can you|could you|I want you to)\b", re.I)
_QUOTATION_MARKS = "\"'“‘"  # a sentence that opens with one is a text that the agent proposes
_REVIEWS = re.compile(r"\b(?:re-?)?(?:review|audit)(?:ing)?\b", re.I)
# "High: …", "1. (Medium) …", "[P2] …".
_HAS_SEVERITY = re.compile(
    r"\W*(?:\d{1,2}\W+)?(?:critical|blocker|major|high|medium|low|minor|nit|p[0-4])\b\W*[:)\]—–-]", re.I
)
_SAYS_VERDICT = re.compile(
    r"^\W*(?:(?:I|we) (?:found|see|have)|there (?:are|is|were)|the review found)? ?\bno (?:[\w-]+ ){0,5}"
    r"(?:issues?|findings?|problems?|bugs?|regressions?|violations?|concerns?|blockers?)\b"
    r"|\b(?:before merging|blocks? (?:the )?merg|ready to merge|safe to merge|not ready|should not (?:be )?merge)"
    r"|^\W*(?:the )?(?:\w+ ){0,2}(?:issues?|findings?) (?:from [^.]{0,40})?(?:is|are) (?:now |all )*"
    r"(?:fixed|addressed|resolved)\b",
    re.I,
)
# The report of Codex's own /review, which its transcript adds to the exchange before.
_CODEX_REVIEW = re.compile(r"^(?:Review comment|Full review comments):$", re.M)
_SAVING = re.compile(r"\b(?:commit|push|merge|PR|pull request)", re.I)
# The agent's sandbox forbade it, so it is no open failure of the project.
_SANDBOXED = re.compile(r"operation not permitted|\bEPERM\b|sandbox[- ](?:denied|restrict)", re.I)
# The result of AskUserQuestion: "question"="answer".
_QUESTION_ANSWER = re.compile(r'"([^"\n]{4,300})"\s*=\s*"([^"\n]{1,300})"')
_DECISION_WORDS = re.compile(
    r"\b(?:let'?s (?:go with|use|keep|not|skip|stick|drop|remove)|(?:go|stick) with|I(?:'d| would)? (?:prefer|rather)"
    r"|we (?:should(?:n't| not)|don'?t want|do not want|decided|will use|won'?t)|use [^.\n]{1,60} instead)\b",
    re.I,
)
# A question whether or how to go on: its answer decides nothing that outlives the session.
_ASKS_TO_GO_ON = re.compile(r"\b(?:can|may|shall|should) I\b|\byou like to do\b", re.I)


@frozen
class Statement:
    """A sentence with its evidence in the transcript."""

    text: str
    evidence: tuple[Evidence, ...] = ()
    is_next_step: bool = False  # somebody said to do this next


@frozen
class Topic:
    """A stretch of the session about one request; `first` and `last` are exchange numbers."""

    request: str
    source: Step | None  # the prompt, or the plan that opened the session
    first: int
    last: int
    weight: int  # how much work it took
    has_changes: bool  # something was edited or committed


@frozen
class SessionFacts:
    """A session, prepared for writing statements."""

    story: Story
    exchanges: tuple[Exchange, ...]
    turns: tuple[Turn, ...]
    actions_by_turn: tuple[tuple[ToolAction, ...], ...]
    actions: tuple[ToolAction, ...]
    recent_actions: tuple[ToolAction, ...]
    calls: Mapping[str, tuple[Step, Step | None]]
    topics: tuple[Topic, ...]
    last_working_exchange: int  # the exchange with the last tool call
    remaining_paths: frozenset[str]  # changed and not removed again


def gather_facts(story: Story) -> SessionFacts:
    """Read the session once, so that every statement works from the same facts."""
    turns = transcript_story.build_turns(story)
    exchanges = transcript_story.split_exchanges(story)
    actions_by_turn = tuple(tuple(classify_calls(turn)) for turn in turns)
    working = [index for index, turn_actions in enumerate(actions_by_turn) if turn_actions]
    actions = tuple(action for turn_actions in actions_by_turn for action in turn_actions)
    return SessionFacts(
        story=story,
        exchanges=exchanges,
        turns=turns,
        actions_by_turn=actions_by_turn,
        actions=actions,
        recent_actions=tuple(action for turn_actions in actions_by_turn[-_RECENT_TURNS:] for action in turn_actions),
        calls=transcript_story.pair_calls(story),
        topics=_split_topics(exchanges, actions_by_turn),
        last_working_exchange=working[-1] if working else len(turns) - 1,
        remaining_paths=frozenset(phrasing.list_remaining_files(actions)),
    )


def _split_topics(exchanges: Sequence[Exchange], actions_by_turn: Sequence[Sequence[ToolAction]]) -> tuple[Topic, ...]:
    """Start a topic at each request that names something; "continue" and the like extend the previous topic."""
    topics = list[Topic]()
    for number, (exchange, actions) in enumerate(zip(exchanges, actions_by_turn, strict=True)):
        request, source = _read_request(exchange)
        weight = sum(_weigh_action(action) for action in actions)
        is_changed = has_changes(actions)
        is_command = request.startswith("/")
        names_nothing = not request or is_trivial_request(request) or _hands_over(exchange.prompt)
        is_output = _is_pasted(exchange.prompt) or (names_nothing and _has_output(exchange.prompt))
        if topics and not is_command and is_output:
            # Its answer is about the pasted text, not about the request before.
            topics.append(Topic("", exchange.prompt, number, number, weight, is_changed))
            continue
        # "ok, do it" after the answer to a question starts work that the question did not ask for.
        starts_work = (
            is_changed and bool(topics) and bool(_ASKS.match(topics[-1].request)) and not topics[-1].has_changes
        )
        if starts_work and not is_command and names_nothing:
            topics.append(Topic("", exchange.prompt, number, number, weight + 1, is_changed))
        elif topics and not is_command and names_nothing:
            previous = topics[-1]
            topics[-1] = replace(
                previous,
                last=number,
                weight=previous.weight + weight,
                has_changes=previous.has_changes or is_changed,
            )
        else:
            topics.append(Topic(request, source, number, number, weight + 1, is_changed))
    return tuple(topics)


def _hands_over(prompt: Step | None) -> bool:
    return prompt is not None and bool(_HANDS_OVER.match(prompt.text))


def _has_output(prompt: Step | None) -> bool:
    """Return whether terminal output follows the typed words: "this is stuck: [test:ci] $ …"."""
    lines = prompt.text.splitlines()[1:] if prompt else []
    return any(map(is_pasted_line, lines))


def _is_pasted(prompt: Step | None) -> bool:
    """Return whether a prompt is only terminal output."""
    if prompt is None or len(prompt.text) > transcript_story.MAX_TYPED_CHARS:
        return prompt is not None and is_pasted_line(prompt.text)
    return not transcript_story.get_spoken_sentences(prompt._replace(text=strip_severity(prompt.text)))


def _weigh_action(action: ToolAction) -> int:
    if action.kind == "saved":
        return 10
    return 3 if action.kind == "changed" else 1


def _read_request(exchange: Exchange) -> tuple[str, Step | None]:
    """Return the most informative sentence of a prompt, or the title of the plan that opened the session."""
    if exchange.prompt is None:
        plan = next((step for step in exchange.steps if step.tool == transcript_story.CARRIED_PLAN_TOOL), None)
        return (read_plan_title(plan.content), plan) if plan else ("", None)
    text = _strip_command_names(strip_severity(exchange.prompt.text))
    sentences = transcript_story.get_spoken_sentences(exchange.prompt._replace(text=text))
    # A prompt too long to be typed is a task description, or words typed before pasted text: its beginning says what
    # it is about.
    if not sentences:
        beginning = next((part for part in text.split("\n\n") if not is_trivial_request(part.strip())), text)
        sentences = split_sentences(beginning[:3_000])
    candidates = [
        line
        for line in sentences[:12]
        if not line.startswith(("@", "/")) and not _INTRODUCES.search(line) and not _COMMAND_LINE.search(line)
    ]
    if not candidates:
        return phrasing.pick_first_sentence(text, MAX_LINE_CHARS), exchange.prompt
    opening = _LEADING_FILLER.sub("", candidates[0])
    if candidates[0] == sentences[0] and _ORDERS.match(opening) and len(find_topic_words(opening)) >= _MIN_ORDER_WORDS:
        return shorten_line(opening.rstrip("\\"), MAX_LINE_CHARS), exchange.prompt
    # Prefer a later sentence only if it names clearly more than the first.
    scores = [
        min(len(find_topic_words(line)), 9)
        + (3 if line is candidates[0] else 0)
        + (2 if _REQUESTS.search(line) else 0)
        - (4 if _SUPPLEMENTS.match(line) else 0)
        for line in candidates
    ]
    line = candidates[scores.index(max(scores))]
    return shorten_line(_LEADING_FILLER.sub("", line).rstrip("\\"), MAX_LINE_CHARS), exchange.prompt


def _strip_command_names(text: str) -> str:
    """Return the arguments of a slash command if they are a request, else the text."""
    names = _COMMAND_NAMES.match(text)
    arguments = text[names.end() :] if names else ""
    return arguments if len(arguments.split()) >= _MIN_ARGUMENT_WORDS else text


def find_topic_words(text: str) -> frozenset[str]:
    """Return the words of a request that name something, without generic ones."""
    without_links = re.sub(r"https?://\S+", " ", text)
    return frozenset(word for word in tokenize(without_links) if word not in _GENERIC_WORDS and len(word) > 1)


def read_plan_title(plan: str) -> str:
    title = _PLAN_TITLE.search(plan)
    return shorten_line(to_plain_line(title[1] if title else plan), MAX_LINE_CHARS)


def is_trivial_request(request: str) -> bool:
    """Return whether a request only agrees, picks an option, says to continue, or is a word or two."""
    words = request.split()
    is_short_nod = len(words) <= 5 and bool(_NOD.match(request))
    # "What is the wind like?" is a topic of its own, "do we need it?" is not.
    topic_words = find_topic_words(request)
    is_own_question = request.endswith("?") and bool(topic_words) and not _POINTS_BACK.search(request)
    names_little = len(topic_words) <= 1 and not _REQUESTS.search(request) and not is_own_question
    return (
        len(words) <= 2 or is_short_nod or (names_little and len(words) <= 12)
    )


def cite_step(facts: SessionFacts, step: Step, words: str = "") -> tuple[Evidence, ...]:
    """Cite a step, quoting its line that has these words."""
    start = to_plain_line(words)[:40]
    lines = (step.text or step.content).splitlines()
    raw_line = next((line for line in lines if start and start in " ".join(list_prose_lines(line))), words)
    return (transcript_story.quote_step(facts.story, step, raw_line),)


def cite_action(facts: SessionFacts, action: ToolAction, words: str = "") -> tuple[Evidence, ...]:
    """Cite a call's result if it has these words, else the call itself."""
    call, result = facts.calls[action.call.key]
    if words and result:
        line = next((candidate for candidate in result.text.splitlines() if words[:60] in to_plain_line(candidate)), "")
        return (transcript_story.quote_step(facts.story, result, line),)
    call = find_starting_call(facts.story, call)
    return (transcript_story.quote_step(facts.story, call, call.command or call.path),)


def find_starting_call(story: Story, call: Step) -> Step:
    """Return the call that started a command; a later poll of its output does not repeat the command."""
    start = call.command[:_MAX_REMEMBERED_CHARS]  # the transcript reader keeps only this much of a long command
    matching_steps = (step for step in story.steps if step.command.startswith(start) and step.tool != POLL_TOOL)
    return next(matching_steps, call) if call.tool == POLL_TOOL and call.command else call


def list_topics(facts: SessionFacts) -> list[Statement]:
    """List each topic with its outcome, in order; of many, those that took most work and the last one.

    Questions that were only answered are left out if anything was changed, and all that followed the last change. A
    request without an outcome is told by the title or an open end.
    """
    if not has_work(facts.turns):
        return []
    described = [
        (topic, statement)
        for topic in facts.topics
        if is_worth_telling(topic) and not _is_superseded(facts, topic) and (statement := _describe_topic(facts, topic))
    ]
    described = [entry for entry in described if entry[0].weight > 1] or described
    last_change = max((number for number, (topic, _) in enumerate(described) if topic.has_changes), default=None)
    if last_change is not None:
        described = described[: last_change + 1]
        # The work that follows overtakes the answers to questions on the way to it.
        described = [entry for entry in described if entry[0].has_changes or not _wants_answer(entry[0].request)]
    if not described:
        return _tell_changed_files(facts)
    heaviest = sorted(described[:-1], key=lambda entry: -entry[0].weight)[: _MAX_TOPICS - 1]
    return [statement for topic, statement in described if (topic, statement) in [*heaviest, described[-1]]]


def _wants_answer(request: str) -> bool:
    """Return whether a request is a question; "can you add it?" is an order."""
    return not _ASKS_FOR_WORK.search(request) and (request.endswith("?") or bool(_ASKS.match(request)))


def _asks_for_work(request: str) -> bool:
    return bool(_ASKS_FOR_WORK.search(request) or _REQUESTS.search(request) or _ORDERS.match(request))


def _is_superseded(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether a later review, or the next prompt, overtakes the outcome of a topic."""
    following = topic.last + 1
    later_topics = facts.topics[facts.topics.index(topic) + 1 :]
    if _is_pure_review(topic) and any(map(_is_pure_review, later_topics)):
        return True  # the findings of a review hold until the next one
    if following == len(facts.exchanges) or not has_changes(facts.actions_by_turn[following]):
        return False
    hashes = {
        commit.short_hash
        for turn_actions in facts.actions_by_turn[topic.first : following]
        for _, commit in phrasing.list_commits(turn_actions)
    }
    has_commit = any(commit.short_hash in hashes for _, commit in phrasing.list_commits(facts.actions))
    next_prompt = facts.turns[following].prompt
    if not topic.has_changes and _POINTS_BACK.search(next_prompt[:_SENTENCE_START_CHARS]):
        return True  # "I think we should change that"
    is_taken_back = bool(_RECONSIDERS.search(next_prompt[:_SENTENCE_START_CHARS]))
    is_refuted = phrasing.is_refuted(facts.turns[topic.last].final_message, next_prompt)
    return not has_commit and (is_taken_back or is_refuted)


def _is_pure_review(topic: Topic) -> bool:
    return bool(_REVIEWS.search(topic.request)) and not topic.has_changes


def is_worth_telling(topic: Topic) -> bool:
    """Return False for a slash command that changed nothing: what it printed was for that moment."""
    return topic.has_changes or not topic.request.startswith("/")


def _describe_topic(facts: SessionFacts, topic: Topic) -> Statement | None:
    outcome = describe_outcome(facts, topic)
    # "please fix these" says nothing without the prompt's context.
    names_something = bool(find_topic_words(topic.request) or _REVIEWS.search(topic.request)) or "/" in topic.request
    request = topic.request if names_something else ""
    # Without a request in front of it, a commit stands better among the results.
    is_bare_commit = not request and not outcome.text.startswith("“")
    if not outcome.text or is_bare_commit:
        return None
    evidence = cite_step(facts, topic.source, request) if topic.source and request else ()
    parts = [part for part in (quote_text(request, 160), outcome.text) if part]
    return Statement(OUTCOME_ARROW.join(parts), (*evidence, *outcome.evidence))


def quote_text(text: str, max_chars: int) -> str:
    """Return the text in typographic quotation marks, without inner ones; empty stays empty."""
    line = shorten_line(text, max_chars).replace("“", '"').replace("”", '"')
    return f"“{line}”" if line else ""


def describe_outcome(facts: SessionFacts, topic: Topic) -> Statement:
    """Describe a topic's outcome: its commit, else the agent's closing words; empty if neither tells it."""
    exchanges = range(topic.first, topic.last + 1)
    actions = [action for number in exchanges for action in facts.actions_by_turn[number]]
    lasting_hashes = {commit.short_hash for _, commit in phrasing.list_commits(facts.actions)}  # not amended later
    commits = [
        (action, commit)
        for action, commit in phrasing.list_commits(actions)
        if commit.short_hash in lasting_hashes and not _is_of_earlier_topic(facts, topic, commit)
    ]
    if commits:
        # Of several, the one that speaks of the request; else the last.
        request_stems = _find_stems(topic.request)
        action, commit = max(reversed(commits), key=lambda entry: len(_find_stems(entry[1].subject) & request_stems))
        text = f"{commit.short_hash} {quote_text(commit.subject, 90)}"
        return Statement(text, cite_action(facts, action, commit.short_hash))
    if exchanges[-1] == len(facts.exchanges) - 1 and is_unfinished(facts):
        return Statement("")
    working = [number for number in exchanges if facts.actions_by_turn[number]]
    for number in dict.fromkeys((*working[-1:], exchanges[-1])):
        closing = _find_closing_statement(facts, number, topic.request)
        if closing and not _names_lost_commit(facts, closing.text):
            return Statement(quote_text(closing.text, MAX_LINE_CHARS), closing.evidence)
    return Statement("")


def _names_lost_commit(facts: SessionFacts, text: str) -> bool:
    """Return whether a text names a commit of the session that was amended or rewritten later."""
    lasting_hashes = {commit.short_hash for _, commit in phrasing.list_commits(facts.actions)}
    reported_hashes = {
        commit.short_hash for action in facts.actions for commit in tool_actions.parse_commits(action.text)
    }
    return any(short_hash[:7] in text for short_hash in reported_hashes - lasting_hashes)


def has_changes(actions: Iterable[ToolAction]) -> bool:
    """Return whether any of these actions edited a file or saved work."""
    return any(action.kind in ("changed", "saved") and not action.failed for action in actions)


def _is_of_earlier_topic(facts: SessionFacts, topic: Topic, commit: tool_actions.Commit) -> bool:
    """Return whether a commit saves the work of the topic before: its subject speaks of that and not of this one."""
    number = facts.topics.index(topic)
    stems = _find_stems(commit.subject)
    if number == 0 or stems & _find_stems(topic.request):
        return False
    return len(stems & _find_stems(facts.topics[number - 1].request)) >= _MIN_SHARED_STEMS


def _tell_changed_files(facts: SessionFacts) -> list[Statement]:
    """Tell the files of the topic that took most work, in a session that neither commits nor tells an outcome."""
    if any(action.kind == "saved" and not action.failed for action in facts.actions):
        return []
    for topic in sorted(facts.topics, key=lambda topic: -topic.weight):
        is_cut_off = topic is facts.topics[-1] and is_unfinished(facts)
        changes = describe_changes(facts, topic)
        if changes.text and not is_cut_off and is_worth_telling(topic) and not _is_superseded(facts, topic):
            request = cite_step(facts, topic.source, topic.request) if topic.source and topic.request else ()
            parts = [part for part in (quote_text(topic.request, 160), changes.text) if part]
            return [Statement(OUTCOME_ARROW.join(parts), (*request, *changes.evidence))]
    return []


def describe_changes(facts: SessionFacts, topic: Topic) -> Statement:
    """Name the files that a topic changed; empty if there are none."""
    actions = [action for number in range(topic.first, topic.last + 1) for action in facts.actions_by_turn[number]]
    edits = [action for action in actions if action.kind != "read" and action.paths and not action.failed]
    paths = list_changed_paths(facts, edits)
    if not paths:
        return Statement("")
    evidence = (*cite_action(facts, edits[0]), *cite_action(facts, edits[-1]))
    return Statement(f"changed {join_names(map(phrasing.shorten_path, paths), _MAX_FILES)}", evidence)


def list_results(facts: SessionFacts, told_text: str) -> list[Statement]:
    """List commits and pull requests that `told_text` does not mention yet, and the check that holds at the end."""
    commits = phrasing.list_commits(facts.actions)
    commit_statements = [
        Statement(
            f"Committed {commit.short_hash}: {quote_text(commit.subject, 100)}",
            cite_action(facts, action, commit.short_hash),
        )
        for action, commit in [entry for entry in commits if entry[1].short_hash not in told_text][-_MAX_COMMITS:]
    ]
    pull_requests = {
        pull_request: action
        for action in facts.actions
        if action.kind == "saved" and (pull_request := tool_actions.find_pull_request(action.text))
        if pull_request not in told_text
    }
    statements = commit_statements + [
        Statement(f"Pull request {pull_request}", cite_action(facts, action, pull_request))
        for pull_request, action in list(pull_requests.items())[-2:]
    ]
    last_edit = max((index for index, action in enumerate(facts.actions) if action.kind == "changed"), default=-1)
    final_checks = [action for action in facts.actions[last_edit + 1 :] if action.kind == "check" and action.tally]
    # One test that passes says little about the project, and so does a linter that finds nothing.
    passed_checks = [
        action
        for action in final_checks
        if not action.failed and not _SINGLE_TEST.search(action.label) and not _LITTLE_TALLY.match(_get_tally(action))
    ]
    if last_edit < 0 and not commits:
        passed_checks = []  # of somebody else's work
    return statements + [_describe_passed_check(facts, action) for action in passed_checks[-1:]]


def find_last_commit(facts: SessionFacts) -> tuple[ToolAction, tool_actions.Commit] | None:
    """Return the last reported commit; None if a later command moved HEAD without saying where."""
    commits = phrasing.list_commits(facts.actions)
    if not commits:
        return None
    keys = [action.call.key for action in facts.actions]
    later_calls = [facts.calls[key][0] for key in keys[keys.index(commits[-1][0].call.key) + 1 :]]
    return None if any(_MOVES_HEAD.search(call.command) for call in later_calls) else commits[-1]


def is_pushed(facts: SessionFacts, commit: ToolAction) -> bool:
    """Return whether the call that made a commit, or a later one, pushed it."""
    later_actions = facts.actions[[action.call.key for action in facts.actions].index(commit.call.key) :]
    calls = [facts.calls[action.call.key][0] for action in later_actions if not action.failed]
    return any(_PUSHES.search(call.command) for call in calls)


def list_changed_paths(facts: SessionFacts, edits: Iterable[ToolAction]) -> list[str]:
    """List the project's files that these actions changed, without those that a command removed."""
    paths = select_project_paths(phrasing.list_files_modified(edits))
    return [path for path in paths if path in facts.remaining_paths]


def select_project_paths(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not path.startswith(("/", "~", "..")) and ":" not in path]


def _find_closing_statement(facts: SessionFacts, number: int, request: str) -> Statement | None:
    """Return the sentence of the exchange's last message that tells the outcome; None if none says enough.

    "Why" is answered by a cause, a review by its verdict, work by what the agent reports as done. Any other sentence
    counts only if it speaks of what the prompt speaks of: answers also praise, introduce and digress.
    """
    exchange = facts.exchanges[number]
    message = _get_closing_message(exchange)
    has_work = any(action.kind in WORKING_KINDS and not action.failed for action in facts.actions_by_turn[number])
    prompt = exchange.prompt.text[: transcript_story.MAX_TYPED_CHARS] if exchange.prompt else ""
    if not message:
        closing = ""
    elif _REVIEWS.search(request) and not has_changes(facts.actions_by_turn[number]):
        closing = _find_review_verdict(message)
    elif _is_short_answer(message, request):
        closing = split_sentences(message)[0]
    else:
        closing = _find_cause(message, request)
        closing = closing or (_find_reported_result(message, request) if has_work else "")
        closing = closing or _find_related_sentence(message, request, prompt, has_work=has_work)
    exchanges = facts.exchanges[number : number + 1]
    return _quote_agent(facts, shorten_line(closing, MAX_LINE_CHARS), exchanges) if closing else None


def _get_closing_message(exchange: Exchange) -> str:
    """Return the message that ends an exchange; empty if it was interrupted or the agent was about to go on."""
    steps = list(exchange.steps)
    while steps and steps[-1].kind == "agent" and _CODEX_REVIEW.search(steps[-1].text):
        steps.pop()
    if not steps or steps[-1].kind != "agent":
        return ""
    message = _unwrap_json(steps[-1].text)
    return "" if message.rstrip().endswith(":") else message


def _is_short_answer(message: str, request: str) -> bool:
    """Return whether a message answers a question in one or two sentences."""
    sentences = split_sentences(message[:_MAX_ANSWER_CHARS])
    if not request.endswith("?") or not 1 <= len(sentences) <= 2:
        return False
    is_statement = sentences[0].endswith((".", "!")) and not _OPENER.match(sentences[0])
    return is_statement and not _VAGUE.match(sentences[0])


def _find_review_verdict(message: str) -> str:
    """Return the first finding of a review, or the sentence that says that there is none; empty if neither is clear.

    A review also describes what it read ("adds a cache"), which is not its outcome.
    """
    sentences = split_sentences(message)
    findings = [line for line in sentences if _HAS_SEVERITY.match(line) and len(line.split()) >= _MIN_FINDING_WORDS]
    verdicts = [line for line in sentences if _SAYS_VERDICT.search(line) and _is_complete_sentence(line)]
    return next(iter((*findings, *verdicts)), "")


def _find_cause(message: str, request: str) -> str:
    causes = phrasing.find_causes(message, answers_why=True) if _ASKS_CAUSE.search(request) else []
    return next((line for line in causes if not _VAGUE.match(line)), "")


def _find_reported_result(message: str, request: str) -> str:
    """Return the first reported result that speaks of the request, else the first: a report may list several."""
    results = [
        line
        for line in phrasing.find_results(message)
        if not _VAGUE.match(line) and _is_telling(line, min_words=_MIN_RESULT_WORDS)
    ]
    request_stems = _find_stems(request)
    related_results = [line for line in results if _find_stems(line) & request_stems]
    return next(iter(related_results or results), "")


def _find_related_sentence(message: str, request: str, prompt: str, *, has_work: bool) -> str:
    """Return the first sentence that speaks of what the request speaks of."""
    is_question = request.endswith("?") or bool(_ASKS.match(request))
    # The answer to a remark goes on with the talk; the answer to "write a poem" is the poem.
    if not has_work and (_MAKES.match(request) or not (is_question or _asks_for_work(request))):
        return ""
    # "Investigate the following issue" names nothing; what follows it does.
    request_stems = _find_stems(request)
    if len(request_stems) < _MIN_SHARED_STEMS:
        request_stems |= _find_stems(prompt)
    is_comparable = len(request_stems) >= _MIN_SHARED_STEMS
    is_answer = is_question and not has_work
    min_shared = 1 if is_answer else _MIN_SHARED_STEMS
    sentences = [
        line
        for line in split_sentences(phrasing.strip_opener(message)[:_MAX_ANSWER_CHARS])
        if _is_complete_sentence(line)
        and not phrasing.is_unproven(line)
        and not _STARTS_BACK.match(line)
        and line[0] not in _QUOTATION_MARKS
    ]
    for line in sentences[:_MAX_SENTENCES]:
        shared_count = len(_find_stems(line) & request_stems)
        is_related = not is_comparable or shared_count >= min_shared
        # An answer in the words of the question may be short.
        min_words = _MIN_NAMED_WORDS if is_answer and shared_count >= _MIN_SHARED_STEMS else _MIN_TELLING_WORDS
        # After work a sentence without a name explains, or tells how it went.
        has_name = not is_comparable or not has_work or _names_code(line)
        if is_related and has_name and not _VAGUE.match(line) and _is_telling(line, min_words=min_words):
            return line
    return ""


def _is_complete_sentence(line: str) -> bool:
    """Return whether a line is a statement, not a heading, an option, a question or the start of a list."""
    is_ended = line.endswith((".", "!", "…", "。")) and is_informative(line) and " " in line
    # "Kite Tail — the ribbon behind it." is an item of a list.
    head, dash, _ = line.partition(" — ")
    is_item = bool(dash) and len(head.split()) <= _MAX_ITEM_WORDS and not _VERB.search(head)
    # A heading such as "Core execution and correctness." is short.
    has_verb = len(line.split()) >= _MIN_SENTENCE_WORDS or bool(_VERB.search(line))
    return is_ended and has_verb and not is_item and not _OPENER.match(line)


def _is_telling(line: str, *, min_words: int) -> bool:
    """Return whether a closing sentence names enough; "I verified it." does not."""
    word_count = len(find_topic_words(line))
    return word_count >= _MIN_NAMED_WORDS and (_names_code(line) or word_count >= min_words)


def _names_code(line: str) -> bool:
    """Return whether a sentence names code, a commit or a pull request."""
    return "`" in line or bool(_SAVING.search(line))


def _unwrap_json(message: str) -> str:
    """Return the longest text inside the last JSON answer, which reviewers give; other answers unchanged."""
    if not message.startswith("{"):
        return message
    try:
        texts = [value for value in orjson.loads(message.rpartition("\n\n")[2]).values() if isinstance(value, str)]
    except orjson.JSONDecodeError:
        return message
    return max(texts, key=len, default="")


def is_unfinished(facts: SessionFacts) -> bool:
    """Return whether the session ends with a request or a call instead of an answer."""
    last_steps = facts.exchanges[-1].steps[-1:] if facts.exchanges else ()
    return bool(facts.exchanges) and (not last_steps or last_steps[0].kind in ("call", "result"))


def _quote_agent(facts: SessionFacts, line: str, exchanges: Sequence[Exchange]) -> Statement | None:
    """Quote a line of the agent with its place in the transcript."""
    start = to_plain_line(line).rstrip(" ….")[:40].replace("’", "'")
    for exchange in reversed(exchanges):
        for step in reversed(exchange.steps):
            prose = " ".join(list_prose_lines(step.text)) if step.kind == "agent" else ""
            plain = to_plain_line(_FENCE.sub(" ", step.text)) if prose else ""
            if prose and any(start in text.replace("’", "'") for text in (prose, plain)):
                return Statement(line, cite_step(facts, step, line))
            if prose.startswith("{") and start in step.text:
                return Statement(line, (transcript_story.quote_step(facts.story, step, line.rstrip(" …")),))
    return None


def _get_tally(action: ToolAction) -> str:
    return action.tally.text if action.tally else ""


def _describe_passed_check(facts: SessionFacts, action: ToolAction) -> Statement:
    tally_text = _get_tally(action)
    return Statement(f"`{shorten_line(action.label, 80)}` passes: {tally_text}", cite_action(facts, action, tally_text))


def list_causes(facts: SessionFacts) -> list[Statement]:
    """List sentences in which the agent explains why something failed, unless the person's next prompt refutes it."""
    causes = list[Statement]()
    next_prompts = [*(turn.prompt for turn in facts.turns[1:]), ""]
    for exchange, turn, next_prompt in zip(facts.exchanges, facts.turns, next_prompts, strict=True):
        if phrasing.is_refuted(turn.final_message, next_prompt):
            continue
        has_fault = _REPORTS_FAULT.search(turn.prompt[: transcript_story.MAX_TYPED_CHARS]) is not None
        final_causes = list[Statement]()
        earlier_causes = list[Statement]()
        for step in exchange.steps:
            if step.kind != "agent":
                continue
            if phrasing.takes_back_cause(step.text):
                earlier_causes.clear()
            for line in phrasing.find_causes(step.text):
                if not phrasing.is_failure_cause(line) or _STARTS_BACK.match(line) or not line.endswith((".", "!")):
                    continue
                statement = Statement(shorten_line(line, MAX_LINE_CHARS), cite_step(facts, step, line))
                if step.text == turn.final_message:
                    final_causes.append(statement)
                elif phrasing.is_root_cause(line, has_fault=has_fault):
                    earlier_causes.append(statement)
        # What the agent names on the way to the answer holds only until it names the next.
        causes += final_causes or earlier_causes[-1:]
    return drop_near_duplicates(causes)[-_MAX_CAUSES:]


def list_decisions(facts: SessionFacts) -> list[Statement]:
    """List the decisions of the person: their words, answers and refusals."""
    decisions = list[Statement]()
    for exchange in facts.exchanges:
        if exchange.prompt:
            decisions += [
                Statement(f"You: {quote_text(line, MAX_LINE_CHARS)}", cite_step(facts, exchange.prompt, line))
                for line in transcript_story.get_spoken_sentences(exchange.prompt)
                if _DECISION_WORDS.search(line[:_SENTENCE_START_CHARS])
                and not line.endswith("?")
                and len(line) <= 2 * MAX_LINE_CHARS
            ][:2]
        for step in exchange.steps:
            decisions += _find_person_decisions(facts, step)
    return drop_near_duplicates(decisions)[-_MAX_DECISIONS:]


def _find_person_decisions(facts: SessionFacts, step: Step) -> Iterator[Statement]:
    """Yield the person's answer to a question, or their words when they refused a call."""
    if step.kind == "result" and "answered your question" in step.text[:200]:
        for question, answer in _QUESTION_ANSWER.findall(step.text)[:3]:
            text = f"{shorten_line(question, 140)} You: {quote_text(answer, 120)}"
            if not answer.endswith("?") and not _ASKS_TO_GO_ON.search(question):
                yield Statement(text, cite_step(facts, step, answer))


def list_open_ends(facts: SessionFacts) -> list[Statement]:
    """List what to do next, most certain first: unfinished work, stated steps, open tasks, failing checks."""
    statements = [
        *(_describe_pending_plan(facts) or _describe_interrupted_request(facts)),
        *_list_stated_steps(facts),
        *(
            Statement(
                f"Open on the agent's list: {quote_text(task, 160)}",
                (transcript_story.quote_step(facts.story, step, task),),
                is_next_step=True,
            )
            for task, step in _list_current_tasks(facts)[:3]
        ),
        *_list_manual_checks(facts),
        *_list_failing_checks(facts),
        *_list_earlier_steps(facts),
        *(list_uncommitted_changes(facts) if phrasing.list_commits(facts.actions) else ()),
    ]
    return drop_near_duplicates(statements)[:MAX_OPEN_ENDS]


def _list_current_tasks(facts: SessionFacts) -> list[tuple[str, Step]]:
    """List the open tasks of the agent's list; none after a later commit, because agents seldom tick off the last."""
    tasks = transcript_story.list_open_tasks(facts.story)
    last_commit = max(
        (facts.calls[action.call.key][0].line for action, _ in phrasing.list_commits(facts.actions)), default=0
    )
    # The closing answer does the last task of many lists: "Summarize what changed".
    return [
        (task, step)
        for task, step in tasks
        if step.line > last_commit and (is_unfinished(facts) or not _TOLD_BY_ANSWER.match(task))
    ]


def _describe_pending_plan(facts: SessionFacts) -> list[Statement]:
    """Describe a plan shown at the end of the session if nothing was edited afterwards."""
    if not facts.exchanges:
        return []
    plans = [step for step in facts.exchanges[-1].steps if step.tool == transcript_story.PLAN_TOOL]
    if not plans or not plans[-1].content:
        return []
    later_edits = [
        action
        for action in facts.actions
        if action.kind == "changed" and facts.calls[action.call.key][0].line > plans[-1].line
    ]
    if later_edits:
        return []
    title = read_plan_title(plans[-1].content)
    steps = [quote_text(step, 80) for step in _PLAN_STEP.findall(plans[-1].content)[:3]]
    text = f"Plan not done yet: {', '.join((quote_text(title, 120), *steps))}"
    return [Statement(text, cite_step(facts, plans[-1], title), is_next_step=True)]


def _list_manual_checks(facts: SessionFacts) -> list[Statement]:
    """List manual checks from the plan that opened the session; agents seldom do them."""
    plans = [step for step in facts.story.steps if step.tool == transcript_story.CARRIED_PLAN_TOOL]
    if not plans:
        return []
    section = _VERIFICATION.search(plans[-1].content)
    if section is None:
        return []
    items = [to_plain_line(item).rstrip(":") for item in _LIST_ITEM.findall(section["body"])]
    checks = [
        Statement(f"To check by hand: {quote_text(item, 200)}", cite_step(facts, plans[-1], item), is_next_step=True)
        for item in items
        if _BY_HAND.search(item)
    ]
    return checks[:_MAX_MANUAL_CHECKS]


def _describe_interrupted_request(facts: SessionFacts) -> list[Statement]:
    """Describe the request that was unfinished at the end, with the agent's last announcement."""
    if not facts.exchanges or not is_unfinished(facts):
        return []
    last = facts.exchanges[-1]
    topic = facts.topics[-1]
    announced = [
        (sentence, step)
        for step in last.steps
        if step.kind == "agent"
        for sentence in split_sentences(step.text)
        if _ANNOUNCES.search(sentence.replace("’", "'")) and not sentence.endswith("?")
    ]
    request = shorten_line(topic.request, 140)
    evidence = cite_step(facts, topic.source, topic.request) if topic.source and request else ()
    if not last.steps:
        request = phrasing.pick_first_sentence(last.prompt.text, 140) if last.prompt else request
        evidence = cite_step(facts, last.prompt, request) if last.prompt else evidence
        return [Statement(f"Not answered: {quote_text(request, 140)}", evidence)] if request else []
    if not announced and last.prompt and is_trivial_request(last.prompt.text):
        # A prompt such as "let's do 2" names nothing; only the agent's answer does.
        messages = [step for step in last.steps if step.kind == "agent"]
        announced = [(phrasing.pick_first_sentence(step.text, 140), step) for step in messages[-1:]]
        request = ""
    if announced:
        sentence, step = announced[-1]
        text = f"Under way when the session ended: {quote_text(sentence.rstrip(':'), 140)}"
        text += f" (asked: {quote_text(request, 140)})" if request else ""
        return [Statement(text, (*cite_step(facts, step, sentence), *evidence), is_next_step=True)]
    return [Statement(f"Under way when the session ended: {quote_text(request, 140)}", evidence)] if request else []


def _list_stated_steps(facts: SessionFacts) -> list[Statement]:
    """List steps named in the last message and, if only talk followed it, in the message that ended the last work."""
    last = len(facts.exchanges) - 1
    numbers = sorted({facts.last_working_exchange, last, *([last - 1] if is_unfinished(facts) else [])}, reverse=True)
    if is_unfinished(facts):
        numbers = [number for number in numbers if number < last]
    numbers = [number for number in numbers if number >= 0]
    statements = [
        statement
        for number in numbers
        for step in find_next_steps(_unwrap_json(facts.turns[number].final_message))
        if not is_unfinished(facts) or step.is_firm or (step.is_offer and not _is_offer_answered(facts))
        if number == last or not _TRANSITORY.search(step.text)
        if (statement := _cite_next_step(facts, step, number))
    ]
    return drop_near_duplicates(statements)[:4]


def _is_offer_answered(facts: SessionFacts) -> bool:
    """Return whether the session ends at work on an answer to the agent: "yes, go for it"."""
    last = facts.exchanges[-1]
    return bool(last.steps) and last.prompt is not None and is_trivial_request(last.prompt.text)


def _cite_next_step(facts: SessionFacts, step: NextStep, number: int) -> Statement | None:
    statement = _quote_agent(facts, shorten_line(step.text, MAX_STEP_CHARS), facts.exchanges[number : number + 1])
    if statement is None:
        return None
    text = f"The agent asked: {quote_text(statement.text, MAX_STEP_CHARS)}" if step.is_offer else statement.text
    return Statement(text, statement.evidence, is_next_step=True)


def _list_earlier_steps(facts: SessionFacts) -> list[Statement]:
    """List steps stated shortly before the last work that no later request or commit took up.

    Older ones are skipped: too much was done since to be sure that they are still open.
    """
    statements = list[Statement]()
    later_stems = frozenset[str]()
    has_later_commit = False
    for number in range(len(facts.exchanges) - 1, max(facts.last_working_exchange - _MAX_EXCHANGES_BACK, 0) - 1, -1):
        if number < facts.last_working_exchange:
            for step in find_next_steps(facts.turns[number].final_message):
                stems = _find_stems(step.text)
                is_taken_up = len(stems & later_stems) >= _TAKEN_UP_SHARE * len(stems)
                is_saved = has_later_commit and bool(_SAVING.search(step.text))
                is_lasting = step.is_firm and stems and not _TRANSITORY.search(step.text)
                statement = _cite_next_step(facts, step, number) if is_lasting else None
                if statement and not is_taken_up and not is_saved and not _is_agreed_to(facts, number + 1):
                    statements.append(Statement(f"Said earlier: {statement.text}", statement.evidence))
        prompt = facts.exchanges[number].prompt
        commits = phrasing.list_commits(facts.actions_by_turn[number])
        subjects = [commit.subject for _, commit in commits]
        later_stems |= _find_stems(" ".join([prompt.text if prompt else "", *subjects]))
        has_later_commit = has_later_commit or bool(commits)
    return statements[:_MAX_EARLIER_STEPS]


def _is_agreed_to(facts: SessionFacts, number: int) -> bool:
    """Return whether an exchange does what the answer before proposed: "yes, option 1", then edits or commits."""
    prompt = facts.exchanges[number].prompt
    actions = facts.actions_by_turn[number]
    is_agreed = prompt is not None and bool(is_trivial_request(prompt.text) or _TAKES_UP.match(prompt.text))
    return is_agreed and has_changes(actions)


def _find_stems(text: str) -> frozenset[str]:
    return frozenset(word[:5] for word in find_topic_words(text))


def _list_failing_checks(facts: SessionFacts) -> list[Statement]:
    standing_failures = find_standing_failures(find_failure_fixes(facts.recent_actions), facts.recent_actions)
    statements = list[Statement]()
    for failure in standing_failures:
        action = failure.failed_actions[-1]
        reason = describe_failure(action)
        if reason and not _SANDBOXED.search(action.text) and not _is_overtaken(facts, action):
            text = f"`{shorten_line(action.label, 90)}` fails: {shorten_line(reason, 160)}"
            statements.append(Statement(text, cite_action(facts, action, reason)))
    return statements[-3:]


def _is_overtaken(facts: SessionFacts, failing: ToolAction) -> bool:
    """Return whether a check passed later, or was said to pass, so that this failure no longer counts."""
    keys = [action.call.key for action in facts.actions]
    later_actions = facts.actions[keys.index(failing.call.key) + 1 :]
    passed = [action for action in later_actions if action.kind == "check" and not action.failed]
    if any(action.label.split()[:2] == failing.label.split()[:2] for action in passed):
        return True
    if is_said_to_pass(failing.label, facts.turns[-1].final_message):
        return True
    return bool(passed) and bool(phrasing.list_commits(later_actions))


def list_uncommitted_changes(facts: SessionFacts) -> list[Statement]:
    """List the files that were changed after the last command that may have committed or undone changes."""
    edits = list[ToolAction]()
    for action in facts.actions:
        call, _ = facts.calls[action.call.key]
        if action.kind == "changed" and not action.failed:
            edits.append(action)
        elif _MOVES_CHANGES.search(call.command):
            edits = []
    paths = list_changed_paths(facts, edits)
    if not paths:
        return []
    has_commits = bool(phrasing.list_commits(facts.actions))
    lead = "Changed after the last commit" if has_commits else "Not committed in this session"
    return [Statement(f"{lead}: {join_names(map(phrasing.shorten_path, paths), 5)}", cite_action(facts, edits[-1]))]


def drop_near_duplicates(statements: Sequence[Statement]) -> list[Statement]:
    """Drop statements that repeat an earlier one in nearly the same words, also inside quotes."""
    unique_statements = list[Statement]()
    known_word_sets = list[frozenset[str]]()
    for statement in statements:
        quoted = _QUOTED_STATEMENT.fullmatch(statement.text)
        words = tokenize(quoted[1] if quoted else statement.text)
        if not any(_is_repeated(words, other) for other in known_word_sets):
            unique_statements.append(statement)
            known_word_sets.append(words)
    return unique_statements


def _is_repeated(words: frozenset[str], other: frozenset[str]) -> bool:
    is_contained = len(words) >= _MIN_CONTAINED_WORDS and len(words & other) >= _CONTAINED_SHARE * len(words)
    return is_contained or compute_jaccard(words, other) >= _SAME_THRESHOLD
