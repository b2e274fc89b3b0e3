"""Pick sentences and names to show: requests, results, causes and decisions of an agent, and files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hardwon.agents.fields import collect_strings, get_text
from hardwon.distil import tool_actions
from hardwon.distil.tool_actions import ToolAction
from hardwon.text.excerpts import (
    is_informative,
    join_names,
    select_fitting,
    shorten_line,
    split_sentences,
    to_plain_line,
)

_MAX_MESSAGE_CHARS = 8_000
_MIN_CAUSE_WORDS, _MIN_RESULT_WORDS, _MAX_SENTENCE_CHARS = 7, 3, 320
_DECISION = re.compile(
    r"\b(?:(?:I|we|we've|I've)(?: have)? (?:decided|chose|settled)|(?:I|we)(?:'ll| will) (?:go with|use|keep)"
    r"|(?:my|the) (?:recommendation|decision|verdict|conclusion) (?:is|was)|I(?:'d| would)? recommend|decision:"
    r"|let's go with|the (?:best|right|correct|cleanest) (?:way|approach|choice|option|fix) (?:is|would be))\b",
    re.I,
)
# An acknowledgement decides nothing, even if it says "I will keep".
_ACKNOWLEDGEMENT = re.compile(
    r"^\W*(?:noted|understood|got it|acknowledged|okay|ok|sure|will do|remembered|thanks|thank you)\b"
    r"[^.!?]{0,30}[.!?:,;–—-]*\s*$"
    r"|\b(?:keep|bear|have) (?:that|this|it|these|those|them|your \w+|the \w+)(?: \w+){0,3} in mind\b"
    r"|\bI(?:'ll| will|'ve| have)(?: now)? (?:remember(?:ed)?|noted?|made a note|keep (?:you|an eye|a note|track))\b",
    re.I,
)
_BARE_NAME = re.compile(r"^(?:/|~/|@|https?:)\S+$")
_OPENERS = re.compile(
    r"^(?:(?:ok|okay|great|perfect|excellent|done|good|sure|yes|now|alright|got it)[!,.:]*\s+)+", re.I
)
_MIN_TELLING_WORDS = 2
_GENERIC_TEXT = """
    can could would should will you we me my our your it its this that these those them they please look take see check
    read use want need like let lets make do does did doing done get getting go going fix change changes update add
    implement create write find tell talk know think thing things issue issues problem problems error errors file files
    code following below above all any some more one two new current still also just now then first next again ok okay
    yes yeah yep no not what why how when where which who is are was be been have has had there here so and or but if
    for with from into about out up on in at to of an the context task back instead try tried great seems seem really
    sure maybe definitely actually good nice fine right wrong work working works commit push pr comit same done thanks
    continue proceed ahead run option way already too very much only everything something anything everything's
    """
_GENERIC_WORDS = frozenset(_GENERIC_TEXT.split())
_ORDERS = re.compile(
    r"\W*(?:(?:ok(?:ay)?|yes|and|now|then|please|let'?s|can you|could you)[\s,.!]+)*"
    r"(?:add|build|create|delete|deploy|fix|implement|investigate|merge|move|open|publish|rebase|refactor|release|remove"
    r"|rename|revert|review|run|ship|test|update|write)\b",
    re.I,
)
# "root cause" in an enumeration names no cause: "describes the symptom, root cause and fix".
ROOT_CAUSE = r"^\W*(?:the )?root cause\b|(?<!, )(?<!same )\broot cause\b(?!,)"
_CAUSE = re.compile(
    ROOT_CAUSE + r"|\b(?:turns out|the (?:real |actual )?(?:problem|issue|bug|cause|reason|culprit)(?: here)?"
    r" (?:is|was)|because|caused by|happens when|which is why|silently|verified that|confirmed)\b"
    r"|\bcause:",
    re.I,
)
# Causes worth telling even if they name nothing of the turn.
_FAILURE_CAUSE = re.compile(
    ROOT_CAUSE + r"|\b(?:turns out|caused by|happens when)\b|\bcause:"
    r"|\b(?:fail|broke|crash|reject|denied|wrong)\w*\b.{0,80}\bbecause\b"
    r"|\bthe (?:real |actual )?(?:problem|issue|bug|cause|reason|culprit)(?: here)? (?:is|was)\b"
    r"(?! (?:filed|opened|reported|closed|fixed|resolved))",
    re.I,
)
_ROOT_CAUSE = re.compile(ROOT_CAUSE + r"|\bturns out\b|\bcaused by\b|\bcause(?: is| was|:)", re.I)
# Thinking aloud: "So the issue is there", "the problem is that my test looks for …".
_DEDUCES = re.compile(
    r"^\W*(?:this|that|which|so|now|ok|okay|hence|therefore)\b|, so the \w+ is\b"
    r"|\b(?:I(?:'m)?|my|the tests?(?: is| are)?)\b",
    re.I,
)
# The agent corrects itself while it still searches: "Actually, wait - the real issue is …".
_SEARCHES = re.compile(r"^\W*(?:(?:actually|wait|hm+)\b|(?:no|oh),)", re.I)
# The subject stands in an earlier sentence: "It is paying that cost because …", "Today you have that because …".
_DANGLES = re.compile(
    r"^\W*(?:(?:today|now|so|then|and|but|currently),? )?(?:(?:it|that|this|they|these|those)\b"
    r"|you (?:have|get|need) (?:it|that|this|them)\b)",
    re.I,
)
# "So the tail tears", "But it holds", "Because of this", "Worth telling because …", "Do not cut it because …".
_CONTINUES = re.compile(
    r"^\W*(?:(?:so|but|and|because|worth|tempting|do not|don't)\b|(?:today |now )?(?:it|they|you)\b)", re.I
)
# The person says that the answer before did not help.
_REFUTES = re.compile(
    r"^\W*(?:(?:hm+|ok(?:ay)?|sorry|but|well|ugh|argh)\b\W*)*(?:nope\b|still\b|that'?s (?:not|wrong)|(?:it|that|this)"
    r" (?:still|is(?:n'?t| not)|did(?:n'?t| not)|does(?:n'?t| not))"
    r" ?(?:work|help|fix|it|right|true|fail|do|the|not|get)|same (?:error|issue|problem|result|thing))"
    r"|\b(?:is|are|'s) still (?:there|here|present)\b"
    r"|\bstill (?:not|fail\w*|does(?:n'?t| not)|broken"
    r"|get(?:ting)?|see(?:ing)?|crash\w*|wrong|happen\w*)\b",
    re.I,
)
# "hm, thinking again, keep it", "put it back", "revert that", "let's use silk instead", "sorry, I meant the reel".
_RECONSIDERS = re.compile(
    r"^\W*(?:(?:and|but|so|or|well|wait|ok(?:ay)?|yes|yeah|sure|hm+|sorry|oops)\b\W*)*"
    r"(?:let's |can (?:we|you) |please )*(?:(?:on second thoughts?|thinking (?:about it )?again|actually|I meant?)\b"
    r"|(?:put|change|switch|roll|bring) (?:it|that|this|them) back\b"
    r"|(?:revert|undo) (?:it|that|this|them|the|your)\b|(?:do|try|use) \S+ instead\b)"
    r"|^\W*(?:sorry|oops|my (?:bad|mistake)|correction)\b",
    re.I,
)
_MIN_REPLACEMENT_WORDS = 5  # "never mind, revert it" replaces nothing
_REPLACES = re.compile(
    r"\bchange (?:in|of) plans?\b|\blet's (?:rather )?stick (?:to|with)\b|^\W*(?:scratch that|never ?mind)\b", re.I
)
_TAKES_OUT = re.compile(
    r"\b(?:remove|delete|drop|get rid of|take out|undo|revert|should(?:n't| not) (?:need to )?(?:be|have|use))"
    r"((?:[ \t]+[\w`'./-]+){1,4})",
    re.I,
)
_RENAMED = re.compile(r"\brename[ds]?\b[^\n]{0,80}?\bfrom [`'\"]?([\w@./:-]{3,})", re.I)
_RECOMMENDS = re.compile(
    r"\brecommend\w*|\b(?:best|right|correct|cleanest) (?:way|approach|choice|option|fix) (?:is|would be)\b", re.I
)
_STEM_CHARS = 5
_STATE = re.compile(
    r"\b(?:is|are)(?: now| currently| still| already| all| both)* (?:running|checked out|listening|serving"
    r"|up and running|in sync|up[ -]to[ -]date|staged|unstaged|uncommitted|unpushed|untracked|pending"
    r"|ahead|behind|waiting|open|failing|broken)\b"
    r"|\b(?:did not|didn't|have not|haven't|has not|not yet) (?:been )?(?:commit|push|merg)\w*\b"
    r"|\bnot (?:committed|pushed|merged)\b"
    r"|\bwork(?:ing )?(?:tree|directory)\b|\bcurrently\b|\bnow on (?:branch )?`",
    re.I,
)
_DENIES = re.compile(r"^\W*no\b(?=[,.!]|\W+(?:that|it|this|the)\b)", re.I)
_REPLY_CHARS = 200  # what a prompt says of the answer before stands at its beginning
# Questions, guesses, offers and advice do not state a fact.
_HEDGED = re.compile(
    r"\?$|^\W*(?:if|when|once|would|should|shall|let me|let's|i'll|i will|i'm going|next|you|to|please|want|before|for"
    r" example|option|here(?:'s| is| are))\b"
    r"|\b(?:might|may|maybe|perhaps|probably|likely|i think|i'd|we'd|i'm guessing|not certain|want me|if you|so I'm"
    r"|let me know|suggest\w*|recommend\w*|propos\w+|plan to|would you)\b",
    re.I,
)
# Not done, missing, left as it was, or the finding of a review: "Medium: it now exits with 0".
_NOT_DONE = re.compile(
    r"^\W*(?:no|there (?:is|are|was|were) no) |\b(?:left|kept|remains?|stays?)\b.{0,60}\b(?:untouched|unchanged|alone"
    r"|as[- ]is|intact)\b|\b(?:would|could|should|must|will be|needs? to|not yet)\b|^\W*to-?dos?\b"
    r"|^\W*(?:critical|high|medium|low|nit|p\d)\b[^:]{0,12}:",
    re.I,
)
_FINDING = re.compile(r"^\W*(?:critical|high|medium|low|nit|p\d)\b[^:]{0,12}:", re.I)
_DONE_VERBS = (
    "added|amended|built|bumped|changed|cleaned|closed|committed|completed|configured|confirmed|converted|created"
    "|deleted|deployed|disabled|documented|done|dropped|enabled|ensured|exposed|extracted|finished|fixed|found"
    "|generated|handled|implemented|improved|installed|introduced|made|merged|migrated|moved|opened|posted|published"
    "|pushed|ran|rebased|refactored|regenerated|registered|released|removed|renamed|replaced|reproduced|resolved"
    "|restored|reverted|reviewed|rewrote|reworked|set|simplified|split|squashed|staged|stopped|switched|tagged"
    "|tightened|updated|upgraded|verified|wired|wrapped|wrote"
)
# "Set the key and run it" is an order.
_RESULT_START = re.compile(
    r"^\W*(?:[\w@-]*[./][\w./@-]*`?(?: \([^)]{1,40}\))?(?: ?[—–:]| -) (?:now )?)?"  # "`src/tail.py` — added a knot"
    rf"(?:all |both |everything |successfully )?(?!set\b|split\b)(?:{_DONE_VERBS})\b",
    re.I,
)
_RESULT = re.compile(
    r"\b(?:i|we)(?:'ve| have)?(?: now| also| just| already| then| successfully)*"
    r" (?:(?!need)[a-z]{2,}ed|wrote|made|ran|built|found"
    r"|set|put|took|kept|left|rewrote|split|cut|sent|written|rewritten|taken|chosen)\b"
    rf"|\b(?:is now|are now|was|were|has been|have been)(?: now| all| both| \w+ly| already)* (?:{_DONE_VERBS})\b"
    r"|\b(?:is|are)(?: now| all| fully| both)* (?:fixed|done|resolved|committed|pushed|merged|gone|in place|live|green"
    r"|clean|complete|up to date)\b"
    r"|\b(?:is|are) now (?:an?|one|the|two|three|four|in|at|part of)\b"
    r"|\bnow (?:[a-z]+s|[a-z]+ed|have|use|show|stream|run|pass|work)\b|\bno longer\b",
    re.I,
)
# Short sentences like these only repeat what the calls show: a commit, or passing checks.
_PROVEN = re.compile(
    r"^\W*(?:both |all |everything |implemented and )?(?:is |are )?(?:committed|pushed|merged|amended|rebased|done"
    r"|tests|lint|all (?:[\w-]+ )?(?:tests|checks)|created and switched|switched|checked out|created (?:the )?branch"
    r"|the commit (?:`[0-9a-f]+` )?(?:has been|was) (?:created|made)"
    r")\b",
    re.I,
)
_MIN_PROVEN_WORDS = 12
# The end of a line that introduces a list, and words after which such a line is no sentence without the list.
_LIST_LEAD = re.compile(r"(?:,? (?:covering|including|namely|as follows|with|which|that))?:$", re.I)
_INCOMPLETE = re.compile(
    r"(?:\b(?:to|that|which|now|with|by|as|and|or|of|for|in|on|from|where|the|it|both|is|are|was|were|now \w+|\w+ing"
    r"|an?|its|this|will|would|can|could|should|must|may|do|does|did|has|have|had|be|been|not|also|then|only|into|at"
    r"|between|like|via|if|when|so|because|than|to \w+|will \w+|can \w+)"
    r"|\b(?:following|these|\w+) (?:things|changes|fixes|files|places|parts|steps|points|ways|items|tests))$",
    re.I,
)
# The agent looked at something or tried it out: no result.
_LOOKS = re.compile(r"^\W*I (?:also |then |just )?(?:ran|reran|checked|looked|read|reviewed|tested|tried)\b", re.I)
_LIST_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d{1,2}[.)])\s+\S")
_MAX_LIST_ITEMS = 3
_MIN_STEM_CHARS = 4
# File names that are everyday words, so a sentence with one of them need not be about the file.
_GENERIC_STEM_TEXT = (
    "index main test tests util utils config settings readme init setup types type models model helpers common base"
    " package changelog state plan notes build install server client page home data"
)
_GENERIC_STEMS = frozenset(_GENERIC_STEM_TEXT.split())
# Where an agent keeps plans, memories and scratch files: below a hidden folder, or in a scratchpad.
_AGENT_FOLDER = re.compile(r"/\.[\w-]+/|/scratchpad/")
# What a command removes, or moves to another place.
_REMOVES = re.compile(r"(?:^|[;&|]\s*|\bgit )(?:rm\s+([^;&|\n]*)|mv\s+([^;&|\n]*)\s[^\s;&|]+)", re.M)
_PATCH_REMOVES = re.compile(r"^(?:\*\*\* Delete File: |D )(\S[^\n]*)$", re.M)
_PATCH_MOVES = re.compile(r"^\*\*\* Update File: (\S[^\n]*)\n\*\*\* Move to: ", re.M)
# Gives the commits of a branch other hashes, or drops them.
_REWRITES_HISTORY = re.compile(
    r"\bgit\b[^|;&\n]*\b(?:rebase\b(?! --(?:abort|quit))|pull\b[^|;&\n]* --rebase|filter-(?:branch|repo)"
    r"|reset\b[^|;&\n]* (?:HEAD[~^]|[0-9a-f]{7,40}\b|origin/))"
)
_REWRITES_NOTHING = re.compile(r"\bup[ -]to[ -]date\b")
_FORCED_PUSH = re.compile(r"^ *\+ ([0-9a-f]{7,40})\.\.\.[0-9a-f]{7,40} ", re.M)  # + old...new branch -> branch
_QUOTED_OR_HEADING = re.compile(r"^\s*(?:>|#{1,6} ).*$", re.M)
_TABLE_ARROW = re.compile(r" → | -> ")
_NAME = re.compile(
    r"`[^`]{2,80}`|#\d+|\b\w+(?:[./_-]\w+)+\b|\b[a-z]+[A-Z]\w*|\b[A-Z][A-Z0-9_]{2,}\b|\b\w+(?:Error|Exception)\b"
    r"|\b[0-9a-f]{7,12}\b"
)
# Shell prompts, logs, diffs, review findings, and text that starts with an address or a position.
_PASTED_LINE = re.compile(
    r"[❯$%>✗✓×●⎿☒☐\[{<|+=]|@@|[-=]{2,}|(?:\(\w+\) )?\S+@\S+|\d{4}-\d\d|\d\d:\d\d|(?:/|~/|https?:)\S+$"
    r"|[\w./-]{1,200}\.\w{1,9}:\d+|(?:env )?[A-Z][A-Z_]+=\S+ |(?:\w+ ){0,3}error:|fail(?:ed)?\s+\S+[/.]\S|.* took \d"
    r"|(?:error|fatal|warning|traceback|stop says|(?:\d+\. )?(?:critical|high|medium|low)(?: severity)?:)(?!\w)"
    r"|(?![\w“‘])[^\x00-\x7f]",
    re.I,
)
# The label of a pasted review finding; a person who pastes one asks to see to it.
_SEVERITY = re.compile(r"^\W*(?:\d+[.)]\s*)?(?:critical|high|medium|low)(?: severity)?:\s*", re.I)
_LOG_TAIL = re.compile(r"\s\[?\d\d:\d\d:\d\d.*")  # a log pasted behind typed words
_CONTINUED_OUTPUT = re.compile(r"\s{2,}\S|\t|\S+$")  # an indented line, or a single word


def shorten_path(path: str) -> str:
    """Shorten a path outside the project to its last parts."""
    parts = path.split("/")
    return f"…/{'/'.join(parts[-3:])}" if path.startswith("/") and len(parts) > 5 else path


def list_files_read(actions: Iterable[ToolAction]) -> list[str]:
    """Return the files that were read, the most often read first."""
    counts: Counter[str] = Counter()
    for action in actions:
        if action.kind == "read" and not action.failed:
            counts.update(action.paths)
    return [path for path, _ in counts.most_common()]


def list_files_modified(actions: Iterable[ToolAction]) -> list[str]:
    paths: dict[str, None] = {}
    for action in actions:
        if action.kind != "read" and not action.failed:
            paths.update(dict.fromkeys(action.paths))
    return list(paths)


def list_remaining_files(actions: Sequence[ToolAction]) -> list[str]:
    """Return the modified files without those that a command removed or moved, such as probes."""
    removed_words: list[str] = []
    for action in actions:
        if isinstance(action.call.input, dict):
            command = get_text(action.call.input, "command")
            removed_words += [match[1] or match[2] for match in _REMOVES.finditer(command)]
    removed = " ".join(removed_words)
    return [path for path in list_files_modified(actions) if path not in removed]


def list_removed_paths(actions: Iterable[ToolAction]) -> list[str]:
    """Return the files and folders that commands and patches removed or moved, as they named them."""
    removed_paths: list[str] = []
    for action in actions:
        if action.failed:
            continue
        removed_paths += _PATCH_REMOVES.findall(action.text)
        for text in collect_strings(action.call.input):
            removed_paths += _PATCH_REMOVES.findall(text) + _PATCH_MOVES.findall(text)
        command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
        words = [match[1] or match[2] for match in _REMOVES.finditer(command)]
        removed_paths += [word.strip("\"'") for word in " ".join(words).split() if not word.startswith("-")]
    return removed_paths


def select_project_paths(paths: Iterable[str]) -> list[str]:
    """Return the paths inside the project, then those outside that are no agent's own files."""
    all_paths = list(paths)
    inside = [path for path in all_paths if not path.startswith(("/", "~", "..")) and ":" not in path]
    return [*inside, *(path for path in all_paths if path not in inside and not _AGENT_FOLDER.search(path))]


