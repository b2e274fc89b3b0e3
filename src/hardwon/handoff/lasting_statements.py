"""Find statements in a prompt that later sessions should know, and rewrite each as one clean sentence.

A statement must say that it is meant to last ("from now on", "always", "remember that"), or have the form of a rule, a
preference or an announcement. If it could be about the current task it is left out: false alarms cost a person's
patience.
"""

from __future__ import annotations

import re
from typing import Any

from hardwon.handoff.typed_sentences import find_typed_sentences
from hardwon.text.similarity import tokenize
from hardwon.types import frozen

MAX_STATEMENT_CHARS = 400  # a statement to remember is a sentence or two
MAX_STATEMENTS = 6  # a prompt with more of them is a pasted page
_QUOTED = re.compile(r"`[^`\n]{1,300}`|\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|(?<!\w)'[^'\n]{3,200}'(?!\w)")


def _join_words(words: str) -> str:
    """Build a pattern that matches any of these space-separated words; `_` stands for a space within one."""
    return f"(?:{'|'.join(words.split()).replace('_', ' ')})"


# Verbs for instructions to agents. Verbs for what programs do ("always return", "never render") are about the current
# task and are left out.
_VERBS = _join_words(r"""use run commit push pull ask check write test read prefer explain format lint squash rebase
branch create make keep follow add include put start wait confirm verify install update respond reply answer speak talk
    delegate name sign touch edit modify delete remove change force[-_]push amend skip mock guess assume merge deploy
    bump pin document review plan propose show_me tell_me give_me summari[sz]e build work stage open close mention
    import leave do look search double[-_]check disable bypass revert reset stash generate invent apologi[sz]e""")
_DO = rf"(?:re-?)?{_VERBS}\b"
_DOING = _join_words("""using adding committing pushing writing putting creating asking apologi[sz]ing saying
including editing touching changing making guessing assuming summari[sz]ing explaining repeating wrapping mocking
skipping ignoring generating mentioning signing telling inventing force[-_]pushing disabling rewriting
reformatting being""")
_NO = r"(?:don'?t|do not)"
_FIRST = r"(?:please|always|never|only|all|every|each|any|no|we|you|I|it|the|our|this|let'?s|stop|don'?t|do not)\b"
_LASTS = r"(?:from (?:now|here) on(?:wards?)?|going forward|moving forward|in (?:the )?future|henceforth)"
_CLICK = _join_words("click save press hover scroll type select poll drag log load receive get hit call open see")
# A wish may start at the beginning of a sentence, after filler words, or after another clause.
_WHEN = r"(?:when(?:ever)?|before|after) (?:you [\w ]{2,60}?|\w+ing(?: [\w ]{2,40}?)?),? "
_FILLER = _join_words(r"""ok(?:ay)? yes yeah yep no nope great perfect thanks thank_you nice good cool right alright
sure hmm+ ah oh ugh wait btw fyi by_the_way also and but so then again one_more(?:_thing)? one_thing important reminder
    note rule just for_the_record careful heads_up (?:in|for)_this_(?:repo|repository|project|codebase) in_general""")
_START = (
    rf"(?:^\W*(?:{_FILLER}[,.:!;\s-]+){{0,4}}|[;.!]\s+|\s[-–—]+\s+"
    r"|,?\s(?:and|but|so|then|also)\s+(?:also\s+|then\s+)?)(?:please,?\s+)?"
)
_URGED = _join_words(r"""(?:make|be)_sure_(?:to|you|that_you|we) important_that_you
    (?:told|asked|want|need|like)_you_(?:\w+_)?to
    you_(?:should|must|need_to|have_to) remember_to (?:can|could)_you(?:_please)?""")
_SAYS = rf"(?:{_START}|\b(?:that|because|since) )"  # where a statement may start

_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}"
_DAY = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight|(?:next|this) (?:week|month|quarter|sprint|year)"
    r"|end of (?:the )?(?:day|week|month|quarter|sprint|year)|Q[1-4]\b|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rf"|{_MONTH}\.? \d{{1,2}}|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b)"
)
_HAPPENS = _join_words(r"""freez\w+ fr[eo]zen? ship(?:ping)? releas(?:e|ing) launch(?:ing)? going_live go_live
deprecat\w+ sunset\w* migrat(?:e|ing) switch(?:ing)? mov(?:e|ing) cut(?:ting)? shut(?:ting)?_down turn(?:ing)?_off
    retir(?:e|ing) drop(?:ping)?""")
