"""Model providers on loopback for real agent clients: they say and call what a test has written.

One server answers the four protocols that the clients use: Anthropic Messages, OpenAI Responses,
OpenAI Chat Completions and Gemini generateContent, whole or as server-sent events. A request that
offers tools takes the next step of the script; any other one (a title, a count of tokens, a choice
of model) gets a short answer and takes none. An agent that the client starts for a part of the
work has a script of its own, found by the words it is given.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
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
    """The model calls a tool.

    Attributes:
        text: The input of a freeform tool, in place of arguments.
        namespace: Where Responses has put the tool, if anywhere.
    """

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    namespace: str | None = None


# A step that depends on the request is a function of it.
Step = Say | Call | Callable[[dict[str, Any]], Say | Call]


@dataclass
class Provider:
    """What the model will do, and what it was asked.

    Attributes:
        url: Where it listens.
        steps: What is left of the script; when it is used up the model says "Done.".
        helpers: Scripts of conversations that begin with these words, not the user's.
        requests: Path and body of every request, in order.
    """

    url: str
    steps: list[Step]
    helpers: dict[str, list[Step]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, body: dict[str, Any]) -> tuple[Say | Call, str]:
        """Return the next step for a request, and an id for it."""
        with self.lock:
            self.requests.append((path, body))
            self.calls += 1
            if not body.get("tools"):
                # Qwen Code takes a summary only if it is shorter than what was read for it.
                return Say("ok", tokens=len(json.dumps(body)) // 4), f"{self.calls}"
            first = _first_words(body) if self.helpers else ""
            scripts = [script for words, script in self.helpers.items() if words in first]
            steps = scripts[0] if scripts else self.steps
            step = steps.pop(0) if steps else Say("Done.")
            return (step(body) if callable(step) else step), f"{self.calls}"

    def turns(self) -> list[dict[str, Any]]:
        """Return the bodies of all requests that offered tools."""
        return [body for _, body in self.requests if body.get("tools")]

    def asked(self) -> str:
        """Return all that reached the model, as one text."""
        return json.dumps([body for _, body in self.requests], ensure_ascii=False)


def _first_words(body: dict[str, Any]) -> str:
    """Return what a conversation begins with, up to the model's first word."""
    found: list[Any] = []
    for message in body.get("messages") or body.get("input") or body.get("contents") or []:
        role = message.get("role", "assistant")
        if role in {"assistant", "model"}:
            break
        if role == "user":
            found.append(message)
    return json.dumps(found, ensure_ascii=False)


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
        stream = bool(body.get("stream"))
        if path.endswith("/messages"):
            step, number = provider.take(path, body)
            if stream:
                self._events(_messages_events(step, number))
            else:
                self._json(_whole_message(step, number))
        elif path.endswith(("/responses", "/responses/compact")):
            step, number = provider.take(path, body)
            events = _responses_events(step, number)
            if stream:
                self._events(events)
            else:
                self._json(events[-1]["response"])
        elif path.endswith("/chat/completions"):
            step, number = provider.take(path, body)
            if stream:
                chunks = [*map(json.dumps, _chat_chunks(step, number)), "[DONE]"]
                self._stream("".join(f"data: {chunk}\n\n" for chunk in chunks))
            else:
                self._json(_chat_completion(step, number))
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            step, number = provider.take(path, body)
            answer = _gemini_answer(step, number)
            if "stream" in path:
                self._stream(f"data: {json.dumps(answer)}\r\n\r\n")
            else:
                self._json(answer)
        else:
            self._json({})

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


def _messages_events(step: Say | Call, number: str) -> list[dict[str, Any]]:
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


def _whole_message(step: Say | Call, number: str) -> dict[str, Any]:
    if isinstance(step, Call):
        block = {
            "type": "tool_use",
            "id": f"toolu_{number}",
            "name": step.tool,
            "input": step.arguments,
        }
    else:
        block = {"type": "text", "text": step.text}
    reason = "tool_use" if isinstance(step, Call) else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 10}
    return {**_message(number), "content": [block], "stop_reason": reason, "usage": usage}


# --- OpenAI Responses --------------------------------------------------------------------


def _responses_events(step: Say | Call, number: str) -> list[dict[str, Any]]:
    item: dict[str, Any]
    tokens, between = 10, []
    if isinstance(step, Say):
        tokens = step.tokens
        identity, where = f"msg_{number}", {"item_id": f"msg_{number}", "content_index": 0}
        part = {"type": "output_text", "text": step.text, "annotations": []}
        item = {"type": "message", "role": "assistant", "id": identity, "content": [part]}
        between = [
            {"type": "response.content_part.added", **where, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **where, "delta": step.text},
            {"type": "response.output_text.done", **where, "text": step.text},
            {"type": "response.content_part.done", **where, "part": part},
        ]
    elif step.text is not None:
        item = {
            "type": "custom_tool_call",
            "id": f"ctc_{number}",
            "call_id": f"call_{number}",
            "name": step.tool,
            "input": step.text,
        }
    else:
        given = json.dumps(step.arguments)
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": step.tool,
            "arguments": given,
            **({"namespace": step.namespace} if step.namespace else {}),
        }
        where = {"item_id": f"fc_{number}"}
        between = [
            {"type": "response.function_call_arguments.delta", **where, "delta": given},
            {"type": "response.function_call_arguments.done", **where, "arguments": given},
        ]
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 10,
    }
    response = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "model": "gpt-test",
        "status": "in_progress",
        "output": [],
    }
    begun = {**item, "status": "in_progress"}
    begun.update({key: "" for key in ("arguments", "input") if key in item})
    if "content" in item:
        begun["content"] = []
    item["status"] = "completed"
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    events = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *({**event, "output_index": 0} for event in between),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [{**event, "sequence_number": place} for place, event in enumerate(events)]


# --- OpenAI Chat Completions -------------------------------------------------------------


def _chat_answer(step: Say | Call, number: str) -> tuple[dict[str, Any], str, dict[str, int]]:
    tokens = step.tokens if isinstance(step, Say) else 10
    usage = {"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
    if isinstance(step, Say):
        return {"role": "assistant", "content": step.text}, "stop", usage
    call = {
        "index": 0,
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": step.tool, "arguments": json.dumps(step.arguments)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls", usage


def _chat_completion(step: Say | Call, number: str) -> dict[str, Any]:
    message, reason, usage = _chat_answer(step, number)
    return {
        "id": f"chatcmpl_{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt-test",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": usage,
    }


def _chat_chunks(step: Say | Call, number: str) -> list[dict[str, Any]]:
    message, reason, usage = _chat_answer(step, number)
    head = {
        "id": f"chatcmpl_{number}",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "gpt-test",
    }
    return [
        {**head, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {**head, "choices": [], "usage": usage},
    ]


# --- Gemini generateContent --------------------------------------------------------------


def _gemini_answer(step: Say | Call, number: str) -> dict[str, Any]:
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
