"""Phrases that tell what a line of a session is: an order, a question, an opener, a vague remark, a verdict.

Each row has a regular expression and an example that only this row has to match, which a test checks.
"""

from __future__ import annotations

import re

ROWS = "ROWS"


class PhraseTable:
    """Alternatives of one regular expression; `frame` stands around them, with `ROWS` in their place."""

    def __init__(self, frame: str, rows: tuple[tuple[str, str], ...]) -> None:
        self.frame = frame
        self.rows = rows
        pattern = compile_rows(frame, [expression for expression, _ in rows])
        self.match = pattern.match
        self.search = pattern.search


def compile_rows(frame: str, expressions: list[str]) -> re.Pattern[str]:
    return re.compile(frame.replace(ROWS, f"(?:{'|'.join(expressions)})"), re.I)


# Verbs that ask for work wherever they stand; the others are often nouns: "the check", "a test", "this file".
_CLEAR_VERBS = (
    "add|analy[sz]e|build|change|create|document|explain|extract|find|fix|implement|investigate|make|migrate|move"
    "|refactor|remove|rename|replace|reproduce|review|submit|support|update|verify|write"
)
_ORDER_VERBS = (
    f"{_CLEAR_VERBS}|audit|bump|check|clean|close|compare|convert|debug|delete|deploy|draft|drop|extend|file|generate"
    "|improve|install|list|merge|open|port|publish|rebase|release|resolve|revert|rewrite|run|set up|simplify|split"
    "|stash|summari[sz]e|switch|test|upgrade|validate"
)
_POLITE = r"(?:(?:please|just|then|now|can you|could you|would you|let'?s|i want you to|i need you to)\s+)*"
_FILLER = r"(?:(?:and|but|so|or|well|wait|ok(?:ay)?|yes|yeah|sure|hm+)\b\W*)*"

# --- What a prompt is ---

