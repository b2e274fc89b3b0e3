"""What a draft says of a session, by plain code: each statement with the lines of the transcript that show it.

What is said here stands in the session; only the order is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hardwon.agents.transcript_steps import Step
from hardwon.distil import check_results, phrasing
from hardwon.distil.failure_fixes import FailureFix, describe_failure, find_failure_fixes, find_standing_failures
from hardwon.distil.observations import observe_turn
from hardwon.distil.summaries import summarise_session
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.handoff import transcript_story as telltale
from hardwon.handoff.transcript_story import Exchange, Story
from hardwon.store.reflection_types import Evidence
from hardwon.text.excerpts import (
    format_times,
    is_informative,
    join_names,
    list_prose_lines,
    pluralize,
    shorten_line,
    split_sentences,
    to_plain_line,
)
from hardwon.text.similarity import compute_jaccard, tokenize
from hardwon.types import Summary, Turn, frozen

MAX_LINE_CHARS = 220
POLL_TOOL = "BashOutput"
_MAX_REMEMBERED_CHARS = 200
MAX_REQUESTS, MAX_COMMITS, MAX_FILES, MAX_CHECKS, MAX_CAUSES, MAX_READ_FILES = 4, 5, 8, 3, 2, 5
MAX_DECISIONS, MAX_FAILURES, MAX_OPEN_ENDS = 5, 5, 6
_RECENT_TURNS = 5  # turns whose failures may stand
_SAME_THRESHOLD = 0.6
# A statement that only introduces what somebody said, such as: Left out, says the agent: “The cache is missing.”
_QUOTED_STATEMENT = re.compile(r"[^“”]*: “([^“”]+)”")
_SENTENCE_START_CHARS = 60  # characters from the start of a sentence: further on it tells of something else
_MIN_CAUSE_WORDS = 7  # words that a cause takes
_NOD = re.compile(r"^(?:no|nope|yes|yeah|yep|ok|okay|nice|great|good|thanks)\b", re.I)
_PICKS_OPTION = re.compile(
    r"(?:let'?s )?(?:do|go with|take|use|option|number)? ?(?:option|number|#)? ?\w{1,2}\W*", re.I
)
_OPENER = re.compile(r"(?:here(?:'s|’s| is| are)|let me|i(?:'ll|’ll| will)|if\b)", re.I)  # it tells nothing yet
_IS_DONE = re.compile(r"\b(?:already (?:\w+ )?(?:in|done|fixed|handled|covered)|but now|no longer needed)\b|→", re.I)
_INLINE_SCRIPT = re.compile(r"\s-[ce] [\"']|<<")  # a script that was typed for the moment
_TRACE_FRAME = re.compile(r"at \S+ \(|File \"")  # a line of a trace, which gives no reason
_QUESTION_ANSWER = re.compile(r'"([^"\n]{4,300})"\s*=\s*"([^"\n]{1,300})"')
_DECISION_WORDS = re.compile(
    r"\b(?:let'?s (?:go with|use|keep|not|skip|stick|drop|remove)|(?:go|stick) with|I(?:'d| would)? (?:prefer|rather)"
    r"|we (?:should(?:n't| not)|don'?t want|do not want|decided|will use|won'?t)"
    r"|(?:don'?t|do not|never|always) (?:use|add|change|touch|commit|push|make|create|write|run|include|rely)"
    r"|use [^.\n]{1,60} instead)\b",
    re.I,
)
_CAUSE_WORDS = re.compile(
    r"\b(?:turns out|root cause|the (?:real )?(?:problem|issue|bug|cause|reason|culprit)(?: here)? (?:is|was)"
    r"|happens when)\b|\bcause:",
    re.I,
)


@frozen
class Statement:
    """A sentence, and where the transcript shows it."""

    text: str
    evidence: tuple[Evidence, ...] = ()


@frozen
class SessionFacts:
    """A session as statements are made from it."""

    story: Story
    exchanges: tuple[Exchange, ...]
    turns: tuple[Turn, ...]
    summary: Summary
    actions: tuple[ToolAction, ...]
    recent_actions: tuple[ToolAction, ...]
    calls: Mapping[str, tuple[Step, Step | None]]
    failure_fixes: tuple[FailureFix, ...]
    last_working_exchange: int  # the exchange in which the last call was made


def gather_facts(story: Story) -> SessionFacts:
    """Everything that is told more than once, made once."""
    turns = telltale.build_turns(story)
    actions_by_turn = [classify_calls(turn) for turn in turns]
    return SessionFacts(
        story=story,
        exchanges=telltale.split_exchanges(story),
        turns=turns,
        summary=summarise_session(turns, [observation for turn in turns for observation in observe_turn(turn)]),
        actions=tuple(action for turn_actions in actions_by_turn for action in turn_actions),
        recent_actions=tuple(action for turn_actions in actions_by_turn[-_RECENT_TURNS:] for action in turn_actions),
        calls=telltale.pair_calls(story),
        failure_fixes=tuple(fix for turn_actions in actions_by_turn for fix in find_failure_fixes(turn_actions)),
        last_working_exchange=max(
            (index for index, turn_actions in enumerate(actions_by_turn) if turn_actions), default=len(turns) - 1
        ),
    )


def cite_step(facts: SessionFacts, step: Step, words: str = "") -> tuple[Evidence, ...]:
    """The line of a step, quoting the one of its lines that has these words."""
    start = to_plain_line(words)[:40]
    raw_line = next(
        (line for line in step.text.splitlines() if start and start in " ".join(list_prose_lines(line))), words
    )
    return (telltale.quote_step(facts.story, step, raw_line),)


def cite_action(facts: SessionFacts, action: ToolAction, words: str = "") -> tuple[Evidence, ...]:
    """The line of a call's result where there are words to quote, else that of the call."""
    call, result = facts.calls[action.call.key]
    if words and result:
        line = next((candidate for candidate in result.text.splitlines() if words[:60] in to_plain_line(candidate)), "")
        return (telltale.quote_step(facts.story, result, line),)
    call = find_starting_call(facts.story, call)
    return (telltale.quote_step(facts.story, call, call.command or call.path),)


