"""Masking secrets before anything touches the disk.

The rules are data (`redaction_rules`); this is the engine. It finds a value by its own shape, or by
the name next to it, never by a mention: prose about keys, UUIDs, commit and lock-file hashes stay.
Plain search for a rule's keywords comes first, a pattern is compiled when one of them occurs. Every
quantifier is bounded or runs over one class of characters, so time grows with the text's length and
no faster. What this cannot see is listed in docs/capture.md.
"""

from __future__ import annotations

from zapomni_core.shared import quick_re as re
from zapomni_core.shared.hashing import keyed_hash
from zapomni_core.shared.redaction_rules import (
    ABOUT,
    ABOUT_BEFORE,
    CONTEXTS,
    FILLERS,
    GLUED_PW,
    NAME_KEYWORDS,
    NAMES,
    NOT_PASS,
    SERVICES,
    SHAPES,
    STOP_WORDS,
    TOKENS,
    VERSION,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from re import Match

    Span = tuple[int, int, str]

__all__ = ["RULES_VERSION", "Redactor"]

RULES_VERSION = VERSION
PLACEHOLDER = "[REDACTED:"
MIN_ENVIRONMENT_VALUE = 8
# So many secrets of one text are looked for a second time, wherever else they are.
MAX_REPEATED = 50

_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "_DSN", "_PASS", "_PWD")
# Names that only look secret, with values that are ordinary words.
_PUBLIC_NAMES = ("TOKENIZERS_", "KEYBOARD", "KEYMAP", "MAX_TOKENS", "KEYTIMEOUT", "PUBLIC_KEY")
_ORDINARY_VALUES = frozenset(
    "disabled enabled required optional default localhost production development testing "
    "parallel ssh-agent keychain".split()
)

# Colours as a terminal gets them, and as programs and JSON write them down.
_ESCAPES = (
    r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,2}[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\\{1,2}(?:u001[bB]|x1[bB]|033|e)\[[0-9;?]{0,20}[A-Za-z]"
)
_ESCAPE_SIGNS = ("\x1b", "u001b[", "u001B[", "x1b[", "x1B[", "033[", "\\e[")
# Control characters, and what Unicode says a reader may leave out: between two letters of a token
# it splits the token for us and for nothing else.
_INVISIBLE_RANGES = (
    (0, 8),
    (11, 12),
    (14, 31),
    (127, 159),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xE0000, 0xE0FFF),
)


class _Visible(dict[int, "int | None"]):
    """A table for `str.translate` that takes out what is invisible, filled as characters come."""

    def __missing__(self, code: int) -> int | None:
        hidden = not 32 <= code < 127 and any(
            low <= code <= high for low, high in _INVISIBLE_RANGES
        )
        self[code] = None if hidden else code
        return self[code]


_VISIBLE = _Visible()

# Base64, also broken into lines as mail and openssl do.
_BASE64 = (
    r"[A-Za-z0-9+/_-]{40,}={0,2}"
    r"(?:(?:\r?\n|\\n)[ \t>+-]{0,8}[A-Za-z0-9+/_-]{1,}={0,2}(?=\s|\\n|[\"'`]|\Z)){0,2000}"
)
MAX_BASE64 = 65_536
# How far from a service's name its value may be, in the same line.
MAX_SERVICE_DISTANCE = 70