# What a request opens with; what it pastes below is material, not the request.
ORDERS = PhraseTable(rf"^\W*{_POLITE}ROWS\b", ((_ORDER_VERBS, "please rename the tail of the kite"),))
# Look at something; the change that a later "ok, do it" starts is another request.
LOOK_ORDERS = PhraseTable(
    rf"^\W*{_FILLER}{_POLITE}ROWS\b",
    (
        (
            "analy[sz]e|audit|check|compare|debug|describe|explain|explore|find|investigate|look|plan|propose|read"
            "|reproduce|review|suggest|summari[sz]e|think|verify",
            "investigate the sway",
        ),
    ),
)
CHANGE_VERBS = PhraseTable(
    r"\bROWS\b",
    (
        (
            "add|address|bump|change|clean|correct|create|delete|drop|extract|fix|implement|improve|merge|migrate|move"
            "|refactor|remove|rename|replace|resolve|rewrite|simplify|split|update|upgrade|write",
            "check the reel and fix it",
        ),
    ),
)
# The agent writes the thing itself, so that an answer without any work is that thing and tells no outcome.
ORDERS_TEXT = PhraseTable(
    rf"^\W*{_POLITE}ROWS\b", (("add|create|draft|generate|implement|make|spawn?|suggest|write", "write a poem"),)
)
ASKS_FOR_WORK = PhraseTable(r"\bROWS\b", (("please|can you|could you|I want you to", "can you look at the tail"),))
NAMES_WORK = PhraseTable(r"\bROWS\b", ((_CLEAR_VERBS, "we need to rename the tail"),))
# Asks for an answer; "can you add …?" is an order.
QUESTIONS = PhraseTable(
    rf"^\W*{_FILLER}ROWS\b(?! not\b|n'?t\b)",
    (
        ("what|why|how|when|where|which|who", "so why does the tail sway?"),
        ("do|does|did|is|are|was|were|isn'?t|aren'?t|doesn'?t|has|have|will|would it|should", "is the tail too long?"),
        ("(?:can|could) you (?:explain|tell|describe)", "can you explain the tail?"),
    ),
)
ASKS_CAUSE = PhraseTable(
    r"\bROWS\b",
    (("why|how come|warum|wieso", "why does it sway?"), ("what (?:caused|causes)", "what caused the sway?")),
)
REPORTS_FAULT = PhraseTable(
    ROWS,
    (
        (r"\b(?:fail|error|bug|broke|crash|issue|problem|wrong|fix|why|regress|flak)", "the launch test is flaky"),
        (r"n't work|\bnot work", "the reel does not work"),
    ),
)
# A reply to the agent, not a request.
NODS = PhraseTable(r"^ROWS\b", (("no|nope|yes|yeah|yep|ok|okay|nice|great|good|thanks", "yes, that entry please"),))
# Does what the agent proposed.
TAKES_UP = PhraseTable(
    rf"^\W*{_FILLER}ROWS\b",
    (
        ("go (?:for|with|ahead)", "go for the first, and look at the tail too"),
        ("(?:let'?s )?do (?:it|both|all)", "ok, do both"),
        ("option", "option 2"),
    ),
)
# Tells the agent what it need not do, while it works on something else.
RESTRAINS = PhraseTable(
    rf"^\W*{_FILLER}ROWS\b",
    (
        (r"(?:there(?:'s| is) )?no need to", "no need to look at the tail of the other kite"),
        (r"(?:never|don't) (?:mind|bother|worry)", "never mind the tail"),
    ),
)
# Hands over material for the request before.
HANDS_OVER = PhraseTable(
    rf"\A\W*{_FILLER}ROWS",
    ((r"here(?:'s|’s| is| are)\b[^.\n]{0,60}:\s*\n", "here's the fourth:\nthe tail sways"),),
)
# No sentence to tell a request by: it only introduces the next, or it is pasted.
NO_REQUEST = PhraseTable(
    ROWS,
    (
        (r"^(?:context|background|goal|note|task)\b[^.]{0,40}:", "Context: a kite"),
        (r":\s*$|^\W*$", "Do the following:"),
        (r"\s&&\s|^\S+ (?:\S+ )?--?\w[\w-]*(?:[ =]|$)", "make build && make test"),
        (r"^[\w-]+: [\"{\[]|^\"\"\"", 'tail: "long"'),
    ),
)
# Says how to do what another sentence asks for.
SUPPLEMENTS = PhraseTable(
    r"^\W*ROWS\b",
    (("take into account|make sure|ensure|consider|keep in mind|use|do not|don'?t|also", "make sure the tail stays"),),
)
REVIEWS = PhraseTable(r"\bROWS\b", (("(?:re-?)?(?:review|audit)(?:ing)?", "can you re-review the tail"),))
# The words of a person that decide something.
DECISIONS = PhraseTable(
    r"\bROWS\b",
    (
        ("let'?s (?:go with|use|keep|not|skip|stick|drop|remove)", "let's not use threads"),
        ("(?:go|stick) with", "stick with silk"),
        ("I(?:'d| would)? (?:prefer|rather)", "I'd rather have one tail"),
        ("we (?:should(?:n't| not)|don'?t want|do not want|decided|will use|won'?t)", "we don't want two tails"),
        (r"use [^.\n]{1,60} instead", "use asyncio instead"),
    ),
)
# The agent asks whether or how to go on; the answer decides nothing that outlives the session.
ASKS_TO_GO_ON = PhraseTable(
    r"\bROWS\b", (("(?:can|may|shall|should) I", "Can I remove it?"), ("you like to do", "What would you like to do?"))
)

# --- What a sentence of an answer is ---