def find_starting_call(story: Story, call: Step) -> Step:
    """The call that has the command in its line: a later look at how it goes has not."""
    start = call.command[:_MAX_REMEMBERED_CHARS]  # a reader remembers no more of a long one
    matching_steps = (step for step in story.steps if step.command.startswith(start) and step.tool != POLL_TOOL)
    return next(matching_steps, call) if call.tool == POLL_TOOL and call.command else call


def list_requests(facts: SessionFacts) -> list[Statement]:
    """What was asked first, and last."""
    request_lines = facts.summary.request.split("\n") if facts.summary.request else []
    prompts = [
        (phrasing.pick_first_sentence(exchange.prompt.text, 180), exchange.prompt)
        for exchange in facts.exchanges
        if exchange.prompt
    ]
    pasted_lines = {
        line
        for line, step in prompts
        if len(step.text) <= telltale.MAX_TYPED_CHARS and not telltale.get_spoken_sentences(step)
    }
    relevant_lines = [
        line for line in request_lines if not is_trivial_request(line) and line not in pasted_lines
    ] or request_lines[:1]
    chosen = [*relevant_lines[:1], *relevant_lines[1:][-(MAX_REQUESTS - 1) :]]
    requests = [(line, step) for line in chosen for step in [_find_step(prompts, line)] if step]
    return [
        Statement(f"{'Then asked' if index else 'Asked'}: {line.rstrip(chr(92))}", cite_step(facts, step, line))
        for index, (line, step) in enumerate(requests)
    ]


def is_trivial_request(request: str) -> bool:
    """Whether a request only nods, picks one of what was offered, or is a word or two."""
    words = request.split()
    return len(words) <= 2 or (len(words) <= 5 and bool(_NOD.match(request) or _PICKS_OPTION.fullmatch(request)))


def _find_step(pairs: Sequence[tuple[str, Step]], request_line: str) -> Step | None:
    return next((step for line, step in pairs if line == request_line), None)


def list_outcomes(facts: SessionFacts) -> list[Statement]:
    """What the agent said it came to, then what the calls show: commits, pull requests, files, checks that pass."""
    statements = list[Statement]()
    if facts.exchanges and (closing := _find_closing_statement(facts)):
        statements.append(closing)
    commits = list_commits(facts)
    commits_by_subject = {
        subject: (action, commit_id, subject) for action, (_, commit_id, subject, _) in commits
    }  # amended, it is still one
    for action, commit_id, subject in list(commits_by_subject.values())[-MAX_COMMITS:]:
        statements.append(
            Statement(f"Committed {commit_id}: “{shorten_line(subject, 100)}”", cite_action(facts, action, commit_id))
        )
    if len(commits_by_subject) > MAX_COMMITS:
        action, (_, commit_id, *_) = commits[0]
        statements.append(
            Statement(
                f"{pluralize(len(commits_by_subject) - MAX_COMMITS, 'commit')} before these",
                cite_action(facts, action, commit_id),
            )
        )
    pull_requests = {
        pull_request: action
        for action in facts.actions
        if action.kind == "saved" and (pull_request := check_results.find_pull_request(action.text))
    }
    statements += [
        Statement(f"Pull request {pull_request}", cite_action(facts, action, pull_request))
        for pull_request, action in pull_requests.items()
    ][-2:]
    if edits := [action for action in facts.actions if action.kind != "read" and action.paths and not action.failed]:
        paths = phrasing.list_files_modified(edits)
        file_names = join_names(map(phrasing.shorten_path, paths), MAX_FILES)
        statements.append(
            Statement(f"Changed {file_names}", (*cite_action(facts, edits[0]), *cite_action(facts, edits[-1])))
        )
    else:
        statements += _list_lookups(facts)
    checks = {action.label: action for action in facts.actions if action.kind == "check"}
    passed_checks = [action for action in checks.values() if not action.failed][-MAX_CHECKS:]
    return statements + [_describe_passed_check(facts, action) for action in passed_checks]


