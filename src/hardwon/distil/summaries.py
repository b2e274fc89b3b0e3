"""Summarise a session without a model: request, investigated, learned, completed, next steps.

Each line quotes the person or the agent, or states what a call shows. Parts without evidence stay empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import chain

from hardwon.agents.fields import get_text
from hardwon.distil import phrasing, tool_actions
from hardwon.distil.failure_fixes import (
    describe_failure,
    find_failure_fixes,
    find_standing_failures,
    is_sandboxed,
)
from hardwon.distil.observations import find_opened_pull, quote_code
from hardwon.distil.passing_checks import list_passing_checks
from hardwon.distil.session_requests import REVIEWS, count_work, list_requests
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.text.excerpts import (
    join_names,
    list_prose_lines,
    select_fitting,
    shorten_line,
    split_sentences,
    to_plain_line,
)
from hardwon.text.similarity import tokenize
from hardwon.types import Observation, Summary, Turn, frozen

_MAX_QUESTION_CHARS = 1_000  # people ask in fewer; programs add the text that the question is about
_MAX_LINE_CHARS, _MAX_QUOTE_CHARS = 180, 240
# A part may have this many characters per token of the session, within the limits.
_CHARS_PER_TOKEN, _MIN_PART_CHARS, _MAX_PART_CHARS = 0.03, 1_000, 2_000
_MAX_RESULTS, _MAX_CLOSING_RESULTS, _MAX_CAUSES, _MAX_COMMITS, _MAX_FILES, _MAX_STEPS = (
    3,
    2,
    5,
    6,
    10,
    3,
)
_RECENT_TURNS = 5  # a failure in an older turn no longer counts as open
_REPEATED_SHARE = 0.7
_MIN_UNNAMED_WORDS = 8  # a shorter result without names, such as "All tests pass.", adds nothing to the checks
WORKING_KINDS = ("saved", "ran", "changed")
_EDITS_OF_FIX = re.compile(r"; edited [^;]+; passes$")
_TIMES_FAILED = re.compile(r"(?<=` failed)(?: twice| \d+ times)?: ")
_ASKS_WHY = re.compile(r"\b(?:why|how come|what (?:caused|causes))\b", re.I)
_MAX_WEIGHED = 8  # results of a message from which the most telling are chosen
_MIN_ASKED_WORDS = 2
_TELLS_CHANGE = re.compile(r"^\W*(?:\S+ ){1,5}(?:now|no longer)\b", re.I)  # "URLs now point to the other host"
_TELLS_PULL = re.compile(r"^\W*(?:(?:I(?:'ve)? |have )?(?:opened|created)|(?:the )?(?:PR|pull request)\b)", re.I)
_TELLS_COMMIT = re.compile(r"^\W*(?:committed|amended|commit\b)", re.I)
_TASK_ID = re.compile(r"^task\.id: (\S{1,40})$|#(\d{1,9}) created", re.M)
_CLOSED_STATUSES = ("completed", "deleted", "cancelled")
MAX_STEP_CHARS = 300
_MAX_MESSAGE_CHARS = 12_000
_MAX_LISTED = 5
_MIN_PART_OVERLAP = 40
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
    r"|as (?:expected|agreed|requested|you (?:asked|wanted))|no action|not needed|not required|none)\b|→",
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


def summarise_session(turns: Sequence[Turn], observations: Sequence[Observation]) -> Summary:
    """Summarise the turns of a session and their observations."""
    if not turns:
        return Summary(key="", at=0.0)
    actions_by_turn = [classify_calls(turn) for turn in turns]
    actions = list(chain.from_iterable(actions_by_turn))
    recent_actions = list(chain.from_iterable(actions_by_turn[-_RECENT_TURNS:]))
    tokens = sum(action.tokens for action in actions)
    room = int(min(max(_CHARS_PER_TOKEN * tokens, _MIN_PART_CHARS), _MAX_PART_CHARS))

    def join_lines(lines: Sequence[str]) -> str:
        return "\n".join(select_fitting(list(dict.fromkeys(lines)), room))

    identity = f"{turns[0].agent}\0{turns[0].name}\0summary".encode("utf-8", "replace")
    results = _list_results(turns, actions_by_turn)
    changes = _list_changes(actions, list_passing_checks(turns, actions_by_turn), results)
    next_steps = [
        *_list_stated_steps(turns[-1]),
        *_list_open_tasks(actions),
        *_list_failing(recent_actions, turns[-1].final_message),
    ]
    return Summary(
        key=blake2b(identity, digest_size=12).hexdigest(),
        at=max([*(turn.at for turn in turns), *(action.call.at for action in actions)]),
        request="\n".join(list_requests(turns, actions_by_turn)),
        investigated=join_lines(_list_lookups(actions)),
        learned=join_lines(_list_findings(turns, actions_by_turn, observations)),
        completed=join_lines([*results, *changes]),
        next_steps=join_lines(next_steps),
    )


def has_work(turns: Sequence[Turn]) -> bool:
    """Return whether there is anything to summarise: a request, or a call that did something.

    A single long prompt that is answered without any call is a program's (`claude -p` to summarise a text), and its
    answer is about that text and not about this session.
    """
    for turn in turns:
        if any(action.kind != "noise" for action in classify_calls(turn)):
            return True
    prompts = [turn.prompt for turn in turns if turn.prompt]
    return len(prompts) > 1 or any(len(prompt) <= _MAX_QUESTION_CHARS for prompt in prompts)


def _list_lookups(actions: Sequence[ToolAction]) -> list[str]:
    """Return the pages looked up and the tasks of sub-agents; lists of files read tell little."""
    pages: list[str] = []
    tasks: list[str] = []
    for action in actions:
        if action.kind == "fetched" and action.label:
            pages.append(action.label)
        elif action.kind == "agent" and isinstance(action.call.input, dict):
            tasks.append(get_text(action.call.input, "description"))
    tasks = [task for task in tasks if task]
    lines = []
    if pages:
        lines.append(f"Looked up {join_names(pages, 3)}")
    if tasks:
        lines.append(f"Sub-agents: {join_names(tasks, 4, quote='“{}”')}")
    return lines


def _list_findings(
    turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]], observations: Sequence[Observation]
) -> list[str]:
    """Return causes that name something of their turn, fixed failures, and decisions."""
    next_prompts = [*(turn.prompt for turn in turns[1:]), ""]
    causes = []
    for number, (turn, actions, next_prompt) in enumerate(zip(turns, actions_by_turn, next_prompts, strict=True)):
        if phrasing.is_refuted(turn.final_message, next_prompt):
            continue
        is_answer = not count_work(actions)  # the turn only answers a question
        is_followed = any(map(count_work, actions_by_turn[number + 1 :]))
        later_prompts = [later.prompt for later in turns[number + 1 :]]
        answers_why = bool(_ASKS_WHY.search(turn.prompt[:_MAX_LINE_CHARS]))
        for sentence in phrasing.find_causes(turn.final_message, answers_why=answers_why):
            # Later work may have fixed a finding, and changed what the work of this turn had reached.
            is_passing_state = not is_answer and bool(_TELLS_CHANGE.search(sentence))
            if is_followed and (is_passing_state or phrasing.is_finding(sentence)):
                continue
            if any(phrasing.is_renamed(sentence, prompt) for prompt in later_prompts):
                continue
            is_specific = "`" in sentence or phrasing.count_names(sentence, actions)
            if is_answer or is_specific or phrasing.is_failure_cause(sentence):
                causes.append(f"“{shorten_line(sentence, _MAX_QUOTE_CHARS)}”")
    fixes = [
        _tell_fix(observation)
        for observation in observations
        if "problem-solution" in observation.concepts and observation.title
    ]
    last_work_at = max(
        (turn.at for turn, actions in zip(turns, actions_by_turn, strict=True) if count_work(actions)), default=0
    )
    decisions = [
        f"“{observation.title}”"
        for observation in observations
        if observation.type == "decision"
        # What was done after a recommendation need not be what was recommended.
        and not (observation.at < last_work_at and phrasing.is_recommendation(observation.title))
    ]
    causes = _drop_repeated(causes)
    return [*causes[-_MAX_CAUSES:], *fixes[-_MAX_CAUSES:], *decisions]


def _drop_repeated(lines: Sequence[str]) -> list[str]:
    """Return the lines without those that a later one says again in nearly the same words."""
    unique_lines = list[str]()
    for line in reversed(lines):
        words = tokenize(line)
        if not any(len(words & tokenize(later)) >= _REPEATED_SHARE * len(words) for later in unique_lines):
            unique_lines.append(line)
    return unique_lines[::-1]


def _tell_fix(observation: Observation) -> str:
    """Return the title of a fixed failure with its whole reason, such as the failed tests."""
    edits = _EDITS_OF_FIX.search(observation.title)
    if not edits or not observation.facts:
        return observation.title
    times = _TIMES_FAILED.search(observation.title)
    # The fact counts the failures for any reason, the title those for the reason that is told.
    fact = _TIMES_FAILED.sub(times[0], observation.facts[0], count=1) if times else observation.facts[0]
    return f"{shorten_line(fact, _MAX_QUOTE_CHARS)}{edits[0]}"


def _list_results(turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]]) -> list[str]:
    """Quote what the agent says it did, from the turns with most work and the last one."""
    # Where nothing was done, "it now handles X" tells of somebody else's work, such as a branch under review.
    every_action = list(chain.from_iterable(actions_by_turn))
    if not any(action.kind in WORKING_KINDS and not action.failed for action in every_action):
        return []
    results: list[tuple[int, list[str]]] = []
    hashes = [commit.short_hash for _, commit in phrasing.list_commits(every_action)]
    pulls = [pull.partition(": ")[0] for pull in _list_opened_pulls(every_action)]
    for index, (turn, actions) in enumerate(zip(turns, actions_by_turn, strict=True)):
        if _is_overtaken(turns, actions_by_turn, index):
            continue
        work = count_work(actions)
        is_review = bool(REVIEWS.search(turn.prompt[:_MAX_LINE_CHARS])) and not any(
            action.kind in ("changed", "saved") for action in actions
        )
        is_report = (work or turn is turns[-1]) and not is_review
        is_proven = any(action.tally or tool_actions.parse_commits(action.text) for action in actions)
        sentences = phrasing.find_results(turn.final_message, is_proven=is_proven) if is_report else []
        # "Committed as `1a2b3c4`" says again what is told of the commit.
        sentences = [line for line in sentences if not _TELLS_COMMIT.match(line) or not any(map(line.count, hashes))]
        sentences = [line for line in sentences if not _TELLS_PULL.match(line) or not any(map(line.count, pulls))]
        if not sentences:
            continue
        counted = [(min(phrasing.count_names(sentence, actions), 2), sentence) for sentence in sentences[:_MAX_WEIGHED]]
        later_work = zip(turns[index + 1 :], actions_by_turn[index + 1 :], strict=True)
        later_prompts = [later.prompt for later, later_actions in later_work if count_work(later_actions)]
        counted = [item for item in counted if not _is_outdated(item[1], later_prompts)]
        lines = list[str]()
        asked_words = tokenize(turn.prompt[:_MAX_QUESTION_CHARS])
        ranks = {sentence: -count - _is_asked(sentence, asked_words) for count, sentence in counted}
        for count, sentence in sorted(counted, key=lambda item: ranks[item[1]]):
            siblings = phrasing.list_sibling_results(turn.final_message, sentence)
            siblings.sort(key=lambda sibling: ranks.get(sibling, 0))
            is_telling = count or (not lines and len(sentence.split()) >= _MIN_UNNAMED_WORDS)
            if is_telling and not (lines and siblings):  # the list is told or counted already
                lines.append(phrasing.quote_results([sentence, *siblings], 1 + len(siblings), _MAX_QUOTE_CHARS))
        if lines:
            results.append((work, lines))
    if not results:
        return []
    last = len(results) - 1
    busiest = sorted(range(last), key=lambda index: -results[index][0])[: _MAX_RESULTS - 1]
    busiest_lines = [results[index][1][0] for index in sorted(busiest)]
    return [*busiest_lines, *results[last][1][:_MAX_CLOSING_RESULTS]]  # the closing message tells what holds at the end


def _is_asked(sentence: str, asked_words: frozenset[str]) -> bool:
    """Return whether a result names what the person asked for."""
    return len(tokenize(sentence) & asked_words) >= _MIN_ASKED_WORDS


def _is_outdated(sentence: str, later_prompts: Sequence[str]) -> bool:
    """Return whether later work may have changed the state that a sentence tells, or removed what it names."""
    if later_prompts and phrasing.tells_state(sentence):
        return True
    return any(
        phrasing.is_taken_out(sentence, prompt) or phrasing.is_renamed(sentence, prompt) for prompt in later_prompts
    )


def _is_overtaken(turns: Sequence[Turn], actions_by_turn: Sequence[Sequence[ToolAction]], index: int) -> bool:
    """Return whether the next turn takes back what was done in a turn and does something else."""
    following = index + 1
    if following == len(turns) or not count_work(actions_by_turn[following]):
        return False
    return phrasing.is_taken_back(turns[index].final_message, turns[following].prompt)


def _list_opened_pulls(actions: Iterable[ToolAction]) -> list[str]:
    saved = (action for action in actions if action.kind == "saved" and not action.failed)
    return list(dict.fromkeys(pull for action in saved if (pull := find_opened_pull(action))))


def _list_changes(actions: Sequence[ToolAction], passed: Sequence[ToolAction], results: Sequence[str]) -> list[str]:
    """Return what calls prove: commits, pull requests, changed files, checks that pass at the end.

    If the results name all changed files, those are not told again.
    """
    commits = [commit for _, commit in phrasing.list_commits(actions)]
    pulls = _list_opened_pulls(actions)
    changed_paths = phrasing.select_project_paths(phrasing.list_remaining_files(actions))
    lines = [
        f"Committed {commit.short_hash}: “{shorten_line(commit.subject, 90)}”" for commit in commits[-_MAX_COMMITS:]
    ]
    subjects = [subject for _, subject in phrasing.list_unreported_commits(actions)]
    lines += [f"Committed “{shorten_line(subject, 90)}”" for subject in subjects[-_MAX_COMMITS:]]
    lines += [f"Opened {pull}" for pull in pulls[-_MAX_COMMITS:]]
    told_words = set(re.findall(r"[\w./-]*\w", " ".join(results)))
    if not all(path in told_words or path.rpartition("/")[2] in told_words for path in changed_paths):
        lines.append(f"Changed {join_names(map(phrasing.shorten_path, changed_paths), _MAX_FILES)}")
    labels = []
    for action in passed:
        tally = f" ({action.tally.text})" if action.tally else ""
        labels.append(quote_code(action.label, 70) + tally)
    if labels:
        lines.append(f"Passing at the end: {'; '.join(labels)}")
    return lines


def _list_stated_steps(last_turn: Turn) -> list[str]:
    """Return the steps that the agent's last message leaves; an offer only if there is nothing else."""
    steps = find_next_steps(last_turn.final_message)
    firm_steps = [step for step in steps if not step.is_offer]
    return [shorten_line(step.text, _MAX_LINE_CHARS) for step in (firm_steps or steps)[:_MAX_STEPS]]


