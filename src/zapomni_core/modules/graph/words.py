"""The words, sentences, markup and dates of a text, and what a word is by its form alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from importlib import resources
from typing import NamedTuple

from zapomni_core.shared.dates import (
    MONTH_STEMS,
    MONTHS,
    iso_name,
    month_number,
    months_later,
    written_dates,
)

__all__ = [
    "DATE_CONTINUED",
    "DATE_WORDS",
    "FoundDate",
    "PlainText",
    "Shape",
    "TextSentence",
    "Token",
    "date_at",
    "is_acronym",
    "is_ordinary",
    "is_placeholder",
    "is_status",
    "is_technical",
    "is_version",
    "may_begin_date",
    "read_plain",
    "sentences",
    "shape_of",
    "tokens",
]


# Chinese, Japanese and Korean are written next to Latin words without a blank. No rule here
# reads them, so they divide words as blanks do; so do backticks, dashes and dots beyond ASCII.
_WORD = re.compile(
    r"[^\s`\u2013\u2014\u2026\u2022\u2190-\u21ff\u3000-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+"
)
_OPENING = "([{\"'\u201c\u2018\u00ab*~,;:!?|"
_CLOSING = ".,;:!?)]}\"'\u201d\u2019\u00bb*~|"
_PAIRS = {")": "(", "]": "[", "}": "{"}
_STARTERS = frozenset("- . ? ! : * + > | #".split())
_POSSESSIVE = ("'s", "\u2019s")
# A set of characters first: the search skips everything else, in a quarter of the time. The look
# behind keeps a run of a million dots from being tried a million times.
_END = re.compile(
    r"[.!?\n\u3002\uff01\uff1f](?:"
    r"(?<=[.!?])(?<![.!?][.!?])[.!?]*+[\"'\u201d\u2019)\]]{0,3}+(?=\s|$)"
    r"|(?<=\n)\n*+|(?<=[\u3002\uff01\uff1f]))"
)
_ABBREVIATIONS = frozenset("e.g i.e etc vs cf mr mrs ms dr prof st no approx incl ver fig".split())
LONGEST_SENTENCE = 1000
# Nothing longer is a word: encoded data, a minified file.
LONGEST_WORD = 500
MOST_TRIMMED = 20


class Token(NamedTuple):
    """A word without the punctuation around it."""

    text: str
    start: int
    end: int
    first: bool
    """It begins a sentence or a line."""
    comma: bool
    """Punctuation follows it."""


# One for every word: this takes half the time of calling the class.
_new_token = partial(tuple.__new__, Token)


class TextSentence(NamedTuple):
    """Where a sentence is in a text."""

    start: int
    end: int
    question: bool


def tokens(text: str) -> list[Token]:
    """Return the words of a text, in order."""
    found: list[Token] = []
    done, first = 0, True
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = match[0]
        if start - done != 1 or text[done] != " ":  # Between most words is one blank.
            gap = text[done:start]
            if "\n" in gap and not _is_wrapped(text, done, start):
                first = True
            if "`" in gap and found:
                found[-1] = found[-1]._replace(comma=True)
        done = end
        if end - start > LONGEST_WORD:
            continue
        if word.isalnum():
            found.append(_new_token((word, start, end, first, False)))
            first = False
        else:
            begun = start
            start, end = _trimmed(text, start, end)
            if found and start > begun:
                found[-1] = found[-1]._replace(comma=True)
            if start == end:
                # A lone mark separates what is before it from what is after.
                if found:
                    found[-1] = found[-1]._replace(comma=True)
                first = first or word in _STARTERS
                continue
            found.append(_new_token((text[start:end], start, end, first, end != done)))
            first = end != done and text[done - 1] in ".!?:" and text[end] in ".!?:)\"'"
    return found


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    furthest = min(end, start + MOST_TRIMMED)
    # In `*.py` and `~/.bashrc` the opening character is part of the word.
    while (
        start < furthest
        and text[start] in _OPENING
        and not (text[start] in "*~" and text.startswith((".", "/"), start + 1))
    ):
        start += 1
    furthest = max(start, end - MOST_TRIMMED)
    while furthest < end and text[end - 1] in _CLOSING:
        opening = _PAIRS.get(text[end - 1])
        if opening and text.count(opening, start, end) >= text.count(text[end - 1], start, end):
            break
        end -= 1
    if text.endswith(_POSSESSIVE, start, end):
        end -= 2
    if end - start == 1 and not text[start].isalnum():
        return start, start
    return start, end


def sentences(text: str) -> list[TextSentence]:
    """Return the sentences of a text; a very long one is cut."""
    found: list[TextSentence] = []
    begin = 0
    for match in _END.finditer(text):
        if match[0].startswith("\n"):
            if not _ends_line(text, match.start(), match.end()):
                continue
        elif match[0] == "." and _is_abbreviation(text, match.start()):
            continue
        _add(found, text, begin, match.end())
        begin = match.end()
    _add(found, text, begin, len(text))
    return found


def _ends_line(text: str, start: int, end: int) -> bool:
    """Whether a line break ends a sentence: not if the line was only wrapped."""
    if end - start > 1 or end == len(text):
        return True
    return not text[end].islower() and not _is_wrapped(text, start, end)


# No line that is wrapped is shorter.
WRAPPED_LINE = 55
# What a line begins with that does not go on: an item, a title, a table, who says something.
_NEW_LINE = re.compile(r"[^\w`(\"']|\w[\w .-]{0,40}:\s|\d+[.)]\s")


def _is_wrapped(text: str, end: int, start: int) -> bool:
    """Return whether the words from `start` on go on with the long line that has ended."""
    newline = text.find("\n", end, start)
    begin = text.rfind("\n", 0, newline) + 1
    if newline - begin < WRAPPED_LINE or text.find("\n", newline + 1, start) >= 0:
        return False
    if text[newline - 1] in ".!?:;|" or text[begin] in "#|>":
        return False
    return _NEW_LINE.match(text, start) is None


def _is_abbreviation(text: str, dot: int) -> bool:
    begin = max(text.rfind(" ", max(0, dot - 12), dot), text.rfind("(", max(0, dot - 12), dot)) + 1
    word = text[begin:dot].lower()
    return word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and begin > 0)


def _add(found: list[TextSentence], text: str, begin: int, end: int) -> None:
    while begin < end and text[begin].isspace():
        begin += 1
    while begin < end and text[end - 1].isspace():
        end -= 1
    question = text.endswith(("?", "\uff1f"), begin, end)
    while begin < end:
        cut = min(end, begin + LONGEST_SENTENCE)
        if cut < end:
            cut = max(text.rfind(" ", begin + 1, cut), begin + LONGEST_SENTENCE // 2)
        found.append(TextSentence(begin, cut, question))
        begin = cut


# --- Markup: what a page shows, and where its titles, links and code are ---------------


class LinkText(NamedTuple):
    """Words that are a link, and where they lead."""

    start: int
    end: int
    target: str


class PlainText(NamedTuple):
    """A text as a reader sees it, letter for letter in the same places."""

    source: str
    text: str
    """Markup, addresses of links and directives are blanks; backticks are left."""
    links: list[LinkText]
    addresses: list[tuple[int, int]]
    """Where the addresses are that links lead to."""
    titles: list[tuple[int, int]]
    """Where titles are, without their marks."""


_HTML = re.compile(
    r"<!--.{0,2000}?-->|</?(?:a|abbr|b|blockquote|body|br|center|code|col|colgroup|dd|details|div|dl|dt|em"
    r"|figcaption|figure|font|h[1-6]|head|hr|html|i|img|kbd|li|ol|p|picture|pre|s|samp|script|small"
    r"|source|span|strike|strong|style|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|var"
    r"|video)(?:\s[^<>]{0,400})?\s*/?>",
    re.IGNORECASE | re.DOTALL,
)
# A passage may begin or end within a comment.
_HALF_COMMENT = re.compile(
    r"\A(?:(?!<!--).){0,4000}?^[ \t]*-->[ \t]*$|<!--(?:(?!-->).){0,4000}\Z",
    re.DOTALL | re.MULTILINE,
)
_ADDRESS_IN_TAG = re.compile(r"(?:https?|ftps?)://[^\s\"'<>]+", re.IGNORECASE)
# [words](address "title") and [words][reference], also as an image.
_MARKDOWN_LINK = re.compile(
    r"!?\[(?P<words>[^\[\]\n]{0,200})\]"
    r"(?:\((?P<target>[^()\s]{0,500}(?:\([^()\s]{0,100}\)[^()\s]{0,200})?)(?:\s+[\"'][^\"'\n]{0,200}[\"'])?\)"
    r"|\[(?P<reference>[^\[\]\n]{0,100})\])"
)
_OUTER_LINK = re.compile(r"\]\((?P<target>[^()\s]{1,500})\)")
_REFERENCE_LINE = re.compile(r"^[ ]{0,3}\[[^\[\]\n]{1,100}\]:[ \t]+\S[^\n]*$", re.MULTILINE)
_DIRECTIVE_LINE = re.compile(
    r"^[ \t]*\.\. [^\n]*$|^[ \t]*:(?!author)[a-z-]{2,20}:(?: [^\n]*)?$",
    re.MULTILINE | re.IGNORECASE,
)
# reStructuredText: `words <address>`_, `words`_, :role:`words`.
_QUOTED_LINK = re.compile(
    r"`(?P<words>[^`<\n]{1,200}?)[ ]?(?:<(?P<target>[^<>\n]{1,500})>)?`__?(?![\w`])"
)
_ROLE = re.compile(
    r"(?<![\w`:]):(?P<role>[a-z]+(?::[a-z]+)?):`(?P<words>[^`<\n]{1,200}?)(?:[ ]<[^<>\n]{1,200}>)?`"
)
_PROSE_ROLES = frozenset("ref doc term numref guilabel menuselection abbr sup sub title".split())
_WORD_LINK = re.compile(
    r"(?<![\w`])[A-Za-z][A-Za-z0-9.-]*[A-Za-z0-9](?P<mark>__?)(?=[\s.,;:)\]]|$)"
)
# Where an underscore is not within a word.
_MARKED_WORD = re.compile(r"_(?:(?<![\w`]_)|(?![\w`]))")
# Emphasis may go on in the next line, not in the next paragraph.
_SLANTED = re.compile(r"(?<![\w`])_(?=[^\s_])(?:[^_\n`]|\n(?!\s)){0,200}[^\s_`]_(?![\w`])")
_STRONG = re.compile(
    r"(?<![\w*`])(\*{1,3})(?=[^\s*])(?:[^*\n]|\n(?![\s*+-])){0,200}[^\s*](\1)(?![\w*])"
)
_BOLD = re.compile(r"(?<![\w`])(__)(?=[^\s_])[^_\n`]{0,200}[^\s_`](__)(?![\w`])")
# What site generators read: fields before the text, and tags within it.
_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?P<fields>.{0,4000}?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)
_READ_FIELD = re.compile(
    r"[ \t]*(?:(?P<title>title|name):|(?:authors?|deciders?|decision-makers|owners?|maintainers?"
    r"|description|summary|subtitle):)[ \t]*(?P<value>[^\n]*)",
    re.IGNORECASE,
)
_TEMPLATE_TAG = re.compile(r"\{%[^\n]{0,300}?%\}|\{\{[^\n]{0,300}?\}\}")
# .. _name: address, and [name]: address
_DEFINITION = re.compile(
    r"^[ \t]*(?:\.\. _`?(?P<quoted>[^`:\n]{1,100})`?:\s+|\[(?P<name>[^\[\]\n]{1,100})\]:[ \t]+)"
    r"(?P<target>\S+)",
    re.MULTILINE,
)
_TITLE = re.compile(r"^[ ]{0,3}#{1,6}[ \t]+(?P<words>[^\n]{1,200}?)[ \t#]{0,10}$", re.MULTILINE)
_UNDERLINED = re.compile(
    r"^(?P<words>[^\s#>|+*-][^\n]{0,120})\n(?P<mark>[=\-~^\"'+#*])(?P=mark){2,}[ \t]*$",
    re.MULTILINE,
)


def read_plain(text: str) -> PlainText:
    """Return a text without its markup, and what the markup says about it."""
    links: list[LinkText] = []
    addresses: list[tuple[int, int]] = []
    blanked: list[tuple[int, int]] = []
    titles: list[tuple[int, int]] = []
    targets: dict[str, str] = {}
    if text.startswith("---") and (fields := _FRONT_MATTER.match(text)):
        blanked.append((0, 3))
        at = fields.start("fields")
        for line in fields["fields"].splitlines(keepends=True):
            known = _READ_FIELD.match(line)
            if known is None:
                blanked.append((at, at + len(line)))
            elif known["title"]:
                start, end = known.span("value")
                titles.append((at + start, at + end))
                blanked.append((at, at + start))
            at += len(line)
    if "{%" in text or "{{" in text:
        blanked += [tag.span() for tag in _TEMPLATE_TAG.finditer(text)]
    if "://" in text and ("]: " in text or ".. _" in text):
        for line in _DEFINITION.finditer(text):
            targets[(line["quoted"] or line["name"]).lower()] = line["target"]
    if "-->" in text or "<!--" in text:
        blanked += [part.span() for part in _HALF_COMMENT.finditer(text)]
    if "<" in text:
        for tag in _HTML.finditer(text):
            blanked.append(tag.span())
            addresses += [found.span() for found in _ADDRESS_IN_TAG.finditer(text, *tag.span())]
    if "](" in text or "][" in text:
        for link in _MARKDOWN_LINK.finditer(text):
            start, end = link.span("words")
            blanked += [(link.start(), start), (end, link.end())]
            if link["target"] and "://" in link["target"]:
                addresses.append(link.span("target"))
            called = (link["reference"] or link["words"]).lower()
            links.append(LinkText(start, end, link["target"] or targets.get(called, "")))
        for outer in _OUTER_LINK.finditer(text):
            blanked.append(outer.span())
    if "]:" in text:
        blanked += [line.span() for line in _REFERENCE_LINE.finditer(text)]
    if ".. " in text or "\n:" in text:
        blanked += [line.span() for line in _DIRECTIVE_LINE.finditer(text)]
    if ":`" in text:
        for role in _ROLE.finditer(text):
            start, end = role.span("words")
            blanked.append((role.start(), start - 1))
            if role["role"] in ("ref", "numref") and "_" in role["words"]:
                blanked.append(role.span())  # the label of a section, which is shown by its title
            elif role["role"] in _PROSE_ROLES:
                blanked += [(start - 1, start), (end, role.end())]
            else:
                blanked += [(start, start + (text[start] in "~!.")), (end, role.end() - 1)]
    if "`_" in text:
        for link in _QUOTED_LINK.finditer(text):
            start, end = link.span("words")
            blanked += [(link.start(), start), (end, link.end())]
            if link["target"] and "://" in link["target"]:
                addresses.append(link.span("target"))
            called = link["words"].lower()
            links.append(LinkText(start, end, link["target"] or targets.get(called, "")))
    if "*" in text:
        blanked += [mark.span(side) for mark in _STRONG.finditer(text) for side in (1, 2)]
    if "_" in text and _MARKED_WORD.search(text):
        for word in _WORD_LINK.finditer(text):
            blanked.append(word.span("mark"))
            if target := targets.get(text[word.start() : word.start("mark")].lower()):
                links.append(LinkText(word.start(), word.start("mark"), target))
        # One word is a name of Python's: __init__.
        bold = [one for one in _BOLD.finditer(text) if " " in one[0]]
        blanked += [one.span(side) for one in bold for side in (1, 2)]
        for slanted in _SLANTED.finditer(text):
            start, end = slanted.span()
            blanked += [(start, start + 1), (end - 1, end)]
    if "#" in text:
        titles += [title.span("words") for title in _TITLE.finditer(text)]
    if "===" in text or "---" in text or "~~~" in text or "^^^" in text:
        titles += [title.span("words") for title in _UNDERLINED.finditer(text)]
    if not blanked:
        return PlainText(text, text, links, addresses, sorted(titles))
    pieces, done = [], 0
    for start, end in sorted(blanked):
        if end > done:
            start = max(start, done)  # noqa: PLW2901 - the rest of it
            pieces += [text[done:start], _BLANK.sub(" ", text[start:end])]
            done = end
    return PlainText(text, "".join([*pieces, text[done:]]), links, addresses, sorted(titles))


_BLANK = re.compile(r"[^\n]")


# --- Ordinary words ---------------------------------------------------------------------

_ENDINGS = re.compile(
    r".{3,}(?:tions?|sions?|ments?|ness|[a-z]ities|[bcdlrtv]ity|ings?|ized|ised|ated|ively|ally|able|ible|ously"
    r"|ances?|ences?|ships?|fully|isms?|tically)"
)
# Next to others, such a word may be part of a name: Analytical Platform.
_GENERAL_ENDINGS = re.compile(
    r"(?=.{7}).{3,}(?:[^emr]ed|[ae]ncy|bly|ity|ti(?:ve|cal)|[gs]ive|ical|[a-z]ous|[mnrt]less"
    r"|[aceimnprstuw]ful|[cdgilmnprstuv]ate|[clmnr]i[sz]e|[ct]ial|[tcr]ual|[dglrst]ent|i[ae]nt|[dnrt]ant"
    r"|[ot]nal|ental|tural|[lt]ory|ology|[mnt]ary|ture|ward)(?:s|d|ly)?"
)


@lru_cache(maxsize=1)
def _ordinary() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of texts about software, and those of all texts."""
    file = resources.files(__package__).joinpath("ordinary.txt")
    lines = file.read_text(encoding="utf-8").splitlines()
    words = " ".join(line for line in lines if not line.startswith("#")).split()
    technical = frozenset(word[:-1] for word in words if word.endswith("*"))
    return technical, frozenset(word.rstrip("*") for word in words)