# Opens an answer without saying anything yet.
OPENERS = PhraseTable(
    r"^ROWS(?!\w)",
    (
        (r"(?:scope|context|background|suggested [\w ]{1,30}|(?:option|step|phase) \w{1,2}):", "Option A: keep it."),
        ("(?:this|that|these|those) (?:can|could|may|would)", "This would fit the tail."),
        ("here(?:'s|’s| is| are)", "Here is the tail."),
        (r"let me|i(?:'ll|’ll| will)|i(?:'m|’m| am) (?:\w+ly )?\w+ing", "I'm slowly turning to the tail."),
        ("if|now", "If it sways, cut it."),
    ),
)
# Names no result.
VAGUE = PhraseTable(
    r"^ROWS(?!\w)",
    (
        (r"(?:all|lint|tests?|build)\b[^.]{0,30}\b(?:green|clean|good|done|pass\w*)", "All green."),
        (r"\d+ (?:\w+ )?pass\w*", "12 passed, 0 failed."),
        ("done|great|perfect|analysis", "Done."),
        (r"(?:yes|yep|no)\W*$|short answer(?!:)", "Yes."),
        ("you'?re (?:absolutely )?right|good (?:call|point|catch|question)", "Good catch."),
        ("that'?s (?:a|an|the|fair|right|much)", "That's a fair point."),
        (r"this is (?:a|an|the) \w+(?: \w+)?\.", "This is a big change."),
        (
            "(?:the )?(?:implementation|work|task|feature|migration)s? (?:is|are) (?:now )?(?:complete|done|finished)",
            "The work is done.",
        ),
        (r"[^.]*\b(?:pre-?existing|unrelated to)", "The failure is pre-existing."),
        ("say the word", "Say the word and I'll delete them."),
        (r"I(?:'ve| have)? made (?:\w+ )?changes", "I made two changes to `tail.py`."),
        (
            r"I(?:'ve| have)? (?:successfully )?(?:completed|finished|done) (?:the|your|this|that|all)\b[^`]*$",
            "I've completed the task.",
        ),
        ("I(?:'ve| have) got", "I've got the tail and its seam."),
        ("I(?:'ve| have)? (?:dug|looked|gone|went|checked|read|reviewed) (?:into|at|through|over)", "I looked at it."),
    ),
)
# Names a file, a symbol, a number, a commit or a product, so that the sentence says something concrete.
NAMES_CONCRETELY = re.compile(
    r"[`\d#\"“]|\b\w+(?:[./_-]\w+)+\b|\b[a-z]+[A-Z]\w*|(?<=\w )[A-Z]\w+|\b[A-Z]{2,}\b|\bPR\b|https?://"
)
# A remark on what was said before.
STARTS_BACK = PhraseTable(r"^\W*ROWS\b", (("it|this|that|these|those|they|which", "Which is why it sways."),))
# The subject stands in a sentence that is not quoted with it.
DANGLES = PhraseTable(
    r"^\W*(?:(?:now|so|then|and|but|currently|also|today),? )?ROWS",
    (
        (r"(?:it|they|them|this|that|these|those|which)\b", "It was dead weight."),
        (
            r"(?:both|all|each|neither|either|none|some|most)(?: (?:\w+ )?of (?:it|them|these|those))?"
            r" (?:now\b|are\b|is\b|was\b|were\b|has\b|have\b|had\b|can\b|will\b|do\b|does\b|got\b|pass\w*\b)",
            "Both are gone, along with the ribbon.",
        ),
        (r"the (?:former|latter|same|other|rest|two|three|first|second|last|old one|new one)\b", "The latter is gone."),
    ),
)
POINTS_BACK = PhraseTable(r"\bROWS\b", (("it|this|that|these|those|them", "I think we should change that"),))
# A sentence without any of these is a heading: "Core execution and correctness."
VERBS = PhraseTable(
    ROWS,
    (
        (
            r"\b(?:is|are|was|were|be|has|have|had|can|can't|will|does|do|did|should|must|need|no|not|now|i|we|it|you)\b",
            "The tail is long.",
        ),
        (r"\b(?:found|made|built|wrote|ran|put|set|kept|left|got|took|split|\w+ed|\w+n't|\w+'s)\b", "Sewn and kept."),
        (r"^\w+s\b", "Cuts quickly."),
        (
            r"\b\w+s (?:from|to|in|on|at|the|an?|it|with|into|as|by|for|no|only|both|all)\b",
            "The reel winds the string.",
        ),
    ),
)
# What the agent is about to do.
ANNOUNCES = PhraseTable(
    ROWS,
    (
        (r"\b(?:I(?:'ll| will|'m| am)|let me|now (?:let me|I)|next,? I)\b", "I'll sew the tail."),
        (r"^(?:now )?(?:\w+ing)\b", "Sewing the tail."),
    ),
)
# Holds only at that moment.
TRANSITORY = PhraseTable(
    r"\bROWS\b", (("ready|whenever", "Ready to test."), (r"(?:try|run) (?:\w+ ){0,4}again", "Run the tests again."))
)
# Leaves it to the person how to go on; stands at the end of a message.
ASKS_TO_CHOOSE = PhraseTable(
    ROWS,
    (
        (r"\?\W*$", "Which way?"),
        (
            r"\b(?:let me know|tell me|say) (?:which|what|how|if|whether)\b[^.]*\.?\W*$",
            "Tell me which tail to take.",
        ),
        (r"\b(?:your (?:call|choice)|pick one|up to you)\b[^.]*\.?\W*$", "It's your call."),
    ),
)
# Tells the person what to do; "you can now …" tells what was done.
ADVISES = PhraseTable(
    r"\bROWS\b",
    ((r"you (?:can(?! now)|could|may|might|should|must|need to|have to|want to)", "You can cut it with `snip`."),),
)
# Tells what is as it was before the work.
LEFTOVERS = PhraseTable(
    r"\bROWS\b",
    (
        (
            r"(?<!n't )still(?! (?:works?|pass(?:es)?|appl(?:y|ies)|holds?|supports?|accepts?)\b)",
            "The tail still sways.",
        ),
        (r"remain(?:s|ing)?(?! (?:unchanged|intact|compatible)\b)", "Two knots remain."),
        (r"(?:not|never|n't)\b[^.;]*\byet", "The seam is not sewn yet."),
    ),
)
FINDINGS = PhraseTable(
    r"^\W*(?:\d{1,2}\W+)?ROWS\b\W*[:)\]—–-]",
    (("critical|blocker|major|high|medium|low|minor|nit|p[0-4]", "1. (Medium) The reel never stops."),),
)
VERDICTS = PhraseTable(
    ROWS,
    (
        (
            r"^\W*(?:(?:I|we) (?:found|see|have)|there (?:are|is|were)|the review found)? ?\bno (?:[\w-]+ ){0,5}"
            r"(?:issues?|findings?|problems?|bugs?|regressions?|violations?|concerns?|blockers?)\b",
            "I found no blocking issues.",
        ),
        (
            r"\b(?:before merging|blocks? (?:the )?merg|(?:ready|safe) to merge|not ready|should not (?:be )?merge)",
            "It is safe to merge.",
        ),
        (
            r"^\W*(?:the )?(?:\w+ ){0,2}(?:issues?|findings?) (?:from [^.]{0,40})?(?:is|are) (?:now |all )*"
            r"(?:fixed|addressed|resolved)\b",
            "The two issues from the review are addressed.",
        ),
    ),
)
# Tells how checks ended.
CLAIMS_CHECKS = PhraseTable(
    ROWS,
    (
        (
            r"\b(?:tests?|lint\w*|checks?|builds?|type-?check\w*|suite)\b[^.;\n]{0,60}\b(?:pass(?:es|ed)?|clean\w*|green)\b",
            "All 12 tests pass.",
        ),
        (r"\b(?:passes|passed)\b[^.;\n]{0,40}\b(?:tests?|lint|checks?|suite)\b", "It passed all checks."),
    ),
)
DENIES_CHECKS = PhraseTable(
    r"\bROWS\b",
    (
        (
            "(?:should|would|will|once|if|when|until|to|let me|let's|make sure|ensure|except|but)",
            "Once tests pass, push.",
        ),
        (
            r"not|n't|fail(?:s|ed|ing|ures?)?(?<!0 failures)(?<!0 failed)(?<!0 fail)|pre-?existing",
            "Two tests do not pass.",
        ),
    ),
)
NAMES_SAVED_WORK = PhraseTable(r"\bROWS", (("commit|push|merge|PR|pull request", "I pushed the tail."),))