def list_commits(actions: Iterable[ToolAction]) -> list[tuple[ToolAction, tool_actions.Commit]]:
    """Return the commits that git reported, each subject once, without those that were amended or rewritten."""
    commits = list[tuple[ToolAction, tool_actions.Commit]]()
    rewritten = list[tuple[ToolAction, tool_actions.Commit]]()
    for action in actions:
        command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
        if "git log" in command:
            # The log that agents read after rewriting shows the commits that outlived it.
            commits += [entry for entry in rewritten if entry[1].short_hash in action.text]
            rewritten = [entry for entry in rewritten if entry[1].short_hash not in action.text]
        if _REWRITES_HISTORY.search(command) and not action.failed and not _REWRITES_NOTHING.search(action.text):
            rewritten += commits
            commits = []
        replaced_hashes = _FORCED_PUSH.findall(action.text)
        commits = [entry for entry in commits if not entry[1].short_hash.startswith(tuple(replaced_hashes))]
        if action.kind != "saved":
            continue  # a push that failed after it leaves the commit
        reported = tool_actions.parse_commits(action.text)
        pushed = None if reported else tool_actions.find_pushed_commit(action)
        reported = [pushed] if pushed else reported
        if reported and commits and "--amend" in command and commits[-1][1].branch == reported[0].branch:
            commits.pop()
        commits += [(action, commit) for commit in reported]
    return list({commit.subject: (action, commit) for action, commit in commits}.values())