@lru_cache(maxsize=20_000)
def is_ordinary(word: str) -> bool:
    """Return whether a word, in lower case, is one that texts use for many things."""
    return _is_form(word, _ordinary()[1]) or _GENERAL_ENDINGS.fullmatch(word) is not None


@lru_cache(maxsize=20_000)
def is_technical(word: str) -> bool:
    """Return whether a word, in lower case, is one that texts about software use for many things.

    Of fewer words than `is_ordinary` holds: several others together are more often a name.
    """
    return _is_form(word, _ordinary()[0])


def _is_form(word: str, known: frozenset[str]) -> bool:
    if word in known or _ENDINGS.fullmatch(word):
        return True
    if word.endswith("s") and (word[:-1] in known or word[:-2] in known):
        return True
    if word.endswith("ies") and f"{word[:-3]}y" in known:
        return True
    if word.endswith("ed") and (word[:-2] in known or word[:-1] in known):
        return True
    return word.endswith("ly") and word[:-2] in known


# --- What a word is by its looks alone: an address, a path, a version, an identifier, an error ---


class Shape(NamedTuple):
    """A type, how sure we are, and which part of the word it covers."""

    type: str
    confidence: float
    start: int = 0
    end: int | None = None


_URL = re.compile(
    r"(?:https?|ftps?|wss?|ssh|git|file|redis|postgres(?:ql)?|mongodb|amqp)://\S+", re.IGNORECASE
)
_URL_INSIDE = re.compile(r"(?<=[(<\[\"'=])(?:https?|ftps?|wss?)://[^\s()<>\[\]\"']+", re.IGNORECASE)
_REMOTE = re.compile(r"git@[\w.-]+:[\w./-]+")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")

