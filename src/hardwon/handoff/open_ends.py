"""Tell what a session leaves open: unfinished work, stated steps, open tasks, failing checks."""

from __future__ import annotations

import re

from hardwon.agents.transcript_steps import Step
from hardwon.distil import phrasing
from hardwon.distil.failure_fixes import (
    describe_failure,
    find_failure_fixes,
    find_standing_failures,
    is_said_to_pass,
    is_sandboxed,
)
from hardwon.distil.summaries import MAX_STEP_CHARS, NextStep, find_next_steps
from hardwon.distil.tool_actions import ToolAction, classify_calls
from hardwon.handoff import session_results, transcript_story
from hardwon.handoff.phrases import (
    ANNOUNCES,
    BY_HAND,
    MOVES_CHANGES,
    NAMES_SAVED_WORK,
    REPORTS_FAULT,
    RESTORES_CHANGES,
    TAKES_UP,
    TOLD_BY_ANSWER,
    TRANSITORY,
    UNPUSHED,
)
from hardwon.handoff.prompt_requests import find_stems, is_trivial_request, read_plan_title
from hardwon.handoff.session_facts import (
    SessionFacts,
    cite_action,
    cite_step,
    has_changes,
    is_unfinished,
    list_changed_paths,
    quote_agent,
    unwrap_json,
)
from hardwon.handoff.statements import Statement, continues_cut_text, drop_near_duplicates, quote_text
from hardwon.text.excerpts import join_names, list_prose_lines, shorten_line, split_sentences, to_plain_line

MAX_OPEN_ENDS = 6
_MAX_STATED_STEPS, _MAX_EARLIER_STEPS, _MAX_EXCHANGES_BACK = 4, 2, 3
_MAX_TASKS, _MAX_MANUAL_CHECKS = 3, 2
_MAX_TOPICS_AFTER_PLAN = 4
_TAKEN_UP_SHARE = 0.4  # a step counts as taken up if later requests and commands have this share of its words
_PLAN_STEP = re.compile(r"^#{2,4} +((?:\d+[.):]|(?:Step|Phase|Change|Part)\b)[^\n]*)", re.M | re.I)
# Answers a question of that moment: "keep it only if you fly at night".
_POINTS_TO_TALK = re.compile(r"^\W*\w+ (?:it|that|this|them|these|those)\b", re.I)
# The section of a plan that says how to test it.
_VERIFICATION = re.compile(r"^#+ +(?:verif|test|validat)[^\n]*\n(?P<body>.*?)(?=^#|\Z)", re.M | re.S | re.I)
_CONDITION = re.compile(r"\W*(?:if|unless|otherwise)\b", re.I)
_LIST_ITEM = re.compile(r"^\s*(?:[-*]|\d+[.)])\s+(.+)$", re.M)

_SAYS_CLEAN = "nothing to commit, working tree clean"  # as `git status` prints it
_CHANGES_FOLDER = re.compile(r"\s*cd\s+[\"']?(/[^\s\"';&]+?)/?[\"']?\s*(?:&&|;|\n)")


def list_open_ends(facts: SessionFacts) -> list[Statement]:
    """List what to do next, most certain first: unfinished work, stated steps, open tasks, failing checks."""
    statements = _describe_pending_plan(facts) or _describe_interrupted_request(facts)
    statements += _list_stated_steps(facts)
    statements += _describe_current_tasks(facts)
    statements += _list_manual_checks(facts)
    statements += _list_failing_checks(facts)
    statements += _list_earlier_steps(facts)
    if phrasing.list_commits(facts.actions):  # without a commit the resume prompt tells the changed files
        statements += list_uncommitted_changes(facts)
    return drop_near_duplicates(statements)[:MAX_OPEN_ENDS]


def _describe_current_tasks(facts: SessionFacts) -> list[Statement]:
    """Describe the first open tasks of the agent's list."""
    statements: list[Statement] = []
    for task, step in _list_current_tasks(facts)[:_MAX_TASKS]:
        text = f"Open on the agent's list: {quote_text(task, 160)}"
        evidence = (transcript_story.quote_step(facts.story, step, task),)
        statements.append(Statement(text, evidence, is_next_step=True))
    return statements