def list_unreported_commits(actions: Iterable[ToolAction]) -> list[tuple[ToolAction, str]]:
    """Return the commits without a hash and their subjects, without those before a command that rewrote history."""
    commits = dict[str, ToolAction]()
    for action in actions:
        command = get_text(action.call.input, "command") if isinstance(action.call.input, dict) else ""
        if _REWRITES_HISTORY.search(command) and not action.failed and not _REWRITES_NOTHING.search(action.text):
            commits.clear()
        for commit in tool_actions.parse_commits(action.text):
            commits.pop(commit.subject, None)
        subject = tool_actions.find_unreported_commit(action)
        if subject and not tool_actions.find_pushed_commit(action):
            commits[subject] = action
    return [(action, subject) for subject, action in commits.items()]


def pick_first_sentence(text: str, max_chars: int) -> str:
    """Return the first typed sentence, with the next one while it is too short; empty if all was pasted."""
    sentences = split_sentences(remove_pasted_lines(strip_severity(text[:4_000])))
    typed = [sentence for sentence in sentences if not is_pasted_line(sentence)]
    if not typed and text.startswith("/"):
        typed = split_sentences(text)  # a slash command
    typed = typed[next((index for index, line in enumerate(typed) if not _BARE_NAME.match(line)), 0) :]
    excerpt = ""
    for sentence in typed[:4]:
        has_ended = excerpt.endswith((".", "!", "?"))
        is_unfinished = len(excerpt.split()) <= (3 if has_ended else 5) or excerpt.endswith(":")
        if not is_unfinished and (has_ended or not _BARE_NAME.match(sentence)):
            break
        excerpt = f"{excerpt} {sentence}".strip()
    return shorten_line(excerpt.rstrip("\\ "), max_chars)


