"""Find statements in a prompt that later sessions should know, and rewrite each as one clean sentence.

A statement must say that it is meant to last ("from now on", "always", "you keep doing"), or have the form of a rule, a
preference, a habit or a fact; `lasting_statements.toml` has the forms. If it could be about the current task it is left
out: false alarms cost a person's patience.

Prompts also contain code, quotations, logs, reviews and pasted pages. Anything that looks like these is left out, and
so is everything after a heading or after a line that ends with a colon.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from hardwon.privacy.private_tags import strip_private
from hardwon.privacy.prompt_text import strip_lesson_blocks
from hardwon.text.similarity import tokenize
from hardwon.types import frozen

MAX_STATEMENT_CHARS = 400  # a statement to remember is a sentence or two
MAX_CORRECTION_WORDS = 45  # corrections are short; in a longer prompt "don't …" limits the task
MAX_STATEMENTS = 6  # a prompt with more of them is a pasted page
_TABLE = os.path.join(os.path.dirname(__file__), "lasting_statements.toml")
_QUOTED = re.compile(r"`[^`\n]{1,300}`|\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|(?<!\w)'[^'\n]{3,200}'(?!\w)")


@frozen
class StatementRule:
    """A form of lasting statements; `lasting_statements.toml` explains the fields."""

    name: str
    type: str
    begins: str
    patterns: tuple[re.Pattern[str], ...]
    is_firm: bool
    may_be_question: bool
    is_fact: bool
    is_weak: bool
    examples: tuple[str, ...]


@frozen
class LastingStatement:
    """A statement to remember: memory type, one clean sentence, and the person's own words with spaces collapsed."""

    type: str
    text: str
    quote: str


_ALWAYS = "(?:al+ways?|alwasy|awlays)"
_NEVER = "(?:never|nevr|nevre|nver)"


def _join_words(words: str) -> str:
    """Build a pattern that matches any of these space-separated words; `_` stands for a space within one."""
    return f"(?:{'|'.join(words.split()).replace('_', ' ')})"


@cache
def _read_table() -> dict[str, Any]:
    with open(_TABLE, "rb") as file:
        return tomllib.load(file)


@cache
def _read_parts() -> dict[str, str]:
    """Return the named sub-patterns of the table; each may use those before it."""
    table = _read_table()
    parts = dict[str, str]()
    for name, words in table["words"].items():
        parts[name] = _fill_parts(_join_words(words), parts)
    for name, pattern in table["parts"].items():
        parts[name] = _fill_parts(pattern, parts)
    return parts


