"""Tell what came of each topic of a session."""

from __future__ import annotations

import re
from fnmatch import fnmatch

from hardwon.distil import phrasing, tool_actions
from hardwon.distil.summaries import WORKING_KINDS, has_work
from hardwon.handoff import transcript_story
from hardwon.handoff.closing_sentences import (
    find_closing_sentence,
    get_closing_message,
    list_review_findings,
    tells_leftover,
)
from hardwon.handoff.handoffs import OUTCOME_ARROW
from hardwon.handoff.phrases import ASKS_TO_CHOOSE, DANGLES, POINTS_BACK, REVIEWS
from hardwon.handoff.prompt_requests import (
    SAVES,
    asks_to_look,
    find_stems,
    find_topic_words,
    has_own_order,
    is_trivial_request,
    only_saves,
    orders_change,
    wants_answer,
)
from hardwon.handoff.session_facts import (
    SessionFacts,
    Topic,
    cite_action,
    cite_step,
    has_changes,
    is_unfinished,
    list_changed_paths,
    quote_agent,
)
from hardwon.handoff.statements import MAX_LINE_CHARS, Statement, quote_text
from hardwon.text.excerpts import join_names, shorten_line

_MAX_TOPICS, _MAX_FILES = 6, 8
_REPLACING_EXCHANGES = 2  # a question about what was done, then what to do instead
_MIN_SHARED_STEMS = 2  # a commit whose subject shares this many with a request is about it
_FILE_NAME = re.compile(r"[\w.@/-]*\w\.[A-Za-z]\w{0,7}\b")
# "Removed the two videos `assets/a.mp4` and …": what stands directly behind the verb.
_TELLS_REMOVAL = re.compile(
    r"\b(?:removed|deleted|dropped|git rm)\b((?:\W+(?!from\b|in\b|of\b|to\b)[\w./@-]+){1,6})", re.I
)
_INSTEAD = re.compile(r"\binstead\b(?! of (?:failing|crashing|being)\b)", re.I)
# "renamed from `kite/tail` to `kite/ribbon`"
# What has a version: `golang.org/x/crypto v0.52.0`, `left-pad@1.3.0`, `requests==2.31`.
_VERSIONS = re.compile(r"([\w./-]*[A-Za-z][\w/-]*)(?:@|==|\s+)v?(\d+\.\d+(?:\.\d+)*)\b")
_RENAMES = re.compile(r"\bfrom `([\w@./:-]{3,80})` to `([\w@./:-]{3,80})`")
# An outcome that itself tells of a removal still holds: "Deleted `start.py`".
_SAYS_GONE = re.compile(r"\b(?:removed?|delet\w+|dropp?\w*|gone|moved?|renamed?|no longer)\b", re.I)
# A second request of the same prompt.
_ADDS_REQUEST = re.compile(r"^\W*(?:also|additionally|in addition|another thing|one more thing)\b", re.I)
_REPLY_CHARS = 60  # what a prompt says of the answer before stands at its beginning


def list_topics(facts: SessionFacts) -> list[Statement]:
    """List each topic with its outcome, in order; of many, those that took most work and the last one.

    Questions that were only answered are left out if anything was changed, and all that followed the last change. A
    request without an outcome is told by the title or an open end.
    """
    if not has_work(facts.turns):
        return []
    described: list[tuple[Topic, Statement]] = []
    for topic in facts.topics:
        if is_worth_telling(topic) and not _is_superseded(facts, topic):
            statement = _describe_topic(facts, topic)
            if statement:
                described.append((topic, statement))
    # Leave out topics of little work, unless there are no others.
    described = [entry for entry in described if entry[0].weight > 1] or described
    changing = [number for number, (topic, _) in enumerate(described) if topic.has_changes]
    if changing:
        last_change = changing[-1]
        described = described[: last_change + 1]
        # The work that follows overtakes the answers to questions on the way to it.
        described = [entry for entry in described if entry[0].has_changes or not wants_answer(entry[0].request)]
    if not described:
        return _tell_changed_files(facts)
    # Of equal weight, the later one is closer to where the next session starts.
    heaviest = sorted(described[-2::-1], key=lambda entry: -entry[0].weight)[: _MAX_TOPICS - 1]
    selected = [*heaviest, described[-1]]
    return [entry[1] for entry in described if entry in selected]