def _list_lookups(facts: SessionFacts) -> list[Statement]:
    """Where nothing was changed: what was read, looked up and searched for."""
    kinds = (("read", "Read", phrasing.shorten_path), ("fetched", "Looked up", str), ("searched", "Searched for", str))
    statements = list[Statement]()
    for kind, verb, format_label in kinds:
        if actions := [
            action for action in facts.actions if action.kind == kind and action.label and not action.failed
        ]:
            names = join_names(map(format_label, dict.fromkeys(action.label for action in actions)), MAX_READ_FILES)
            statements.append(
                Statement(f"{verb} {names}", (*cite_action(facts, actions[0]), *cite_action(facts, actions[-1])))
            )
    return statements[:2]


def list_commits(facts: SessionFacts) -> list[tuple[ToolAction, tuple[str, str, str, str]]]:
    """Each commit that git reported: branch, hash, subject and size."""
    return [
        (action, commit)
        for action in facts.actions
        if action.kind == "saved"
        for commit in check_results.parse_commits(action.text)
    ]


def select_project_paths(paths: Iterable[str]) -> list[str]:
    """The paths that are of the project."""
    return [path for path in paths if not path.startswith(("/", "~", "..")) and ":" not in path]


def _find_closing_statement(facts: SessionFacts) -> Statement | None:
    """The first sentence with which the last work ended that tells something."""
    if is_unfinished(facts):
        return None
    sentences = split_sentences(phrasing.strip_opener(facts.turns[facts.last_working_exchange].final_message)[:4_000])
    candidates = [
        index
        for index, line in enumerate(sentences)
        if is_informative(line) and not line.endswith(("?", ":")) and not _OPENER.match(line)
    ]
    index = next((index for index in candidates if sentences[index].endswith((".", "!"))), next(iter(candidates), -1))
    sentence_count = 2 if index >= 0 and len(sentences[index].split()) <= 3 else 1
    line = " ".join(sentences[index : index + sentence_count]) if index >= 0 else ""
    return (
        _quote_agent(
            facts,
            shorten_line(line, MAX_LINE_CHARS),
            facts.exchanges[facts.last_working_exchange : facts.last_working_exchange + 1],
        )
        if " " in line
        else None
    )


def is_unfinished(facts: SessionFacts) -> bool:
    """Whether the session ends with a request or a call, and not with the agent's words."""
    last_steps = facts.exchanges[-1].steps[-1:] if facts.exchanges else ()
    return bool(facts.exchanges) and (not last_steps or last_steps[0].kind in ("call", "result"))


def _describe_interrupted_request(facts: SessionFacts) -> list[Statement]:
    """The request that was under way when the session ended."""
    prompt = facts.exchanges[-1].prompt if facts.exchanges and is_unfinished(facts) else None
    line = phrasing.pick_first_sentence(prompt.text, MAX_LINE_CHARS) if prompt else ""
    if not prompt or not line:
        return []
    if _PICKS_OPTION.fullmatch(line):  # which one it was, the agent says
        agent_lines = [
            phrasing.pick_first_sentence(step.text, MAX_LINE_CHARS)
            for step in facts.exchanges[-1].steps
            if step.kind == "agent"
        ]
        statement = _quote_agent(facts, agent_lines[-1], facts.exchanges[-1:]) if agent_lines else None
        return (
            [Statement(f"Under way when the session ended: {statement.text}", statement.evidence)] if statement else []
        )
    state = "was under way when the session ended" if facts.exchanges[-1].steps else "was asked last and not answered"
    return [Statement(f"“{line}” {state}", cite_step(facts, prompt, line))]