def _fill_parts(pattern: str, parts: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda name: parts[name[1]], pattern.replace("\n", ""))


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of the table.

    "Always" and "never" also match with two letters swapped or one left out, "I'm" and "I've" without apostrophe.
    """
    filled = re.sub(r"(I(?:\(\?:)?)'(?=m|ve|d)", r"\1'?", _fill_parts(pattern, _read_parts()))
    return re.compile(filled.replace("always", _ALWAYS).replace("never", _NEVER), re.I)


# A clause begins at the start of a sentence, after punctuation or a conjunction, and again after filler words.
_CLAUSE_START = re.compile(r"^\W*|[;.!:,]\s+|\s[-–—]+\s+|\s(?:and|but|so|then|also)\s+", re.I)
_FILLER = _compile(r"(?:{filler}|please|just)[,.:!;\s-]+")
_REPORTED_START = re.compile(r"\b(?:that|because|since) ", re.I)
_WORD_START = re.compile(r"\b(?=\w)")


def _find_starts(sentence: str) -> dict[str, list[int]]:
    """Return the positions where a statement may begin, by the name that the rules use."""
    clause_starts = list[int]()
    for match in _CLAUSE_START.finditer(sentence):
        position = match.end()
        clause_starts.append(position)
        while filler := _FILLER.match(sentence, position):
            position = filler.end()
            clause_starts.append(position)
    reported_starts = [match.end() for match in _REPORTED_START.finditer(sentence)]
    return {
        "clause": clause_starts,
        "said": sorted({*clause_starts, *reported_starts}),
        "anywhere": [match.start() for match in _WORD_START.finditer(sentence)],
    }


@cache
def read_statement_rules() -> tuple[StatementRule, ...]:
    """Return the rules of the table, compiled."""
    rules = []
    for row in _read_table()["rules"]:
        patterns = tuple(_compile(rf"{row.get('lead', '')}(?P<said>)(?:{pattern})") for pattern in row["patterns"])
        rule = StatementRule(
            name=row["name"],
            type=row["type"],
            begins=row["begins"],
            patterns=patterns,
            is_firm=row.get("firm", False),
            may_be_question=row.get("question", False),
            is_fact=row.get("fact", False),
            is_weak=row.get("weak", False),
            examples=tuple(row["examples"]),
        )
        rules.append(rule)
    return tuple(rules)


# "Can you please not …", "could we always …": an instruction put politely.
_POLITE = re.compile(
    r"^(\W*(?:\w+[,.]? ){0,3}?)(?:can|could|would|will) (?:you|we) (?:please |just |agree that you )*(?=\w)",
    re.I,
)
_POLITE_RULE = re.compile(
    r"(?:always|never|remember|stop|not|make it a habit|use .* instead of)\b|.*\b(?:from now on|future)\b", re.I
)
# A request at the end of a statement: "the repo moved to x, can you fix the links?"
_REQUEST = re.compile(
    r"(?:,? (?:can|could|would) you\b|,? please (?:update|fix|change|go)\b|,? so (?:can|could|please)\b"
    r"|, (?:sorry, )?(?:right|ok(?:ay)?|let'?s|shall we|should (?:we|I)|is that|do you)\b).*$",
    re.I,
)
# Words before a match that make it a report of somebody's words, text to write, a question or a supposition.
_TELLS = _join_words(r"said says? saying wrote writes claim\w* states? suggest\w* reads prints? printed commented")
_SUPPOSES = _join_words(
    r"""if should_(?:we|i|it) shall why (?<!not_)how whether does do_(?:we|you|they) did_(?:we|you|they|i|it) is_it
    maybe perhaps might are_(?:we|you|they|there) pretend imagine suppose assum\w+ act_as as_if hypothetical\w* would
    could_it i_think i_guess i_wonder not_sure seems? apparently according_to (?:it|he|she|they)_told error warning
    message comment button label tooltip placeholder title tweet headline test_case user_story as_a_user claude\.md
    agents\.md readme document i_don'?t can'?t cannot used_to called named example thinks? reviewer
    section note_in err translate"""
)
_SUPPOSED = re.compile(rf"(?<!I )(?<!I've )(?<!I have )(?<!I already )(?<!I just )\b{_TELLS}\b|\b{_SUPPOSES}\b", re.I)
_IS_REASON = re.compile(r"\b(?:because|since) $", re.I)
_CONSEQUENCE = re.compile(r",? so (?:please )?$", re.I)
_CONSEQUENT_ORDER = re.compile(r"(?:[,;]| so) (?:so |please )*(?:don'?t|do not|never|leave|use|write|edit)\b", re.I)
_CONTRASTS = re.compile(r"(?:not|no|never|only|don'?t|do not) ", re.I)
_NAMES_SUBJECT = _compile(
    r"(?!\W*(?:(?:{filler}|{task}|please|just|can|could|let'?s|i|you)\b))(?:[\w'/.-]+,? ){1,14}[\w'/.-]+, $"
)
_PRONOUN = re.compile(r"(?:\S+ ){0,3}(?:it|its|them|their|that)\b", re.I)
_THIS = _join_words("""file function test pr branch commit change case one line method class page component endpoint
step time part section table field screen button issue loop variable value query script run ticket task session
feature""")
_AT_HAND = re.compile(
    rf"\b(?:this|that|these|those) (?:\w+ )?{_THIS}s?\b|\bhere\b|\bthere\W*$|\bnow\W*(?:and\b|$)"
    r"|\b(?:all|each|any|both) of (?:these|those|them)\b|\brid of (?:it|this|that|them)\b"
    r"|\b(?:stop|quit|avoid) \w+ing (?:that|this|it|them)\b"
    r"|\b(?:always|never|ever|not|don'?t) (?:again )?(?!assume|claim|say|like|want|need)\w+"
    r" (?:it|this|that|them|these|those)\b",
    re.I,
)
_HERE = re.compile(r"\bhere\b", re.I)
_FOR_NOW = re.compile(
    r"\b(?:for now|for the moment|(?<!remember )this time|just this once|until (?:i|you|we)|right now|never ?mind"
    r"|(?<!, )(?<!users )(?<!customers )yet"
    r"|(?:in|for|during) this (?:session|task|pr|one|conversation|chat|run|turn|prototype))\b",
    re.I,
)
_NOT_MEANT = re.compile(
    r"\bwe (?:always|never) (?:get|see|receive|end up|hit|had)\b"
    r"|\boh,? sure\b|\byeah,? right\b|\bgreat job\b|^\W*wow\b|^no (?:worries|problems?)\b",
    re.I,
)
# The object went elsewhere, or the sentence ends with what to do about it: "nobody uses this, delete it".
_UNFINISHED = re.compile(
    r"\b(?:the|an?|and|or|to|of|with)\W*$"
    r"|, (?:please )?(?:add|change|delete|drop|fix|move|remove|revert|undo) (?:it|this|that|them|one)\W*$",
    re.I,
)
_FAULT = re.compile(
    r"\b(?:fail\w*|broken|wrong|missing|(?<!shut )(?<!shutting )down(?! (?:until|till|on)\b)"
    r"|unavailable|out of date|outdated|flaky|empty|slow(?! mobile)|stuck(?! on)|too (?:much|many|long|slow)|crash\w*"
    r"|error(?! (?:messages?|codes?|handling))|a bug|not (?:shown|updated|set)|shown|displayed|idea|null|undefined|nil"
    r"|blank|visible|hidden|loading|(?:after|when|once) (?:I|the user))\b",
    re.I,
)


def find_lasting_statements(prompt: str) -> list[LastingStatement]:
    """Return the lasting statements of a prompt, each once; none if there are too many for a typed prompt."""
    statements: list[LastingStatement] = []
    is_task_brief = len(prompt.split()) > MAX_CORRECTION_WORDS
    for sentence in _find_typed_sentences(prompt):
        match = match_statement(sentence, is_task_brief=is_task_brief)
        if match is None:
            continue
        rule, quote = match
        if tokenize(quote) not in [tokenize(statement.quote) for statement in statements]:
            memory_type = rule.type or guess_type(quote)
            statements.append(LastingStatement(memory_type, rewrite_statement(memory_type, quote), quote))
    return statements if len(statements) <= MAX_STATEMENTS else []


def match_statement(sentence: str, *, is_task_brief: bool = False) -> tuple[StatementRule, str] | None:
    """Return the statement of a sentence and the rule that finds it; None if there is none."""
    if len(sentence) > 2 * MAX_STATEMENT_CHARS or _FOR_NOW.search(sentence) or _NOT_MEANT.search(sentence):
        return None
    is_question = sentence.rstrip(" \"')").endswith("?")
    polite = _POLITE.match(sentence)
    if polite and _POLITE_RULE.match(sentence[polite.end() :]):
        sentence = sentence[polite.end() :]
        is_question = False
    elif is_question and _REQUEST.search(sentence):
        sentence = _REQUEST.sub("", sentence)
        is_question = False
    masked = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), sentence)
    starts = _find_starts(masked)
    matches: dict[int, tuple[StatementRule, str]] = {}  # by the positions where they begin
    for rule in read_statement_rules():
        if (is_question and not rule.may_be_question) or (is_task_brief and rule.is_weak):
            continue
        for match in _match_rule(rule, masked, starts[rule.begins]):
            if statement := _take_statement(rule, sentence, masked, match):
                matches.setdefault(match.start("said"), (rule, statement))
                break
    # The match that begins first holds the most: "CI runs on 3.9, so no match statements".
    return matches[min(matches)] if matches else None


def _match_rule(rule: StatementRule, sentence: str, starts: Sequence[int]) -> Iterator[re.Match[str]]:
    """Yield the matches of a rule, the earliest first."""
    for start in starts:
        for pattern in rule.patterns:
            if match := pattern.match(sentence, start):
                yield match


def _take_statement(rule: StatementRule, sentence: str, masked: str, match: re.Match[str]) -> str:
    """Return the words of a statement; "" if the sentence supposes it, points at the task or reports a fault."""
    start = match.start("said")
    matched = masked[start:]
    text_before = masked[: match.start()]
    # "The config is shared, so don't change it": what "it" stands for is in the clause before.
    is_consequence = _CONSEQUENCE.search(text_before) and _PRONOUN.match(matched)
    # "React components as arrow functions, not classes": the clause before the comma says what the rule is about.
    is_contrast = match.start() == start and _CONTRASTS.match(matched) and _NAMES_SUBJECT.match(text_before)
    if is_consequence or is_contrast:
        start = 0
    # A reason is taken for granted, however unsure the person is about what follows from it.
    is_supposed = not _IS_REASON.search(text_before) and _SUPPOSED.search(text_before)
    if is_supposed or _UNFINISHED.search(matched):
        return ""
    if rule.is_fact and _FAULT.search(matched):
        return ""
    # In a fact "here" is the project, in a wish it is the place that the work is at.
    # What follows from a fact may point at it: "the client is generated, don't edit it".
    pointing_text = _HERE.sub("", _CONSEQUENT_ORDER.split(matched)[0]) if rule.is_fact else matched
    if not rule.is_firm and _AT_HAND.search(pointing_text):
        return ""
    statement = sentence[start:]
    if rule.type in ("project", "reference"):
        statement = _REQUEST.sub("", statement)
    statement = statement.rstrip(" ?,;:")
    if "(" not in statement:
        statement = statement.removesuffix(")")  # the whole sentence was in brackets
    is_sentence = len(statement) <= MAX_STATEMENT_CHARS and len(statement.split()) > 1 and bool(tokenize(statement))
    return statement if is_sentence else ""


_IS_PERSON = re.compile(r"^(?:I(?:'m| am| work| speak| live| know| have)|my)\b", re.I)
_IS_WISH = _compile(
    r"^(?:to |not to |please |you (?:should|must|need)|I(?:'d| would)? (?:rather|prefer|like|want|hate)|(?:re-?)?{do}"
    r"|{not}|only|stop|avoid|no|keine?|nie|niemals|immer)\b|\b(?:always|never|must(?:n't)?|don'?t|should)\b"
)
_IS_REFERENCE = _compile(r"\b{lies}")


def guess_type(statement: str) -> str:
    """Return the type of memory that a statement makes; "project" if nothing tells it."""
    if _IS_REFERENCE.search(statement):
        return "reference"
    if _IS_WISH.search(statement):
        return "feedback"
    return "user" if _IS_PERSON.search(statement) else "project"


# Words before and after a statement that are not part of it.
_LEADING_WORDS = _compile(
    r"^(?:(?!no [a-z])(?:{filler}|please|bitte|{lasts}|next time|for all future \w+|as a (?:general )?rule"
    r"|let'?s|whatever you do"
    r"|you (?:should|must|need to|have to)"
    r"|make sure (?:to|you)|remember to|can you|could you|also|so|to)\b[,:;.\s]*)+(?=\w)"
)
_TRAILING_WORDS = _compile(r"[\s,;.!?]*(?:,? ?\b(?:please|thanks|thank you|ok(?:ay)?|{lasts}))[\s.!?]*$")
_COMPLAINT = re.compile(r",? (?:yet|but|so why|and still) you\b.*$", re.I)
_REWRITES: dict[str, tuple[tuple[str, str], ...]] = {
    "feedback": (
        (r"^(?:why (?:do|are) you (?:always |constantly )?|you )(?:keep|kept|continue|insist on) forgetting to ", ""),
        (r"^you forgot to (.*?),? again\b", r"\1"),
        (r"^(?:why (?:do|are) you|you) (?:keep|kept|continue|insist on) (\w+ing)\b", r"Stop \1"),
        (r"^(?:why (?:do|are) you|you) (?:always|constantly)\b", "Do not"),
        (r"^why (?:are|do) (?:you|we) still (\w+ing)\b", r"Stop \1"),
        (r"^why (?:are|do) (?:you|we) still\b", "Do not"),
        (r"^why (?:aren'?t|don'?t) (?:you|we) (?:just )?(?:use|using)\b", "Use"),
        (r"^why (?:aren'?t|don'?t) (?:you|we) (?:just )?(\w+?)(?:ing)?\b", r"\1"),
        (r"^because we\b", "We"),
        (
            r"^how (?:many times|often) (?:do|must|should|did|have) I (?:have to )?(?:tell|told|ask) you (?:to )?",
            "",
        ),
        (r"^not to\b", "Do not"),
        (r"^never have to\b", "Never"),
        (r"^under no circumstances (?:should you |may you )?", "Never "),
        (r"^you (?:have (?:my|our) permission to|can|may)\b", "You may"),
        (r"^(?:would you mind )?not (\w+ing)\b", r"Stop \1"),
        (r"^(?:stop|quit|refrain from) (\w+ing)\b", r"Stop \1"),
        (r"^(?:stop|avoid) using\b", "Do not use"),
        (r"^(?:never|don'?t|do not),? ever\b", "Never"),
        (r"^(?:don'?t|do not|never) forget to\b", ""),
        (r"^(?:please )?(?:don'?t|not)\b", "Do not"),
        (r"^(?:you|we) (?:should(?:n'?t| not)|must(?:n'?t| not))\b", "Do not"),
        (r"^I (?:don'?t|do not) want you to\b", "Do not"),
        (r"^I never want you to\b", "Never"),
        (r"^I (?:want|expect|need) you to\b", ""),
        (
            r"^(?:we|I) (?:explicitly |really |generally )?(?:don'?t|do not) want"
            r"(?: to (?:have|see))?(?: any(?: more)?)?\b",
            "Not wanted:",
        ),
        (r"^(?:I|we) (?:(?:really|always|generally|usually|much|strongly|personally) )?prefer\b", "Prefer"),
        (r"^my preference is\b", "Prefer"),
        (r"^I(?:'?d| would) (?:much )?(rather|prefer)\b", r"The user would \1"),
        (r"^I (?:really )?(?:hate|dislike|don'?t like|can'?t stand) (?:it )?when (?:you|claude|the agent)\b", "Do not"),
        (r"^we (always|never)\b", r"\1"),
        (r"^I (?:really )?(like|love|want|expect|need|hate|dislike)\b", r"The user \1s"),
        (r"^(?:I'd|I would) like\b", "The user would like"),
        (r"^I always want\b", "The user always wants"),
        (r"^I(?:'?m| am)\b", "The user is"),
        (r"^I (?:don'?t|do not) like\b", "The user does not like"),
        (r"^(when(?:ever)?) I (\w+)\b", r"\1 the user \2s"),
    ),
    "user": (
        (r"^I(?:'?m| am)\b", "The user is"),
        (r"^I(?:'?ve| have)\b", "The user has"),
        (r"^I do\b", "The user does"),
        (r"^I (?:don'?t|do not)\b", "The user does not"),
        (r"^I ((?:always|never|usually|generally) )?(\w+?)(?=\s)", r"The user \1\2s"),
        (r"^my\b", "The user's"),
        (r"^call me\b", "Call the user"),
    ),
    "project": (
        (r"^(?:we |I )?(?:host|deploy)(?:s|ed)?(?: it| everything)? (on|to|with)\b(?! \w+days?\b)", r"It is hosted \1"),
        (r"^I (?:think|know|kind of feel like|feel like|believe|guess) we\b", "We"),
    ),
    "reference": (
        # "The repo" alone would be taken for the project's own.
        (
            r"^repo\w*\b.*?\b(?:it'?s|is) (?:at|here:?|on) (https?://\S*?/([\w.-]+?))(?:\.git)?/?(?=[.,;:]*(?:\s|$)).*",
            r"The \2 repo is at \1",
        ),
        (
            r"^(repo\w*|docs?|wiki|board|spec|tracker)\b.*?\b(?:it'?s|is) (?:at|here:?|on) (https?://\S+).*",
            r"The \1 is at \2",
        ),
    ),
}


# After "The user …" the person is spoken of in the third person to the end of the sentence.
_THIRD_PERSON = (
    (r"\b[Ii](?:'?m| am)\b", "they are"),
    (r"\bI was\b", "they were"),
    (r"\b[Ii]\b(?![/.])", "they"),
    (r"\b[Mm]y\b", "their"),
    (r"\bme\b", "them"),
)


_TIDIED = (
    (re.compile(r"\bi\b(?![./'])"), "I"),
    (re.compile(r",? (?:please|pls|plz)(?=[,;]|\.?$| [-–—])"), ""),
    (re.compile(r"\. (?=ever\b)", re.I), ", "),
)
_SPELLED_APART = re.compile(
    r"\b(?:(do|does|did|is|are|was|wo|ca|should|must|have|has)nt|([Ii])(m|ve|ll)|(that|there|what)s)\b"
)


def _spell_contraction(word: re.Match[str]) -> str:
    """Return a contraction with the apostrophe that people leave out."""
    if word[1]:
        return f"{word[1]}n't"
    return f"I'{word[3]}" if word[2] else f"{word[4]}'s"


def rewrite_statement(memory_type: str, words: str) -> str:
    """Rewrite a person's words as one clean sentence: wishes as instructions, "I" as "the user" and "they"."""
    text = _LEADING_WORDS.sub("", words.strip())
    for pattern, replacement in (*_REWRITES.get(memory_type, ()), *_REWRITES["user"]):
        text = re.sub(pattern, replacement, text, count=1, flags=re.I)
    if re.match(r"(?:when(?:ever)? )?the user\b", text, re.I):
        for pattern, replacement in _THIRD_PERSON:
            text = re.sub(pattern, replacement, text)
    text = _TRAILING_WORDS.sub("", _COMPLAINT.sub("", text)).strip(" ,;:-")
    text = _SPELLED_APART.sub(_spell_contraction, text)
    for tidied, replacement in _TIDIED:
        text = tidied.sub(replacement, text)
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


