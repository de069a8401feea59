"""Which language a text is in, and what an English model can read of it.

Both by its script and by its smallest words.

The shipped model knows English. Of other languages in Latin letters it knows names, terms and
what resembles English; of other scripts single letters, and unknown tokens that are all alike.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "function_words",
    "is_english_model",
    "is_foreign",
    "is_in_other_script",
    "is_unread_token",
    "languages_of",
    "readable_part",
    "readable_share",
    "reads_text",
    "unread_share",
]

# From this share of unread words on a text is not read at all.
MOSTLY = 0.3
# What an English model reads of another language in Latin letters: enough to decide between
# passages whose words say about the same, too little to outvote words.
FOREIGN = 0.2
# So much more than of English, by its smallest words, a text has of the language it is in.
SURE = 2
# So much of a text says in which language it is.
READ_CHARS = 400

_WORD = re.compile(r"[^\W\d_]+")
# Letters of Latin script, full-width ones among them. Compiled for the first text that is not
# ASCII: most processes read none.
_LATIN = (
    "[A-Za-z\u00aa\u00b5\u00ba\u00c0-\u024f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uff21-\uff5a]"
)
_NOT_ASCII = r"[^\x00-\x7f]+"
_NOT_LATIN = rf"(?!{_LATIN})[^\W\d_]"
# Scripts without blanks between words: two characters are about one.
_UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"

_UNKNOWN = "[UNK]"
# Words that sentences of a language can hardly do without.
_FUNCTION_WORDS = {
    "en": "the and of is are was were with this that what which how why from have does should we "
    "it you your not be by been can if has will would when they these those there their "
    "more than also to into my our them his she he had did but who where",
    "de": "der die das und ist nicht ein eine einen einem einer eines wir wird werden wurde wurden "
    "mit auf für wie warum was wo welche welcher welches sind zu zum zur dem den des im am vom "
    "haben hat hatte habe auch nach bei sie ihr ihre ihren ich mir mich uns unsere es als oder "
    "wenn dass kann können muss müssen soll sollte sollen darf aber von aus durch sich nur noch "
    "diese dieser dieses diesem diesen jede jeder jedes alle mehr sehr schon dann denn da hier "
    "über unter vor gegen ohne um bis seit weil damit dabei dafür daher gibt keine kein keinen "
    "man sein seine waren war wieder immer zwischen einmal etwas andere anderen",
    "es": "el la los las un una unos unas de del en que por para con sin qué cómo está están este "
    "esta estos estas ese esa esos son ser era fue y o como se lo le les su sus al pero muy más "
    "cuál cuándo dónde cuando donde hay puede pueden debe deben sobre entre desde hasta también "
    "cada todos todas todo toda otro otra nuestro nuestra si no ya porque según ejemplo es tiene "
    "nos cual cuales siempre nunca después antes esto eso",
    "fr": "le la les un une de en que qu est dans pour avec nous vous ils elle elles quel quelle "
    "quels comment pourquoi où et des du au aux sur qui pas sont cette ces cet ce ne il se sa ses "
    "son leur leurs ou mais donc si plus par sans sous peut peuvent doit doivent être été était "
    "avoir fait tous tout toute toutes entre depuis chaque aussi très même lors notre votre nos "
    "vos cela dont afin ainsi lorsque avant après",
    "it": "il lo la gli le un uno una di del della dei delle che per con perché come sono è nel "
    "nella nei alla al dal dalla questo questa questi quale non anche più se ma ogni essere può "
    "dove quando",
    "pt": "o os a as um uma de do da dos das não para com por que como está são em no na nos nas "
    "você qual se mas mais também ser ou ao pelo pela isso este esta pode onde quando",
    "nl": "het een de en van niet met voor wat waarom hoe zijn wordt worden deze dit dat op aan "
    "bij wij we er ook als of naar om uit kan moet maar nog over door je heeft",
    "pl": "nie się jest na że jak dlaczego który która które są oraz dla przez i w z do od po tym "
    "można lub gdy aby jego tego być co gdzie kiedy",
    "sv": "och att det som är för med inte ett en på av har den till hur varför om kan från när "
    "vad var ska eller men",
    "da": "og at det som er for med ikke et en på af har den til hvordan hvorfor om kan fra når "
    "hvad hvor skal eller men der",
    "no": "og at det som er for med ikke et en på av har den til hvordan hvorfor om kan fra når "
    "hva hvor skal eller men",
    "fi": "ja ei että kun mutta myös tai miten miksi joka jotka ovat oli on voi jos niin",
    "hu": "és hogy nem egy a az ez van meg mert vagy hogyan miért ha is kell lehet amely",
    "ro": "și este nu cu de la un o pentru sunt din să mai cum în pe ce care sau dacă al",
    "cs": "že je na se jako pro který která které jsou jak proč nebo také při a v z do od být kdy",
    "tr": "bir ve bu için ile ne neden olarak daha değil gibi var olan da de çok her",
    "ca": "els les el la de del en un una que amb per què aquest aquesta són és dels està com i "
    "no es pot si més",
}  # fmt: skip
# English words, names or code among them: of a few words they do not name the language.
_AMBIGUOUS = frozenset(
    (
        "al am as at bis by ce co com come comment con cum da das den der di die dit do dos "
        "du el elle em en era es est fait for han hat her if im is it ha he je la le lo man "
        "me men mit more na ne no non nos of og on op os ou over pa par per plus po pot pour "
        "pro sa sans se ser si sin so son sous sur to tu ud um un va van var ve war was we y "
        "zu"
    ).split()
)
# Of languages with a script of their own, by a letter range of it; letters that only others have.
_SCRIPTS = (
    ("ru", "[\u0410-\u044f\u0401\u0451]", "[\u0404\u0406-\u040f\u0454\u0456-\u045f\u0490\u0491]"),
    ("el", "[\u0370-\u03ff\u1f00-\u1fff]", "[\u03e2-\u03ef]"),
    ("ar", "[\u0621-\u064a]", "[\u067e\u0686\u0698\u06a9\u06af\u06cc\u06d2]"),
    ("hy", "[\u0531-\u0587]", "[\u10a0-\u10ff]"),
)
_RUSSIAN = (
    "и в на не что как это с по для из от при к а но или если то же так его их вы мы он она "  # noqa: RUF001
    "они у о за бы был быть есть вам вас почему какой какая какие где когда ли чтобы также"  # noqa: RUF001
)
_LANGUAGES: dict[str, set[str]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _one in _words.split():
        _LANGUAGES.setdefault(_one, set()).add(_language)


def function_words(language: str) -> frozenset[str]:
    """Return the smallest words of a language: they say nothing about what is asked."""
    words = _RUSSIAN if language == "ru" else _FUNCTION_WORDS.get(language, "")
    return frozenset(words.split())


def languages_of(text: str, *, is_question: bool = False) -> list[str]:
    """Return in which language a text is, or may be; none if it is English or not known.

    Args:
        text: A passage or a question.
        is_question: Of a few words one is enough to name the language.
    """
    text = text[:READ_CHARS]
    if is_in_other_script(text):
        for language, letters, foreign in _SCRIPTS:
            if re.search(letters, text):
                return [] if re.search(foreign, text) else [language]
        return []
    counts = _count_languages(text, 0 if is_question else 1)
    english = counts.pop("en", 0)
    most = max(counts.values(), default=0)
    if most <= (english if is_question else english + SURE):
        return []
    return [language for language, count in counts.items() if count == most]


def _count_languages(text: str, ambiguous: int = 1) -> dict[str, int]:
    """Return how much of each language a text has, by its smallest words.

    One counts two; one that English or code has, too, or of a single letter, as given.
    """
    counts: dict[str, int] = {}
    for word in _LANGUAGES.keys() & _WORD.findall(text[:READ_CHARS].lower()):
        weight = ambiguous if len(word) < 2 or word in _AMBIGUOUS else 2
        for language in _LANGUAGES[word]:
            counts[language] = counts.get(language, 0) + weight
    return counts


def is_english_model(model: str) -> bool:
    """Return whether a model is known to read English only: the shipped one and its family."""
    return "all-minilm" in model.lower()


def unread_share(text: str) -> float:
    """Return the share of a text's words that are not in Latin letters, 0 to 1."""
    beginning = text[:READ_CHARS]
    # English texts have dashes and accents, too: only what is not ASCII is read at first.
    if beginning.isascii() or not re.search(_NOT_LATIN, "".join(re.findall(_NOT_ASCII, beginning))):
        return 0.0
    read = unread = 0.0
    for word in _WORD.findall(beginning):
        latin = len(re.findall(_LATIN, word))
        unspaced = len(re.findall(_UNSPACED, word))
        # A word of both scripts, such as a name with an ending, is two.
        read += latin > 0
        unread += max(unspaced / 2, 1.0) if unspaced else latin < len(word)
    return unread / (read + unread) if unread else 0.0