_ISSUE = re.compile(r"(?:[\w.-]+/[\w.-]+)?#\d{1,7}")
_TICKET = re.compile(r"(?:[A-Z][A-Z0-9]{1,9}|GH|WebKit)-\d{1,7}")
_NUMBERED_PATH = re.compile(r"[\w.-]+/[\w.-]+/(?:pull|issues|discussions)/\d+")
_ADVISORY = re.compile(r"(?:CVE-\d{4}-\d{4,7}|GHSA(?:-[0-9a-z]{4}){3}|RFC-?\d{3,5}|PEP-?\d{1,4})")
# A hash has digits and letters; `deadbeef` and `1234567` are something else.
_HASH = re.compile(r"(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}")
_NOT_A_TICKET = frozenset(
    "UTF SHA ISO GPT HTTP TLS SSL AES MD IPV X COVID RS ES HS BASE CP WIN".split()
)

_VERSION = re.compile(
    r"[vV]?\d{1,5}(?:\.\d{1,5}){1,4}(?:[-+.]?(?:rc|alpha|beta|a|b|dev|post|pre|snapshot|final|ga|m)"
    r"[-.]?\d*(?:[-.]\w+)?|-\d{1,4})?\+?|[vV]\d{1,4}|[vV]?\d{1,4}(?:\.\d{1,4})*\.[xX*]",
    re.IGNORECASE,
)