_MAX_PROMPT_CHARS = 20_000
_MAX_PARAGRAPH_CHARS = 900
# A slash command other than a handoff command.
_COMMAND = re.compile(r"\A/(?!\S*hand-?off)[\w:.-]+\s+", re.I)
_MIN_SENTENCE_WORDS = 6
_WRAP_WIDTH = 60  # a line at least this long was wrapped if the next one starts in lower case

# Shell prompts, logs, errors, diffs, tables, quotations, review findings, copied conversations.
_PASTED_LINE = re.compile(
    r"\s*(?:[❯$%>✗✓×●⎿│|⏺✻├└┌]|[+-]{1,3}\s*[\w@/]+[({=:;,.]|@@ |\[[\w:. -]+\]\s|\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d"
    r"|\S+@\S+[:\s].*[%$#]|\S{1,200}\.\w{1,9}:\d+|(?:error|warn(?:ing)?|fatal|info|debug)\b\W|Traceback|at \S+ \("
    r"|\w+(?:Error|Exception):|(?:\d+\.\s+)?(?:High|Medium|Low|Critical)(?: severity)?:"
    r"|(?:user|human|assistant|agent|claude|codex|gemini|ai|bot)\s?:)",
    re.I,
)
_PAGE_START = re.compile(r"\s{0,3}(?:#{1,6}\s+\S|\*\*[^*]+\*\*:?\s*$|(?:---+|===+|\*\*\*+)\s*$)|diff --git ", re.I)
_LIST_ITEM = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)])\s+(.*)")
# "Rules for this repo:", "From now on:": the list below is the person's own.
_RULES_HEADING = re.compile(
    r"\b(?:rules?|conventions?|preferences?|guidelines?|from now on|going forward|remember|in (?:the )?future)\b"
    r".{0,60}:\s*$",
    re.I,
)
_FENCED_BLOCK = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.M | re.S)
_TAGGED_BLOCK = re.compile(r"<([a-z][\w-]{1,40})\b[^<>]{0,300}>.{0,2000}?</\1>", re.S | re.I)
_UNCLOSED_TAG = re.compile(r"^\s{0,9}<[a-z][\w-]{1,40}\b[^<>]{0,300}>.*\Z", re.S | re.I | re.M)
_SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)\s+(?!(?:ever|period|never)\W*$)", re.I
)


