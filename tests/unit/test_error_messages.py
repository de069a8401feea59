from __future__ import annotations

import inspect

import pytest
from pydantic import BaseModel
from pydantic import ValidationError as PydanticValidationError

import zapomni_core.exceptions
import zapomni_mcp.exceptions
from zapomni_core.exceptions import (
    CircuitBreakerOpenError,
    ConfigurationError,
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    EmbeddingError,
    NotFoundError,
    ProcessingError,
    QueryError,
    SchemaError,
    TransactionError,
    ValidationError,
    ZapomniError,
)
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_mcp.error_messages import describe_failure
from zapomni_mcp.exceptions import ProtocolError, ToolExecutionError

SECRET = "redis://user:secret@host:6379 /home/user/private/zapomni.db"
ALL_ERRORS = sorted(
    {
        error
        for module in (zapomni_core.exceptions, zapomni_mcp.exceptions)
        for _, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, ZapomniError)
    },
    key=lambda error: error.__name__,
)
SPEAK_FOR_THEMSELVES = (ValidationError, ConfigurationError)


def explain(error: BaseException) -> dict[str, str]:
    return sanitize_error_for_user(error, "some-id")


@pytest.mark.parametrize("error", ALL_ERRORS, ids=lambda error: error.__name__)
def test_every_error_of_the_tree_says_what_happened_and_what_to_do(error):
    answer = explain(error("words"))
    assert answer.keys() == {"error", "error_code", "suggested_action", "correlation_id"}
    assert answer["error"].endswith((".", "words"))
    assert answer["suggested_action"].endswith(".")
    assert answer["error_code"] == error.default_code
    assert answer["correlation_id"] == "some-id"


@pytest.mark.parametrize(
    "error",
    [error for error in ALL_ERRORS if not issubclass(error, SPEAK_FOR_THEMSELVES)],
    ids=lambda error: error.__name__,
)
def test_no_words_from_below_reach_the_user(error):
    cause = OSError(2, SECRET)
    answer = explain(error(SECRET, details={"path": SECRET}, original_exception=cause))
    assert "secret" not in str(answer)
    assert "private" not in str(answer)


def test_wrong_input_is_told_in_the_errors_own_words():
    assert explain(ValidationError("limit must be 1 to 50"))["error"] == (
        "The input is invalid: limit must be 1 to 50"
    )


def test_a_wrong_setting_is_told_in_the_errors_own_words():
    assert (
        "did you mean 'storage'" in explain(ConfigurationError("did you mean 'storage'"))["error"]
    )


def test_braces_in_the_errors_own_words_do_no_harm():
    assert "{0} {message} {x!r}" in explain(ValidationError("{0} {message} {x!r}"))["error"]


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (EmbeddingError("x", "EMB_001"), "ollama list"),
        (EmbeddingError("x", "EMB_002"), "ZAPOMNI_EMBED_TIMEOUT_SECONDS"),
        (EmbeddingError("x", "EMB_004"), "zapomni models pull"),
        (EmbeddingError("x", "EMB_005"), "zapomni models reembed"),
        (SchemaError("x", "SCHEMA_003"), "pip install --upgrade zapomni"),
        (SchemaError("x", "SCHEMA_004"), "zapomni doctor"),
        (SchemaError("x", "SCHEMA_005"), "zapomni db up"),
        (DatabaseError("x", "DB_002"), "Free some space"),
        (DatabaseConnectionError("x", "CONN_003"), "ZAPOMNI_STORAGE"),
        (DatabaseConnectionError("x", "CONN_005"), "appendonly yes"),
        (DatabaseConnectionError("x", "CONN_006"), "zapomni db up"),
        (NotFoundError("x"), "Search"),
        (TransactionError("x"), "Try again"),
        (CircuitBreakerOpenError("x"), "Wait"),
        (ProcessingError("x", "PROC_003"), "zapomni[docs]"),
    ],
    ids=str,
)
def test_the_suggested_action_fits_the_code(error, hint):
    assert hint in explain(error)["suggested_action"]


def test_a_subclass_nobody_listed_is_told_as_its_nearest_parent():
    class DeadlockError(QueryError):
        pass

    assert explain(DeadlockError("x"))["error"] == explain(QueryError("x"))["error"]
    assert explain(DatabaseTimeoutError("x"))["error"] != explain(QueryError("x"))["error"]


class Number(BaseModel):
    value: int


def foreign_validation_error() -> PydanticValidationError:
    with pytest.raises(PydanticValidationError) as caught:
        Number(value=SECRET)
    return caught.value


@pytest.mark.parametrize(
    "error",
    [RuntimeError(SECRET), KeyError(SECRET), foreign_validation_error()],
    ids=lambda error: type(error).__name__,
)
def test_a_foreign_error_is_told_in_general_words(error):
    answer = explain(error)
    assert answer["error"] == "Something unexpected went wrong."
    assert answer["error_code"] == "UNKNOWN"
    assert "secret" not in str(answer)


def test_a_model_gets_message_action_code_and_id_as_text():
    assert describe_failure(NotFoundError("x"), "some-id") == (
        "Error: There is no memory with this id. It may have been deleted.\n\n"
        "Suggested Action: Search for the memory to find its id.\n\n"
        "Error Code: MEM_001\n"
        "Correlation ID: some-id"
    )


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (ToolExecutionError("There is no tool with this name.", "TOOL_001"), "List the tools"),
        (ToolExecutionError("The tool took too long.", "TOOL_003"), "Try again"),
        (ProtocolError("The answer does not fit its schema.", "PROTO_003"), "zapomni doctor"),
    ],
    ids=str,
)
def test_the_doors_own_errors_are_told_in_their_own_words(error, action):
    text = describe_failure(error, "some-id")
    assert text.startswith(f"Error: {error.message}")
    assert action in text
