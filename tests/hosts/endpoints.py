"""Model providers on loopback for real agent clients: they say and call what a test has written.

One server answers the three protocols that the clients use: Anthropic Messages, OpenAI Responses
and Gemini generateContent, each with server-sent events. A request that offers tools takes the
next step of the script; any other one (a title, a count of tokens, a choice of model) gets a short
answer and takes none.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Call", "Provider", "Say", "serve_provider"]


@dataclass(frozen=True)
class Say:
    """The model answers with a text, which ends its turn."""

    text: str
    tokens: int = 10


@dataclass(frozen=True)
class Call:
    """The model calls a tool. A plain `text` in place of arguments is a freeform tool's input."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str | None = None


Step = Say | Call


@dataclass
class Provider:
    """What the model will do, and what it was asked.

    Attributes:
        url: Where it listens.
        steps: What is left of the script; when it is used up the model says "Done.".
        requests: Path and body of every request, in order.
    """

    url: str
    steps: list[Step]
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, body: dict[str, Any]) -> tuple[Step, str]:
        """Return the next step for a request, and an id for it."""
        with self.lock:
            self.requests.append((path, body))
            self.calls += 1
            if not body.get("tools"):
                return Say("ok"), f"{self.calls}"
            return (self.steps.pop(0) if self.steps else Say("Done.")), f"{self.calls}"

    def asked(self) -> str:
        """Return all that reached the model, as one text."""
        return json.dumps([body for _, body in self.requests], ensure_ascii=False)


@contextmanager
def serve_provider(script: Sequence[Step]) -> Iterator[Provider]:
    """Serve one script until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    provider = Provider(f"http://127.0.0.1:{server.server_address[1]}", list(script))
    server.provider = provider  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(180)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._json({"data": [], "models": [], "has_more": False})

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = urlsplit(self.path).path
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        if path.endswith(("/count_tokens", ":countTokens")):
            self._json({"input_tokens": 100, "totalTokens": 100})
            return
        if path.endswith("/messages"):
            step, number = provider.take(path, body)
            self._anthropic(step, number, stream=bool(body.get("stream")))
        elif path.endswith(("/responses", "/responses/compact")):
            step, number = provider.take(path, body)
            self._events(_responses_events(step, number))
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            step, number = provider.take(path, body)
            answer = _gemini_answer(step, number)
            if "stream" in path:
                self._stream(f"data: {json.dumps(answer)}\r\n\r\n")
            else:
                self._json(answer)
        else:
            self._json({})

    def _anthropic(self, step: Step, number: str, *, stream: bool) -> None:
        if stream:
            self._events(_messages_events(step, number))
            return
        self._json(
            {
                **_message(number),
                "content": [{"type": "text", "text": step.text or ""}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 10},
            }
        )

    def _json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _events(self, events: Sequence[dict[str, Any]]) -> None:
        self._stream(
            "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        )

    def _stream(self, text: str) -> None:
        self._send(text.encode(), "text/event-stream")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# --- Anthropic Messages ------------------------------------------------------------------


def _message(number: str) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }


def _messages_events(step: Step, number: str) -> list[dict[str, Any]]:
    block: dict[str, Any]
    if isinstance(step, Call):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
        reason, tokens = "tool_use", 10
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step.text}
        reason, tokens = "end_turn", step.tokens
    start = {**_message(number), "usage": {"input_tokens": tokens, "output_tokens": 1}}
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 10},
        },
        {"type": "message_stop"},
    ]


# --- OpenAI Responses --------------------------------------------------------------------


def _responses_events(step: Step, number: str) -> list[dict[str, Any]]:
    item: dict[str, Any]
    tokens = 10
    if isinstance(step, Say):
        tokens = step.tokens
        item = {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{number}",
            "content": [{"type": "output_text", "text": step.text}],
        }
    elif step.text is not None:
        item = {
            "type": "custom_tool_call",
            "id": f"ctc_{number}",
            "call_id": f"call_{number}",
            "name": step.tool,
            "input": step.text,
        }
    else:
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": step.tool,
            "arguments": json.dumps(step.arguments),
        }
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": None,
        "output_tokens": 10,
        "output_tokens_details": None,
        "total_tokens": tokens + 10,
    }
    identity = {"id": f"resp_{number}"}
    return [
        {"type": "response.created", "response": identity},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**identity, "usage": usage}},
    ]


# --- Gemini generateContent --------------------------------------------------------------


def _gemini_answer(step: Step, number: str) -> dict[str, Any]:
    tokens = 10
    if isinstance(step, Call):
        call = {"id": f"call_{number}", "name": step.tool, "args": step.arguments}
        part: dict[str, Any] = {"functionCall": call}
    else:
        part, tokens = {"text": step.text}, step.tokens
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": tokens,
            "candidatesTokenCount": 10,
            "totalTokenCount": tokens + 10,
        },
    }