class Redactor:
    """Masks secrets in texts; make one per process and keep it."""

    def __init__(self, environ: Mapping[str, str], key: bytes) -> None:
        """Remember the environment's secrets, and the key that links two mentions of one."""
        self._key = key
        self._values: list[str] = []
        self.learn(environ)

    def learn(self, environ: Mapping[str, str]) -> None:
        """Add the secrets of an environment to those that are remembered."""
        found = {value for name, value in environ.items() if _is_secret_variable(name, value)}
        self._values = sorted(found.union(self._values), key=lambda value: (-len(value), value))

    def redact(self, text: str) -> tuple[str, int]:
        """Return the text with placeholders for secrets, and how many there are.

        What a terminal does not show is taken out as well: it may have split a token.
        """
        text = _visible(text)
        spans = self._spans(text)
        return self.mask(text, spans), len(spans)

    def find(self, text: str) -> list[Span]:
        """Return where secrets are in a text, from and to, and of which kind, in order."""
        visible = _visible(text)
        spans = self._spans(visible)
        if not spans or visible == text:
            return spans
        places = _visible_places(text)
        if len(places) != len(visible):
            return self._spans(text)
        return [(places[start], places[end - 1] + 1, kind) for start, end, kind in spans]

    def mask(self, text: str, spans: Sequence[Span]) -> str:
        """Return a text with placeholders where `find` found secrets."""
        parts = []
        position = 0
        for start, end, kind in spans:
            parts += [text[position:start], self._placeholder(text[start:end], kind)]
            position = end
        return "".join([*parts, text[position:]])

    def mask_in_place(self, text: str, spans: Sequence[Span]) -> str:
        """Like `mask`, but every other character and line stays where it is."""
        parts = []
        position = 0
        for start, end, kind in spans:
            secret = text[start:end]
            label = self._placeholder(secret, kind)
            if "\n" in secret or len(label) > len(secret):
                cover = "".join(c if c in "\r\n" else "*" for c in secret)
            else:
                cover = label.ljust(len(secret), "*")
            parts += [text[position:start], cover]
            position = end
        return "".join([*parts, text[position:]])

    def _placeholder(self, secret: str, kind: str) -> str:
        return f"{PLACEHOLDER}{kind}:{keyed_hash(secret, self._key, 2)}]"

    def _spans(self, text: str) -> list[Span]:
        """Return where the secrets are, in order, without overlaps."""
        found = list(self._find(text))
        if len(text) >= 40 and max(map(len, text.split()), default=0) >= 40:
            found += self._find_encoded(text)
        # What is a secret once is one wherever it is repeated.
        secrets = {text[start:end]: kind for start, end, kind in found[:MAX_REPEATED]}
        for secret, kind in secrets.items():
            if len(secret) >= 8 and _is_mixed(secret):
                found += [(place, place + len(secret), kind) for place in _places(secret, text)]
        if len(found) < 2:
            return found
        found.sort(key=lambda span: (span[0], -span[1]))
        merged = [found[0]]
        for start, end, kind in found[1:]:
            last_start, last_end, last_kind = merged[-1]
            if start < last_end:
                # The rule that found more of it names it.
                name = kind if end - start > last_end - last_start else last_kind
                merged[-1] = last_start, max(end, last_end), name
            else:
                merged.append((start, end, kind))
        return merged

    def _find(self, text: str) -> Iterator[Span]:
        for value in self._values:
            for start in _places(value, text):
                yield start, start + len(value), "env"
        lowered = _lower(text)
        yield from _find_tokens(text)
        for kind, keywords, pattern, entropy in SERVICES:
            if _occurs(keywords, lowered):
                shape = re.compile(rf"(?<=[\"'=:,>\s])(?:{pattern}){_AFTER}")
                ends = [at + len(word) for word in keywords for at in _places(word, lowered)]
                for position in ends:
                    line = text.find("\n", position, position + 200)
                    match = shape.search(text, position, line if line >= 0 else position + 200)
                    if (
                        match
                        and match.start() <= position + MAX_SERVICE_DISTANCE
                        and _is_varied(match[0], entropy)
                    ):
                        yield *match.span(), kind
        for kind, keywords, pattern, entropy in CONTEXTS:
            if _occurs(keywords, lowered):
                judge = _JUDGES.get(kind)
                for match in re.finditer(pattern, text):
                    start, end = match.span(str(match.lastgroup))
                    secret = text[start:end]
                    if (
                        not _is_stand_in(secret)
                        and _is_varied(secret, entropy)
                        and (judge is None or judge(secret))
                    ):
                        yield start, end, kind
        if "private key" in lowered:
            yield from _find_keys(text)
        if _occurs(NAME_KEYWORDS, lowered):
            yield from _find_named(text, lowered)

    def _find_encoded(self, text: str) -> Iterator[Span]:
        """Find base64 whose decoded text holds a secret."""
        for match in re.finditer(_BASE64, text):
            lines = re.split(r"(?:\r?\n|\\n)[ \t>+-]{0,8}", match[0])
            # The word after the last line of a block may look like one more line.
            for tries in (lines, lines[:-1], lines[:1]):
                decoded = _decoded("".join(tries)) if tries else ""
                if decoded and any(self._find(decoded)):
                    end = (
                        match.end() if tries is lines else match.start() + match[0].find(lines[-1])
                    )
                    yield match.start(), end, "base64"
                    break