def _list_current_tasks(facts: SessionFacts) -> list[tuple[str, Step]]:
    """List the open tasks of the agent's list; none after a later commit, because agents seldom tick off the last."""
    tasks = transcript_story.list_open_tasks(facts.story)
    commit_lines = [facts.calls[action.call.key][0].line for action, _ in phrasing.list_commits(facts.actions)]
    last_commit = max(commit_lines, default=0)
    # The closing answer does the last task of many lists: "Summarize what changed".
    return [
        (task, step)
        for task, step in tasks
        if step.line > last_commit and (is_unfinished(facts) or not TOLD_BY_ANSWER.match(task))
    ]


def _describe_pending_plan(facts: SessionFacts) -> list[Statement]:
    """Describe a plan shown at the end of the session if nothing was edited afterwards.

    Whether the person agreed to it is told only if they said so: Claude Code records a refusal too when they carry the
    plan out in a fresh session.
    """
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
    result = next((result for call, result in facts.calls.values() if call == plans[-1]), None)
    is_agreed = result is not None and not result.failed and not result.refused
    lead = "Plan not done yet" if is_agreed else "Plan at the end of the session, nothing of it done"
    text = f"{lead}: {', '.join((quote_text(title, 120), *steps))}"
    evidence = cite_step(facts, plans[-1], title)
    if result and result.refused.strip():
        text = f"{text}; you said: {quote_text(result.refused, 160)}"
        evidence = (*evidence, *cite_step(facts, result, result.refused))
    return [Statement(text, evidence, is_next_step=True)]


def _list_manual_checks(facts: SessionFacts) -> list[Statement]:
    """List manual checks from the plan that opened the session; agents seldom do them."""
    plans = [step for step in facts.story.steps if step.tool == transcript_story.CARRIED_PLAN_TOOL]
    # Who goes on to other work has seen the first for themselves.
    if not plans or len(facts.topics) > _MAX_TOPICS_AFTER_PLAN:
        return []
    section = _VERIFICATION.search(plans[-1].content)
    if section is None or _is_tried_or_replaced(facts, plans[-1]):
        return []
    items = [to_plain_line(item).rstrip(":") for item in _LIST_ITEM.findall(section["body"])]
    checks = [
        Statement(f"To check by hand: {quote_text(item, 200)}", cite_step(facts, plans[-1], item), is_next_step=True)
        for item in items
        if BY_HAND.search(item)
    ]
    return checks[:_MAX_MANUAL_CHECKS]


def _is_tried_or_replaced(facts: SessionFacts, plan: Step) -> bool:
    """Return whether the session has a newer plan, or a later prompt reports what the work on this one does wrong."""
    later_steps = [step for step in facts.story.steps if step.line > plan.line]
    if any(step.tool == transcript_story.PLAN_TOOL for step in later_steps):
        return True
    return any(step.kind == "person" and REPORTS_FAULT.search(step.text) for step in later_steps)


# A person chooses among what was offered: "do 0.54.0".
_SHORT_ORDER = re.compile(r"(?=.*\d)[^\n?]{1,30}")


def _describe_interrupted_request(facts: SessionFacts) -> list[Statement]:
    """Describe the request that was unfinished at the end, with the agent's last announcement.

    If the agent did nothing after the last prompt, that prompt is "Not answered" instead.
    """
    if not facts.exchanges or not is_unfinished(facts):
        return []
    last = facts.exchanges[-1]
    topic = facts.topics[-1]
    announced = _list_announcements(last)
    request = shorten_line(topic.request, 140)
    evidence = cite_step(facts, topic.source, topic.request) if topic.source and request else ()
    if last.prompt and last.prompt != topic.source and _SHORT_ORDER.fullmatch(last.prompt.text.strip()):
        request = phrasing.pick_first_sentence(last.prompt.text, 140)
        evidence = cite_step(facts, last.prompt, request)
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


def _list_announcements(exchange: transcript_story.Exchange) -> list[tuple[str, Step]]:
    """Return the sentences in which the agent says what it will do, each with its message."""
    announcements: list[tuple[str, Step]] = []
    for step in exchange.steps:
        if step.kind != "agent":
            continue
        for sentence in split_sentences(step.text):
            if ANNOUNCES.search(sentence.replace("’", "'")) and not sentence.endswith("?"):
                announcements.append((sentence, step))
    return announcements