def _quote_agent(facts: SessionFacts, line: str, exchanges: Sequence[Exchange]) -> Statement | None:
    """Words of the agent, where it said them."""
    start = to_plain_line(line).rstrip(" …")[:40]
    for exchange in reversed(exchanges):
        for step in reversed(exchange.steps):
            if step.kind == "agent" and start in " ".join(list_prose_lines(step.text)):
                return Statement(line, cite_step(facts, step, line))
    return None


def _describe_passed_check(facts: SessionFacts, action: ToolAction) -> Statement:
    tally_text = action.tally.text if action.tally else ""
    return Statement(
        f"`{shorten_line(action.label, 80)}` passes" + (f": {tally_text}" if tally_text else ""),
        cite_action(facts, action, tally_text),
    )


def list_causes(facts: SessionFacts) -> list[Statement]:
    """Sentences of the agent that give a cause."""
    causes = [
        Statement(shorten_line(line, MAX_LINE_CHARS), cite_step(facts, step, line))
        for exchange in facts.exchanges
        for step in exchange.steps
        if step.kind == "agent" and _CAUSE_WORDS.search(step.text)
        for line in split_sentences(step.text[:8_000])
        if _CAUSE_WORDS.search(line)
        and is_informative(line)
        and not line.endswith("?")
        and len(line.split()) >= _MIN_CAUSE_WORDS
    ]
    return drop_near_duplicates(causes)[-MAX_CAUSES:]


def list_decisions(facts: SessionFacts) -> list[Statement]:
    """What the person settled, in their words or by answering or refusing, and what the agent says was decided."""
    decisions = list[Statement]()
    for exchange, turn in zip(facts.exchanges, facts.turns, strict=True):
        if exchange.prompt:
            decisions += [
                Statement(f"You: “{shorten_line(line, MAX_LINE_CHARS)}”", cite_step(facts, exchange.prompt, line))
                for line in split_sentences(exchange.prompt.text[:3_000])
                if _DECISION_WORDS.search(line[:_SENTENCE_START_CHARS])
                and not line.endswith("?")
                and len(line) <= 2 * MAX_LINE_CHARS
            ][:2]
        for step in exchange.steps:
            decisions += _find_person_decisions(facts, step)
        if line := phrasing.find_decision(turn.final_message):
            statement = _quote_agent(facts, shorten_line(line, MAX_LINE_CHARS), [exchange])
            decisions += [statement] if statement else []
    return drop_near_duplicates(decisions)[-MAX_DECISIONS:]


def _find_person_decisions(facts: SessionFacts, step: Step) -> Iterator[Statement]:
    """An answer to a question of the agent's, or the words with which a call was refused."""
    if step.kind == "result" and step.refused.strip() and not step.refused.rstrip().endswith("?"):
        yield Statement(
            f"You refused a call: “{shorten_line(step.refused, MAX_LINE_CHARS)}”", cite_step(facts, step, step.refused)
        )
    elif step.kind == "result" and "answered your question" in step.text[:200]:
        for question, answer in _QUESTION_ANSWER.findall(step.text)[:3]:
            yield Statement(
                f"{shorten_line(question, 140)} You: “{shorten_line(answer, 120)}”", cite_step(facts, step, answer)
            )


def list_failures(facts: SessionFacts) -> list[Statement]:
    """What failed and what put it right, then what was given up."""
    fixes_by_label = dict[str, list[FailureFix]]()
    for fix in facts.failure_fixes:
        if fix.worked and not _is_retry(fix) and not _INLINE_SCRIPT.search(fix.failed_actions[0].label):
            fixes_by_label.setdefault(fix.failed_actions[0].label, []).append(fix)
    groups = sorted(fixes_by_label.values(), key=lambda group: -sum(len(fix.failed_actions) for fix in group))[
        :MAX_FAILURES
    ]
    return [
        _describe_fix(facts, group) for group in sorted(groups, key=lambda group: group[0].failed_actions[0].call.at)
    ]


def _is_retry(fix: FailureFix) -> bool:
    """Whether the same command worked the next time, unchanged: nothing was ruled out."""
    last_failure = fix.failed_actions[-1]
    return fix.worked is not None and not fix.edits and fix.worked.call.input == last_failure.call.input