# --- Tokens with a shape of their own

# Every token is or begins with a run of so many characters without spaces and quotes.
_RUN = r"[^\s\"'`<>(),;]{16,}"
MIN_SHAPE = 30
# Where a token may begin: the last letter of an escape (`\\n`, `%3D`, `\\u0026`) is none of a word.
_EDGE = r"(?:^|\\[nrt]|%[2-7][0-9A-F]|\\u00[0-9a-f]{2}|[^A-Za-z0-9])(?=[A-Za-z0-9])"
_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[2-7][0-9A-F]))"
_AFTER = r"(?![A-Za-z0-9])"
# The rules by the first two characters of their tokens; filled at need.
_BEGINNINGS: dict[str, list[tuple[str, str, str, float]]] = {}


def _find_tokens(text: str) -> Iterator[Span]:
    runs = [match.span() for match in re.finditer(_RUN, text)]
    if not runs:
        return
    if not _BEGINNINGS:
        for kind, beginnings, pattern, entropy in TOKENS:
            for beginning in beginnings.split():
                rule = (beginning, pattern, kind, entropy)
                _BEGINNINGS.setdefault(beginning[:2], []).append(rule)
    edge = re.compile(_EDGE)
    for low, high in runs:
        masked = low
        for place in edge.finditer(text, max(low - 1, 0), high):
            start = place.end()
            if start < masked:
                continue
            rules = _BEGINNINGS.get(text[start : start + 2], ())
            fitting = [rule for rule in rules if text.startswith(rule[0], start)]
            # The longest beginning first.
            for beginning, pattern, kind, entropy in sorted(
                fitting, key=lambda rule: -len(rule[0])
            ):
                match = re.compile(pattern + _AFTER).match(text, start + len(beginning))
                if match and _is_varied(text[start : match.end()], entropy):
                    masked = match.end()
                    yield start, masked, kind
                    break
        if high - low >= MIN_SHAPE:
            run = text[low:high]
            for kind, needed, pattern, entropy in SHAPES:
                if _occurs(needed, run):
                    for match in re.finditer(_BEFORE + pattern + _AFTER, run):
                        if _is_varied(match[0], entropy):
                            yield low + match.start(), low + match.end(), kind


def _occurs(keywords: tuple[str, ...], text: str) -> bool:
    """Plain search first: a pattern costs a hundred times as much, and must be compiled."""
    for keyword in keywords:  # noqa: SIM110 - `any` would take twice as long, many times a text
        if keyword in text:
            return True
    return False


def _places(wanted: str, text: str) -> Iterator[int]:
    start = text.find(wanted)
    while start >= 0:
        yield start
        start = text.find(wanted, start + len(wanted))