_ERROR_CLASS = re.compile(
    r"(?:[a-zA-Z_][\w$]*(?:\.|::)){0,8}[a-z]{0,2}[A-Z][A-Za-z0-9]*(?:Error|Exception|Warning|Fault|Interrupt)s?"
    r"|(?:[a-zA-Z_][\w$]*\.){1,8}(?:Error|Exception)|Errno::E[A-Z]+"
)
_ERROR_CODE = re.compile(
    r"E\d{4}|TS\d{4,5}|ORA-\d{5}|CS\d{4}|LNK\d{4}|C[2-9]\d{3}|MSB\d{4}|NU\d{4}|PLS-\d{5}"
    r"|[A-Z]{2,10}_ERR(?:OR)?_[A-Z_]{2,40}|ERR(?:OR)?_[A-Z0-9_]{2,40}|0x8[0-9A-Fa-f]{7}|SQLSTATE\w*"
)
_ERROR_NAMES = frozenset(
    (
        "EACCES EADDRINUSE EAGAIN EBADF EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EEXIST "
        "EHOSTUNREACH EINTR EINVAL EIO EISDIR EMFILE ENETUNREACH ENOENT ENOMEM ENOSPC ENOTDIR "
        "ENOTEMPTY ENOTFOUND EPERM EPIPE ERESOLVE EROFS ESRCH ETIMEDOUT EXDEV SIGSEGV SIGABRT "
        "SIGBUS SIGFPE SIGILL NPE OOMKilled CrashLoopBackOff ImagePullBackOff ErrImagePull "
        "StopIteration NoReverseMatch KeyboardInterrupt segfault segfaults Segfault"
    ).split()
)
_STATUS = re.compile(r"[45]\d\d")

_EXTENSIONS = (
    "py pyi pyc ipynb js mjs cjs jsx ts tsx vue svelte rb erb rs go java kt kts scala clj ex "
    "exs erl hs c cc cpp cxx h hh hpp cs vb php phtml pl pm lua swift mm sh bash zsh fish "
    "ps1 bat cmd sql db sqlite sqlite3 dump html htm xhtml css scss sass less xml xsl xslt xsd "
    "wsdl xaml json jsonl json5 geojson yaml yml toml ini cfg conf config properties env lock "
    "md mdx rst txt tex csv tsv xls xlsx doc docx ppt pptx pdf log png jpg jpeg gif svg ico "
    "webp bmp tif tiff mp3 mp4 wav avi mov mkv zip tar gz tgz bz2 xz zst 7z rar jar war ear "
    "class dll exe so dylib lib obj pdb deb rpm apk ipa dmg iso whl egg nupkg gem pem crt "
    "csr cer p12 jks graphql gql proto tf tfvars hcl gradle sln csproj vcxproj pbxproj plist "
    "xib nib storyboard jsp jspx aspx ascx cshtml tpl twig blade ftl mustache hbs ejs pug haml "
    "slim vim lisp r rmd rdata mat asm patch diff bak tmp swp "
    "parquet onnx gguf bin dat pkl npy h5 gcda gcno cmake mk rake "
    "gemspec podspec htaccess gitignore"
).split()
_EXTENSION = "|".join(sorted(_EXTENSIONS, key=len, reverse=True))
_NAMED_FILE = re.compile(
    rf"(?:[\w@$~.*+\-/\\:%{{}}\[\]]*[\w*\])}}])?\.(?:{_EXTENSION})(?:\.\d+)?", re.IGNORECASE
)
_LINE = re.compile(r"(?::\d{1,6}){1,2}$")
_WELL_KNOWN_FILES = re.compile(
    r"(?:.*/)?(?:(?:Docker|Make|make|Jenkins|Gem|Proc|Vagrant|Rake|Brew|Pod|Pip|Just|Cap|Guard|Cart|Fast|App)file"
    r"(?:\.[\w-]+)?|CMakeLists\.txt|LICENSE|CHANGELOG|README|authorized_keys|known_hosts|"
    r"node_modules|__pycache__|site-packages|go\.(?:mod|sum)|"
    r"\.(?:env(?:\.[\w-]+)*|git(?:ignore|attributes|modules|config|keep)|bashrc|bash_profile|zshrc|profile|"
    r"vimrc|emacs|npmrc|nvmrc|editorconfig|htaccess|htpasswd|dockerignore|eslintrc|prettierrc|babelrc|pypirc|"
    r"netrc|tool-versions|python-version|ssh|github|gitlab|circleci|vscode|idea|venv|cache|config|travis)"
    r"(?:\.[\w-]+)*)/?"
)
_UNIX_ROOT = re.compile(
    r"/(?:etc|usr|var|home|tmp|opt|bin|sbin|dev|proc|sys|root|mnt|media|srv|lib|lib64|boot|run|Users|Library|"
    r"Applications|private|data)(?:/[\w@.*+\-~%{}$]*)*"
)
_PATH = re.compile(
    r"(?:\.{1,2}|~)?/[\w@.*+\-~%{}$][\w@.*+\-~%{}$/ ]*|(?:[\w@.*+\-~%{}$]+/)+[\w@.*+\-~%{}$]*"
    r"|[A-Za-z]:[\\/][\w\\/@.*+\-~%{}$ ()]*|(?:[\w.\-]+\\){1,20}[\w.\-]+"
)
_FOLDERS = frozenset(
    (
        "src lib libs test tests spec docs doc bin etc usr var app apps packages pkg crates "
        "infra scripts deploy config configs conf migrations tools cmd internal node_modules "
        "static assets public templates views models controllers components include build dist "
        "target vendor third_party benchmarks examples dags charts k8s modules plugins "
        "resources res data core api server client backend frontend web www"
    ).split()
)
# Folders whose names are also one of two: include/exclude, client/server.
_ALTERNATIVES = frozenset("include public build test client server backend frontend".split())