_EVENT = _join_words("""(?:code_|merge_|feature_)?freeze deadline release(?:_date)? launch go-live demo cut-?off
migration cut-?over maintenance_window audit milestone rollout""")
_ASSET = _join_words("""repo(?:sitory)? project package service api main master staging production prod database db
    cluster ci pipeline org(?:ani[sz]ation)? domain server binary cli app environment library""")
_SHUT = r"(?:frozen|read-only|locked|shut down)"  # a fault, unless a date or "until" follows
_STATE = (
    rf"(?:deprecated|archived|retired|off limits|in maintenance(?: mode)?|{_SHUT}\b(?=.*\b(?:{_DAY}|until|till)\b)"
    rf"|down (?:until|till|on) {_DAY}|(?:renamed|transferred|migrated) (?:from \S+ )?to \S+"
    r"|moved to (?:https?:|x{4}|\w[\w-]*\.\w)\S*|now (?:called|named) \S+)"
)
_RENAMED = r"(?!(?:the|an?|this)\b)\S+"
_OTHER = r"(?!(?:main|master|develop|dev|the|an?|this|that)\b|\S*/)\S+"  # excludes branches and paths in the code
_TOOL = _join_words(r"""linear jira notion confluence slack grafana datadog sentry google_(?:drive|docs) sharepoint
    pagerduty figma 1password asana trello wiki""")
_HOST = r"(?!localhost|127\.|0\.0\.0\.0)(?!\S*/(?:pulls?|issues|commit|actions|runs|compare|discussions)/)\S+"
_TARGET = (
    rf"(?:https?://{_HOST}"
    rf"|(?:the |our )?(?:\S+ )?{_TOOL}\b|#[a-z][\w-]{{2,}})"
)
_IS = r"(?:is|are|lives?|can be found|(?:is|are) (?:tracked|documented|kept|hosted|stored|managed|described)|go|goes)"
_LIES = rf"{_IS} (?:at|in|on|under|here:?|via|to) ?{_TARGET}"
_TRANSIENT = _join_words(
    "error bug issue problem pr diff logs? screenshots? failure output code branch comments? commit run token key"
)
_ROLE = _join_words("""developer engineer programmer designer scientist researcher manager founder student teacher
writer analyst maintainer beginner architect consultant freelancer sysadmin sre advocate lawyer physicist
statistician""")
_BARE = r"(?!(?:the|an?|this|that|it|any|your|my|our)\b)[\w@./+-]+"
# Things in general: a plural without an article, as in "don't add docstrings".
_PLURAL = r"(?!(?:tests|changes|files|features|commits|it|this)\b)(?:[\w-]+ )?\w{3,}s"
_CHOICE = r"(?:the |an? )?(?:option|first|second|third|latter|former|other|one|approach|version|your|last|previous)\b"


# Words before and after a statement that are not part of it.
_LEADING_WORDS = re.compile(
    rf"^(?:(?:{_FILLER}|please|{_LASTS}|next time|for all future \w+|as a rule|let'?s|you (?:should|must|need to"
    r"|have to)"
    r"|make sure (?:to|you)|remember to|can you|could you|also|so|to)\b[,:;.\s]*)+(?=\w)",
    re.I,
)
_TRAILING_WORDS = re.compile(rf"[\s,;.!?]*(?:,? ?\b(?:please|thanks|thank you|ok(?:ay)?|{_LASTS}))[\s.!?]*$", re.I)
_COMPLAINT = re.compile(r",? (?:yet|but|so why|and still) you\b.*$", re.I)
_GERUND_TEXT = """
    using:use writing:write making:make creating:create including:include apologizing:apologize
    apologising:apologise changing:change guessing:guess summarizing:summarize summarising:summarise putting:put
    committing:commit wrapping:wrap skipping:skip ignoring:ignore generating:generate disabling:disable
    rewriting:rewrite assuming:assume being:be
"""
_GERUNDS = dict(pair.split(":") for pair in _GERUND_TEXT.split())


def _to_prohibition(match: re.Match[str]) -> str:
    """Return `Do not use` for `stop using`; gerunds outside the table lose their ending."""
    gerund = match[1].lower()
    return f"Do not {_GERUNDS.get(gerund) or gerund.removesuffix('ing')}"