def _list_open_tasks(actions: Iterable[ToolAction]) -> list[str]:
    """Return the unfinished tasks on the agent's own list, in whichever form it keeps one."""
    open_tasks: dict[str, str] = {}
    for action in actions:
        arguments = action.call.input if isinstance(action.call.input, dict) else {}
        if action.call.tool == "TaskCreate":
            number = _TASK_ID.search(action.text)
            open_tasks[(number[1] or number[2]) if number else ""] = get_text(arguments, "subject")
        elif action.call.tool == "TaskUpdate" and get_text(arguments, "status") in _CLOSED_STATUSES:
            open_tasks.pop(get_text(arguments, "taskId"), None)
        elif action.call.tool == "TodoWrite" and isinstance(todos := arguments.get("todos"), list):
            items = [item for item in todos if isinstance(item, dict)]
            open_items = [item for item in items if get_text(item, "status") not in _CLOSED_STATUSES]
            open_tasks = {str(number): get_text(item, "content") for number, item in enumerate(open_items)}
        elif action.kind == "saved" and not action.failed:
            open_tasks = {}  # agents commit what they finished and seldom tick it off afterwards
    return [f"Open: {shorten_line(item, _MAX_LINE_CHARS)}" for item in open_tasks.values() if item][:5]


def _list_failing(recent_actions: Sequence[ToolAction], final_message: str) -> list[str]:
    """Return the recently failed checks that have not passed since."""
    standing = find_standing_failures(find_failure_fixes(recent_actions), recent_actions, final_message)
    lines = []
    for fix in standing[-3:]:
        action = fix.failed_actions[-1]
        # Without a reason it may be the surroundings that failed, such as a package manager that asks for a terminal.
        if (reason := describe_failure(action)) and not is_sandboxed(action):
            lines.append(f"{quote_code(action.label, 90)} fails: {shorten_line(reason, 140)}")
    return lines


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
    labelled = list[NextStep]()
    for step in _find_labelled_steps(message):
        if not any(_is_part(step.text, other.text) for other in labelled):
            labelled.append(step)
    steps = [*labelled]
    report = _find_report_text(message)
    for step in _find_mentioned_steps(message):
        # What a report says only in passing was done.
        if not step.is_firm and not step.is_offer and step.text in report:
            continue
        if not any(_is_part(step.text, other.text) or _is_part(other.text, step.text) for other in labelled):
            steps.append(step)
    ordered = sorted(steps, key=lambda step: (step.is_state, step.is_offer))
    return list({step.text: step for step in ordered}.values())


