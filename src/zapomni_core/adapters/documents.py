"""Turns a file into text: plain text, Markdown, HTML, PDF and DOCX.

What a file is, its content decides; its name only helps where content cannot. HTML, PDF and DOCX
are read in a child process with limits, because a small file may unpack to gigabytes or keep its
parser busy for hours. The libraries for them come with the extra `docs`.
"""

from __future__ import annotations

import codecs
import importlib
import io
import json
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra.child import ChildError, ChildLimits, ran_short_of_memory, run_in_child

__all__ = ["Document", "read_document", "read_in_child"]

MAX_BYTES = 50_000_000
# A DOCX is a ZIP archive: a small file may unpack to any size.
MAX_UNPACKED_BYTES = 500_000_000
# A report of a thousand pages takes a few seconds and a hundred megabytes.
LIMITS = ChildLimits(memory_bytes=1 << 30, cpu_seconds=30)

_MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdown", ".mdx", ".mkd"})
_HTML_SUFFIXES = frozenset({".htm", ".html", ".xhtml"})
# Not even opened: it may be ours, and closing it would drop the locks this process has on it.
_DATABASES = frozenset({".db", ".db-shm", ".db-wal", ".sqlite", ".sqlite3"})
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!--.*?-->\s*+)*+<(?:!doctype html|html)\b"
)
_HTML_CHARSET = re.compile(rb"<meta[^>]+?charset=[\"']?([\w.:-]+)", re.IGNORECASE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DROPPED = frozenset({"head", "iframe", "nav", "noscript", "script", "style", "svg", "template"})
_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div"),
        *("dl", "dt", "figcaption", "figure", "footer", "form", "header", "hr", "main", "ol", "p"),
        *("section", "summary", "table", "ul"),
    )
)
_LINES = frozenset({"br", "li", "option", "tr"})
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}

Kind = Literal["text", "markdown", "html", "pdf", "docx"]


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a file, what it was, and what is known about it."""

    text: str
    kind: Kind
    metadata: dict[str, Any] = field(default_factory=dict)


def read_document(path: Path) -> Document:
    """Read a file as text. The metadata names the file, never the folders above it.

    Raises:
        ValidationError: There is no such file, it is empty, too large or not valid UTF-8.
        ProcessingError: Its format is unknown, it is damaged, its library is not installed, or
            reading it takes more memory or time than `LIMITS`.
    """
    data = _read_bytes(path)
    kind, text, found = _extract(path.suffix.lower(), data)
    if not text.strip():
        scanned = "; a scanned PDF needs text recognition (OCR) first" if kind == "pdf" else ""
        raise ValidationError(f"The file contains no text{scanned}", "VAL_001")
    return Document(text, kind, {"file_name": path.name, **found})


def _read_bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ValidationError("This is a folder; name the files in it", "VAL_004")
        if not stat.S_ISREG(status.st_mode):
            raise ValidationError("This is not a regular file", "VAL_004")
        if path.suffix.lower() in _DATABASES:
            raise ValidationError("This is a database, not a document", "VAL_004")
        if status.st_size > MAX_BYTES:
            raise ValidationError(
                f"The file has more than {MAX_BYTES // 1_000_000} MB; split it first", "VAL_003"
            )
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValidationError(
            "There is no such file", "VAL_004", original_exception=error
        ) from error
    except PermissionError as error:
        raise ProcessingError(
            "You are not allowed to read this file", "PROC_002", original_exception=error
        ) from error
    except (OSError, ValueError) as error:
        raise ProcessingError(
            "The file cannot be read", "PROC_002", original_exception=error
        ) from error


def _extract(suffix: str, data: bytes) -> tuple[Kind, str, dict[str, Any]]:
    if b"%PDF-" in data[:1024]:
        return "pdf", *_ask_child("pdf", data)
    if data.startswith(b"PK\x03\x04"):
        return "docx", *_ask_child("docx", data)
    if suffix in (".pdf", ".docx") and data:
        raise ProcessingError(f"The file is named {suffix} but is not one", "PROC_003")
    is_html = suffix in _HTML_SUFFIXES
    text = _decode(data, declared=_declared_charset(data) if is_html else None)
    if is_html or _HTML_START.match(text[:4096].lower()):
        return "html", *_ask_child("html", text.encode("utf-8", "surrogatepass"))
    return ("markdown" if suffix in _MARKDOWN_SUFFIXES else "text"), text, {}


def _ask_child(kind: Kind, data: bytes) -> tuple[str, dict[str, Any]]:
    try:
        # What a hostile file may have taken over is answered in JSON: reading it runs nothing.
        answer = json.loads(run_in_child(_TARGET, kind.encode() + b"\n" + data, LIMITS))
    except ChildError as error:
        memory = f"takes more than {LIMITS.memory_bytes >> 20} MB of memory"
        limit = {
            "memory": memory,
            "time": f"takes more than {LIMITS.cpu_seconds} s",
            # PDFium ends its process when it gets no memory.
            "crash": f"breaks its reader or {memory}",
        }[error.reason]
        raise ProcessingError(
            f"Reading this {kind.upper()} file {limit}; it was given up. "
            "Convert it to plain text or split it first",
            "PROC_002",
            {"limit": error.reason},
            original_exception=error,
        ) from error
    if "error_code" in answer:
        error_type = ValidationError if answer["wrong_input"] else ProcessingError
        raise error_type(answer["message"], answer["error_code"])
    return answer["text"], answer["metadata"]


_TARGET = "zapomni_core.adapters.documents:read_in_child"


def read_in_child(request: bytes) -> bytes:
    """Read a file's text in the child process: the kind, a line end and the bytes of the file."""
    kind, _, data = request.partition(b"\n")
    del request
    try:
        if kind == b"html":
            text, metadata = _read_html(data.decode("utf-8", "surrogatepass"))
        else:
            text, metadata = _read_pdf(data) if kind == b"pdf" else _read_docx(data)
    except (ProcessingError, ValidationError) as error:
        if ran_short_of_memory():
            raise MemoryError from error
        wrong = isinstance(error, ValidationError)
        refusal = {"message": error.message, "error_code": error.error_code, "wrong_input": wrong}
        return json.dumps(refusal).encode()
    if not text and ran_short_of_memory():
        raise MemoryError
    return json.dumps({"text": text, "metadata": metadata}).encode()