_HOSTED = re.compile(r"^(?:we |I )?(?:host|deploy)(?:s|ed)?(?: it| everything)? (on|to|with)\b", re.I)
_REWRITES: dict[str, tuple[tuple[re.Pattern[str], Any], ...]] = {
    "feedback": (
        (re.compile(r"^(?:stop|quit|avoid) (\w+ing)\b", re.I), _to_prohibition),
        (re.compile(r"^(?:never|don'?t|do not),? ever\b", re.I), "Never"),
        (re.compile(r"^don'?t\b", re.I), "Do not"),
        (re.compile(r"^(?:don'?t|do not|never) forget to\b", re.I), ""),
        (re.compile(r"^we (?:should(?:n'?t| not)|must(?:n'?t| not))\b", re.I), "Do not"),
        (
            re.compile(r"^we (?:explicitly |really |generally )?(?:don'?t|do not) want(?: to have)?\b", re.I),
            "Not wanted:",
        ),
        (re.compile(r"^I (?:(?:really|always|generally|usually|much|strongly|personally) )?prefer\b", re.I), "Prefer"),
        (re.compile(r"^I(?:'d| would) rather (?:have )?", re.I), "Prefer: "),
        (
            re.compile(
                r"^I (?:really )?(?:hate|dislike|don'?t like|do not like|can'?t stand) (?:it )?when (?:you|claude"
                r"|the agent)\b",
                re.I,
            ),
            "Do not",
        ),
        (re.compile(r"^we (always|never)\b", re.I), r"\1"),
        (re.compile(r"^I (?:really )?like\b", re.I), "The user likes"),
    ),
    "user": (
        (re.compile(r"^I(?:'m| am)\b", re.I), "The user is"),
        (re.compile(r"^I(?:'ve| have)\b", re.I), "The user has"),
        (re.compile(r"^I ((?:always|never|usually|generally) )?(\w+?)(?=\s)", re.I), r"The user \1\2s"),
        (re.compile(r"^my\b", re.I), "The user's"),
        (re.compile(r"^call me\b", re.I), "Call the user"),
    ),
    "project": ((_HOSTED, r"It is hosted \1"),),
    "reference": (
        (
            re.compile(
                r"^(repo\w*|docs?|wiki|board|spec|tracker)\b.*?\b(?:it'?s|is) (?:at|here:?|on) (https?://\S+).*", re.I
            ),
            r"The \1 is at \2",
        ),
    ),
}


@frozen
class StatementRule:
    """A pattern for lasting statements; a firm rule applies even if the sentence points at the current task."""

    name: str
    type: str  # empty: guess the type from the statement
    pattern: re.Pattern[str]
    is_firm: bool


def _build_rule(name: str, memory_type: str, pattern: str, *, is_firm: bool = False) -> StatementRule:
    return StatementRule(name, memory_type, re.compile(pattern, re.I), is_firm)