def _is_part(text: str, other: str) -> bool:
    """Return whether a step stands in another one, of which either may be cut."""
    start = other.find(text[:_MIN_PART_OVERLAP])
    beginning = text.removesuffix("…").rstrip()
    return beginning in other or (start >= 0 and beginning.startswith(other[start:].removesuffix("…").rstrip()))


def _find_mentioned_steps(message: str) -> list[NextStep]:
    """Return the steps that sentences name without a label."""
    steps = list[NextStep]()
    for line in list_prose_lines(message):
        sentences = split_sentences(line)
        for index in range(len(sentences)):
            step = _read_sentence(sentences, index)
            if step:
                steps.append(step)
    return steps


def _find_report_text(message: str) -> str:
    """Return the plain text below the headings that report what was done."""
    report_lines = list[str]()
    is_report = False
    for line in message.splitlines():
        if _SECTION_START.match(line):
            is_report = bool(_REPORT_HEADING.match(line))
        elif is_report:
            report_lines.append(line)
    return "\n".join(list_prose_lines("\n".join(report_lines)))


def _find_labelled_steps(message: str) -> list[NextStep]:
    """Return the steps behind or below a label such as "Next:", and commands to run again."""
    steps = list[NextStep]()
    lines = message.splitlines()
    for index, raw_line in enumerate(lines):
        line = " ".join(list_prose_lines(raw_line))
        for sentence in split_sentences(line)[1:]:  # It works. Next: the tail.
            inline = _LABEL_LINE.match(sentence)
            if inline and inline["end"] and inline["step"]:
                steps.append(NextStep(inline["step"], is_firm=True))
        if retry := _RETRY_LINE.match(line):
            commands = [following.strip() for following in lines[index + 1 :] if _COMMAND_LINE.match(following)]
            command = commands[0] if commands else ""
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
    steps = list[NextStep]()
    is_list = False
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
    """Return the step that a sentence names: an offer, an instruction or a gap in the work; None if it names none."""
    sentence = sentences[index]
    if _DONE_ITEM.search(sentence) or sentence.endswith(":"):
        return None
    offer = _OFFERS.search(sentence)
    if offer:
        if _EMPTY_OFFER.match(offer["work"]) or len(offer["work"].split()) < _MIN_WORDS:
            return None
        return NextStep(_join_previous(sentences, index), is_offer=True)
    is_instruction = bool(_INSTRUCTS.search(sentence))
    is_gap = bool(_HAS_GAP.search(sentence)) and not _REPORTS_TEXT.search(sentence)
    is_step = is_instruction or is_gap
    if sentence.endswith("?") or not is_step or _NOT_FOR_LATER.match(sentence) or not _is_work(sentence):
        return None
    is_state = not is_instruction and bool(_IS_STATE.search(sentence))
    text = _join_previous(sentences, index)
    if _NAMES_NO_WORK.fullmatch(text):
        return None
    return NextStep(text, is_firm=is_instruction, is_state=is_state)


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