def _lower(text: str) -> str:
    """Return the text in lower case, every character at its place."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if c.isascii() else c for c in text)


def _is_secret_variable(name: str, value: str) -> bool:
    name = name.upper()
    if len(value) < MIN_ENVIRONMENT_VALUE or not any(word in name for word in _SECRET_NAMES):
        return False
    if any(word in name for word in _PUBLIC_NAMES) or value.lower() in _ORDINARY_VALUES:
        return False
    # A path to a secret is not one.
    return not value.startswith(("/", "~", "./"))


def _visible(text: str) -> str:
    """Take out what a terminal does not show: it may split a token."""
    if any(sign in text for sign in _ESCAPE_SIGNS):
        text = re.sub(_ESCAPES, "", text)
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def _visible_places(text: str) -> list[int]:
    """Return where the characters that `_visible` leaves are."""
    hidden: set[int] = set()
    for match in re.finditer(_ESCAPES, text):
        hidden.update(range(*match.span()))
    return [
        place
        for place, character in enumerate(text)
        if place not in hidden
        and _VISIBLE[ord(character)] is not None
        and not (character == "\r" and text.startswith("\n", place + 1))
    ]


def _is_varied(text: str, bits: float) -> bool:
    """Whether the characters of a text differ as much as those of a random one do."""
    if PLACEHOLDER in text:
        return False
    if not bits:
        return True
    from math import log2

    counts = [text.count(character) for character in set(text)]
    return -sum(n / len(text) * log2(n / len(text)) for n in counts) >= bits


def _decoded(run: str) -> str:
    """Return what a base64 run says, if it says anything readable."""
    from binascii import Error as Base64Error
    from binascii import a2b_base64

    body = run[:MAX_BASE64].rstrip("=").replace("-", "+").replace("_", "/")
    body = body[: len(body) - (len(body) % 4 == 1)]
    try:
        raw = a2b_base64(body + "=" * (-len(body) % 4))
        text = raw.decode("utf-8")
    except (Base64Error, UnicodeDecodeError):
        return ""
    return text if all(c.isprintable() or c in "\n\r\t" for c in text) else ""


# --- Private keys

_BEGIN = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
MAX_KEY = 20_000


def _find_keys(text: str) -> Iterator[Span]:
    """Find private keys, also those whose first or last line was cut off.

    The lines' own prefixes (diffs, quotes, numbers) and escaped newlines are part of the block.
    """
    position = 0
    begin = re.compile(_BEGIN).search(text)
    for end in re.finditer(_END, text):
        if begin is not None and begin.start() < end.start():
            start = begin.start()
        else:
            start = _key_tail(text, position, end.start())
        yield start, end.end(), "private-key"
        position = end.end()
        begin = re.compile(_BEGIN).search(text, position)
    if begin is not None:
        yield begin.start(), min(len(text), begin.start() + MAX_KEY), "private-key"


def _key_tail(text: str, low: int, end: int) -> int:
    """Return where the lines of base64 before a key's last line begin."""
    low = max(low, end - MAX_KEY)
    start = _line_start(text, low, end)
    if re.search(r"[A-Za-z0-9]", text[start:end]):
        return end  # Something else is before it in its line.
    while start > low:
        before = _line_start(text, low, start - 1)
        line = text[before:start].removesuffix("\\n").strip(" \t\r\n+->|\"',")
        if not re.fullmatch(r"[A-Za-z0-9+/=]{4,200}|[A-Za-z-]{4,20}: .{1,80}", line):
            break
        start = before
    return start


def _line_start(text: str, low: int, end: int) -> int:
    """Return where a line begins, after a newline or one that is written as an escape."""
    escaped = text.rfind("\\n", low, end - 1)
    return max(low, text.rfind("\n", low, end) + 1, escaped + 2 if escaped >= 0 else low)


# --- Values that a name gives away

# What a name says of the value next to it: a password may be any word, a token looks random, and
# what is only called a key must look very random.
_PASSWORD, _TOKEN, _KEY = 3, 2, 1

MAX_VALUE = 500
_REST = (
    r"(?P<tail>[a-z0-9_-]{0,40})(?P<close>(?:\\{0,3}[\"'`\])]|&quot;){0,3})"
    r"(?P<type>\s{0,2}:\s{0,2}[&\w][\w.<>\[\]?|]{1,30}(?=\s?=))?"
    r"(?P<gap>(?:\s|\\t){0,16})(?P<sep>:=|=>|->|<-|!==?|={1,3}|:(?!:)|,(?=\s{0,3}\\{0,3}[\"'`])|is\s|(?<=\s)|(?<=\\t))(?:\s|\\t){0,16}"
    r"(?:@(?=\")|[rbful]{1,2}(?=[\"'])|\((?=[\"']))?"
    r"(?:(?P<q>&quot;|\\{0,3}[\"'`])(?P<v>(?:(?!(?P=q))(?:\\.|[^\n\\])){1,500})(?:(?P=q)|(?=\\?\n|\\?\Z))"
    r"|[\w.]{1,40}\(\s{0,2}[\"'][^\"'\n]{0,80}[\"']\s{0,3},\s{0,3}[\"'](?P<d>[^\"'\n]{3,200})[\"']"
    r"|(?P<b>[^\s\"'`,;&|<>(){}\[\]\\]{3,500}))"
)