STATEMENT_RULES = (
    _build_rule(
        "remember that",
        "",
        rf"(?:{_START}|\b(?:please|(?:sure|you (?:need|have)) to|you (?:should|must)) )remember,?\s*"
        r"(?:that\b,?|this ?[:,]|:|,)(?!\s+\w+\s+(?:we|i|you|from|where|that|which)\b)\s+(?P<said>.+)",
        is_firm=True,
    ),
    _build_rule("remember I", "", rf"{_START}remember (?P<said>(?:I|we|our|my|always|never|not to)\b.+)", is_firm=True),
    _build_rule(
        "remember the",
        "",
        rf"{_START}remember (?P<said>the [\w -]{{2,40}} (?:is|are|has|have|needs?|must|runs?|lives?|uses?)\b.+)",
    ),
    _build_rule(
        "remember to",
        "feedback",
        rf"{_START}(?P<said>remember to (?=.*\b(?:every|each|any) ?time\b|.*\bwhenever\b).+)",
        is_firm=True,
    ),
    _build_rule(
        "for later",
        "",
        rf"{_START}(?:for (?:the future|future reference|next time)|as a rule)\s*[,:]\s+(?P<said>.+)",
        is_firm=True,
    ),
    _build_rule(
        "keep in mind",
        "",
        rf"\b(?:keep|bear|have) in mind[,:]?(?: that)? (?P<said>.*\b(?:always|never|every time|{_LASTS})\b.*)",
    ),
    _build_rule(
        "from now on",
        "feedback",
        rf"{_START}(?P<said>(?:{_LASTS}|for all future \w+|next time)\b(?:[,:] .+| (?:{_DO}|{_FIRST}).+))",
        is_firm=True,
    ),
    _build_rule(
        "this, from now on",
        "feedback",
        rf"{_START}(?P<said>(?:{_DO}|{_NO}|always|never|only|let'?s|we|stop|you (?:should|must|need to|have to))\b"
        rf".{{3,200}}\b{_LASTS}\W*$)",
        is_firm=True,
    ),
    _build_rule(
        "always, never",
        "feedback",
        rf"(?:{_START}|\b{_URGED}\s+)(?P<said>(?:{_WHEN})?(?:let'?s )?(?:always|never|{_NO} ever),? "
        rf"(?:ever )?(?:again )?{_DO}.+)",
    ),
    _build_rule(
        "this, never that",
        "feedback",
        rf"{_START}(?P<said>(?:use|run|write|prefer|only use|always) .{{2,100}}(?:,| and) never "
        r"(?!(?:an?|the)\b)\S+.*)",
    ),
    _build_rule(
        "not any more",
        "feedback",
        rf"{_START}(?P<said>{_NO} (?:\w+ )?{_DO}.*\b(?:again|any ?more|unless I (?:ask|say|tell)"
        r"|without (?:asking|my|permission|checking with)|(?:every|each) time|(?:on|for|after) (?:every|each))\b.*)",
    ),
    _build_rule(
        "stop doing",
        "feedback",
        rf"{_START}(?:(?:can|could) you )?(?:please )?(?P<said>(?:stop|quit|avoid) {_DOING}\b(?! changes\b).*)",
    ),
    _build_rule(
        "stop that habit",
        "feedback",
        rf"{_START}(?P<said>(?:stop|quit) (?:doing|writing|adding|making) (?:that|this|those|these) (?:\w+ ){{0,3}}\w+"
        r" (?:at the end|at the start|every ?time|all the time|each time|after (?:every|each)|in (?:every|each"
        r"|all)).*)",
        is_firm=True,
    ),
    _build_rule(
        "never here",
        "feedback",
        rf"{_START}(?P<said>(?:never|always|{_NO}) (?:ever )?{_DO} .{{2,80}} (?:here|in (?:this|the|our)"
        r" (?:repo(?:sitory)?"
        r"|project|codebase))[,;:] .+)",
        is_firm=True,
    ),
    _build_rule(
        "here we",
        "project",
        rf"{_START}(?P<said>(?:in|for) (?:this|our|the) (?:repo(?:sitory)?|project|codebase|team|company),? we"
        r" (?!(?:have|had|need|should|could|can|get|got|see|saw|want)\b)\w+ .+)",
        is_firm=True,
    ),
    _build_rule(
        "everywhere in this project",
        "feedback",
        rf"{_START}(?P<said>(?:use|prefer|write|keep|follow|put|name) .{{2,80}} (?:everywhere|throughout|across)"
        r" ?(?:in )?(?:this|the|our) (?:repo(?:sitory)?|project|codebase).*)",
        is_firm=True,
    ),
    _build_rule(
        "this, not that",
        "feedback",
        rf"{_START}(?P<said>(?:let'?s )?use (?!(?:it|this|that|these|those|the (?:other|same|first|second|last))\b)"
        rf"[\w@./+-]+(?: \w+){{0,2}}(?:, not | and not | instead of | rather than |, never ){_BARE}.*)",
    ),
    _build_rule(
        "no such thing",
        "feedback",
        rf"^\W*(?:(?:{_FILLER}|please)[,.:!;\s-]+){{0,4}}(?P<said>{_NO} (?:add|write|use|mock|create|generate|include)"
        rf" {_PLURAL}(?:(?: (?:in|to|on|with|for|from) (?:my|our|the|your) \w+| in \w+)?[.!;]?$|[;,] (?:we|it|they"
        r"|I)\b.+))",
    ),
    _build_rule(
        "not, because",
        "feedback",
        rf"{_START}(?P<said>(?:{_NO}|never) (?!worry|mind|care|forget)\w+ (?!(?:it|this|that|them|these|those"
        rf"|yet)\b).{{2,100}}"
        r"[,;]? ?(?:\b(?:as|because|since)\b (?:that|this|it|they|we|I)\b|[;,-]+ (?:we|it|that|this|they) (?:got|get"
        r"|break|broke"
        r"|ruin|cause|make|always|keep)s?\b).+)",
    ),
    _build_rule(
        "we should not",
        "feedback",
        rf"{_SAYS}(?P<said>we (?:should(?:n'?t| not| never)|must(?:n'?t| not| never)|(?:explicitly |really "
        r"|generally )?"
        r"(?:don'?t|do not) (?:want|allow|use|support)(?: to)?) (?!(?:be|have|it|this|that|see|get|need)\b).+)",
    ),
    _build_rule(
        "keep answers so",
        "feedback",
        rf"{_START}(?P<said>(?:keep|make) (?:your |the |all )?(?:answers?|repl(?:y|ies)|responses?|messages?"
        r"|explanations?"
        r"|commit messages?|prs?|pull requests?|commits|summar(?:y|ies)) \w+.*)",
    ),
    _build_rule(
        "ask before",
        "feedback",
        rf"(?:{_START}|\byou (?:should|must|need to|have to) )(?P<said>(?:always )?(?:ask"
        r"|check with)(?: me)?(?: first)?"
        r" before (?:you )?\w+.*)",
    ),
    _build_rule(
        "don't forget",
        "feedback",
        rf"{_START}(?P<said>(?:don'?t|do not|never) forget to \w+ .{{2,80}}\b(?:and not|not|instead of|rather than"
        r"|never) .+)",
    ),
    _build_rule(
        "each time you",
        "feedback",
        rf"{_START}(?P<said>(?:whenever|(?:every|each|any) ?time) you (?!{_CLICK}\b).{{3,100}}, "
        rf"(?:please |then |also |make sure (?:to|you) )*(?:{_DO}|{_NO}|never|always).+)",
    ),
    _build_rule(
        "I prefer",
        "feedback",
        r"\b(?P<said>I (?:(?:really|always|generally|usually|much|strongly|personally) )?prefer "
        rf"(?!{_CHOICE}|(?:that|this|it|if|not|to)\b|#?\d|[A-D]\b)\S+.+)",
    ),
    _build_rule(
        "prefer", "feedback", rf"{_START}(?P<said>prefer .{{2,120}} (?:over|to|instead of|rather than|and not) .+)"
    ),
    _build_rule(
        "I hate when you",
        "feedback",
        r"\b(?P<said>I (?:really )?(?:hate|dislike|don'?t like|do not like|can'?t stand) (?:it )?when (?:you|claude"
        r"|the agent) .+)",
        is_firm=True,
    ),
    _build_rule(
        "we always", "feedback", rf"{_SAYS}(?P<said>we (?:always|never) {_DO} (?!(?:forward|it|them|any ?more)\b).+)"
    ),
    _build_rule(
        "we use this, not that",
        "project",
        rf"{_START}(?P<said>we (?:only )?(?:use|write|(?:deploy|test|build) with) [^,]{{2,60}}"
        r"(?:,? (?:and )?not |,? never |,? instead of |,? rather than ).+)",
    ),
    _build_rule(
        "we use it everywhere",
        "project",
        rf"{_START}(?P<said>we (?:only )?(?:use|write) .{{2,80}} (?:in|across|for) "
        r"(?:this|the whole|all our|our) (?:repo(?:sitory)?|project|codebase|company|team|org)s?\b.*)",
    ),
    _build_rule(
        "our convention",
        "project",
        r"\b(?P<said>(?:(?:our|the team'?s|the project'?s) (?:\w+ ){0,2}(?:convention|policy|rule|standard)"
        r"|the (?:\w+ )?convention in this (?:repo|project|codebase)) "
        r"(?:is|says|requires) (?!(?:broken|wrong|failing|not|too|missing|unclear)\b).+)",
    ),
    _build_rule(
        "decided",
        "project",
        rf"{_SAYS}(?P<said>we(?:'ve| have)? (?:decided|agreed|chose|settled)(?: to| on| that)? (?!(?:it|this"
        r"|that)\b).+)",
        is_firm=True,
    ),
    _build_rule(
        "we are on",
        "project",
        rf"{_SAYS}(?P<said>we(?:'re| are)(?: still| now)? (?:on|using|stuck on|limited to|bound to)"
        r" (?-i:[A-Z]|[a-z]+ ?\d)[\w.+-]*(?: v?\d[\w.]*)?\b.*)",
    ),
    _build_rule(
        "we support",
        "project",
        rf"{_SAYS}(?P<said>we (?:only |also |officially )?(?:support|target|ship|host|deploy|run) (?!(?:it|this|that"
        r"|the"
        r" (?:same|tests?))\b)(?=.*(?:\d|(?-i:\b[A-Z]))).+)",
    ),
    _build_rule(
        "hosted on",
        "project",
        r"\b(?P<said>(?:we |I )?(?:host|deploy)(?:s|ed)? (?:it |everything )?(?:on|to|with) (?-i:[A-Z])\w+.*)",
    ),
    _build_rule(
        "our practice",
        "project",
        rf"(?:{_SAYS}|, )(?P<said>we (?:(?:don'?t|do not) (?!(?:want|have|need|know|see|think|care|get|understand"
        r"|seem|really|even"
        r"|yet|like)\b)\w+ (?!(?:it|this|that|them|these|those|yet)\b).+|do [\w-]+-(?:first|only)\b.*))",
    ),
    _build_rule(
        "for future work",
        "feedback",
        rf"{_START}(?P<said>(?:ensure|make sure|note|record|document) .{{5,120}}\b(?:for (?:all )?future"
        r" (?:\w+ )?(?:tickets"
        r"|sessions|changes|work|prs|tasks|issues|agents)|in (?:claude'?s? |your |the agent'?s? )?memory)\b.*)",
        is_firm=True,
    ),
    _build_rule("I like that", "feedback", r"^\W*(?P<said>I (?:really )?like (?:that|how|when) (?!I\b).+)"),
    _build_rule(
        "note that",
        "project",
        rf"{_START}(?:note|keep in mind|bear in mind|be aware|mind) that (?P<said>(?:the "
        rf"|our )?(?:[\w-]+ ){{0,2}}{_ASSET}"
        r" (?:is|are|runs?|lives?|needs?|has|uses?|must)\b.+)",
    ),
    _build_rule(
        "being shut down",
        "project",
        rf"{_SAYS}(?P<said>(?:the|our) (?:[\w-]+ ){{1,4}}(?:is|are|gets?|will be) (?:being "
        r"|going to be )?(?:shut down|turned off"
        rf"|retired|deprecated|sunset|replaced|removed|migrated|switched off) (?:in|on|by|from|next|this|at)"
        rf" (?:{_MONTH}|{_DAY}|\w+day).*)",
    ),
    _build_rule(
        "announced",
        "project",
        rf"{_SAYS}(?P<said>(?:we|the team|they|\w+ team)(?:'re|'ll| are| will(?: be)?| have to| need to| plan to)?"
        rf"(?: (?:going|planning) to)? {_HAPPENS}\b(?=.*\b{_DAY}).+)",
    ),
    _build_rule(
        "dated",
        "project",
        rf"{_SAYS}(?P<said>(?:(?:the|our|a|there(?:'s| is) a) )?(?:\w+ ){{0,2}}{_EVENT} "
        rf"(?:is|starts?|begins?|ends?|(?:has |was |got )?moved|will be|runs|lasts)\b(?=.*\b{_DAY}).+)",
    ),
    _build_rule(
        "state",
        "project",
        rf"{_SAYS}(?P<said>(?:(?:the|our) (?:[\w-]+ ){{0,2}}?{_ASSET}|main|master|staging|production) "
        rf"(?:is|are|has been|have been|got|was)(?: now {_SHUT}|(?: now)? {_STATE}).*)",
    ),
    _build_rule(
        "we renamed",
        "project",
        rf"{_SAYS}(?P<said>we(?:'ve| have| just| also| now)* (?:(?:renamed|moved|transferred) (?:the |our )?"
        rf"(?:[\w-]+ )?{_ASSET}\b.{{0,60}}? to {_RENAMED}"
        rf"|(?:migrated|switched) (?:from [\w. ]{{2,30}} )?to {_OTHER}).*)",
    ),
    _build_rule(
        "where it is",
        "reference",
        rf"{_SAYS}(?P<said>(?!(?:\w+ ){{0,2}}{_TRANSIENT}\b|(?:it|this|that|here|there|which|what)\b)"
        rf"(?:(?:the|our|all)(?: our)? (?:[\w-]+ ){{1,5}}{_LIES}|(?:[\w-]+ ){{1,5}}{_IS} (?:at|on"
        rf"|under) https?://(?={_HOST})).*)",
        is_firm=True,
    ),
    _build_rule(
        "tracked in",
        "reference",
        rf"{_SAYS}(?P<said>(?:our |the |all )?(?:bugs?|issues|tickets?|tasks|specs?|docs|designs|dashboards|runbooks"
        r"|decisions"
        rf"|api spec|roadmap|backlog)(?: \w+)? (?:are|is|lives?)(?: (?:tracked|kept|documented|stored|managed))?"
        r" (?:in|on|at)"
        rf" (?:the |our )?{_TOOL}\b.*)",
        is_firm=True,
    ),
    _build_rule(
        "repository at",
        "reference",
        rf"(?P<said>\b(?:repo(?:sitory)?|docs?|documentation|wiki|dashboard|board|spec|tracker)\b[^.?!]{{0,90}}"
        rf"\b(?:it'?s|is|are|lives) (?:at|here:?|on|under) https?://{_HOST}.*)",
    ),
    _build_rule(
        "see the link for",
        "reference",
        rf"{_START}(?P<said>see https?://{_HOST} for (?!(?:the|this|that|these|an?)\b)\w+.*)",
        is_firm=True,
    ),
    _build_rule(
        "who I am",
        "user",
        rf"\b(?P<said>I(?:'m| am) (?:a|an|the) (?:[\w/-]+ ){{0,4}}(?:{_ROLE}|CTO|CEO|CFO|COO|PM|PO)\b.*)",
    ),
    _build_rule(
        "new to",
        "user",
        r"\b(?P<said>I(?:'m| am) (?:\w+ )?(?:new to|colou?r-?blind|not (?:a native|familiar with|technical))\b.*)",
    ),
    _build_rule(
        "long at it",
        "user",
        r"\b(?P<said>I(?:'ve| have) (?:been (?:writing|using|programming|coding|working (?:with|in))|written|used) "
        r"(?!(?:it|this|that)\b).{2,60} for (?:\w+ ){0,2}(?:years|decades|months)\b.*)",
    ),
    _build_rule(
        "I always",
        "user",
        r"\b(?P<said>I (?:always|never|usually|generally) (?:use|work|write|test|commit|deploy|develop|squash|rebase) "
        r"(?!(?:it|this|that|the same)\b).+)",
    ),
    _build_rule(
        "I work so",
        "user",
        r"^\W*(?P<said>I (?:work|code|develop|commit) (?:mostly|mainly|usually|only|always|part[- ]time|alone"
        r"|remotely)\b.*)",
    ),
    _build_rule(
        "mine",
        "user",
        r"\b(?P<said>my (?:name|time ?zone|pronouns|native language|mother tongue|first language|job|role"
        r"|github (?:user(?:name)?|handle)) (?:is|are)\b.+|call me (?-i:[A-Z][a-z]+)\W*$)",
    ),
    _build_rule(
        "my machine",
        "user",
        r"\b(?P<said>I(?:'m| am| work| develop)(?: mostly)? on (?:an? )?"
        r"(?:windows|linux|mac(?:os)?|wsl2?|ubuntu|nixos)\b.*)",
    ),
)