_PLACEHOLDER = re.compile(r"<[a-z]+(?:[_-]\w+)+>|<[A-Z][A-Z_-]+>")  # <secret_1>, <YOUR-NAME>
_DUNDER = re.compile(r"__\w+__(?:\(\))?")
_EMPHASIZED = re.compile(r"_[A-Z][a-z]*\w*")  # rather the beginning of emphasis
_FLAG = re.compile(r"--[a-zA-Z][\w-]*(?:=\S+)?")
_TAG = re.compile(r"</?[a-zA-Z][\w:.-]*(?:\s[^<>]*)?/?>")
_CALL = re.compile(r"[@$]?[A-Za-z_$][\w$.:>\-]*\(.*\)?[;]?")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?(?:->\w+|\[.*\])*|%[A-Za-z_]\w+%")
_ANNOTATION = re.compile(r"@[A-Z][a-z]\w*")
_SCOPED = re.compile(r"(?:[A-Za-z_]\w*(?:::|->|#))+~?[A-Za-z_]\w*(?:\(\))?|::[A-Za-z_]\w+")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+")
_ROUTE = re.compile(r"(?:/[:{]?[\w-]+}?)+/?")
_SIGNAL = re.compile(r"SIG(?:TERM|INT|KILL|HUP|USR[12]|STOP|CHLD|QUIT|PIPE|ALRM)")
# X_train, my_groups, project_2
_OF_EXAMPLES = re.compile(r"(?:[A-Za-z]|[Mm]y|MY|[Ss]ome|your)_[A-Za-z0-9]|[a-z]+_\d\Z")
# What examples call things, and what is to be filled in: write_foo, MyStruct, xx.yy.zz, <name>.txt.
_PLACEHOLDER_NAME = re.compile(
    r"(?:\A|[^A-Za-z])(?:[Ff]oo(?:[Bb]ar)?|[Bb]a[rz]|[Qq]ux|[Ss]pam|[Ee]ggs)(?![A-Za-z])"
    r"|\A[Mm]y[A-Z][a-z]+(?:[A-Z.(]|\Z)"
    r"|(?:\A|[._/-])([xyznXYZN])\1+(?=\Z|[._/-])"
    r"|\A[<{][a-z][\w -]*[>}]."
    r"|\A[^A-Za-z0-9]*[A-Za-z]\d?[^A-Za-z0-9]*\Z"
)
_SNAKE = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*|__?[A-Za-z]\w+")
_CAMEL = re.compile(r"[a-z][a-z0-9]*[A-Z][A-Za-z0-9]*")
_ELECTRONIC = re.compile(r"e[A-Z][a-z]{3,}|v[A-Z]{2,}s?")  # an eCertificate, two vCPUs
# DevOps and PyCon are no classes.
_BLENDED = re.compile(r"[A-Z][a-z]+(?:Sec)?(?:Ops|Sec|Con|Conf|Camp|Fest)")
_PASCAL = re.compile(
    r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]{1,5}[A-Z][a-z]{2,}[A-Za-z0-9]*|[A-Z][a-z]+\d*[A-Z]{2,}\w*"
)
_HEADER = re.compile(
    r"(?:X|Content|Accept|Access-Control|Set|User|Cache|If|Last|Transfer|Proxy|WWW|Strict)(?:-[A-Z][A-Za-z]*)+|x(?:-[a-z]+){2,4}"
)
_GENERIC = re.compile(r"[A-Za-z_][\w.:]*(?:<[\w<>,.?\s\[\]]+>|\[[\w\[\], .|]*\])")
_METHOD = re.compile(r"\.[A-Za-z_]\w+\(\)")
_SELECTOR = re.compile(r"\.[a-z]\w*-[\w-]+|#[a-zA-Z][\w-]+")
_DIRECTIVE = re.compile(r"(?:ng|data|aria|v|mat|uib|md)-(?!driven|centric|rich|heavy)[a-z][a-z-]*")
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")
# DfE, CoE, PoC, SaaS: abbreviations that keep the small letters of small words.
_MIXED_ACRONYM = re.compile(r"(?=.{3,5}\Z)[A-Z]{1,3}[a-z]{1,2}[A-Z]{1,2}s?")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.){1,4}[A-Za-z]?")
_DOMAIN = re.compile(
    r"(?:[\w-]+\.)+(?:com|org|net|io|dev|edu|gov|info|co|uk|de|in|me|ai|eu|ru|ch|fr|nl|xyz)(?:/\S*)?",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"[^\\]*(?:\\[.*()#!+-][^\\]*)+")
_FILE_TYPE = re.compile(rf"\*?\.(?:{_EXTENSION})", re.IGNORECASE)


# A character that gives code away, and what the whole word must look like then.
_MARKED = (
    ("<", _TAG),
    ("(", _CALL),
    ("$", _VARIABLE),
    ("%", _VARIABLE),
    ("_", _SNAKE),
    ("::", _SCOPED),
    ("->", _SCOPED),
    ("#", _SCOPED),
)


# Words that begin a sentence whose blank was forgotten: `in a form.But it`.
_GLUED = re.compile(
    r"[a-z][\w-]*(?:\.[a-z]{1,4})?\.(?:A|And|Any|As|At|But|Can|Do|Does|For|From|Here|How|However|I|If|In|Is"
    r"|It|Its|My|No|Not|Now|On|Or|Please|So|Some|Thanks|That|The|Then|There|These|They|This|To|Try|We"
    r"|What|When|Where|Which|While|Why|With|You|Your)"
)
_GROWTH = re.compile(r"[O\u0398\u03a9]\(.{1,20}\)?")  # O(n log n)
_IDENTIFIER = re.compile(
    r"(?!(?:utf|mp|md|sha|base|ipv|es|py|win|mac|vs|rev|day|week|top)\d)[a-z]{3,}\d{1,3}"
)


# A key, a digest, an image: no one looks it up.
_ENCODED = re.compile(r"(?=[A-Za-z+/=]*\d)[A-Za-z0-9+=]{44,}")


@lru_cache(maxsize=20_000)
def shape_of(word: str) -> Shape | None:
    """Say what a word looks like; None if it looks like any other."""
    if _GLUED.fullmatch(word) or _GROWTH.fullmatch(word) or _ENCODED.match(word):
        return Shape("", 0.0)
    if "://" in word or "@" in word:
        if _URL.match(word) or _REMOTE.match(word):
            return Shape("URL", 0.98)
        if inside := _URL_INSIDE.search(word):  # [a link](https://...)
            return Shape("URL", 0.95, inside.start(), inside.end())
        if _EMAIL.fullmatch(word):
            return Shape("", 0.0)
    if ("#" in word and _ISSUE.fullmatch(word)) or ("/" in word and _NUMBERED_PATH.fullmatch(word)):
        return Shape("REFERENCE", 0.95)
    if word in _ERROR_NAMES or _ERROR_CLASS.fullmatch(word) or _ERROR_CODE.fullmatch(word):
        alone = ("Error", "Exception", "Warning", "Fault", "Errors", "Exceptions", "Warnings")
        if word not in alone:
            return Shape("ERROR", 0.9)
    is_numbered = word[0].isdigit() or word[-1].isdigit() or word.startswith("GHSA-")
    if is_numbered or (word[0] in "vV" and word[1:2].isdigit()):
        found = _numbered(word)
        if found is not None:
            return found
    return _file(word) or _code(word)