def is_in_other_script(text: str) -> bool:
    """Return whether so much of a text is not in Latin letters that an English model is lost."""
    return unread_share(text) >= MOSTLY


def reads_text(model: str, text: str) -> bool:
    """Return whether a model reads a text whole, as far as is known."""
    return not (is_english_model(model) and is_in_other_script(text))


def readable_share(text: str) -> float:
    """Return how much of a question an English model reads, 0 to 1; 0 if it should not be asked."""
    unread = unread_share(text)
    if unread >= MOSTLY:
        return 0.0
    return (1 - unread) * (FOREIGN if is_foreign(text) else 1.0)


def readable_part(text: str) -> str:
    """Return what an English model reads of a passage: of one in another script, its Latin words.

    Letters of other scripts are noise to it, whatever is asked; names and terms are not.
    """
    if not is_in_other_script(text):
        return text
    return " ".join(re.findall(rf"{_LATIN}(?:{_LATIN}|[0-9_.+-])*", text))


def is_unread_token(token: str) -> bool:
    """Return whether a token of an English model is unknown, or a letter of another script."""
    if token.isascii():
        return token == _UNKNOWN
    return any(c.isalpha() for c in token) and not re.search(_LATIN, token)


@lru_cache(maxsize=1024)
def is_foreign(text: str) -> bool:
    """Return whether a text is, as far as its script and its smallest words say, not English."""
    if is_in_other_script(text):
        return True
    counts = _count_languages(text)
    english = counts.pop("en", 0)
    return max(counts.values(), default=0) > english + SURE
