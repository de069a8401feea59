"""The words and sentences of a text with their places, and what a word is by its form alone."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "Shape",
    "TextSentence",
    "Token",
    "is_status",
    "is_version",
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
_STARTERS = frozenset("- . ? ! : * + >".split())
_POSSESSIVE = ("'s", "\u2019s")
# The look behind keeps a run of a million dots from being tried a million times.
_END = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d\u2019)\]]{0,3}+(?=\s|$)|[\u3002\uff01\uff1f]|\n++")
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
        gap = text[done:start]
        if "\n" in gap:
            first = True
        if "`" in gap and found:
            found[-1] = found[-1]._replace(comma=True)
        done = end
        if end - start > LONGEST_WORD:
            continue
        if not word.isalnum():
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
        found.append(Token(text[start:end], start, end, first, end != done))
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
    return not text[end].islower()


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

_FLAG = re.compile(r"--[a-zA-Z][\w-]*(?:=\S+)?")
_TAG = re.compile(r"</?[a-zA-Z][\w:.-]*(?:\s[^<>]*)?/?>")
_CALL = re.compile(r"[@$]?[A-Za-z_$][\w$.:>\-]*\(.*\)?[;]?")
_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?(?:->\w+|\[.*\])*|%[A-Za-z_]\w+%")
_ANNOTATION = re.compile(r"@[A-Z][a-z]\w*")
_SCOPED = re.compile(r"(?:[A-Za-z_]\w*(?:::|->|#))+~?[A-Za-z_]\w*(?:\(\))?|::[A-Za-z_]\w+")
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+")
_ROUTE = re.compile(r"(?:/[:{]?[\w-]+}?)+/?")
_SIGNAL = re.compile(r"SIG(?:TERM|INT|KILL|HUP|USR[12]|STOP|CHLD|QUIT|PIPE|ALRM)")
_SNAKE = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:_+[A-Za-z0-9]+)+_*|__?[A-Za-z]\w+")
_CAMEL = re.compile(r"[a-z][a-z0-9]*[A-Z][A-Za-z0-9]*")
_PASCAL = re.compile(
    r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]{1,5}[A-Z][a-z]{2,}[A-Za-z0-9]*|[A-Z][a-z]+\d*[A-Z]{2,}\w*"
)
_HEADER = re.compile(
    r"(?:X|Content|Accept|Access-Control|Set|User|Cache|If|Last|Transfer|Proxy|WWW|Strict)(?:-[A-Z][A-Za-z]*)+|x(?:-[a-z]+){1,4}"
)
_GENERIC = re.compile(r"[A-Za-z_][\w.:]*(?:<[\w<>,.?\s\[\]]+>|\[[\w\[\], .|]*\])")
_SELECTOR = re.compile(r"\.[a-z]\w*-[\w-]+|#[a-zA-Z][\w-]+")
_DIRECTIVE = re.compile(r"(?:ng|data|aria|v|mat|uib|md)-[a-z][a-z-]*")
_PLURAL_ACRONYM = re.compile(r"[A-Z]{2,}s")
_ABBREVIATION = re.compile(r"(?:[A-Za-z]\.){1,4}[A-Za-z]?")
_DOMAIN = re.compile(
    r"(?:[\w-]+\.)+(?:com|org|net|io|dev|edu|gov|info|co|uk|de|in|me|ai|eu|ru)(?:/\S*)?",
    re.IGNORECASE,
)
_FILE_TYPE = re.compile(rf"\.(?:{_EXTENSION})", re.IGNORECASE)


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


def shape_of(word: str) -> Shape | None:
    """Say what a word looks like; None if it looks like any other."""
    if "://" in word or "@" in word:
        if _URL.match(word) or _REMOTE.match(word):
            return Shape("URL", 0.98)
        if inside := _URL_INSIDE.search(word):  # [a link](https://...)
            return Shape("URL", 0.95, inside.start(), inside.end())
        if _EMAIL.fullmatch(word):
            return Shape("", 0.0)
    if "#" in word and _ISSUE.fullmatch(word):
        return Shape("REFERENCE", 0.95)
    if word in _ERROR_NAMES or _ERROR_CLASS.fullmatch(word) or _ERROR_CODE.fullmatch(word):
        alone = ("Error", "Exception", "Warning", "Fault", "Errors", "Exceptions", "Warnings")
        if word not in alone:
            return Shape("ERROR", 0.9)
    if word[0].isdigit() or word[-1].isdigit():
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
    line = _LINE.search(word)
    end = line.start() if line else len(word)
    name = word[:end]
    if _WELL_KNOWN_FILES.fullmatch(name):
        return Shape("FILE", 0.9, 0, end)
    if _FILE_TYPE.fullmatch(name):
        return Shape("TECHNOLOGY", 0.5, 0, end)
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
        return Shape("PACKAGE", 0.9, 0, end) if name.count("/") == 1 else Shape("FILE", 0.6, 0, end)
    first = name.partition("/")[0]
    if name.endswith("/") or first in _FOLDERS or name.count("/") >= 3:
        return Shape("FILE", 0.8, 0, end)
    return None


def _code(word: str) -> Shape | None:
    if word.startswith("-"):
        return Shape("CODE", 0.8) if _FLAG.fullmatch(word) else None
    if any(pattern.fullmatch(word) for mark, pattern in _MARKED if mark in word):
        return Shape("CODE", 0.9)
    if "." in word:
        if word.startswith("."):
            return Shape("CODE", 0.6) if _SELECTOR.fullmatch(word) else None
        if _ABBREVIATION.fullmatch(word) or _DOMAIN.fullmatch(word):
            return None
        return Shape("CODE", 0.7) if _DOTTED.fullmatch(word) or _CALL.fullmatch(word) else None
    if "-" in word:
        return Shape("CODE", 0.8) if _HEADER.fullmatch(word) or _DIRECTIVE.fullmatch(word) else None
    if "<" in word or "[" in word:
        return Shape("CODE", 0.7) if _GENERIC.fullmatch(word) else None
    if _CAMEL.fullmatch(word) or _SIGNAL.fullmatch(word):
        return Shape("CODE", 0.8)
    is_pascal = _PASCAL.fullmatch(word) and not word.startswith(("Mc", "Mac"))
    return Shape("CODE", 0.7) if is_pascal and not _PLURAL_ACRONYM.fullmatch(word) else None


def is_status(word: str) -> bool:
    """Whether a word is an error status of HTTP."""
    return _STATUS.fullmatch(word) is not None
