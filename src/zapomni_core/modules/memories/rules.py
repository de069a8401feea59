"""Which notes state a rule or a lasting fact: how work is done here, and not what happened.

Some words make a rule of any sentence (always, never, "we deploy on Tuesdays"). A short note says
one thing, and how it is said shows what it is: an order ("use pnpm"), a limit or a duty, what the
user likes; or a fact, what is so until further notice ("times are stored in UTC"), also of all of a
kind ("public functions need docstrings"). In a longer text such sentences are part of a
description. A note that reports is neither.

The patterns are texts, compiled when they are used: a search needs none.
"""

from __future__ import annotations

import re

__all__ = ["find_rule", "unwrap"]

# A rule is short and comes early; a long text that has "must" somewhere is a document.
RULE_CHARS, RULE_SENTENCES = 2000, 12
SHORT_CHARS, SHORT_SENTENCES = 300, 3

_SENTENCE_END = r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+"
# A long line that goes on in the next one: that is no new sentence.
_WRAPPED = r"(?m)^(.{50,}[^\s.!?:;])\n(?=[a-z(])"
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"

# Sentences that say how work is done here, in whatever text.
_ANYWHERE = rf"""(?ix)
    (?<!was\s)(?<!were\s)(?<!had\s)(?<!has\s)(?<!have\s)\b(?:always|never|must(?:\s+not|n't)?|shall|do\s+not|don't|should(?:\s+not|n't)?|avoid|prefer
      |only\s+(?:use|run|merge|deploy|ever|after|with|from|in|on|via)
      |(?:required|forbidden|mandatory|by\s+convention|not\s+allowed|no\s+longer\s+allowed)
      |make\s+sure|instead\s+of|rather\s+than|remember\s+to|be\s+careful)\b
    | \b(?:use|run|write|keep|put|name|call|ask|test|commit|merge|deploy|release|pin)\b
      [^.!?\n]{{1,80}}?(?:,\s*not\b|\bnot\s+\w+|\bbefore\b|\bafter\s+(?:each|every)\b)
    | \b(?:every|each|any)\s+(?:pr|pull\s+request|commit|merge|release|deploy(?:ment)?|change
      |branch|migration|endpoint|test|file|function|module|day|week|month|morning|sprint
      |{_DAY})s?\b
    | \b{_DAY}s\b
    | \b(?:we|our\s+team|the\s+team|everyone|all\s+of\s+us)\s+
      (?:use|run|write|deploy|release|merge|review|test|ship|keep|put|name|call|start|end|format
        |lint|pin|tag|branch|rebase|squash|log|store|commit|host|build|version|support|target
        |require|allow|treat|do|work|agreed|decided)\b
    | \b(?:the\s+)?(?:build|tests?|ci|deploy(?:ment)?|release|project|app)\s+(?:needs?|requires?)\b
    | (?<!\w)(?:всегда|никогда|нельзя|обязательно|только|нужно|надо|долж(?:ен|на|но|ны)
      |(?:не\s+)?используй(?:те)?|(?:мы\s+)?(?:не\s+)?используем|не\s+(?:трогай|коммить)\w*
      |по\s+(?:понедельник|вторник|сред|четверг|пятниц)ам
      |vždy|nikdy|nesmí|musí(?:me)?|(?:ne)?použív(?:ej|áme)
      |immer|niemals|nie|nur|muss|müssen|darf|dürfen|benutze|verwende|wir\s+(?:benutzen|verwenden|nutzen)
      |(?:mon|diens|donners|frei)tags|mittwochs
      |toujours|jamais|utilise[rz]?|nous\s+utilisons|il\s+faut|doi(?:t|vent)
      |siempre|nunca|sempre|mai|usamos|utilizamos|hay\s+que|deben?)(?!\w)
    | 必须|总是|从不|不要|禁止|我们(?:使)?用|必ず|決して|使うこと
    """