def _find_named(text: str, lowered: str) -> Iterator[Span]:
    names = re.compile(NAMES)
    rest = re.compile(_REST)
    position = 0
    while True:
        name = names.search(lowered, position)
        if name is None:
            return
        position = name.end()
        match = rest.match(lowered, position)
        if match is None:
            continue
        group = match.lastgroup if match.lastgroup in ("v", "d", "b") else "v"
        start, end = match.span(group)
        if start < 0:
            continue
        if _is_named_secret(text, name, match, text[start:end], group):
            if group == "b" and end - start == MAX_VALUE:
                end = _end_of_value(text, end)
            yield start, end, "password" if name.lastgroup == "p" else "secret"
            position = end


def _end_of_value(text: str, end: int) -> int:
    while end < len(text) and not text[end].isspace() and text[end] not in "\"'`,;&|<>(){}[]\\":
        end += 1
    return end


def _is_named_secret(text: str, name: Match[str], rest: Match[str], value: str, group: str) -> bool:
    trust = {"p": _PASSWORD, "t": _TOKEN, "k": _KEY}[str(name.lastgroup)]
    word = name[0]
    head = _head(text, name.start())
    before = head[-1:]
    first = text[name.start()]
    # Where words have no blanks between them, a name begins after letters of another script.
    is_letter = before.isascii() and before.isalpha()
    glued = is_letter and not (first.isupper() and before.islower())
    if glued:
        run = re.findall(r"[A-Za-z][a-z]*|[A-Z]+", head)[-1].lower()
        if word == "pass" and run in NOT_PASS:
            return False
        if word in ("pw", "pwd") and run not in GLUED_PW:
            return False
        if trust == _KEY or word in ("pat", "otp"):
            return False
    tail = text[name.end() : name.end() + len(rest["tail"])]
    if tail[:1].isalpha():
        # `passwords`, `tokenizer`, `keyboard` are other words; `passwordConfirm` is not.
        if not (tail[0].isupper() and text[name.end() - 1].islower()) and word != "credential":
            trust = min(trust, _KEY) if trust == _PASSWORD and len(word) > 4 else 0
        elif word == "credential" and tail.lower() not in ("s", "es"):
            trust = _KEY
    if not trust:
        return False
    around = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", tail)}
    if around & ABOUT:
        trust = min(trust, _KEY) if len(value) >= 20 else 0
    parts_before = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", head)}
    if parts_before & ABOUT_BEFORE:
        trust = min(trust, _TOKEN)
    if not trust or _is_stand_in(value) or PLACEHOLDER in value:
        return False
    flag = head.startswith("-") or (
        text[max(0, name.start() - 1) : name.start()] == "-" and not head
    )
    separator = rest["sep"].strip()
    if not separator and not flag and group == "b":
        # "the token 0a1b…": only what cannot be a word.
        return trust == _TOKEN and len(value) >= 20 and _is_key_material(value)
    if separator == "," and trust == _PASSWORD and not rest["close"] and first.isupper():
        return _is_password(value)  # `setopt(OPT_PASSWORD, "…")`.
    if separator in ("", ",", "is") and not flag:
        return trust > _KEY and (_is_mixed(value) or _is_random_case(value)) and _is_literal(value)
    if trust == _KEY:
        if head and word == "key" and len(value) >= 32 and re.fullmatch(r"[0-9a-f]+", value):
            return not parts_before & ABOUT_BEFORE and _is_varied(value, 3)
        return _is_random(value) and not re.match(_DOTTED, value)
    if group != "b":
        if trust == _TOKEN:
            return _is_literal(value)
        return _is_password(value)
    return _is_bare_secret(text, rest, value, trust, flag=flag, name=word)


def _head(text: str, end: int) -> str:
    """Return what is joined to the left of a name: `db_` of `db_password`, `--` of a flag."""
    low = max(0, end - 40)
    start = end
    while start > low and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        start -= 1
    return text[start:end]


