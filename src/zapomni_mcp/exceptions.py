"""Errors of the MCP door.

ZapomniError
└── MCPError
    ├── ToolExecutionError  TOOL_001..003
    ├── ProtocolError       PROTO_001, 003
    └── ValidationError     VAL_001..004    the arguments are wrong; also the engine's own
"""

from __future__ import annotations

from zapomni_core.exceptions import ValidationError as InvalidRequestError
from zapomni_core.exceptions import ZapomniError

__all__ = ["MCPError", "ProtocolError", "ToolExecutionError", "ValidationError"]


class MCPError(ZapomniError):
    """The MCP door failed."""


class ToolExecutionError(MCPError):
    """A tool could not be run.

    Error codes:
        TOOL_001: No tool has this name.
        TOOL_002: The engine behind the tools could not be started.
        TOOL_003: The tool took too long.
    """

    default_code = "TOOL_001"


class ProtocolError(MCPError):
    """A message breaks the protocol.

    Error codes:
        PROTO_001: Not valid JSON-RPC.
        PROTO_003: The answer does not fit its schema.
    """

    default_code = "PROTO_001"


class ValidationError(MCPError, InvalidRequestError):
    """The arguments of a tool are wrong: an `MCPError` that is also the engine's own error.

    Error codes:
        VAL_001: A required argument is missing or empty.
        VAL_002: An argument has the wrong type.
        VAL_003: A value is out of range.
        VAL_004: A value has the wrong format.
    """
