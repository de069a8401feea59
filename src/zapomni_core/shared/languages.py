"""What an English model can read of a text: by its script, and by its smallest words.

The shipped model knows English. Of other languages in Latin letters it knows names, terms and
what resembles English; of other scripts single letters, and unknown tokens that are all alike.
"""

from __future__ import annotations

import re

__all__ = ["is_english_model", "is_foreign", "is_unread_token", "readable_share", "unread_share"]

# From this share of unread words on a text is not read at all.
MOSTLY = 0.3
# What an English model reads of another language in Latin letters.
FOREIGN = 0.5
# So much of a text says in which language it is.
READ_CHARS = 400

_WORD = re.compile(r"[^\W\d_]+")
# Letters of Latin script, full-width ones among them. Compiled for the first text that is not
# ASCII: most processes read none.
_LATIN = (
    "[A-Za-z\u00aa\u00b5\u00ba\u00c0-\u024f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uff21-\uff5a]"
)
# Scripts without blanks between words: two characters are about one.
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"

_UNKNOWN = "[UNK]"
# Words that sentences of a language can hardly do without, and that no other of these has.
_FUNCTION_WORDS = {
    "en": "the and of is are was were with this that what which how why from have does should we",
    "de": "der die das und ist nicht ein eine einen wir wird werden mit auf für wie warum welche "
    "sind zu zum zur dem den des im wurde haben auch nach bei",
    "es": "el los las una del por para con qué cómo está este esta son y como se lo su al "
    "pero muy cuál dónde cuando",
    "fr": "le les une est dans pour avec nous quel quelle comment pourquoi et des du au aux sur "
    "qui pas sont cette ce ne il",
    "it": "il gli della che per con perché come sono è nel alla dei questo quale non di",
    "pt": "os uma não para com por que como está são da dos das em você qual",
    "nl": "het een van niet met voor wat waarom hoe zijn wordt deze dat op aan bij wij",
    "pl": "nie się jest na że jak dlaczego który która są oraz dla przez",
}  # fmt: skip
_LANGUAGES: dict[str, set[str]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _one in _words.split():
        _LANGUAGES.setdefault(_one, set()).add(_language)


def is_english_model(model: str) -> bool:
    """Return whether a model is known to read English only: the shipped one and its family."""
    return "all-minilm" in model.lower()


def unread_share(text: str) -> float:
    """Return the share of a text's words that are not in Latin letters, 0 to 1."""
    if text.isascii():
        return 0.0
    read = unread = 0.0
    for word in _WORD.findall(text[:READ_CHARS]):
        latin = len(re.findall(_LATIN, word))
        unspaced = len(re.findall(_UNSPACED, word))
        # A word of both scripts, such as a name with an ending, is two.
        read += latin > 0
        unread += max(unspaced / 2, 1.0) if unspaced else latin < len(word)
    return unread / (read + unread) if unread else 0.0


def readable_share(text: str) -> float:
    """Return how much of a question an English model reads, 0 to 1; 0 if it should not be asked."""
    unread = unread_share(text)
    if unread >= MOSTLY:
        return 0.0
    return (1 - unread) * (FOREIGN if is_foreign(text) else 1.0)


def is_unread_token(token: str) -> bool:
    """Return whether a token of an English model is unknown, or a letter of another script."""
    if token.isascii():
        return token == _UNKNOWN
    return any(c.isalpha() for c in token) and not re.search(_LATIN, token)


def is_foreign(text: str) -> bool:
    """Return whether a text is, as far as its script and its smallest words say, not English."""
    if unread_share(text) >= MOSTLY:
        return True
    counts: dict[str, int] = {}
    for word in set(_WORD.findall(text[:READ_CHARS].lower())):
        for language in _LANGUAGES.get(word, ()):
            counts[language] = counts.get(language, 0) + 1
    english = counts.pop("en", 0)
    return max(counts.values(), default=0) > english + 1