def is_telling_request(line: str) -> bool:
    """Return whether a request names its subject and is clear without context."""
    words = [word for word in re.findall(r"[^\W_]{2,}", line.lower()) if word not in _GENERIC_WORDS]
    min_words = 1 if _ORDERS.match(line) else _MIN_TELLING_WORDS  # "can you fix linting"
    return len(words) >= min_words and not _BARE_NAME.match(line) and not is_pasted_line(line)


def strip_opener(text: str) -> str:
    """Remove an opening such as "Great! Now"."""
    return _OPENERS.sub("", text.lstrip())


def find_decision(final_message: str) -> str:
    """Return the sentence that makes a decision; empty if there is none."""
    for sentence in split_sentences(final_message[:_MAX_MESSAGE_CHARS]):
        is_decision = _DECISION.search(sentence) and not sentence.endswith(("?", ":"))
        if is_decision and not _is_acknowledgement(sentence):
            return to_plain_line(sentence)
    return ""


def _is_acknowledgement(sentence: str) -> bool:
    """Return whether a sentence only acknowledges something."""
    return _ACKNOWLEDGEMENT.search(sentence.replace("’", "'")) is not None


def is_finding(sentence: str) -> bool:
    """Return whether a sentence is the finding of a review, which names its severity: "High: the reel never stops"."""
    return _FINDING.match(sentence) is not None