_POLITE = re.compile(
    r"^\W*(?:\w+[,.]? ){0,3}?(?:can|could|would|will) you (?:please )?(?:always|never|remember|stop)\b", re.I
)
_REQUEST = re.compile(
    r"(?:,? (?:can|could|would) you\b|,? please (?:update|fix|change|go)\b|,? so (?:can|could|please)\b).*$", re.I
)
# These words before a match mean that it is a question, a supposition, a report of somebody's words, or text to write.
_TELLS = _join_words(r"said says? saying wrote writes claim\w* states? suggest\w* reads prints? printed")
_SUPPOSES = _join_words(r"""if should_(?:we|i|it) shall why how whether does do_(?:we|you|they) did is_it maybe
perhaps might are_(?:we|you|they|there) pretend imagine suppose assum\w+ act_as as_if hypothetical\w* would could_it
i_think i_guess i_wonder not_sure seems? apparently according_to (?:it|he|she|they)_told error warning message comment
    button label tooltip placeholder title tweet headline test_case user_story as_a_user claude\.md agents\.md readme
    document i_don'?t can'?t cannot used_to called named example""")
_SUPPOSED = re.compile(rf"(?<!I )(?<!I've )\b{_TELLS}\b|\b{_SUPPOSES}\b", re.I)
_THIS = _join_words("""file function test pr branch commit change case one line method class page component endpoint
step time part section table field screen button issue loop variable value query script run ticket task session
feature""")
_AT_HAND = re.compile(
    rf"\b(?:this|that|these|those) (?:\w+ )?{_THIS}s?\b|\bhere\b"
    r"|\b(?:stop|quit|avoid) \w+ing (?:that|this|it|them)\b"
    r"|\b(?:always|never|ever|not|don'?t) (?:again )?\w+ (?:it|this|that|them|these|those)\b",
    re.I,
)
_FOR_NOW = re.compile(
    r"\b(?:for now|for the moment|this time|just this once|until (?:i|you|we)|right now|never ?mind|(?<!, )yet"
    r"|(?:in|for|during) this (?:session|task|pr|one|conversation|chat|run|turn))\b",
    re.I,
)
# A statement of fact found by these rules is dropped if it reports a fault.
_FACT_RULES = frozenset(("mine", "my machine", "state", "dated", "new to", "where it is"))
_FAULT = re.compile(
    r"\b(?:fail\w*|broken|wrong|missing|stuck|crash\w*|errors?|not (?:shown|updated|set)|shown|displayed)\b", re.I
)
_MINE = re.compile(r"^(?:I(?:'m| am| work| speak| live| know| have)|my)\b", re.I)
_WISH = re.compile(
    rf"^(?:to |not to |please |you (?:should|must|need)|I(?:'d| would)? (?:rather|prefer|like|want|hate)|{_DO}|{_NO}"
    r"|only|stop|avoid)\b|\b(?:always|never|must(?:n't)?|don'?t)\b",
    re.I,
)
_WHERE = re.compile(rf"\b{_LIES}", re.I)


