from __future__ import annotations

import inspect
import re

import pytest

import zapomni_core.exceptions
import zapomni_db.exceptions
import zapomni_mcp.exceptions
from zapomni_core.exceptions import (
    CacheError,
    CircuitBreakerOpenError,
    CoreError,
    DatabaseConnectionError,
    DatabaseError,
    DatabaseTimeoutError,
    EmbeddingError,
    ExtractionError,
    ProcessingError,
    QueryError,
    SchemaError,
    SearchError,
    TransactionError,
    ValidationError,
    ZapomniError,
)
from zapomni_mcp.exceptions import MCPError, ProtocolError, ToolExecutionError

# As specified, but for those that nothing can raise: docs/adr, "Error codes that are raised".
SPECIFIED_CODES = {
    ValidationError: ["VAL_001", "VAL_002", "VAL_003", "VAL_004"],
    ToolExecutionError: ["TOOL_001", "TOOL_002", "TOOL_003"],
    ProtocolError: ["PROTO_001", "PROTO_003"],
    ProcessingError: ["PROC_001", "PROC_002", "PROC_003"],
    EmbeddingError: ["EMB_001", "EMB_002", "EMB_003", "EMB_004"],
    ExtractionError: ["EXTR_001", "EXTR_002", "EXTR_003"],
    SearchError: ["SEARCH_001", "SEARCH_002", "SEARCH_003"],
    CacheError: ["CACHE_001"],
    DatabaseConnectionError: ["CONN_001", "CONN_002", "CONN_003", "CONN_004"],
    QueryError: ["QUERY_001", "QUERY_002", "QUERY_003", "QUERY_004"],
    TransactionError: ["TXN_001", "TXN_002", "TXN_003"],
    SchemaError: ["SCHEMA_001", "SCHEMA_002", "SCHEMA_003"],
}
PARENTS = {
    CoreError: [ProcessingError, EmbeddingError, ExtractionError, SearchError, CacheError],
    DatabaseError: [DatabaseConnectionError, QueryError, TransactionError, SchemaError],
    MCPError: [ToolExecutionError, ProtocolError],
    ZapomniError: [CoreError, DatabaseError, MCPError, ValidationError, CircuitBreakerOpenError],
}
ALL_ERRORS = [
    error
    for _, error in inspect.getmembers(zapomni_core.exceptions, inspect.isclass)
    if issubclass(error, ZapomniError)
] + [MCPError, ToolExecutionError, ProtocolError]


@pytest.mark.parametrize("error", SPECIFIED_CODES, ids=lambda error: error.__name__)
def test_every_specified_code_is_documented_with_its_class(error):
    documented = re.findall(r"^\s*([A-Z]+_\d{3}):", error.__doc__, re.MULTILINE)
    assert documented[: len(SPECIFIED_CODES[error])] == SPECIFIED_CODES[error]
    assert error.default_code in documented


@pytest.mark.parametrize(
    ("parent", "child"),
    [(parent, child) for parent, children in PARENTS.items() for child in children],
    ids=lambda error: error.__name__,
)
def test_the_tree_has_the_specified_shape(parent, child):
    assert issubclass(child, parent)


@pytest.mark.parametrize(
    "module", [zapomni_db.exceptions, zapomni_core.exceptions, zapomni_mcp.exceptions], ids=str
)
def test_the_tree_in_the_docstring_names_every_class_of_its_module(module):
    defined = {
        error.__name__
        for _, error in inspect.getmembers(module, inspect.isclass)
        if error.__module__ == module.__name__
    }
    assert {name for name in defined if name not in module.__doc__} == set()
    assert module.__all__ == sorted(module.__all__)


@pytest.mark.parametrize("error", ALL_ERRORS, ids=lambda error: error.__name__)
def test_every_error_can_be_made_from_a_message_alone(error):
    made = error("words")
    assert str(made) == made.message == "words"
    assert made.error_code == error.default_code
    assert made.details == {}
    assert made.correlation_id


def test_two_errors_outside_an_operation_have_ids_of_their_own():
    assert ZapomniError("x").correlation_id != ZapomniError("x").correlation_id


def test_an_error_serializes_without_the_words_of_its_cause():
    error = ValidationError(
        "limit is too large",
        error_code="VAL_003",
        details={"limit": 51},
        correlation_id="some-id",
        original_exception=ValueError("the user's own words"),
    )
    assert error.to_dict() == {
        "error": "ValidationError",
        "message": "limit is too large",
        "error_code": "VAL_003",
        "details": {"limit": 51},
        "correlation_id": "some-id",
        "original_error": "ValueError",
    }


def test_an_error_without_a_cause_says_so():
    assert ZapomniError("x").to_dict()["original_error"] is None
    assert ZapomniError("x").error_code == "ERR_UNKNOWN"


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (DatabaseConnectionError("x"), True),
        (TransactionError("x"), True),
        (ExtractionError("x"), True),
        (EmbeddingError("x", "EMB_001"), True),
        (EmbeddingError("x", "EMB_002"), True),
        (EmbeddingError("x", "EMB_003"), True),
        (EmbeddingError("x", "EMB_004"), False),
        (EmbeddingError("x", error_code="EMB_005"), False),
        (QueryError("x"), False),
        (QueryError("x", "QUERY_002", is_timeout=True), True),
        (DatabaseTimeoutError("x"), True),
        (ValidationError("x"), False),
        (SchemaError("x"), False),
        (CacheError("x"), False),
        (ProcessingError("x"), False),
        (SearchError("x"), False),
        (CircuitBreakerOpenError("x"), False),
        (ToolExecutionError("x"), False),
    ],
    ids=repr,
)
def test_only_errors_that_may_pass_are_transient(error, transient):
    assert error.is_transient is transient


def test_our_names_hide_no_builtin():
    for module in (zapomni_db.exceptions, zapomni_core.exceptions, zapomni_mcp.exceptions):
        assert not {"ConnectionError", "TimeoutError"} & set(module.__all__)