def find_causes(message: str, *, answers_why: bool = False) -> list[str]:
    """Return the sentences that state a cause as a fact.

    In the answer to "why did it fail?" the question names what "it" is.
    """
    return [
        sentence
        for sentence in _list_statements(message)
        if _CAUSE.search(sentence)
        and len(sentence.split()) >= _MIN_CAUSE_WORDS
        and not _SEARCHES.match(sentence)
        and (answers_why or not _is_dangling(sentence))
    ]


def _is_dangling(sentence: str) -> bool:
    """Return whether a sentence goes on with another one, or names neither its subject nor anything of the code."""
    return bool(_CONTINUES.match(sentence)) or (bool(_DANGLES.match(sentence)) and not _NAME.search(sentence))


def is_refuted(message: str, next_prompt: str) -> bool:
    """Return whether the next prompt says that a message was wrong or did not help."""
    reply = next_prompt[:_REPLY_CHARS].replace("’", "'")
    # After a question "no" only answers it.
    is_denied = bool(_DENIES.match(reply)) and not message.rstrip().endswith("?")
    return is_denied or bool(_REFUTES.search(reply))


def is_taken_back(message: str, next_prompt: str) -> bool:
    """Return whether the next prompt wants something other than what was just done, or says that it was wrong."""
    return is_refuted(message, next_prompt) or bool(_RECONSIDERS.match(next_prompt[:_REPLY_CHARS].replace("’", "'")))


