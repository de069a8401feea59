"""Questions a developer asks about a library: is its code found before its tests and docs?

python -m benchmarks.code_questions [--shown]

Two source distributions, with tests and docs in them, are indexed with the settings a new user has.
The questions were written before the first run, from the lists of symbols. An answer is a
symbol or something inside it. Reported: how often it is first and among the first three, and which
share of the first three places are tests or docs although neither was asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.packages import FOLDER
from zapomni_core.engine import create_engine
from zapomni_core.infra.logging import setup_logging
from zapomni_core.modules.codebase import CodeHit, CodeSearchRequest, IndexRequest
from zapomni_core.settings import load_settings


class Question(NamedTuple):
    """What is asked, and what answers it: `path:symbol`, or a path, each by its end."""

    text: str
    answers: str
    about: str = "code"


QUESTIONS = {
    "tenacity-9.2.1": [
        Question("how long to sleep with exponential backoff", "wait.py:wait_exponential"),
        Question(
            "add random jitter to the delay",
            "wait.py:wait_exponential_jitter wait.py:wait_random wait.py:wait_random_exponential",
        ),
        Question("give up after a number of attempts", "stop.py:stop_after_attempt"),
        Question("stop before the total delay is exceeded", "stop.py:stop_before_delay"),
        Question(
            "retry only when the exception message matches", "retry.py:retry_if_exception_message"
        ),
        Question(
            "where is the exception re-raised when all attempts failed",
            "__init__.py:RetryError.reraise __init__.py:BaseRetrying._post_stop_check_actions",
        ),
        Question("log a warning before sleeping", "before_sleep.py:before_sleep_log"),
        Question("convert a timedelta to seconds", "_utils.py:to_seconds"),
        Question("is the function a coroutine", "_utils.py:is_coroutine_callable"),
        Question("the decorator that users put on a function", "__init__.py:retry"),
        Question("retry in an async for loop", "asyncio/__init__.py:AsyncRetrying"),
        Question("statistics about attempts and idle time", "__init__.py:BaseRetrying.statistics"),
        Question(
            "first, second, third: write a number as an ordinal",
            "_utils.py:to_ordinal _utils.py:find_ordinal",
        ),
        Question(
            "combine two stop conditions with and", "stop.py:stop_all stop.py:stop_base.__and__"
        ),
        Question(
            "interrupt the sleep by a threading event",
            "nap.py:sleep_using_event stop.py:stop_when_event_set",
        ),
        Question("copy a retrying object with other settings", "__init__.py:BaseRetrying.copy"),
        Question("tests for exponential wait", "tests/test_tenacity.py", "test"),
        Question("which test covers the tornado decorator", "tests/test_tornado.py", "test"),
        Question(
            "docs about installing and examples of stopping",
            "doc/source/index.rst README.rst",
            "docs",
        ),
    ],
    "marshmallow-4.4.0": [
        Question("turn a dictionary of fields into a schema class", "schema.py:Schema.from_dict"),
        Question("what happens with unknown keys while loading", "schema.py:Schema._deserialize"),
        Question("merge two error messages", "error_store.py:merge_errors"),
        Question("look up a schema class by its name", "class_registry.py:get_class"),
        Question("check that a string is an email address", "validate.py:Email"),
        Question("validate the length of a list or string", "validate.py:Length"),
        Question("parse a timestamp in milliseconds", "utils.py:from_timestamp_ms"),
        Question(
            "get an attribute or key by a dotted path",
            "utils.py:get_value utils.py:_get_value_for_key",
        ),
        Question(
            "run code after an object was loaded",
            "decorators.py:post_load schema.py:Schema._invoke_load_processors",
        ),
        Question("a field that is computed by a method of the schema", "fields.py:Method"),
        Question("only keep one attribute of a nested schema", "fields.py:Pluck"),
        Question("truthy and falsy values of a boolean field", "fields.py:Boolean"),
        Question("datetime with a required time zone", "fields.py:AwareDateTime"),
        Question(
            "collect the declared fields of a class and its bases",
            "schema.py:SchemaMeta.get_declared_fields schema.py:_get_fields_by_mro "
            "schema.py:_get_fields",
        ),
        Question(
            "how a validation error's messages become a dict",
            "exceptions.py:ValidationError.messages_dict "
            "exceptions.py:ValidationError.normalized_messages",
        ),
        Question("serialize an enum by value or by name", "fields.py:Enum"),
        Question("a set that remembers the order of insertion", "orderedset.py:OrderedSet"),
        Question("raise if the value is not one of the choices", "validate.py:OneOf"),
        Question("decimal rounding and number of places", "fields.py:Decimal"),
        Question("is the datetime aware of its timezone", "utils.py:is_aware"),
        Question("test that nested errors are indexed", "tests/", "test"),
        Question("documentation on upgrading to a new major version", "docs/upgrading.rst", "docs"),
        Question("guide to custom fields", "docs/custom_fields.rst", "docs"),
    ],
}


def answers(hit: CodeHit, question: Question) -> bool:
    """Return whether a hit is what was asked for."""
    for answer in question.answers.split():
        path, _, name = answer.partition(":")
        if path.endswith("/"):
            fits = hit.path.startswith(path)
        else:
            fits = f"/{hit.path}".endswith(f"/{path}")
        found = hit.name.partition("#")[0]
        if fits and (not name or found == name or found.startswith(f"{name}.")):
            return True
    return False


def is_aside(path: str) -> bool:
    """Return whether a file of these two libraries is a test or a page of the docs."""
    return path.startswith(("tests/", "doc/", "docs/", "releasenotes/")) or path.endswith(
        (".rst", ".md")
    )


def unpacked(name: str) -> Path:
    """Return the folder of a source distribution; fetch it if it is not there yet."""
    target = FOLDER / "sources" / name
    if not target.is_dir():
        package, _, version = name.rpartition("-")
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            wanted = ["--no-binary", ":all:", "--dest", folder, f"{package}=={version}"]
            subprocess.run([*command, *wanted], check=True)
            (archive,) = Path(folder).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(FOLDER / "sources", filter="data")
    return target


async def measure(name: str, *, shown: bool) -> dict:
    """Ask all questions about one library."""
    settings = load_settings()
    with tempfile.TemporaryDirectory() as home:
        own = load_settings(home=Path(home), models_dir=settings.models_path)
        async with await create_engine(own) as engine:
            request = IndexRequest(path=str(unpacked(name)), folder="/")
            task = await engine.code.index(request)
            status = await engine.tasks.run_task(task, lambda _: None)
            assert status.status == "completed", status.error
            first = among = places = aside = 0
            for question in QUESTIONS[name]:
                asked = CodeSearchRequest(query=question.text, repository="*", limit=3)
                hits = (await engine.code.search(asked)).hits
                right = [answers(hit, question) for hit in hits]
                first += bool(right) and right[0]
                among += any(right)
                if question.about == "code":
                    places += len(hits)
                    aside += sum(is_aside(hit.path) for hit in hits)
                if shown:
                    mark = "first" if right[:1] == [True] else "  3  " if any(right) else " --- "
                    print(mark, question.text, [f"{h.path}:{h.name}" for h in hits])
    return {
        "benchmark": "code_questions",
        "library": name,
        "questions": len(QUESTIONS[name]),
        "first": first,
        "first_three": among,
        "tests_or_docs": round(aside / places, 3),
    }


def main() -> None:
    """Print one line of JSON per library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shown", action="store_true", help="also print what was found")
    given = parser.parse_args()
    setup_logging("ERROR")
    for name in QUESTIONS:
        print(json.dumps(asyncio.run(measure(name, shown=given.shown))), flush=True)


if __name__ == "__main__":
    main()