def is_worth_telling(topic: Topic) -> bool:
    """Return False for a slash command that changed nothing: what it printed was for that moment."""
    return topic.has_changes or not topic.request.startswith("/")


def only_saves_work(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether a topic edited nothing and its request to commit or push names nothing of what was committed.

    With nothing asked before it, the request is what the session was about.
    """
    actions = [action for number in range(topic.first, topic.last + 1) for action in facts.actions_by_turn[number]]
    commits = phrasing.list_commits(actions)
    if (
        topic is facts.topics[0]
        or not commits
        or not SAVES.search(topic.request)
        or any(action.kind == "changed" for action in actions)
    ):
        return False
    subjects = " ".join(commit.subject for _, commit in commits)
    return not find_stems(topic.request) & find_stems(subjects)


def _is_superseded(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether a later review, or the next prompt, overtakes the outcome of a topic."""
    following = topic.last + 1
    if is_overtaken_review(facts, topic):
        return True
    if following == len(facts.exchanges):
        return False
    if _is_replaced(facts, topic):
        return True
    if not has_changes(facts.actions_by_turn[following]):
        return False
    hashes = {
        commit.short_hash
        for turn_actions in facts.actions_by_turn[topic.first : following]
        for _, commit in phrasing.list_commits(turn_actions)
    }
    has_commit = any(commit.short_hash in hashes for _, commit in phrasing.list_commits(facts.actions))
    next_prompt = facts.turns[following].prompt
    if not topic.has_changes and POINTS_BACK.search(next_prompt[:_REPLY_CHARS]):
        return True  # "I think we should change that"
    return not has_commit and phrasing.is_taken_back(facts.turns[topic.last].final_message, next_prompt)


def is_overtaken_review(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether a later review follows a review: its findings hold until then."""
    later_topics = facts.topics[facts.topics.index(topic) + 1 :]
    return _is_pure_review(topic) and any(map(_is_pure_review, later_topics))


def is_left_behind(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether a later review follows a review, or something else was looked at before anything was changed."""
    later_topics = facts.topics[facts.topics.index(topic) + 1 :]
    is_followed_up = bool(later_topics) and later_topics[0].has_changes
    has_later_changes = any(later.has_changes for later in later_topics)
    has_other_work = _is_pure_review(topic) and has_later_changes and not is_followed_up
    return has_other_work or is_overtaken_review(facts, topic)


def _is_replaced(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether the next request does something else instead, in files that the topic changed without a commit."""
    actions = [action for number in range(topic.first, topic.last + 1) for action in facts.actions_by_turn[number]]
    paths = set(phrasing.list_files_modified(actions))
    if not paths or any(action.kind == "saved" for action in actions):
        return False
    following = topic.last + 1
    for number in range(following, min(following + _REPLACING_EXCHANGES, len(facts.exchanges))):
        prompt = facts.turns[number].prompt
        if is_trivial_request(prompt):  # "yes please" to "Shall I use silk instead?"
            prompt = facts.turns[number - 1].final_message.rpartition("\n")[2]
        is_same_file = not paths.isdisjoint(phrasing.list_files_modified(facts.actions_by_turn[number]))
        if is_same_file and _INSTEAD.search(prompt):
            return True
    return False


def _is_pure_review(topic: Topic) -> bool:
    return bool(REVIEWS.search(topic.request)) and not topic.has_changes


def _describe_topic(facts: SessionFacts, topic: Topic) -> Statement | None:
    """Describe a topic by its request and outcome; None without an outcome.

    A request that names nothing is left out. Then an outcome that is a commit is not told here either, since it stands
    among the session's results.
    """
    outcome = describe_outcome(facts, topic)
    if not outcome.text:
        return None
    # "please fix these" says nothing without the prompt's context.
    names_something = bool(find_topic_words(topic.request) or REVIEWS.search(topic.request)) or "/" in topic.request
    names_something = names_something and not only_saves_work(facts, topic)
    request = _choose_committed_request(topic, outcome) if names_something else ""
    is_commit = not outcome.text.startswith("“")  # a commit begins with its hash, the agent's words with a quote
    if not is_commit and _answers_earlier_topic(facts, topic, outcome):
        request = ""  # the agent sums up more than the last request
    if is_commit and not request:
        return None
    evidence = cite_step(facts, topic.source, request) if topic.source and request else ()
    parts = [part for part in (quote_text(request, 160), outcome.text) if part]
    return Statement(OUTCOME_ARROW.join(parts), (*evidence, *outcome.evidence))


def _answers_earlier_topic(facts: SessionFacts, topic: Topic, outcome: Statement) -> bool:
    """Return whether an outcome speaks of the request of a topic before, and hardly of its own prompts."""
    stems = find_stems(outcome.text)
    prompts = [exchange.prompt.text for exchange in facts.exchanges[topic.first : topic.last + 1] if exchange.prompt]
    own_count = len(stems & find_stems(" ".join([topic.request, *prompts])))
    earlier_topics = facts.topics[: facts.topics.index(topic)]
    shared_counts = [len(stems & find_stems(earlier.request)) for earlier in earlier_topics]
    return max(shared_counts, default=0) >= own_count + _MIN_SHARED_STEMS


def _choose_committed_request(topic: Topic, outcome: Statement) -> str:
    """Return the sentence of a prompt with several requests that a commit answers, else the topic's request."""
    stems = find_stems(outcome.text)
    if outcome.text.startswith("“") or find_stems(topic.request) & stems:
        return topic.request
    sentences = transcript_story.get_spoken_sentences(topic.source)
    # Of equal ones the later: what a prompt describes comes before what it asks for.
    answered = max(
        reversed(sentences),
        key=lambda line: (len(find_stems(line) & stems), bool(_ADDS_REQUEST.match(line))),
        default="",
    )
    min_shared = 1 if _ADDS_REQUEST.match(answered) else _MIN_SHARED_STEMS
    is_answered = len(find_stems(answered) & stems) >= min_shared and len(answered) <= MAX_LINE_CHARS
    return answered if is_answered else topic.request


def describe_outcome(facts: SessionFacts, topic: Topic) -> Statement:
    """Describe a topic's outcome: its commit, else the agent's closing words; empty if neither tells it."""
    exchanges = range(topic.first, topic.last + 1)
    actions = [action for number in exchanges for action in facts.actions_by_turn[number]]
    lasting_hashes = {commit.short_hash for _, commit in phrasing.list_commits(facts.actions)}  # not amended later
    commits = [
        (action, commit)
        for action, commit in phrasing.list_commits(actions)
        if commit.short_hash in lasting_hashes and not _is_of_earlier_topic(facts, topic, action, commit)
    ]
    if commits:
        # Of several, the one that speaks of the request, and of little else; else the last.
        request_stems = find_stems(topic.request)
        action, commit = max(reversed(commits), key=lambda entry: _rate_match(entry[1].subject, request_stems))
        text = f"{commit.short_hash} {quote_text(commit.subject, 90)}"
        return Statement(text, cite_action(facts, action, commit.short_hash))
    if exchanges[-1] == len(facts.exchanges) - 1 and is_unfinished(facts):
        return Statement("")
    keys = {action.call.key for action in actions}
    unreported = [
        entry
        for entry in phrasing.list_unreported_commits(facts.actions)
        if entry[0].call.key in keys and not _only_saves_earlier_work(facts, topic, entry[0])
    ]
    if unreported:
        action, subject = unreported[-1]
        return Statement(f"committed {quote_text(subject, 100)}", cite_action(facts, action))
    if _awaits_choice(facts, topic):
        return Statement("")
    # What the agent reports of saving the work, or of something else, is no outcome of this request.
    speaking = [number for number in exchanges if number == topic.first or _continues(facts, number, topic)]
    working = [number for number in speaking if facts.actions_by_turn[number]]
    for number in dict.fromkeys((*working[-1:], speaking[-1])):
        closing = _find_closing_statement(facts, number, topic.request)
        if closing and _still_holds(facts, number, closing.text):
            return _quote_with_siblings(facts, topic, number, closing)
    return Statement("")


def _rate_match(subject: str, request_stems: frozenset[str]) -> tuple[int, float]:
    """Return how many words of a commit's subject a request has, and which share of the subject they are."""
    stems = find_stems(subject)
    shared_count = len(stems & request_stems)
    return shared_count, shared_count / max(len(stems), 1)


def _awaits_choice(facts: SessionFacts, topic: Topic) -> bool:
    """Return whether an order to change something ended in a question of the agent, on whose answer it was done.

    What the agent says with the question, such as what is in the way, is then not what came of the order.
    """
    following = topic.last + 1
    if topic.has_changes or following == len(facts.exchanges) or asks_to_look(topic.request):
        return False
    message = get_closing_message(facts.exchanges[topic.last])
    is_asked = bool(ASKS_TO_CHOOSE.search(message.rstrip().rpartition("\n")[2]))
    is_ordered = orders_change(topic.request) and not REVIEWS.search(topic.request)
    next_prompt = facts.turns[following].prompt
    return is_asked and is_ordered and has_changes(facts.actions_by_turn[following]) and not has_own_order(next_prompt)


def _still_holds(facts: SessionFacts, number: int, text: str) -> bool:
    """Return whether nothing later in the session overtakes what the agent said in an exchange."""
    is_followed = any(
        action.kind in WORKING_KINDS for actions in facts.actions_by_turn[number + 1 :] for action in actions
    )
    if is_followed and phrasing.tells_state(text):
        return False
    is_renamed = any(
        old_name in text and new_name not in text
        for turn in facts.turns[number + 1 :]
        for message in (turn.prompt, turn.final_message)
        for old_name, new_name in _RENAMES.findall(message)
    )
    is_taken_out = not _SAYS_GONE.search(text) and any(
        phrasing.is_taken_out(text, turn.prompt)
        for turn, actions in zip(facts.turns[number + 1 :], facts.actions_by_turn[number + 1 :], strict=True)
        if has_changes(actions)
    )
    is_overtaken = (
        is_renamed
        or is_taken_out
        or _names_replaced_version(facts, number, text)
        or _names_lost_commit(facts, text)
        or _names_removed_file(facts, number, text)
    )
    return not is_overtaken


def _names_replaced_version(facts: SessionFacts, number: int, text: str) -> bool:
    """Return whether a later command gives something another version than this text does: `kite@v0.54.0`."""
    told_versions = dict(_VERSIONS.findall(text))
    if not told_versions:
        return False
    for actions in facts.actions_by_turn[number + 1 :]:
        for action in actions:
            call, _ = facts.calls[action.call.key]
            for name, version in _VERSIONS.findall(call.command):
                if told_versions.get(name, version) != version:
                    return True
    return False


def _quote_with_siblings(facts: SessionFacts, topic: Topic, number: int, closing: Statement) -> Statement:
    """Quote the sentence that tells an outcome; of a list also its next items about the request, and their number."""
    message = get_closing_message(facts.exchanges[number])
    findings = list_review_findings(message)
    if any(line.startswith(closing.text.rstrip("…")) for line in findings):
        return Statement(phrasing.quote_results([closing.text], len(findings), MAX_LINE_CHARS), closing.evidence)
    siblings = [line for line in phrasing.list_sibling_results(message, closing.text) if not tells_leftover(line)]
    holding = [line for line in siblings if _still_holds(facts, number, line)]
    request_stems = find_stems(topic.request)
    results = [
        closing.text,
        *(line for line in holding if find_stems(line) & request_stems and not DANGLES.match(line)),
    ]
    plain_results = [line.replace("“", '"').replace("”", '"') for line in results]
    return Statement(phrasing.quote_results(plain_results, 1 + len(holding), MAX_LINE_CHARS), closing.evidence)


def _continues(facts: SessionFacts, number: int, topic: Topic) -> bool:
    """Return whether a prompt within a topic goes on with its request; "commit and push" only saves it."""
    prompt = facts.exchanges[number].prompt
    return prompt is None or not only_saves(prompt.text)


def _names_removed_file(facts: SessionFacts, number: int, text: str) -> bool:
    """Return whether a statement names a file that later work, or a later answer, says is gone."""
    names = {match.strip("`./").lower() for match in _FILE_NAME.findall(text)}
    if not names or _SAYS_GONE.search(text):
        return False
    later_actions = [action for turn_actions in facts.actions_by_turn[number + 1 :] for action in turn_actions]
    removed_paths = [path.strip("./").lower() for path in phrasing.list_removed_paths(later_actions)]
    if any(_is_removed(name, path) for name in names for path in removed_paths):
        return True
    later_answers = [turn.final_message for turn in facts.turns[number + 1 :]]
    removed_names = {
        match.strip("`./").lower()
        for answer in later_answers
        for part in _TELLS_REMOVAL.findall(answer)
        for match in _FILE_NAME.findall(part)
    }
    return any(_is_removed(name, path) for name in names for path in removed_names)


def _is_removed(name: str, removed_path: str) -> bool:
    """Return whether a removed path, which may have a pattern, is that of a named file or of its folder."""
    if not removed_path:
        return False
    is_same = name.endswith(f"/{removed_path}") or removed_path.endswith(f"/{name}") or name == removed_path
    return is_same or name.startswith(f"{removed_path}/") or fnmatch(name, removed_path)


def _names_lost_commit(facts: SessionFacts, text: str) -> bool:
    """Return whether a text names a commit of the session that was amended or rewritten later."""
    lasting_hashes = {commit.short_hash for _, commit in phrasing.list_commits(facts.actions)}
    reported_hashes = {
        commit.short_hash for action in facts.actions for commit in tool_actions.parse_commits(action.text)
    }
    return any(short_hash[:7] in text for short_hash in reported_hashes - lasting_hashes)


def _is_of_earlier_topic(
    facts: SessionFacts, topic: Topic, action: tool_actions.ToolAction, commit: tool_actions.Commit
) -> bool:
    """Return whether a commit saves the work of a topic before: its subject speaks of that and not of this one."""
    number = facts.topics.index(topic)
    if number > 0 and _only_saves_earlier_work(facts, topic, action):
        return True
    stems = find_stems(commit.subject)
    if number == 0 or stems & find_stems(topic.request):
        return False
    # "commit staged changes" may save the work of any topic before, other prompts at most that of the last.
    earlier_topics = facts.topics[0 if _is_ordered_alone(facts, topic, action) else number - 1 : number]
    return any(len(stems & find_stems(earlier.request)) >= _MIN_SHARED_STEMS for earlier in earlier_topics)


def _only_saves_earlier_work(facts: SessionFacts, topic: Topic, commit: tool_actions.ToolAction) -> bool:
    """Return whether a commit was ordered by "commit and push" behind a request that itself changed no file."""
    number = _find_exchange(facts, topic, commit)
    is_changed = any(has_changes(facts.actions_by_turn[earlier]) for earlier in range(topic.first, number))
    return _is_ordered_alone(facts, topic, commit) and not is_changed


def _is_ordered_alone(facts: SessionFacts, topic: Topic, commit: tool_actions.ToolAction) -> bool:
    """Return whether the prompt before a commit asks for nothing else, after the request of its topic."""
    number = _find_exchange(facts, topic, commit)
    prompt = facts.exchanges[number].prompt
    return number > topic.first and prompt is not None and only_saves(prompt.text)


def _find_exchange(facts: SessionFacts, topic: Topic, action: tool_actions.ToolAction) -> int:
    numbers = range(topic.first, topic.last + 1)
    return next(number for number in numbers if action in facts.actions_by_turn[number])


def _find_closing_statement(facts: SessionFacts, number: int, request: str) -> Statement | None:
    """Quote the sentence of the exchange's last message that tells the outcome; None if none says enough."""
    exchange = facts.exchanges[number]
    actions = facts.actions_by_turn[number]
    prompt_text = exchange.prompt.text if exchange.prompt else ""
    sentence = find_closing_sentence(
        get_closing_message(exchange),
        request,
        prompt_text[: transcript_story.MAX_TYPED_CHARS],
        has_work=any(action.kind in WORKING_KINDS and not action.failed for action in actions),
        has_changes=has_changes(actions),
    )
    if not sentence:
        return None
    return quote_agent(facts, shorten_line(sentence, MAX_LINE_CHARS), (exchange,))


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
