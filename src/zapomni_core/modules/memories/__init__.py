"""Memories: what may be stored, how it is embedded, and how a search ranks it."""

from typing import TYPE_CHECKING

from zapomni_core.shared.lazy import lazy_names

if TYPE_CHECKING:
    from zapomni_core.modules.memories.alike import find_similar, is_fact
    from zapomni_core.modules.memories.answers import AnswerCache
    from zapomni_core.modules.memories.contrast import Contrast
    from zapomni_core.modules.memories.digest import Digest, digest_class, shorten
    from zapomni_core.modules.memories.embedding import (
        EmbeddingChain,
        Progress,
        ask_cache,
        fill_pending,
        reembed,
    )
    from zapomni_core.modules.memories.evidence import CALIBRATED
    from zapomni_core.modules.memories.present import HEAD, prefer_present
    from zapomni_core.modules.memories.ranking import MemoryRanker, Question, score_dates
    from zapomni_core.modules.memories.review import compare
    from zapomni_core.modules.memories.scoring import (
        ARM_ALIASES,
        Candidate,
        explain,
        level_off,
        score_observed,
    )
    from zapomni_core.modules.memories.service import Memories
    from zapomni_core.modules.memories.validation import (
        check_moment,
        check_query,
        parse_filters,
        validate_add,
        validate_update,
        without_code,
    )

__all__ = [
    "ARM_ALIASES",
    "CALIBRATED",
    "HEAD",
    "AnswerCache",
    "Candidate",
    "Contrast",
    "Digest",
    "EmbeddingChain",
    "Memories",
    "MemoryRanker",
    "Progress",
    "Question",
    "ask_cache",
    "check_moment",
    "check_query",
    "compare",
    "digest_class",
    "explain",
    "fill_pending",
    "find_similar",
    "is_fact",
    "level_off",
    "parse_filters",
    "prefer_present",
    "reembed",
    "score_dates",
    "score_observed",
    "shorten",
    "validate_add",
    "validate_update",
    "without_code",
]

# Adding needs no ranking, and a command line that only checks its arguments needs no embedding.
__getattr__ = lazy_names(
    __name__,
    {
        "alike": "find_similar is_fact",
        "answers": "AnswerCache",
        "contrast": "Contrast",
        "digest": "Digest digest_class shorten",
        "embedding": "EmbeddingChain Progress ask_cache fill_pending reembed",
        "evidence": "CALIBRATED",
        "present": "HEAD prefer_present",
        "ranking": "MemoryRanker Question score_dates",
        "scoring": "ARM_ALIASES Candidate explain level_off score_observed",
        "review": "compare",
        "service": "Memories",
        "validation": "check_moment check_query parse_filters validate_add validate_update "
        "without_code",
    },
)