def replaces_request(next_prompt: str) -> bool:
    """Return whether a prompt changes what was asked before it: "change of plan", "let's stick with the old reel"."""
    reply = next_prompt[:_REPLY_CHARS].replace("’", "'")
    is_telling = len(re.findall(r"\w+", reply)) >= _MIN_REPLACEMENT_WORDS
    return is_telling and _REPLACES.search(reply) is not None


def is_taken_out(sentence: str, later_prompt: str) -> bool:
    """Return whether a later prompt orders to remove what a sentence names: "remove the ribbons please"."""
    words = {word[:_STEM_CHARS] for word in re.findall(r"[a-z]{4,}", sentence.lower())}
    for removed in _TAKES_OUT.findall(later_prompt[: 2 * _REPLY_CHARS]):
        removed_words = set(re.findall(r"[a-z]{4,}", removed.lower())) - _GENERIC_WORDS
        if words.intersection(word[:_STEM_CHARS] for word in removed_words):
            return True
    return False


def is_renamed(text: str, later_prompt: str) -> bool:
    """Return whether a later prompt renames what a text names: "we renamed it from `silk` to `nylon`"."""
    return any(name in text for name in _RENAMED.findall(later_prompt[: 2 * _REPLY_CHARS]))


def is_recommendation(sentence: str) -> bool:
    """Return whether a sentence recommends something, so that the person decides."""
    return _RECOMMENDS.search(sentence) is not None