def _decode(data: bytes, declared: str | None) -> str:
    encoding = next((name for bom, name in _BOMS if data.startswith(bom)), None)
    if encoding is None and b"\0" in data:
        raise ProcessingError("The file is not text, and its format is not supported", "PROC_003")
    try:
        return data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        if declared and encoding is None:
            return data.decode(declared, "replace")
        name = (encoding or "utf-8").upper().removesuffix("-SIG")
        raise ValidationError(
            f"The file is not valid {name} (byte {error.start}); convert it to UTF-8 first",
            "VAL_004",
            {"byte": error.start},
            original_exception=error,
        ) from error


def _declared_charset(data: bytes) -> str | None:
    match = _HTML_CHARSET.search(data[:2048])
    name = match[1].decode("ascii") if match else ""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return None


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ProcessingError(
            "This format needs an extra library; install it with: pip install 'zapomni[docs]'",
            "PROC_002",
            original_exception=error,
        ) from error


# --- PDF --------------------------------------------------------------------------------


def _read_pdf(data: bytes) -> tuple[str, dict[str, Any]]:
    pdfium = _library("pypdfium2")
    try:
        document = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        raise ProcessingError(
            "The PDF is damaged or protected by a password", "PROC_002", original_exception=error
        ) from error
    try:
        pages = [_page_text(document, number) for number in range(len(document))]
        title = document.get_metadata_value("Title").strip()
    except pdfium.PdfiumError as error:
        raise ProcessingError(
            "A page of the PDF is damaged", "PROC_002", original_exception=error
        ) from error
    finally:
        document.close()
    text = "\n\n".join(page for page in pages if page)
    return text, {"pages": len(pages), **({"title": title} if title else {})}