@frozen
class LastingStatement:
    """A statement to remember: memory type, one clean sentence, and the person's own words with spaces collapsed."""

    type: str
    text: str
    quote: str


def find_lasting_statements(prompt: str) -> list[LastingStatement]:
    """Return the lasting statements of a prompt, each once; none if there are too many for a typed prompt."""
    statements: list[LastingStatement] = []
    for sentence in find_typed_sentences(prompt):
        match = _match_statement(sentence)
        if match and tokenize(match[1]) not in [tokenize(statement.quote) for statement in statements]:
            statements.append(LastingStatement(match[0], rewrite_statement(*match), match[1]))
    return statements if len(statements) <= MAX_STATEMENTS else []


def rewrite_statement(memory_type: str, words: str) -> str:
    """Rewrite a person's words as one clean sentence: wishes as instructions, "I" as "the user"."""
    text = _LEADING_WORDS.sub("", words.strip())
    for pattern, replacement in _REWRITES.get(memory_type, ()):
        text = pattern.sub(replacement, text, count=1)
    text = _TRAILING_WORDS.sub("", _COMPLAINT.sub("", text)).strip(" ,;:-")
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _match_statement(sentence: str) -> tuple[str, str] | None:
    """Return type and words by the first matching rule; None for questions and suppositions."""
    if len(sentence) > 2 * MAX_STATEMENT_CHARS or _FOR_NOW.search(sentence):
        return None
    if sentence.rstrip(" \"')").endswith("?") and not _POLITE.search(sentence):
        # Keeps the statement in "the repo moved to x, can you fix the links?".
        sentence, original = _REQUEST.sub("", sentence), sentence
        if sentence == original:
            return None
    masked = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), sentence)
    for rule in STATEMENT_RULES:
        match = rule.pattern.search(masked)
        if not match or _SUPPOSED.search(masked[: match.start("said")]):
            continue
        statement = sentence[match.start("said") :]
        if rule.name in _FACT_RULES and _FAULT.search(masked[match.start("said") :]):
            continue
        if not rule.is_firm and _AT_HAND.search(masked[match.start("said") :]):
            continue
        statement = (_REQUEST.sub("", statement) if rule.type in ("project", "reference") else statement).rstrip(
            " ?,;:"
        )
        if len(statement) <= MAX_STATEMENT_CHARS and len(statement.split()) > 1 and tokenize(statement):
            return rule.type or _guess_type(statement), statement
    return None


def _guess_type(statement: str) -> str:
    if _WHERE.search(statement):
        return "reference"
    if _WISH.search(statement):
        return "feedback"
    return "user" if _MINE.search(statement) else "project"