def _is_bare_secret(
    text: str, rest: Match[str], value: str, trust: int, *, flag: bool, name: str
) -> bool:
    """Judge a value without quotes: it may be a variable, a call, a type or a word of prose."""
    after = text[rest.end() : rest.end() + 1]
    if after in ("(", "[", "{") and not _is_random(value):
        return False
    if value.endswith((":", "(", "?")) or "://" in value or re.match(_PATHLIKE, value):
        return False
    if re.match(_DOTTED, value) and not _is_random(value):
        return False
    upper = text[rest.start() - len(name) : rest.start()].isupper()
    separator = rest["sep"]
    tight = separator == "=" and not rest["gap"] and text[rest.end("sep")] not in " \t"
    if flag or (upper and tight):
        # A command line or an environment has no variables but `$NAME`.
        if value.isdigit() and len(value) < 6:
            return False
        if flag and (
            value.startswith("-")
            or value.lower() in STOP_WORDS
            or (value.isupper() and value.isalpha())
        ):
            return False
        if trust == _PASSWORD:
            return len(value) >= 4
        return len(value) >= 6 and (not flag or _is_literal(value) or len(value) >= 12)
    if _is_mixed(value) or (trust == _PASSWORD and any(c in "!@#$%^*" for c in value)):
        if trust == _PASSWORD:
            if name == "pass" and re.match(r"(?:Test|Benchmark|Example|Fuzz)[A-Z_]", value):
                return False
            return len(value) >= 5 and not (
                _is_identifier(value) and separator.strip() != ":" and not tight
            )
        return len(value) >= 8 and _is_literal(value) and not _is_identifier(value)
    if value.endswith("=") and len(value) >= 16:
        return True
    if trust == _PASSWORD and _is_random_case(value):
        return True
    if trust < _PASSWORD or name in ("pass", "pw") or rest["type"]:
        return False
    # A plain word: only where it is the whole line, as in YAML, INI and properties files.
    start = _line_start(text, max(0, rest.start() - 200), rest.start())
    line = text[start : rest.end()] + re.split(r"\n|\\n", text[rest.end() : rest.end() + 200])[0]
    names = r"[\s+>-]{0,40}(?:[\w.-]{1,30} ){0,2}[\"']?[\w.-]{1,60}[\"']?"
    shape = names + r"(?:\s?:\s{1,4}|=)[^\s,;(){}]{4,100}\s*(?:#.*)?"
    return (
        (separator == ":" or tight)
        and len(value) >= 4
        and value.isalpha()
        and (value.islower() or value.isupper())
        and value.lower() not in STOP_WORDS
        and re.fullmatch(shape, line) is not None
    )


_CODE = (
    *(
        "${",
        "{{",
        "$(",
        "environ",
        "process.env",
        "getenv",
        "secrets.",
        "import.meta",
        "vault:",
        "()",
    ),
    *("\\u", "%s", "%(", "<%", "@{", "%{"),
)
_STAND_IN_STARTS = ("$", "<", "{", "[", "(", "...", "…", "\\", "~", "::", "==", "=", "%", "#{")
_WORDY = r"(?:[A-Za-z][a-z]*(?:[A-Z][a-z]+)*(?:[-_. /:][A-Za-z]*)*|[A-Z][A-Z_ -]*|[a-z_ -]+)"
_DOTTED = r"^[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+[.,;:]?$"
_PATHLIKE = r"^(?:\.{0,2}/[A-Za-z_.]|~/|[a-z]{2,10}://|[A-Za-z]:\\)"


def _is_stand_in(value: str) -> bool:
    """Whether a value is a placeholder, a variable of a shell or a template, or a type's name."""
    if value.startswith(_STAND_IN_STARTS) or len(set(value)) < 3:
        return True
    if any(sign in value for sign in _CODE):
        return True
    if value[0] == value[-1] in "*.-_xX" and len(set(value.lower())) < 4:
        return True
    words = value.lower().rstrip("?!.:0123456789")
    for joint in "-_.":
        words = words.replace(joint, " ")
    return (not words and len(value) < 6) or (bool(words) and FILLERS.issuperset(words.split()))