def _describe_fix(facts: SessionFacts, group: Sequence[FailureFix]) -> Statement:
    failing, worked = group[0].failed_actions[0], group[-1].worked
    assert worked, "only what was put right comes here"
    reason = _find_reason(failing)
    paths = phrasing.list_files_modified([action for fix in group for action in fix.edits])
    count = sum(len(fix.failed_actions) for fix in group)
    ending = (
        f"; passed after editing {join_names(map(phrasing.shorten_path, paths), 3)}"
        if paths
        else f"; `{shorten_line(worked.label, 90)}` worked"
        if worked.label != failing.label
        else "; then it worked"
    )
    text = (
        f"`{shorten_line(failing.label, 90)}` failed{format_times(count)}"
        + (f": {shorten_line(reason, 160)}" if reason else "")
        + ending
    )
    return Statement(
        text,
        (
            *cite_action(facts, failing, check_results.find_error_line(failing.text, is_shell=True)),
            *cite_action(facts, worked),
        ),
    )


def _find_reason(failing: ToolAction) -> str:
    reason = describe_failure(failing)
    return "" if _TRACE_FRAME.match(reason) else reason


def list_open_ends(facts: SessionFacts) -> list[Statement]:
    """Checks that fail still, what is on the agent's list or was said to remain, and changes without a commit."""
    standing_failures = find_standing_failures(find_failure_fixes(facts.recent_actions), facts.recent_actions)
    failing_actions = [
        action
        for failure in standing_failures
        for action in failure.failed_actions[-1:]
        if not _is_overtaken(facts, action)
    ][-3:]
    statements = _describe_interrupted_request(facts) + [
        Statement(
            f"`{shorten_line(action.label, 90)}` fails" + (f": {shorten_line(reason, 160)}" if reason else ""),
            cite_action(facts, action, reason),
        )
        for action in failing_actions
        for reason in [_find_reason(action)]
    ]
    for line, exchanges in (
        (line, exchanges) for line, exchanges in _find_stated_open_ends(facts) if not _IS_DONE.search(line)
    ):
        statement = _quote_agent(facts, line, exchanges)
        is_question = statement and line.endswith("?")
        statements += (
            [Statement(f"The agent asked: “{line}”", statement.evidence) if is_question else statement]
            if statement
            else []
        )
    statements += _list_uncommitted_changes(facts)
    return drop_near_duplicates(statements)[:MAX_OPEN_ENDS]


def _find_stated_open_ends(facts: SessionFacts) -> Iterator[tuple[str, Sequence[Exchange]]]:
    """What was said to remain with the last words, and if nothing was done since, when the last work ended."""
    yield from ((line, facts.exchanges[-1:]) for line in facts.summary.next_steps.split("\n") if line)
    if facts.last_working_exchange < len(facts.turns) - 1:
        earlier_summary = summarise_session(
            facts.turns[facts.last_working_exchange : facts.last_working_exchange + 1], ()
        )
        yield from (
            (line, facts.exchanges[facts.last_working_exchange : facts.last_working_exchange + 1])
            for line in earlier_summary.next_steps.split("\n")
            if line
        )


def _is_overtaken(facts: SessionFacts, failing: ToolAction) -> bool:
    """Whether another check passed later and the work was committed then: this one failed for itself."""
    keys = [action.call.key for action in facts.actions]
    later_actions = facts.actions[keys.index(failing.call.key) + 1 :]
    has_passed_check = any(action.kind == "check" and not action.failed for action in later_actions)
    return has_passed_check and any(
        action.kind == "saved" and check_results.parse_commits(action.text) for action in later_actions
    )


def _list_uncommitted_changes(facts: SessionFacts) -> list[Statement]:
    """Files that were changed after the last commit, in a session that commits."""
    commit_indexes = [
        index
        for index, action in enumerate(facts.actions)
        if action.kind == "saved" and check_results.parse_commits(action.text)
    ]
    later_edits = (
        [action for action in facts.actions[commit_indexes[-1] + 1 :] if action.kind == "changed" and not action.failed]
        if commit_indexes
        else []
    )
    paths = select_project_paths(phrasing.list_files_modified(later_edits))
    if not paths:
        return []
    file_names = join_names(paths, MAX_FILES)
    return [Statement(f"Changed after the last commit: {file_names}", cite_action(facts, later_edits[-1]))]


def drop_near_duplicates(statements: Sequence[Statement]) -> list[Statement]:
    """Without what was said already in nearly the same words, as a statement or in quotes."""
    unique_statements, known_word_sets = list[Statement](), list[frozenset[str]]()
    for statement in statements:
        quoted = _QUOTED_STATEMENT.fullmatch(statement.text)
        words = tokenize(quoted[1] if quoted else statement.text)
        if all(compute_jaccard(words, other) < _SAME_THRESHOLD for other in known_word_sets):
            unique_statements.append(statement)
            known_word_sets.append(words)
    return unique_statements