# Nothing that is decided: an idea, an opinion, a proposal. And what someone did, in a sentence that
# begins with it.
_UNDECIDED = r"""(?ix)
    ^[\W_]*(?:maybe|perhaps|possibly|probably|wondering|thinking\s+(?:about|of)|what\s+if|how\s+about
      |(?:just\s+)?(?:an\s+)?idea\b|proposal:|question:|todo\b|(?:could|should|can|shall)\s+(?:we|i)\b
      |(?:some(?:one|body)|sometimes|occasionally|apparently)\b
      |I\s+(?:think|guess|believe|suppose|wonder|hope|should|could|will|ought|(?:need|have)\s+to)\b)
    | \b(?:half\s+joking|some\s?day|undecided|no\s+decision|to\s+be\s+(?:decided|discussed))\b
    | \bmight\s+be\s+(?:an?\s+)?(?:better|worth|nice|good|easier|possible|useful)\b
    | \b(?:suggest(?:ed|s)|propos(?:ed|es)|discussed|debated|talked|wonders?|wondered|thinks|thought
      |considered|argue[ds]|hopes|reported|complained|mentioned|claims|claimed|noticed|heard|learned)\s+(?:that|whether|if|about|of|we|it|all)\b
    | ^[\W_]*(?!(?:agreed|decided)\b)(?:\w+ed|ran|wrote|found|made|built|took|got|went|saw|met|gave
      |spent|broke|began|led|sent|read)\s+(?:an?|that|it|why|whether|how|\d+|two|three|four|some|out
      |my|his|her|this|through|(?<!read\s)(?:the|up|down|back|our|all|every|each))\b"""
# Words of rules that say what was, or where a fault is: they are left out of a sentence.
_NO_RULE = r"""(?ix)
    (?<!\bis\s)(?<!\bare\s)(?<!\bbe\s)\b(?:never|always)\s+(?!(?:need|embed|feed|seed)\b)\w+ed\b
    | \b(?:never|always)\s+(?:saw|got|came|went|had|did|took|ran|found|made|knew|told|gave|left
      |broke|became|worked|wrote|sent|said|began|fell|lost)\b | \b(?:never|always)-\w+
    | \b(?:must|should)\s+have\s+(?:been|gone
      |\w+ed\s+(?:an?|the|it|by|in|on|at|from|to|twice))\b
    | \b(?:every|each|any)\s+\w+\s+(?:was|were|went|got|failed|crashed|broke)\b
    | \b(?:appears|happens|occurs|fails|crashes|breaks|shows|seen)\s+only\b"""

# A short note that begins with a verb; of those that are nouns, too, with what follows a verb.
# Tasks and commits begin with "fix", "add" or "update".
_ORDER = r"""(?ix)
    ^[\W_]*(?:(?:please|also|and|but|so|note|rule|reminder|convention)\b[\s:,-]*)*
    (?:let's\b
      |(?:use|run|write|keep|put|ask|pin|answer|reply|respond|ship|squash|rebase|follow|treat|wrap
        |handle|validate|install|push|include|exclude|ignore|skip|leave|let|make|reuse|separate
        |split|verify|explain|speak|mention|cite|indent|generate|stick|stay|assume|go|lint|escape
        |encode|sanitize|prefix|choose|pick|give|tell|show|think|be|do|try|limit|restrict|bind
        |expose|hide|share|allow|deny|require|expect|ensure|enable|disable|define|declare)\b
      |(?:test|release|log|build|name|call|commit|merge|deploy|store|document|review|type|target
        |format|cover|mock|mark|place|set|check|open|close|start|stop|read|return|import|export
        |sort|tag|throw|raise|send|talk|work|branch|hash|cache|sign|query|stage|vote|plan|list)\s+
        (?:(?:the|an?|all|any|every|each|only|in|on|by|to|from|as|for|before|after|your|our|their
          |no|it|them|and|or|via|at|into|off|\w+ly)\b|[`'"]))"""