# --- What a task, a check or a command is ---

# The closing answer does the last task of many lists.
TOLD_BY_ANSWER = PhraseTable("^ROWS", (("summari[sz]e|report|present", "Summarize what changed"),))
# A check that a person has to make.
BY_HAND = PhraseTable(
    r"\bROWS\b",
    ((r"manual\w*|by hand|visit|browser|click|navigate|in the (?:ui|app)|trigger", "Click on the tail"),),
)
# One test that passes says little about the project, and so does a linter that finds nothing.
SINGLE_TESTS = PhraseTable(
    ROWS,
    (
        (r"::\w", "pytest a.py::test_b"),
        (r"\s(?:-k|-t|-run|--grep|--filter|--testNamePattern)[ =]", "go test -run Tail"),
    ),
)
LITTLE_TALLIES = PhraseTable(
    "^ROWS",
    (
        ("0 (?:issues?|problems?|errors?|warnings?)", "0 issues"),
        ("Success: no issues|All checks passed", "All checks passed!"),
        ("1 pass", "1 passed"),
    ),
)
# Make or move commits, so that the last reported hash may be outdated.
MOVES_HEAD = PhraseTable(
    r"\bgit\b[^|;&\n]*\bROWS\b", (("commit|rebase|reset|merge|cherry-pick|revert|pull", "git pull --rebase"),)
)
# After these, earlier changes may be committed, put aside or undone.
MOVES_CHANGES = PhraseTable(
    r"\bgit\b[^|;&\n]*\bROWS\b",
    (
        ("commit|rebase|reset|merge|cherry-pick|revert|pull", "git commit -am x"),
        ("stash|restore|checkout|switch|clean", "git stash"),
    ),
)
# Puts changes aside, to run something without them, and takes them back.
RESTORES_CHANGES = PhraseTable(
    ROWS, ((r"\bgit\b[^|;&\n]*\bstash\b(?:.|\n)*\bgit\b[^|;&\n]*\bstash pop\b", "git stash; make; git stash pop"),)
)
UNPUSHED = PhraseTable(r"\bROWS\b", (("unpushed", "still unpushed"), (r"not (?:yet )?pushed", "not pushed")))
PUSHES = PhraseTable(
    r"\bgit\b[^|;&\n]*\bROWS\b(?![^|;&\n]*(?:--dry-run|--delete|\s:))", (("push", "git push -u origin main"),)
)