def _list_stated_steps(facts: SessionFacts) -> list[Statement]:
    """List steps named in the last message and, if only talk followed it, in the message that ended the last work."""
    last = len(facts.exchanges) - 1
    is_cut_off = is_unfinished(facts)
    # If the session was cut off, the last exchange has no last message, and the one before takes its place.
    last_finished = last - 1 if is_cut_off else last
    numbers = {min(facts.last_working_exchange, last_finished), last_finished}
    statements: list[Statement] = []
    for number in sorted(numbers, reverse=True):
        if number < 0:
            continue
        for step in find_next_steps(unwrap_json(facts.turns[number].final_message)):
            # If the session was cut off, only firm steps count, and offers that the last prompt did not answer.
            is_open = not is_cut_off or step.is_firm or (step.is_offer and not _is_offer_answered(facts))
            is_outdated = number != last and TRANSITORY.search(step.text)
            if step.is_state and UNPUSHED.search(step.text) and session_results.find_last_commit(facts):
                continue  # the resume prompt tells it with the last commit
            if not is_open or is_outdated or _has_untold_subject(facts.turns[number].final_message, step.text):
                continue
            statement = _cite_next_step(facts, step, number)
            if statement:
                statements.append(statement)
    unique_statements = drop_near_duplicates(statements)
    return [
        statement
        for statement in unique_statements
        if not any(continues_cut_text(statement.text, other.text) for other in unique_statements)
    ][:_MAX_STATED_STEPS]


def _has_untold_subject(message: str, step: str) -> bool:
    """Return whether a step is a condition inside an item of a list, whose subject stands at the beginning of it."""
    if not _CONDITION.match(step):
        return False
    items = [" ".join(list_prose_lines(item)) for item in _LIST_ITEM.findall(message)]
    return any(step in item and not item.startswith(step) for item in items)


def _is_offer_answered(facts: SessionFacts) -> bool:
    """Return whether the session ends at work on an answer to the agent: "yes, go for it"."""
    last = facts.exchanges[-1]
    return bool(last.steps) and last.prompt is not None and is_trivial_request(last.prompt.text)


def _cite_next_step(facts: SessionFacts, step: NextStep, number: int) -> Statement | None:
    """Quote a next step from the exchange of this number; None if its words are not in the transcript."""
    statement = quote_agent(facts, shorten_line(step.text, MAX_STEP_CHARS), facts.exchanges[number : number + 1])
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
    first = max(facts.last_working_exchange - _MAX_EXCHANGES_BACK, 0)
    for number in reversed(range(first, len(facts.exchanges))):
        if number < facts.last_working_exchange:
            for step in find_next_steps(facts.turns[number].final_message):
                stems = find_stems(step.text)
                is_taken_up = len(stems & later_stems) >= _TAKEN_UP_SHARE * len(stems)
                is_saved = has_later_commit and bool(NAMES_SAVED_WORK.search(step.text))
                is_lasting = step.is_firm and stems and not TRANSITORY.search(step.text)
                is_lasting = is_lasting and not _POINTS_TO_TALK.match(step.text)
                statement = _cite_next_step(facts, step, number) if is_lasting else None
                if statement and not is_taken_up and not is_saved and not _is_agreed_to(facts, number + 1):
                    statements.append(Statement(f"Said earlier: {statement.text}", statement.evidence))
        prompt = facts.exchanges[number].prompt
        commits = phrasing.list_commits(facts.actions_by_turn[number])
        subjects = [commit.subject for _, commit in commits]
        later_stems |= find_stems(" ".join([prompt.text if prompt else "", *subjects]))
        has_later_commit = has_later_commit or bool(commits)
    return statements[:_MAX_EARLIER_STEPS]


def _is_agreed_to(facts: SessionFacts, number: int) -> bool:
    """Return whether an exchange does what the answer before proposed: "yes, option 1", then edits or commits."""
    prompt = facts.exchanges[number].prompt
    actions = facts.actions_by_turn[number]
    is_agreed = prompt is not None and bool(is_trivial_request(prompt.text) or TAKES_UP.match(prompt.text))
    return is_agreed and has_changes(actions)