# An order for a case: "if a test is flaky, quarantine it".
_CASE = r"""(?ix)
    ^[\W_]*(?:if|when|whenever|before|after|once|while|until|unless|for|in|during|on|with)\s
    (?!.*\b(?:was|were|had|did|went|got|took|came|ran|found|yesterday|today)\b)
    [^,;:]{3,100},\s+(?:(?:please|first|then)\s+)?
    (?!\w*(?:ed|ing|[^s]s)\b|(?:half|both|only|even|then|not|just|there|here|with|into|onto|from|about
      |around|over|under|and|but|than|that|these|those|which|what|who|does|maybe|since|because|until
      |almost|nearly|perhaps|unless|through)\b)
    [a-z]{3,}\s+(?:(?:the|an?|it|its|them|all|each|every|your|our|their|to|onto|no|only|one|for)\b
      |[`'"]|[\w-]+[./_]\w|(?-i:[A-Z]))"""
# A contrast, a limit, an exception.
_LIMIT = r"""(?ix),\s+(?:and\s+)?not\s | (?:^|[:;,.]\s*)no\s+\w+
    | \b(?:at\s+least|at\s+most|no\s+more\s+than|within|only|except|unless)\b
    | \b(?:is|are)\s+not\s+(?:needed|required|supported|allowed)\b"""
# What all have to do, and what the user says of themselves.
_DUTY = r"""(?ix)
    ^[\W_]*(?:all|every|each|none|nobody|no\s+one|nothing|any|our)\s
    | ^[\W_]*(?:I|I'm|I'd|my|(?:the\s+)?user(?:'s)?)\s
    | \b(?:(?:have|has|needs?)\s+to|requires?|belongs?|may\s+(?:not|be)|cannot|can't)\b"""
# What is so until further notice.
_STANDING = rf"""(?ix)
    \b(?:follows?
      |(?:lives?|goes?|sits?)\s+(?:in|on|under|next|into|to|through|behind)|expires?|uses?
      |(?:starts?|begins?|ends?)\s+(?:with|without|in))\b
    | \b(?:is|are|gets?)\s+(?:\w+ly\s+|all\s+)?(?!(?:finish|merg|clos|resolv|complet|implement
      |block|delay|plann?|expect|caus|confus|interest|tir|releas|relat|suppos|deprecat|outdat)ed\b)
      (?:\w+ed|kept|written|cut|built|sent|run|done|made|set|frozen|hidden|taken|held|put|spelt)\b
    | \b(?:the\s+)?(?:first|last|second)\s+{_DAY}\s+of\b | \b(?:daily|weekly|nightly|monthly)\b
    | \b(?:is|are|starts?)\s+at\s+\d | \b(?:we're|we\s+are)\s+on\b
    | \b(?:limit|timeout|threshold|maximum|minimum|port|ttl|deadline|quota|version)\s+is\b"""
# What something is or does at present, and a name with its value ("package manager: pnpm"), but no
# state that passes, no problem and no plan.
_PRESENT = r"""(?ix)
    ^[\W_]*(?!.*\b(?:there|drafts?|leaks?|race|tickets?|errors?|causes?|symptoms?|plans?|progress|next
      |retro\w*|trace\w*|exceptions?|interview|self|benchmarks?|steps?|new|old|current(?:ly)?|now|still|some
      |wants?|asks?)\b)
    (?:(?:[\w.+#/-]+\s+){1,6}?(?:is|are)\s+
        (?:(?:an?|the|our|in|on|at|under|behind|called|named)\b|[`"/]|(?-i:[A-Z0-9]))
      |(?:the|our|each|every)\s+(?:[\w.+#/-]+\s+){1,3}?(?:has|[a-z]{2,}[^\Wsui_]s)\s+
        (?:to|on|in|at|from|via|with|by|through|for|the|an?|its|no|\d+)\b
      |[A-Za-z][\w./ -]{1,30}:\s+\w)"""