def _is_mixed(value: str) -> bool:
    """Digits among letters: words and names in programs seldom have several."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def _breaks(value: str) -> int:
    """Count changes of case and between letters and digits: names have few, random text many."""
    count = 0
    left = ""
    for right in value:
        digits = left.isdigit() != right.isdigit() and left.isalnum() and right.isalnum()
        count += digits or (left.islower() and right.isupper())
        left = right
    return count


def _is_random_case(value: str) -> bool:
    return len(value) >= 8 and value.isascii() and _breaks(value) * 5 >= len(value)


def _is_key_material(value: str) -> bool:
    return (
        re.fullmatch(r"[A-Za-z0-9+/_=.-]+", value) is not None
        and sum(c.isdigit() for c in value) >= 4
        and not re.match(_PATHLIKE, value)
        and _breaks(value) * 8 >= len(value)
        and _is_varied(value, 3)
    )


def _is_random(value: str) -> bool:
    if len(value) < 15 or not re.fullmatch(r"[A-Za-z0-9+/_=.~%-]+", value):
        return False
    if not any(c.isdigit() for c in value) or re.match(_PATHLIKE, value):
        return False
    if re.fullmatch(r"[0-9a-fA-F-]+|[0-9.+-]+", value):
        return False
    return _breaks(value) * 4.6 >= len(value) and _is_varied(value, 3.2)


def _is_literal(value: str) -> bool:
    if any(c.isspace() for c in value) or re.match(_PATHLIKE, value):
        return False
    if value.endswith((":", "(", "?")) or len(value) < 6:
        return False
    if re.match(_DOTTED, value) and sum(c.isdigit() for c in value) < 3:
        return False
    if re.fullmatch(_WORDY, value):
        return _is_random_case(value)
    return _is_mixed(value) or any(c in "!@#$%^&*" for c in value) or value.endswith("=")


def _is_password(value: str) -> bool:
    """Judge what is quoted after a password's name: any word, but not a sentence or a name."""
    if len(value) < 4 or any(c.isspace() for c in value) or value.endswith((":", "(")):
        return False
    if re.match(_PATHLIKE, value) or (
        value.startswith(("-", "_", ".", "&", ",", "#", "@"))
        and value[1:].replace("_", "").isalpha()
    ):
        return False
    if value.isalpha() and not value.isascii():
        return False
    lowered = value.lower()
    # `user_password`, `newPassword`, `password-reset`: names of fields and messages.
    if not _is_mixed(value):
        for word in ("passw", "pwd", "secret", "token", "credential"):
            if word in lowered and (not value.islower() or not value.isalpha()):
                return False
    if re.match(_DOTTED, value) and not _is_mixed(value):
        return False
    return not ("_" in value and value.replace("_", "").isalpha() and value.isupper())


def _is_identifier(value: str) -> bool:
    """Whether it is a name with a number: `token_2`, `sha256_hash`, `config.v2`."""
    if not re.match(r"^[A-Za-z_][\w.-]*$", value):
        return False
    if len(value) >= 24 and not value.islower() and not value.isupper():
        return False
    digits = sum(c.isdigit() for c in value)
    return digits <= 3 and (value.islower() or value.isupper() or "_" in value or "." in value)


def _is_url_password(value: str) -> bool:
    # A port, or an address in brackets.
    return not value.isdigit() and "[" not in value and "..." not in value


def _is_cookie(value: str) -> bool:
    values = [part.partition("=")[2].strip().partition(" ")[0] for part in value.split(";")]
    return any(len(part) >= 12 and _is_mixed(part) for part in values)


def _is_token(value: str) -> bool:
    if value.endswith("="):
        return True  # Base64 need not have a digit.
    return _is_mixed(value) and not re.match(_DOTTED, value) and not _is_identifier(value)


def _is_header(value: str) -> bool:
    if value.endswith("="):
        return True
    return _is_literal(value) and not _is_identifier(value)


def _is_argument(value: str) -> bool:
    if value.startswith("-") or re.match(_PATHLIKE, value) or value.isdigit():
        return False
    return not re.match(_DOTTED, value) and value.lower() not in STOP_WORDS


_JUDGES = {
    "auth-header": _is_header,
    "basic-auth": _is_token,
    "bearer-token": _is_token,
    "cookie": _is_cookie,
    "docker-auth": _is_token,
    "key-header": _is_header,
    "login-flag": _is_argument,
    "mysql-flag": _is_argument,
    "sql-password": _is_argument,
    "url-parameter": _is_token,
    "url-password": _is_url_password,
    "url-token": _is_token,
}
