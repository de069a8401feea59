"""Local HTTP servers that behave as the documented APIs of Ollama and OpenAI do."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    path: str
    body: Any
    headers: dict[str, str]


@dataclass
class Answer:
    body: Any
    status: int = 200
    cut: bool = False
    """Close the connection in the middle of the body."""
    hang: bool = False
    """Do not answer before the server is shut down."""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Server:
    url: str
    requests: list[Request]


@contextmanager
def serve(answer: Callable[[Request], Answer], port: int = 0) -> Iterator[Server]:
    """Run a server on a free or a given port; each request is recorded and answered by `answer`."""
    requests: list[Request] = []
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.path, json.loads(raw) if raw else None, dict(self.headers))
            requests.append(request)
            self._send(answer(request))

        do_POST = do_GET  # noqa: N815 - the name http.server looks for

        def _send(self, reply: Answer) -> None:
            if reply.hang:
                closing.wait(600)
                return
            plain = isinstance(reply.body, bytes)
            content = reply.body if plain else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", "text/plain" if plain else "application/json")
            self.send_header("Content-Length", str(len(content) + (100 if reply.cut else 0)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep the test's output clean."""

    http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    http.daemon_threads = False
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{http.server_port}", requests)
    finally:
        closing.set()
        http.shutdown()
        thread.join()
        http.server_close()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def vector_of(text: str, dimension: int = 8) -> list[float]:
    """A vector that depends on the text and is not of length 1."""
    counts = [1.0] * dimension
    for character in text:
        counts[ord(character) % dimension] += 1
    return counts


def ollama(*models: str, old: bool = False) -> Callable[[Request], Answer]:
    """Ollama with these models pulled; `old` has no `/api/embed` yet."""

    def answer(request: Request) -> Answer:
        if request.path not in ("/api/embeddings", *(() if old else ("/api/embed",))):
            return Answer(b"404 page not found", 404)
        name = request.body["model"]
        if name not in models:
            return Answer({"error": f'model "{name}" not found, try pulling it first'}, 404)
        if request.path == "/api/embeddings":
            return Answer({"embedding": vector_of(request.body["prompt"])})
        vectors = [vector_of(text) for text in request.body["input"]]
        return Answer({"model": name, "embeddings": vectors, "total_duration": 14143917})

    return answer


def openai(*models: str, key: str = "") -> Callable[[Request], Answer]:
    """An OpenAI-compatible server that answers its vectors in reverse order, as it may."""

    def answer(request: Request) -> Answer:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return _openai_error(401, "Incorrect API key provided.", "invalid_api_key")
        if request.path != "/v1/embeddings":
            return _openai_error(404, f"Invalid URL (POST {request.path})", None)
        name = request.body["model"]
        if name not in models:
            message = f"The model `{name}` does not exist or you do not have access to it."
            return _openai_error(404, message, "model_not_found")
        data = [
            {"object": "embedding", "index": index, "embedding": vector_of(text)}
            for index, text in enumerate(request.body["input"])
        ]
        return Answer({"object": "list", "data": data[::-1], "model": name, "usage": {}})

    return answer


def _openai_error(status: int, message: str, code: str | None) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Answer({"error": error}, status)


Reply = Callable[[list[dict[str, str]]], str]
"""What a language model says to a conversation."""


def ollama_chat(reply: Reply, *models: str) -> Callable[[Request], Answer]:
    """Ollama's `/api/chat`, not streamed, as its documentation shows it."""

    def answer(request: Request) -> Answer:
        if request.path != "/api/chat":
            return Answer(b"404 page not found", 404)
        name = request.body["model"]
        if name not in models:
            return Answer({"error": f'model "{name}" not found, try pulling it first'}, 404)
        return Answer(
            {
                "model": name,
                "created_at": "2024-07-22T20:33:28.123648Z",
                "message": {"role": "assistant", "content": reply(request.body["messages"])},
                "done_reason": "stop",
                "done": True,
                "total_duration": 2267322500,
                "eval_count": 41,
            }
        )

    return answer


def openai_chat(reply: Reply, *models: str, key: str = "") -> Callable[[Request], Answer]:
    """OpenAI's `/v1/chat/completions`, as its documentation shows it."""

    def answer(request: Request) -> Answer:
        if key and request.headers.get("Authorization") != f"Bearer {key}":
            return _openai_error(401, "Incorrect API key provided.", "invalid_api_key")
        name = request.body["model"]
        if name not in models:
            message = f"The model `{name}` does not exist or you do not have access to it."
            return _openai_error(404, message, "model_not_found")
        message = {"role": "assistant", "content": reply(request.body["messages"]), "refusal": None}
        return Answer(
            {
                "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
                "object": "chat.completion",
                "created": 1741569952,
                "model": name,
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29},
            }
        )

    return answer