def is_version(word: str) -> bool:
    return _VERSION.fullmatch(word) is not None


def _numbered(word: str) -> Shape | None:
    if "-" in word:
        if _ADVISORY.fullmatch(word):
            return Shape("REFERENCE", 0.95)
        if _TICKET.fullmatch(word) and word.partition("-")[0] not in _NOT_A_TICKET:
            return Shape("REFERENCE", 0.8)
    if _HASH.fullmatch(word):
        return Shape("REFERENCE", 0.8)
    if word[0] in "vV" and _VERSION.fullmatch(word):
        return Shape("VERSION", 0.95)
    if word.count(".") >= 2 and _VERSION.fullmatch(word):
        # 10.0.0.12 is an address of a machine.
        return (
            None
            if word.count(".") == 3 and word.replace(".", "").isdigit()
            else Shape("VERSION", 0.9)
        )
    return None


def _file(word: str) -> Shape | None:
    if "\\_" in word or ("\\" in word and _ESCAPED.fullmatch(word)):
        return None  # an escaped mark is no path
    line = _LINE.search(word)
    end = line.start() if line else len(word)
    name = word[:end]
    if _WELL_KNOWN_FILES.fullmatch(name):
        is_any = name in ("README", "LICENSE", "CHANGELOG")  # every repository has them
        return Shape("FILE", 0.001 if is_any else 0.9, 0, end)
    if _FILE_TYPE.fullmatch(name):
        return Shape("", 0.0)  # .json says what something is, it is nothing by itself
    if (
        "." in name
        and "(" not in name
        and _NAMED_FILE.fullmatch(name)
        and not _ABBREVIATION.fullmatch(name)
    ):
        return Shape("FILE", 0.9, 0, end)
    if ("/" in name or "\\" in name) and len(name) > 2:
        if _PATH.fullmatch(name):
            return _path(name, end)
        return Shape("CODE", 0.7) if _ROUTE.fullmatch(word) else None
    return None


def _path(name: str, end: int) -> Shape | None:
    if _DOMAIN.fullmatch(name):
        return None
    if name.startswith(("./", "../", "~/")) or "\\" in name or name[1:3] == ":/":
        return Shape("FILE", 0.9, 0, end)
    if name.startswith("/"):
        if _UNIX_ROOT.fullmatch(name):
            return Shape("FILE", 0.9, 0, end)
        return Shape("CODE", 0.6, 0, end) if name[1:2].isalpha() else None
    if name.startswith("@"):
        return Shape("PACKAGE", 0.9 if name.count("/") == 1 else 0.6, 0, end)
    first, _, second = name.partition("/")
    if first in _ALTERNATIVES and second.isalpha() and is_ordinary(second):
        return None  # public/private
    pieces = name.split("/")  # describe/it/expect/should, nitpick/required/question/note
    said = sum(one.isupper() or is_ordinary(one) for one in pieces)
    is_said = said >= len(pieces) - (len(pieces) > 3 and all(map(str.isalpha, pieces)))
    if name.endswith("/") or first in _FOLDERS or (name.count("/") >= 3 and not is_said):
        return Shape("FILE", 0.8, 0, end)
    return None


def _code(word: str) -> Shape | None:
    if _IDENTIFIER.fullmatch(word):
        return Shape("CODE", 0.1)
    if word.startswith("-"):
        return Shape("CODE", 0.8) if _FLAG.fullmatch(word) else None
    if _PLACEHOLDER.fullmatch(word) or word.startswith("</"):
        return Shape("", 0.0)
    if word.endswith(("._", ",_")):  # the end of emphasis
        return Shape("", 0.0)
    if any(pattern.fullmatch(word) for mark, pattern in _MARKED if mark in word):
        # Every class has an __init__, and a call with arguments is one of many.
        if _DUNDER.fullmatch(word) or _EMPHASIZED.fullmatch(word):
            return Shape("CODE", 0.1)
        if word.endswith("(s)") or word.count("(") != word.count(")"):
            return Shape("", 0.0)  # one or several; half a call is a word with a bracket behind it
        if _OF_EXAMPLES.match(word):
            return Shape("CODE", 0.05 if word[-2] == "_" and is_ordinary(word[:-2]) else 0.17)
        return Shape("CODE", 0.3 if "(" in word and not word.endswith("()") else 0.9)
    if "." in word:
        if word.startswith("."):
            if _METHOD.fullmatch(word):
                return Shape("CODE", 0.3)
            return Shape("CODE", 0.3) if _SELECTOR.fullmatch(word) else None
        if _ABBREVIATION.fullmatch(word) or _DOMAIN.fullmatch(word):
            return None
        if _DOTTED.fullmatch(word) or _CALL.fullmatch(word):
            return Shape("CODE", 0.17 if word[1] == "." else 0.7)  # x.y is a variable's
        return None
    if "-" in word:
        if word.endswith("ed"):  # User-Centred
            return None
        if word.startswith("data-") and is_ordinary(word.removeprefix("data-")):
            return None  # data-processing
        return Shape("CODE", 0.8) if _HEADER.fullmatch(word) or _DIRECTIVE.fullmatch(word) else None
    if "<" in word or "[" in word:
        return Shape("CODE", 0.17) if _GENERIC.fullmatch(word) else None
    if _CAMEL.fullmatch(word) or _SIGNAL.fullmatch(word):
        return None if _ELECTRONIC.fullmatch(word) else Shape("CODE", 0.8)
    is_pascal = _PASCAL.fullmatch(word) and not word.startswith(("Mc", "Mac"))
    if not is_pascal or is_acronym(word) or _BLENDED.fullmatch(word):
        return None
    return Shape("CODE", 0.7)


def is_acronym(word: str) -> bool:
    """Return whether a word is made of the first letters of others: GDS, SLAs, DfE."""
    return (
        word.isupper()
        or _PLURAL_ACRONYM.fullmatch(word) is not None
        or _MIXED_ACRONYM.fullmatch(word) is not None
    )


@lru_cache(maxsize=20_000)
def is_placeholder(word: str) -> bool:
    """Return whether a name in code is one that examples use for anything."""
    return _PLACEHOLDER_NAME.search(word) is not None


def is_status(word: str) -> bool:
    """Whether a word is an error status of HTTP."""
    return _STATUS.fullmatch(word) is not None


# --- Dates in prose: written out, or relative to the day the text was written ------------


