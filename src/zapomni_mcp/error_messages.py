"""How a failure reads for a model: the user's message as text, and never the arguments."""

from __future__ import annotations

import json
from contextlib import suppress

from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError as PydanticValidationError

from zapomni_core.exceptions import NotFoundError
from zapomni_core.infra.error_messages import sanitize_error_for_user
from zapomni_core.shared.fencing import fence
from zapomni_mcp.exceptions import MCPError, ProtocolError, ValidationError

__all__ = ["describe_failure", "find_cause", "refuse_arguments", "refuse_message"]

MAX_PROBLEMS = 5

_ACTIONS = {
    "PROTO_001": "Send valid JSON: no half of a character pair, at most 200 levels deep.",
    "TOOL_001": "List the tools and correct the name.",
    "TOOL_003": (
        "Try again, with less at once: a text is stored once however often it is added. "
        "ZAPOMNI_TOOL_TIMEOUT_SECONDS sets the limit."
    ),
}


def describe_failure(error: BaseException, correlation_id: str) -> str:
    """Return the text a model is shown."""
    answer = sanitize_error_for_user(error, correlation_id)
    if isinstance(error, MCPError) and not isinstance(error, ValidationError):
        answer["error"] = error.message  # Written in this package, about the call alone.
        answer["suggested_action"] = _ACTIONS.get(error.error_code, "Run `zapomni doctor`.")
    if isinstance(error, NotFoundError) and error.near:
        names = "\n".join(" ".join(name.split())[:100] for name in error.near)
        answer["suggested_action"] += f" Names that are like it:\n{fence(names, kind='names')}"
    return (
        f"Error: {answer['error']}\n\n"
        f"Suggested Action: {answer['suggested_action']}\n\n"
        f"Error Code: {answer['error_code']}\n"
        f"Correlation ID: {answer['correlation_id']}"
    )


def find_cause(error: Exception) -> BaseException:
    """Return what really failed behind the SDK's wrapper."""
    cause = error.__cause__ or error
    # Under the SDK's own ToolError it is the arguments; anywhere else it is a fault of ours.
    wrong_arguments = isinstance(error, ToolError) and not isinstance(error, UnexpectedToolError)
    if wrong_arguments and isinstance(cause, PydanticValidationError):
        return refuse_arguments(cause)
    if isinstance(cause, PydanticValidationError):
        return ProtocolError(
            "The answer does not fit the tool's schema.", "PROTO_003", original_exception=cause
        )
    return cause


def refuse_arguments(error: PydanticValidationError) -> ValidationError:
    """Name the wrong arguments and the limits they break, never their values."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    named = [
        f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"[:200]
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        named.append(f"and {len(problems) - MAX_PROBLEMS} more")
    return ValidationError("; ".join(named), _code(problems[0]["type"]), original_exception=error)


def refuse_message(error: Exception, correlation_id: str) -> JSONRPCError | None:
    """Answer a line that is no JSON for the SDK's parser, if Python's can find its id."""
    if not isinstance(error, PydanticValidationError):
        return None
    request_id = None
    with suppress(ValueError, RecursionError, KeyError, TypeError):
        request_id = json.loads(error.errors()[0]["input"])["id"]
    if not isinstance(request_id, str | int):
        return None
    failure = ProtocolError("The message is not valid JSON; nothing was done.", "PROTO_001")
    text = describe_failure(failure, correlation_id)
    return JSONRPCError(
        jsonrpc="2.0", id=request_id, error=ErrorData(code=PARSE_ERROR, message=text)
    )


def _code(problem: str) -> str:
    """Return our code for one of pydantic's kinds of error."""
    if problem in ("missing", "string_too_short"):
        return "VAL_001"
    if problem.endswith("_type"):
        return "VAL_002"
    return "VAL_004" if "_parsing" in problem else "VAL_003"