def _list_failing_checks(facts: SessionFacts) -> list[Statement]:
    """List the latest checks that failed and were not passed or overtaken since; failures of a sandbox do not count."""
    standing_failures = find_standing_failures(find_failure_fixes(facts.recent_actions), facts.recent_actions)
    statements = list[Statement]()
    for failure in standing_failures:
        action = failure.failed_actions[-1]
        reason = describe_failure(action)
        if reason and not is_sandboxed(action) and not _is_overtaken(facts, action):
            text = f"`{shorten_line(action.label, 90)}` fails: {shorten_line(reason, 160)}"
            statements.append(Statement(text, cite_action(facts, action, reason)))
    return statements[-3:] or _list_failing_subagent_checks(facts)


def _list_failing_subagent_checks(facts: SessionFacts) -> list[Statement]:
    """List the checks that failed repeatedly in sub-agents and passed nowhere afterwards."""
    turn = transcript_story.build_subagent_turn(facts.story)
    actions = classify_calls(turn) if turn else []
    statements = list[Statement]()
    for failure in find_standing_failures(find_failure_fixes(actions), actions, facts.turns[-1].final_message):
        action = failure.failed_actions[-1]
        runs = [other for other in actions if other.failed and other.label == action.label]
        reason = describe_failure(action)
        has_passed = any(other.kind == "check" and not other.failed for other in facts.actions)
        if reason and len(runs) > 1 and not has_passed and not is_sandboxed(action):
            text = f"`{shorten_line(action.label, 90)}` fails: {shorten_line(reason, 160)}"
            statements.append(Statement(text, cite_action(facts, action, reason)))
    return statements[-1:]


def _is_overtaken(facts: SessionFacts, failing: ToolAction) -> bool:
    """Return whether a failed check no longer counts, because of what came later.

    The same check passed, the last message says that it passes, or work was committed after any check had passed.
    Checks are the same if the program and its first argument are, as in `npm test`, whatever files they are limited to.
    """
    keys = [action.call.key for action in facts.actions]
    later_actions = facts.actions[keys.index(failing.call.key) + 1 :]
    passed = [action for action in later_actions if action.kind == "check" and not action.failed]
    failing_start = failing.label.split()[:2]
    if any(action.label.split()[:2] == failing_start for action in passed):
        return True
    if is_said_to_pass(failing.label, facts.turns[-1].final_message):
        return True
    return bool(passed) and bool(phrasing.list_commits(later_actions))


def list_uncommitted_changes(facts: SessionFacts) -> list[Statement]:
    """List the files that were changed after the last command that may have committed or undone changes.

    What the person did with them outside of the session is not known. Once they evidently worked there, by another
    branch or a clean working tree, nothing is said.
    """
    edits = list[ToolAction]()
    has_commits = False
    for action in facts.actions:
        call, result = facts.calls[action.call.key]
        if result is None or result.refused:
            continue  # the person refused the command, or the session ended before it did
        if action.kind == "changed" and not action.failed:
            if not _is_in_other_folder(facts, call):
                edits.append(action)
        elif MOVES_CHANGES.search(call.command) and not RESTORES_CHANGES.search(call.command):
            edits = []
            # Not only reported ones: rewriting gives a commit another hash, and `commit -q` prints none.
            has_commits = has_commits or (action.kind == "saved" and not action.failed and "commit" in call.command)
        elif _SAYS_CLEAN in action.text and "git status" in call.command:
            edits = []
    last_branch = next((step.branch for step in reversed(facts.story.steps) if step.branch), "")
    # No command of the agent after these edits changed the branch.
    edits = [action for action in edits if facts.calls[action.call.key][0].branch in ("", last_branch)]
    paths = list_changed_paths(facts, edits)
    if not paths:
        return []
    lead = "Changed after the last commit" if has_commits else "Changed, and not committed by the agent"
    return [Statement(f"{lead}: {join_names(map(phrasing.shorten_path, paths), 5)}", cite_action(facts, edits[-1]))]


def _is_in_other_folder(facts: SessionFacts, call: Step) -> bool:
    """Return whether a command ran in a folder outside of the project, so that its relative paths are not there."""
    project = facts.story.project or facts.story.cwd
    folder = _CHANGES_FOLDER.match(call.command)
    return folder is not None and bool(project) and not f"{folder[1]}/".startswith(f"{project}/")