def tells_state(sentence: str) -> bool:
    """Return whether a sentence tells a state that the next call may change: "`main` is checked out"."""
    return _STATE.search(sentence) is not None


def takes_back_cause(message: str) -> bool:
    """Return whether the agent names another cause than before: "Actually, wait - the real issue is …"."""
    sentences = split_sentences(message[:_MAX_MESSAGE_CHARS])
    return any(_SEARCHES.match(sentence) and _CAUSE.search(sentence) for sentence in sentences)


def is_failure_cause(sentence: str) -> bool:
    """Return whether a cause says why something failed, which is worth telling even without a name."""
    return _FAILURE_CAUSE.search(sentence) is not None


def is_root_cause(sentence: str, *, has_fault: bool) -> bool:
    """Return whether a sentence calls itself the cause, or names what is at fault where a fault was reported."""
    names_fault = has_fault and "`" in sentence and not _DEDUCES.search(sentence)
    return names_fault or _ROOT_CAUSE.search(sentence) is not None


def is_unproven(sentence: str) -> bool:
    """Return whether a sentence says what should be, not what is."""
    return _NOT_DONE.search(sentence) is not None


def find_results(message: str, *, is_proven: bool = True) -> list[str]:
    """Return the sentences that report finished work; one that introduces a list, without its colon.

    If the calls prove what they say, short sentences about commits and passing checks are left out.
    """
    return [
        sentence
        for sentence in _list_statements(message, with_list_leads=True)
        if len(sentence.split()) >= _MIN_RESULT_WORDS
        and not _NOT_DONE.search(sentence)
        and not _LOOKS.match(sentence)
        and not (is_proven and _PROVEN.match(sentence) and len(sentence.split()) < _MIN_PROVEN_WORDS)
        # List items without punctuation are often names, not reports.
        and (_RESULT_START.match(sentence) or (sentence.endswith((".", "!")) and _RESULT.search(sentence)))
    ]