# What is said of all of a kind: a plural without an article, and what they do.
_KIND = r"""(?x)^[\W_]*(?!(?i:the|this|that|these|those|it|there|an?)\b)
    (?:[\w.+#-]+\s+){0,3}?[\w-]*[^\Wsui_]s(?:\s+(?:in|of|from|for|on)\s+(?:the\s+)?(?!the\b)[\w-]+)?\s+
    (?:are|do|have|(?!(?:is|was|in|of|on|with|from|for|and|or|to|by|at|as|via)\b)
      need|[a-z]{2,}(?<!s)(?<!ed)(?<!ing))\s"""
# What was, what happened, what is about to, and what may be.
_REPORT = rf"""(?ix)
    ^[\W_]*(?!(?:need|based)\b)\w+ed\b(?!\s+[\w-]+s\s)
    | (?<!is)(?<!are)(?<!be)(?<!been)(?<!get)(?<!gets)(?<!being)(?<!ly)(?<!\ba)(?<!an)(?<!the)
      (?<!to)(?<!and)(?<!or)(?<!with)(?<!of)(?<!by)(?<!,)\s(?!(?:need|feed|seed|speed|embed|based)\b)
      [a-z]+ed\s+(?:it|the|a|an|on|in|by|from|to|at|with|about|into|that|after|when|because|since
        |without|twice|again)\b
    | \b(?:was|were|wasn't|weren't|did|didn't|had|went|took|came|found|got|gave|grew|saw|said|told
      |thought|knew|began|broke|brought|wrote|ran|fell|felt|lost|met|paid|spent|became
      |failed|fails?|crash(?:e[sd])?|broken|noticed|fixed|solved|happened|talked|reported|tried
      |improved|seems?|looks?|might|maybe|perhaps|probably|idea|todo|bug(?!\s+fix)|vacation|holiday
      |meeting|call\s+with|slow|question|result|benchmark|status|again|half\s+of|proposes|suggests|stuck|because\s+of|turned\s+out|points?\s+to|takes)\b
    | \b(?:yesterday|today|tomorrow|tonight|ago|(?:last|next|this)\s+(?:night|week|month|year|sprint
      |morning|evening|{_DAY})|(?:on|until|by|since)\s+{_DAY}|since\s+(?:noon|midnight|the))\b
    | \b(?:appears|happens|occurs|shows|seen)\s+only\b
    | \bneeds?\s+to\s+(?:talk|discuss|decide|think|figure|find|investigate)\b
    | \b(?:PR|MR|issue|ticket|invoice)\s*\#?\d+ | \#\d+"""


def find_rule(text: str) -> tuple[str, int] | None:
    """Return whether a text states a `rule` or a `fact`, and where that sentence begins.

    A rule comes before a fact, whichever is first in the text.
    """
    if len(text) > RULE_CHARS:
        return None
    text = unwrap(text)
    sentences = re.split(_SENTENCE_END, text)
    is_short = len(text) <= SHORT_CHARS and len(sentences) <= SHORT_SENTENCES
    start, fact = 0, None
    for sentence in sentences[:RULE_SENTENCES]:
        start = text.find(sentence, start)
        # A question states nothing.
        if not sentence.rstrip().endswith("?") and not re.search(_UNDECIDED, sentence):
            if re.search(_ANYWHERE, re.sub(_NO_RULE, "", sentence)):
                return "rule", start
            stated = _read_short(sentence) if is_short else ""
            if stated == "rule":
                return stated, start
            if stated and fact is None:
                fact = stated, start
        start += len(sentence)
    return fact


def unwrap(text: str) -> str:
    """Return a text of the same length whose sentences do not end where a line was wrapped."""
    return re.sub(_WRAPPED, r"\1 ", text)


def _read_short(sentence: str) -> str:
    """Return what a sentence of a short note states: `rule`, `fact` or nothing that lasts."""
    if re.search(_ORDER, sentence) or re.search(_CASE, sentence):
        return "rule"
    if re.search(_REPORT, sentence):
        return ""
    if re.search(_LIMIT, sentence) or re.search(_DUTY, sentence):
        return "rule"
    lasting = (_STANDING, _KIND, _PRESENT)
    return "fact" if any(re.search(pattern, sentence) for pattern in lasting) else ""