def _find_typed_sentences(prompt: str) -> Iterator[str]:
    """Yield each sentence that the person most likely typed themselves, on one line with single spaces."""
    text = strip_lesson_blocks(strip_private(prompt[:_MAX_PROMPT_CHARS]))
    if text.lstrip().startswith(("/", "!")):  # a command of the agent, perhaps followed by a sentence
        text = _COMMAND.sub("", text.lstrip(), count=1)
        if len(text.split()) < _MIN_SENTENCE_WORDS or text.startswith(("/", "!")):
            return
    for pattern in (_FENCED_BLOCK, _TAGGED_BLOCK, _UNCLOSED_TAG):
        text = pattern.sub("\n", text)
    for paragraph in _list_typed_paragraphs(text):
        for line in _unwrap_lines(paragraph):
            for sentence in _SENTENCE_END.split(line):
                if sentence.strip():
                    yield " ".join(sentence.split())


def _list_typed_paragraphs(text: str) -> Iterator[list[str]]:
    """Yield the typed lines of each paragraph up to a heading; list items only below a line that calls them rules."""
    follows_colon = False
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        page_start = next((index for index, line in enumerate(lines) if _PAGE_START.match(line)), len(lines))
        typed_lines = lines[:page_start]
        if (
            typed_lines
            and not follows_colon
            and len(block) <= _MAX_PARAGRAPH_CHARS
            and not any(map(_PASTED_LINE.match, typed_lines))
        ):
            items = [f"{match[1]}\n" for line in typed_lines if (match := _LIST_ITEM.match(line))]
            has_rules_heading = any(map(_RULES_HEADING.search, typed_lines))
            yield [line for line in typed_lines if not _LIST_ITEM.match(line)] + (items if has_rules_heading else [])
        if page_start < len(lines):
            return
        follows_colon = bool(lines) and lines[-1].rstrip().endswith(":")


def _unwrap_lines(lines: list[str]) -> Iterator[str]:
    """Join lines that an editor wrapped."""
    joined = ""
    previous_line = ""
    for line in lines:
        is_continued = (
            len(previous_line) >= _WRAP_WIDTH
            and line.lstrip()[:1].islower()
            and not previous_line.endswith((".", "\n"))
        )
        if joined and not is_continued:
            yield joined
        joined = f"{joined}\n{line}" if is_continued else line
        previous_line = line
    if joined:
        yield joined