def list_sibling_results(message: str, sentence: str) -> list[str]:
    """Return the results that the other items of a list report; empty if the sentence is in no list item."""
    items = [(len(match[1]), line) for line in message.splitlines() if (match := _LIST_ITEM.match(line))]
    results = [(depth, reported[0]) for depth, line in items if (reported := find_results(line))]
    depths = [depth for depth, result in results if result == sentence]
    return [result for depth, result in results if depth in depths[:1] and result != sentence]


def quote_results(results: Sequence[str], count: int, max_chars: int) -> str:
    """Quote the first of `count` results, and as many others as fit: one item must not stand for the whole list."""
    shown_results = select_fitting([shorten_line(results[0], max_chars), *results[1:]], max_chars)[:_MAX_LIST_ITEMS]
    if count == len(shown_results):
        return join_names(shown_results, count, quote="“{}”")
    return f"{', '.join(f'“{line}”' for line in shown_results)} and {count - len(shown_results)} more"


def _list_statements(message: str, *, with_list_leads: bool = False) -> list[str]:
    """Return the factual statements of an answer, without questions, plans, headings and quotations."""
    spoken = _QUOTED_OR_HEADING.sub("", strip_opener(message[:_MAX_MESSAGE_CHARS]).replace("’", "'"))
    sentences = [line.lstrip("✅☑✔✓•—– ") for line in split_sentences(spoken)]
    if with_list_leads:
        sentences = [_end_list_lead(sentence) if sentence.endswith(":") else sentence for sentence in sentences]
    return [
        sentence
        for sentence in sentences
        if is_informative(sentence)
        and len(sentence) <= _MAX_SENTENCE_CHARS
        and not sentence.endswith(",")
        and not sentence[:1].islower()
        and sentence[:1] not in ('"', "“")
        and not _HEDGED.search(sentence)
        and not _TABLE_ARROW.search(sentence)
        and not _is_acknowledgement(sentence)
    ]


def _end_list_lead(sentence: str) -> str:
    """Return the sentence that a list lead makes on its own; unchanged if it needs its list."""
    complete = _LIST_LEAD.sub("", sentence)
    return sentence if _INCOMPLETE.search(complete) else f"{complete}."


def count_names(sentence: str, actions: Sequence[ToolAction]) -> int:
    """Count the files, symbols, errors and numbers of these calls that a sentence names.

    A changed file may be named as a plain word: "the limiter" for src/limiter.py.
    """
    names = {match.strip("`") for match in _NAME.findall(sentence)}
    stems = {path.rpartition("/")[2].partition(".")[0].lower() for path in list_files_modified(actions)}
    stems = {stem for stem in stems if len(stem) >= _MIN_STEM_CHARS} - _GENERIC_STEMS
    named_count = sum(any(_has_name(action, name) for action in actions) for name in names)
    return named_count + len(stems.intersection(re.findall(r"\w+", sentence.lower())))


def _has_name(action: ToolAction, name: str) -> bool:
    if name in action.text or name in action.label:
        return True
    return any(name in text for text in collect_strings(action.call.input))


def strip_severity(text: str) -> str:
    """Remove the label of a review finding: "1. High severity: …"."""
    return _SEVERITY.sub("", text)


def is_pasted_line(text: str) -> bool:
    """Return whether a text begins like terminal output, a log, a diff or a review."""
    return _PASTED_LINE.match(text.lstrip()) is not None


def remove_pasted_lines(text: str) -> str:
    """Return the text without pasted lines: those that look like output, a log, a diff or a review.

    If there is one, these lines belong to it as well: indented ones, single words, and those that stand between two
    pasted lines of a paragraph.
    """
    lines = [_LOG_TAIL.sub("", line) for line in text.splitlines()]
    pasted = [is_pasted_line(line) for line in lines]
    if any(pasted):
        pasted = [pasted[number] or bool(_CONTINUED_OUTPUT.match(line)) for number, line in enumerate(lines)]
    last_pasted: int | None = None  # in this paragraph
    for number, line in enumerate(lines):
        if not line.strip():
            last_pasted = None
        elif pasted[number]:
            if last_pasted is not None:
                pasted[last_pasted:number] = [True] * (number - last_pasted)
            last_pasted = number
    return "\n".join(line for line, is_pasted in zip(lines, pasted, strict=True) if not is_pasted)
