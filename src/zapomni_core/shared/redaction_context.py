"""Secrets that only their surroundings give away: addresses, headers, assignments, flags.

Same form as `redaction_rules`. What these patterns find may be a placeholder, a variable or a
word of prose, so `is_secret_value` has the last word.
"""
# ruff: noqa: E501 - a pattern is read whole

from __future__ import annotations

import re

__all__ = ["CONTEXT_RULES", "is_secret_value"]

_NAMES = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|credentials?|(?:api|app|access|auth|account|client|encryption|license|"
    r"master|private|secret|service|session|shared|signing|storage|subscription|webhook)[_.-]?key|apikey|"
    r"secretaccesskey|sessiontoken|connection[_-]?string|dsn)(?:[_-][a-z0-9_-]{0,24})?"
)
_NAME_WORDS = ("pass", "pwd", "secret", "token", "credential", "key", "connection", "dsn")
_FLAGS = (
    r"(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|pass|pw|token|secret|api-?key|access-?key|auth-?key|"
    r"private-?key|secret-?key|credentials?|pat|bearer)(?:-[a-z]{1,12})?"
)

# fmt: off
CONTEXT_RULES: tuple[tuple[str, tuple[str, ...], str, float], ...] = (
    ("url-password", ("://",), r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/@:\"'<>`]{0,100}:(?P<s>[^\s/\"'<>`]{1,200})(?=@)", 0),
    ("url-token", ("://",), r"(?i)\b(?:https?|git|ssh)://(?P<s>[A-Za-z0-9_.-]{20,250})(?::x-oauth-basic)?@", 3),
    ("url-parameter", ("?", "&"), r"(?i)[?&](?:access_?token|id_?token|refresh_?token|api_?key|apikey|token|auth|secret|client_?secret|password|passwd|pwd|signature|x-amz-signature|x-amz-security-token|x-goog-signature|key|code)=(?P<s>[^&\s\"'<>#`)]{8,1000})", 2.5),
    ("auth-header", ("authorization",), r"(?i)authorization[\\\"']{0,4}\s{0,3}[:=,]\s{0,3}[\\\"'f]{0,4}(?:(?:basic|bearer|token|digest|apikey|api-key|ssws|bot|key|negotiate|oauth|snowflake)\s{1,3})?(?P<s>[^\s\"',;\\<>`]{8,4000})", 2.5),
    ("bearer-token", ("bearer",), r"(?i)\bbearer\s{1,3}(?P<s>[A-Za-z0-9._~+/=-]{16,4000})", 3),
    ("basic-auth", ("basic",), r"(?i)\bbasic\s{1,3}(?P<s>[A-Za-z0-9+/]{15,400}={1,2}|(?=[A-Za-z+/]{0,40}\d)[A-Za-z0-9+/]{20,400})(?![A-Za-z0-9+/=])", 3.3),
    ("cookie", ("cookie",), r"(?i)\b(?:set-)?cookie[\\\"']{0,4}\s{0,3}[:=]\s{0,3}[\\\"']{0,3}(?P<s>[^\r\n\"'\\]{12,4000})", 2.5),
    ("key-header", ("x-", "api-key", "apikey", "private-token", "-key:", "-token:"), r"(?i)\b(?:x-[a-z-]{0,30}(?:key|token|secret|auth|signature)|api-?key|private-token|job-token|deploy-token|dd-application-key|ocp-apim-subscription-key)[\\\"']{0,4}\s{0,3}[:=]\s{0,3}[\\\"']{0,3}(?P<s>[^\s\"',;\\<>`]{8,2000})", 2.5),
    ("docker-auth", ("auth",), r"\"(?:auth|identitytoken)\\?\"\s{0,3}:\s{0,3}\\?\"(?P<s>[A-Za-z0-9+/_-]{12,2000}={0,2})", 3),
    ("assignment", _NAME_WORDS, r"(?i)" + _NAMES + r"[\\\"'\]]{0,5}\s{0,8}(?::=|=>|={1,3}|:)\s{0,8}[rbfu]{0,2}\\{0,3}[\"'`](?P<s>[^\"'`\n\\]{4,500})(?=[\"'`\\])", 0),
    # What a shell, a .env file or a deployment sets; a diff's sign or `export` may stand before it.
    ("env-line", _NAME_WORDS, r"(?<![A-Za-z0-9_$.{])(?:[A-Z][A-Z0-9_]{0,60}_)?(?:[A-Z]{0,12}KEY|[A-Z]{0,12}TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|[A-Z]{0,4}PASSWORD|CREDENTIALS?|DSN)(?:_[A-Z0-9_]{1,24})?=[\"']?(?P<s>[^\s\"'`;&|<>]{6,1000})", 0),
    ("bare-assignment", _NAME_WORDS, r"(?i)" + _NAMES + r"[\\\"'\]]{0,3}\s{0,3}(?::=|=>|=|:)\s{0,3}(?P<s>[^\s\"'`,;&|<>(){}\[\]\\]{8,500})", 2.5),
    ("xml-value", ("</",), r"(?i)<(?:password|passwd|passphrase|secret|token|api-?key|private-?key|client-?secret)>(?P<s>[^<>\s]{4,500})</", 0),
    ("netrc", ("password",), r"(?i)\blogin\s{1,8}\S{1,100}\s{1,8}password\s{1,8}(?P<s>[^\s\"'`]{4,200})", 0),
    ("flag", ("--",), r"(?i)(?<![\w-])--" + _FLAGS + r"(?:=|\s{1,3})[\"']?(?P<s>[^\s\"'`|;&<>()]{4,500})", 0),
    ("mysql-flag", (" -p",), r"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump)\b[^\n|;&]{0,200}?\s-p[\"']?(?P<s>[^\s\"'`|;&-][^\s\"'`|;&]{2,200})", 0),
    ("login-flag", (" -p", " -a", " -w"), r"\b(?:sshpass\s{1,3}-p|docker\s{1,3}login\b[^\n|;&]{0,200}?\s-p|podman\s{1,3}login\b[^\n|;&]{0,200}?\s-p|redis-cli\b[^\n|;&]{0,100}?\s-a|ldap\w{2,12}\b[^\n|;&]{0,200}?\s-w|az\s{1,3}login\b[^\n|;&]{0,200}?\s-p)\s{0,3}[\"']?(?P<s>[^\s\"'`|;&]{4,300})", 0),
    ("curl-user", (" -u", "--user"), r"(?:\s-u|\s--(?:proxy-)?user)[\s=]{0,3}[\"']?[^\s:\"'`/]{1,100}:(?P<s>[^\s\"'`]{3,300})", 0),
    ("openssl-pass", ("pass:",), r"(?i)-pass(?:in|out)?\s{1,3}[\"']?pass:(?P<s>[^\s\"'`]{3,200})", 0),
    ("sql-password", ("identified", "password"), r"(?i)(?:\bidentified\s{1,3}(?:with\s{1,3}[\w'\"]{1,60}\s{1,3})?(?:by|as)|\b(?:with|encrypted|set|user|role)\s{1,3}[^\n;'\"]{0,80}?password)\s{1,3}(?:=\s{0,3})?[\"'](?P<s>[^\"'\n]{3,200})(?=[\"'])", 0),
    ("password-hash", ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$y$", "$argon2"), r"\$(?:1|2[aby]|5|6|y|argon2i?d?)\$[./A-Za-z0-9$=,+-]{22,200}", 3),
)
# fmt: on

_PLACEHOLDER_STARTS = (
    "$",
    "%",
    "<",
    "{",
    "[",
    "(",
    "...",
    "…",
    "@",
    "#{",
    "\\",
    "~",
    "::",
    "==",
    "=",
)
_CODE = (
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
    "\\u",
)
# Kept as text: `re` compiles and remembers what is really used.
_PLACEHOLDER = (
    r"(?i)^(?:x{3,}|\.{2,}|-{2,}|_{2,}|\d{1,7}|"
    r"(?:your|my|our|the|an?|some|this|new|old|user|users|admin|root|db|example|dummy|fake|mock|sample|insert|replace|enter|put|put-your|change|demo|default|bad|wrong|no|invalid|valid|correct|plain|hidden|redacted|masked|test)?"
    r"[-_. ]?(?:user)?[-_. ]?"
    r"(?:pass|passwd|password|passphrase|pw|pwd|secret|secrets|token|tokens|key|keys|api[-_]?key|apikey|credential|credentials|value|here|me|this|it|example|placeholder|changeme|change|"
    r"access[-_]?token|refresh[-_]?token|auth[-_]?token|id[-_]?token|bearer|basic|string|str|none|null|nil|true|false|undefined|bool|boolean|bytes|int|integer|object|any|text|optional|required|unknown|empty|foo|bar|baz|foobar|spam|eggs|abc|"
    r"abcd|abcdef|user|username|login|host|hostname|localhost|anonymous|guest|test|testing|dummy|fake|hidden|redacted|masked|auto|default|prompt|stdin|file|env|ask)[-_.]?\d{0,3}[?!.:]?)$"
)
_WORDY = r"^[A-Za-z][a-z]*(?:[A-Z][a-z]+)*(?:[-_. /:][A-Za-z]*)*$|^[A-Z][A-Z_ -]*$|^[a-z_ -]+$"
_DOTTED = r"^[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+$"
_PATHLIKE = r"^(?:\.{0,2}/|~/|[a-z]{2,10}://|[A-Za-z]:\\)"


def is_secret_value(kind: str, secret: str, match: str) -> bool:
    """Whether what a rule has found is a value, not a stand-in for one."""
    if kind == "password-hash":
        return True
    if secret.startswith(_PLACEHOLDER_STARTS) or len(set(secret)) < 3:
        return False
    if any(sign in secret for sign in _CODE) or re.match(_PLACEHOLDER, secret):
        return False
    judge = _JUDGES.get(kind)
    return judge(secret, match) if judge else True


def _mixed(secret: str) -> bool:
    """Digits among letters: words and names in programs seldom have several."""
    return any(c.isdigit() for c in secret) and any(c.isalpha() for c in secret)


def _literal(secret: str, match: str) -> bool:
    del match
    if any(c.isspace() for c in secret) or re.match(_WORDY, secret) or re.match(_DOTTED, secret):
        return False
    if re.match(_PATHLIKE, secret) or secret.endswith((":", "=", "(", "?")):
        return False
    return len(secret) >= 6 and (_mixed(secret) or any(c in "!@#$%^&*" for c in secret))


def _bare(secret: str, match: str) -> bool:
    return (
        _literal(secret, match)
        and _mixed(secret)
        # What follows a password's name may well look like a name with a number.
        and (match.lower().startswith(("pass", "pwd")) or not _is_identifier(secret))
        and "://" not in secret
    )


def _is_identifier(secret: str) -> bool:
    """Say `token_2`, `sha256_hash`, `config.v2` and the like are names; random tokens are not."""
    if not re.match(r"^[A-Za-z_][\w.-]*$", secret):
        return False
    if len(secret) >= 24 and not secret.islower() and not secret.isupper():
        return False
    digits = sum(c.isdigit() for c in secret)
    return digits <= 3 and (secret.islower() or secret.isupper() or "_" in secret or "." in secret)


def _env_line(secret: str, match: str) -> bool:
    del match
    if re.match(_PATHLIKE, secret) or re.match(_DOTTED, secret) or secret.endswith(("(", ",", ")")):
        return False
    return not secret.isdigit() and "(" not in secret


def _url_password(secret: str, match: str) -> bool:
    del match
    # A port, or an address in brackets.
    return not secret.isdigit() and "[" not in secret and "..." not in secret


def _cookie(secret: str, match: str) -> bool:
    del match
    values = [part.partition("=")[2].strip().partition(" ")[0] for part in secret.split(";")]
    return any(len(value) >= 12 and _mixed(value) for value in values)


def _token(secret: str, match: str) -> bool:
    del match
    if secret.endswith("="):
        return True  # Base64 need not have a digit.
    return _mixed(secret) and not re.match(_DOTTED, secret) and not _is_identifier(secret)


def _header(secret: str, match: str) -> bool:
    if secret.endswith("="):
        return True  # Base64 need not have a digit.
    return _literal(secret, match) and not _is_identifier(secret)


def _flag(secret: str, match: str) -> bool:
    del match
    if secret.startswith("-") or re.match(_PATHLIKE, secret) or secret.isdigit():
        return False
    return not re.match(_DOTTED, secret) and (not re.match(_WORDY, secret) or len(secret) >= 12)


_JUDGES = {
    "assignment": _literal,
    "auth-header": _header,
    "bare-assignment": _bare,
    "basic-auth": _token,
    "bearer-token": _token,
    "cookie": _cookie,
    "docker-auth": _token,
    "env-line": _env_line,
    "flag": _flag,
    "key-header": _header,
    "login-flag": _flag,
    "mysql-flag": _env_line,
    "url-parameter": _token,
    "url-password": _url_password,
    "url-token": _token,
}