class FoundDate(NamedTuple):
    """A date in a text, and where it ends."""

    end: int
    name: str
    """As ISO 8601 writes it: 2024-03-05, 2024-03, 2024-W10, 2024-Q1, 2024."""
    confidence: float


_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_COUNTS = {word: number for number, word in enumerate(_NUMBERS)} | {"a": 1, "an": 1, "couple of": 2}

_M = r"(?P<month>" + "|".join(sorted(MONTHS, key=len, reverse=True)) + r")\b(?:\.(?= \d))?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?!\d)"
_W = r"(?P<weekday>" + "|".join(_WEEKDAYS) + r")\b"
_UNIT = r"(?P<unit>day|week|month|quarter|year)"
_N = r"(?P<count>\d{1,3}|a couple of|" + "|".join(w for w in _COUNTS if len(w) > 2) + r"|an?)"

_NUMERIC = re.compile(
    rf"(?P<first>\d{{1,2}})(?P<mark>[./])(?P<second>\d{{1,2}})(?P=mark){_YEAR}(?!\w)"
)
_MONTH = re.compile(_M, re.IGNORECASE)
_QUARTER = re.compile(rf"[Qq](?P<quarter>[1-4])\b(?:[ /-]?{_YEAR})?")
_PLAIN_YEAR = re.compile(rf"{_YEAR}\b(?![.:/%-]\d)")
_DAY_WORD = re.compile(
    r"(?:the )?day (?P<far>after tomorrow|before yesterday)\b"
    r"|(?P<day>today|tonight|yesterday|tomorrow)\b"
    r"|this (?:morning|afternoon|evening)\b|(?P<night>last night)\b",
    re.IGNORECASE,
)
_NEXT_UNIT = re.compile(rf"(?P<which>last|past|previous|this|next|coming) {_UNIT}\b", re.IGNORECASE)
_NEXT_WEEKDAY = re.compile(rf"(?P<which>last|past|this|next|coming) {_W}", re.IGNORECASE)
_NEXT_MONTH = re.compile(rf"(?P<which>last|this|next) {_M}", re.IGNORECASE)
_WEEKDAY = re.compile(_W, re.IGNORECASE)
_AGO = re.compile(rf"{_N} {_UNIT}s? (?P<way>ago|from now|later)\b", re.IGNORECASE)
_IN = re.compile(rf"in {_N} {_UNIT}s?\b(?! of\b|['\u2019])", re.IGNORECASE)
_END_OF = re.compile(
    rf"(?:(?:the )?(?:end|beginning|start) of (?:the |this )?{_UNIT}|EO(?P<letter>[DWMQY]))\b",
    re.IGNORECASE,
)

_BEFORE_MONTH = frozenset(
    "in since until till by before after during of from to through early late mid around for "
    "between".split()
)
_BEFORE_YEAR = _BEFORE_MONTH | {
    "the",
    "every",
    "back",
    "year",
    "summer",
    "winter",
    "spring",
    "fall",
    "copyright",
}
_YEAR_AND = re.compile(r"(?:19|20)\d\d and ")
_RECURRING = frozenset("every each first second third last-but-one per".split())
_NOT_YEARS = re.compile(
    r"\s(?:[a-z]+s|ms|px|mb|kb|gb|mhz|hz|km|kg|lines?|rows?|items?|times|users?)\b", re.IGNORECASE
)
_PAST_CUES = frozenset({"since", "from", "after"})
_COMING_CUES = frozenset({"until", "till", "by", "before"})

_RELATIVE = frozenset("this last past previous next coming".split())
DATE_WORDS: frozenset[str] = frozenset(
    {*MONTHS, *_WEEKDAYS, *_COUNTS, *_RELATIVE, "eod", "eow", "eom", "eoq", "eoy"}
    | {"q1", "q2", "q3", "q4", "today", "tonight", "yesterday", "tomorrow", "the", "day", "in"}
    | {"end", "beginning", "start"}
)
"""The words a date may begin with, in lower case; it may also begin with a digit."""
_UNITS = frozenset("day days week weeks month months quarter quarters year years".split())
DATE_CONTINUED: dict[str, frozenset[str]] = {
    "the": frozenset({"day", "end", "beginning", "start"}),
    "in": frozenset({*_COUNTS, "couple"}),
    "a": _UNITS | {"couple"},
    "an": _UNITS,
}
"""Words that begin many things, and what follows them in a date; in lower case, or a digit."""
_STEM_STARTS = {stem[:3] for stem in MONTH_STEMS}


def may_begin_date(word: str) -> bool:
    """Say whether a date may begin with this word, in lower case. Cheap: every word is asked."""
    return (
        word in DATE_WORDS or word[0].isdigit() or (not word.isascii() and word[:3] in _STEM_STARTS)
    )


def date_at(text: str, start: int, before: str, reference: datetime | None) -> FoundDate | None:
    """Return the date that begins at `start`, if one does; `before` is the word before it."""
    if before in _RECURRING:
        return None
    first = _FIRST_WORD.match(text, start)
    word = first[0].lower() if first else ""
    if text[start].isdigit():
        kinds = _DIGITS
    elif word == "the":
        kinds = [(_DAY_WORD, _DateReader.day_word), (_END_OF, _DateReader.end_of)]
    elif word == "in":
        kinds = [(_IN, _DateReader.distance)]
    elif word in _COUNTS:
        kinds = [(_AGO, _DateReader.distance)]
    else:
        kinds = _MONTHS if word in MONTHS or word not in DATE_WORDS else _WORDS
    reader = None
    for pattern, read in kinds:
        match = pattern.match(text, start)
        if match is None:
            continue
        reader = reader or _DateReader(before, reference)
        try:
            found = read(reader, match)
        except (ValueError, OverflowError):  # the 31st of February, the year 0
            continue
        if found is not None:
            return found
    return None