def _page_text(document: Any, number: int) -> str:
    page = document[number]
    text_page = page.get_textpage()
    try:
        text = str(text_page.get_text_range())
    finally:
        text_page.close()
        page.close()
    # U+FFFE and U+0002 are how PDFium marks a hyphen at the end of a line.
    text = re.sub("[\ufffe\u0002]\\s*", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    return text.replace("\0", "").strip()


# --- DOCX -------------------------------------------------------------------------------


def _read_docx(data: bytes) -> tuple[str, dict[str, Any]]:
    _check_archive(data)
    docx = _library("docx")
    try:
        document = docx.Document(io.BytesIO(data))
        text = "\n\n".join(block for block in _docx_blocks(document) if block.strip())
        title = (document.core_properties.title or "").strip()
    except MemoryError:
        raise
    except Exception as error:
        # Damage shows anywhere between the archive, its XML and what python-docx expects.
        raise ProcessingError(
            "The Word document is damaged", "PROC_002", original_exception=error
        ) from error
    return text, {"title": title} if title else {}


def _check_archive(data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            unpacked = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ProcessingError(
            "The Word document or archive is damaged", "PROC_003", original_exception=error
        ) from error
    if "word/document.xml" not in names:
        raise ProcessingError("This archive is not a Word document", "PROC_003")
    if unpacked > MAX_UNPACKED_BYTES:
        raise ValidationError("The document unpacks to more than 500 MB", "VAL_003")


def _docx_blocks(document: Any) -> Iterator[str]:
    """Join list items by line, everything else by paragraph."""
    items: list[str] = []
    for content in document.iter_inner_content():
        if hasattr(content, "rows"):
            # A merged cell is given once for every column it spans.
            rows = [dict.fromkeys(row.cells) for row in content.rows]
            line = "\n".join(" | ".join(" ".join(c.text.split()) for c in row) for row in rows)
            is_item = False
        else:
            line, is_item = _docx_paragraph(content)
        if items and not is_item:
            yield "\n".join(items)
            items = []
        if is_item:
            items.append(line)
        else:
            yield line
    yield "\n".join(items)


def _docx_paragraph(paragraph: Any) -> tuple[str, bool]:
    text: str = paragraph.text
    style = (paragraph.style.name if paragraph.style is not None else "") or ""
    level = re.fullmatch(r"Heading ([1-6])", style)
    if text.strip() and (level or style == "Title"):
        return f"{'#' * int(level[1] if level else 1)} {text.strip()}", False
    if text.strip() and style.startswith("List"):
        return f"- {text.strip()}", True
    return text, False


# --- HTML -------------------------------------------------------------------------------


def _read_html(text: str) -> tuple[str, dict[str, Any]]:
    tree = _library("selectolax.lexbor").LexborHTMLParser(text)
    heading = tree.css_first("title")
    title = " ".join(heading.text().split()) if heading is not None else ""
    joined = _html_text(tree.body) if tree.body is not None else ""
    lines = re.sub(r"[ \t]+\n", "\n", joined.replace("\0", ""))
    lines = re.sub(r"\n-\n+(?=[^\n-])", "\n- ", lines)
    return re.sub(r"\n{3,}", "\n\n", lines).strip(), {"title": title} if title else {}


def _html_text(body: Any) -> str:
    """Walk the tree without recursion: a page may nest deeper than Python's stack."""
    parts = [""]
    stack: list[Any] = [body]
    while stack:
        node = stack.pop()
        part, after = "", ""
        if isinstance(node, str):
            part = node
        elif node.tag == "-text":
            part = re.sub(r"\s+", " ", node.text_content or "")
            part = part.lstrip() if parts[-1].endswith(("\n", " ")) else part
        elif node.tag == "pre":
            part = f"\n\n```\n{node.text().strip(chr(10))}\n```\n\n"
        elif node.tag not in _DROPPED and not node.tag.startswith("-"):
            part, after = _around(node.tag)
            stack.append(after)
            stack.extend(reversed(list(node.iter(include_text=True))))
        if part:
            parts.append(part)
    return "".join(parts)


def _around(tag: str) -> tuple[str, str]:
    if tag in _HEADINGS:
        return f"\n\n{_HEADINGS[tag]}", "\n\n"
    if tag == "li":
        return "\n- ", ""
    if tag in ("td", "th"):
        return "", " | "
    if tag in _LINES:
        return "\n", ""
    return ("\n\n", "\n\n") if tag in _BLOCKS else ("", "")