class _DateReader:
    """Reads a date of each kind; knows the word before it and the day it is read on."""

    def __init__(self, before: str, reference: datetime | None) -> None:
        self._before = before
        self._today = None
        if reference is not None:
            self._today = reference.replace(hour=0, minute=0, second=0, microsecond=0)
            if self._today.tzinfo is None:
                self._today = self._today.replace(tzinfo=UTC)

    def written(self, match: re.Match[str]) -> FoundDate | None:
        parts = match.groupdict()
        month = month_number(parts.get("month") or parts.get("stem") or "")
        day = int(parts["day"]) if parts.get("day") else None
        if parts["year"]:
            return _written_as(match.end(), int(parts["year"]), month, day)
        if self._today is None:
            return FoundDate(match.end(), match[0].lower(), 0.7)
        return _written_as(match.end(), self._nearest_year(month, day or 1), month, day)

    def numeric(self, match: re.Match[str]) -> FoundDate | None:
        first, second = int(match["first"]), int(match["second"])
        # With dots the day comes first; with slashes, in America, the month does.
        day, month = (first, second) if match["mark"] == "." or first > 12 else (second, first)
        return _written_as(match.end(), int(match["year"]), month, day)._replace(confidence=0.7)

    def quarter(self, match: re.Match[str]) -> FoundDate | None:
        quarter = int(match["quarter"])
        if not match["year"] and self._today is None:
            return FoundDate(match.end(), match[0].upper(), 0.6)
        year = int(match["year"]) if match["year"] else self._nearest_year(quarter * 3 - 1, 15)
        return FoundDate(match.end(), f"{year}-Q{quarter}", 0.9)

    def day_word(self, match: re.Match[str]) -> FoundDate | None:
        days = {"yesterday": -1, "tomorrow": 1, "after tomorrow": 2, "before yesterday": -2}
        word = (match["far"] or match["day"] or "").lower()
        return self._days_away(match, -1 if match["night"] else days.get(word, 0))

    def unit(self, match: re.Match[str]) -> FoundDate | None:
        away = {"this": 0, "next": 1, "coming": 1}.get(match["which"].lower(), -1)
        return self._units_away(match, match["unit"].lower(), away)

    def distance(self, match: re.Match[str]) -> FoundDate | None:
        count = match["count"].lower()
        number = (
            int(count)
            if count.isdigit()
            else _COUNTS[count.removeprefix("a ") if " " in count else count]
        )
        unit = match["unit"].lower()
        away = -number if "way" in match.groupdict() and match["way"] == "ago" else number
        if unit == "day":
            return self._days_away(match, away)
        if unit == "week":
            return self._days_away(match, 7 * away)
        return self._units_away(match, unit, away)

    def end_of(self, match: re.Match[str]) -> FoundDate | None:
        letters = {"d": "day", "w": "week", "m": "month", "q": "quarter", "y": "year"}
        unit = (match["unit"] or letters[match["letter"].lower()]).lower()
        return self._days_away(match, 0) if unit == "day" else self._units_away(match, unit, 0)

    def weekday(self, match: re.Match[str]) -> FoundDate | None:
        if match.string[match.end() : match.end() + 9].lower().startswith((" of the", "s ")):
            return None
        which = match.groupdict().get("which") or ""
        if self._today is None:
            return self._unresolved(match)
        ahead = (_WEEKDAYS.index(match["weekday"].lower()) - self._today.weekday()) % 7
        cue = which.lower() or self._before
        if cue in ("last", "past") or cue in _PAST_CUES:
            ahead = ahead - 7 if ahead or which else 0
        elif cue in ("next", "coming") or cue in _COMING_CUES:
            ahead = ahead or 7
        elif ahead > 3 and cue != "this":
            ahead -= 7
        return self._days_away(match, ahead)

    def named_month(self, match: re.Match[str]) -> FoundDate | None:
        which = (match.groupdict().get("which") or "").lower()
        name = match["month"].lower()
        if not which and (
            self._before not in _BEFORE_MONTH or (len(name) < 5 and match["month"].islower())
        ):
            return None
        if not which and (match["month"].islower() and name in ("march", "may")):
            return None
        month = month_number(name)
        if self._today is None:
            return self._unresolved(match)
        year = self._nearest_year(month, 15)
        if which == "last" or (not which and self._before in _PAST_CUES):
            year = self._today.year - (month >= self._today.month)
        elif which == "next" or (not which and self._before in _COMING_CUES):
            year = self._today.year + (month <= self._today.month)
        return _written_as(match.end(), year, month, None)

    def plain_year(self, match: re.Match[str]) -> FoundDate | None:
        if _NOT_YEARS.match(match.string, match.end()) and self._before not in _BEFORE_YEAR:
            return None
        if self._before not in _BEFORE_YEAR and self._before:
            # between 2020 and 2022
            start = match.start()
            if not _YEAR_AND.fullmatch(match.string[max(0, start - 9) : start]):
                return None
        return _written_as(match.end(), int(match["year"]), None, None)._replace(confidence=0.8)

    def _days_away(self, match: re.Match[str], days: int) -> FoundDate:
        if self._today is None:
            return self._unresolved(match)
        day = self._today + timedelta(days=days)
        return _written_as(match.end(), day.year, day.month, day.day)

    def _units_away(self, match: re.Match[str], unit: str, away: int) -> FoundDate:
        if self._today is None:
            return self._unresolved(match)
        today = self._today
        if unit == "day":
            return self._days_away(match, away)
        if unit == "week":
            since = today + timedelta(days=7 * away - today.weekday())
            year, week, _ = since.isocalendar()
            return FoundDate(match.end(), f"{year}-W{week:02}", 0.9)
        if unit == "year":
            return _written_as(match.end(), today.year + away, None, None)
        if unit == "quarter":
            first = today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
            since = months_later(first, 3 * away)
            return FoundDate(match.end(), f"{since.year}-Q{since.month // 3 + 1}", 0.9)
        month = months_later(today.replace(day=1), away)
        return _written_as(match.end(), month.year, month.month, None)

    def _unresolved(self, match: re.Match[str]) -> FoundDate:
        return FoundDate(match.end(), match[0].lower(), 0.6)

    def _nearest_year(self, month: int, day: int) -> int:
        assert self._today is not None
        today = self._today
        return min(
            (today.year, today.year - 1, today.year + 1),
            key=lambda year: abs(
                (datetime(year, month, min(day, 28), tzinfo=today.tzinfo) - today).days
            ),
        )


_Kind = tuple[re.Pattern[str], Callable[[_DateReader, re.Match[str]], FoundDate | None]]
_FIRST_WORD = re.compile(r"\w+")
_DIGITS: list[_Kind] = [
    (written_dates().iso_day, _DateReader.written),
    (written_dates().iso_month, _DateReader.written),
    (_NUMERIC, _DateReader.numeric),
    (written_dates().day_month, _DateReader.written),
    (_AGO, _DateReader.distance),
    (_PLAIN_YEAR, _DateReader.plain_year),
]
_MONTHS: list[_Kind] = [
    (written_dates().month_day, _DateReader.written),
    (written_dates().month_year, _DateReader.written),
    (_MONTH, _DateReader.named_month),
]
_WORDS: list[_Kind] = [
    (_QUARTER, _DateReader.quarter),
    (_DAY_WORD, _DateReader.day_word),
    (_NEXT_UNIT, _DateReader.unit),
    (_NEXT_WEEKDAY, _DateReader.weekday),
    (_NEXT_MONTH, _DateReader.named_month),
    (_AGO, _DateReader.distance),
    (_IN, _DateReader.distance),
    (_END_OF, _DateReader.end_of),
    (_WEEKDAY, _DateReader.weekday),
]


def _written_as(end: int, year: int, month: int | None, day: int | None) -> FoundDate:
    return FoundDate(end, iso_name(year, month, day), 0.9 if day is None else 0.95)
