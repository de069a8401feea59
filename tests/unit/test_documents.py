from __future__ import annotations

import io
import json
import os
import resource
import zipfile
import zlib
from pathlib import Path

import docx
import pytest
from click.testing import CliRunner

from zapomni_cli.main import cli
from zapomni_core.adapters import documents
from zapomni_core.adapters.documents import read_document
from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra.child import ChildLimits


def pdf_bytes(*pages: str) -> bytes:
    """Return a minimal PDF, one line of text per page."""
    kids = " ".join(f"{3 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    for i, line in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 700 Td ({line}) Tj ET" if line else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources {font} "
            f"/Contents {4 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append("<< /Title (Field notes) >>")
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        body
        + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer << /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
        f"startxref\n{len(body)}\n%%EOF".encode()
    )


@pytest.fixture
def write(tmp_path: Path):
    def write_file(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_file


def failing(path: Path, error_type: type[Exception]) -> tuple[str, str]:
    with pytest.raises(error_type) as caught:
        read_document(path)
    assert str(path.parent) not in caught.value.message
    return caught.value.error_code, caught.value.message


def test_plain_text_comes_back_as_it_was_written(write):
    document = read_document(write("note.txt", "línea\r\nжизнь\n".encode()))
    assert document.text == "línea\r\nжизнь\n"
    assert document.kind == "text"
    assert document.metadata == {"file_name": "note.txt"}


def test_markdown_is_known_by_its_suffix(write):
    document = read_document(write("README.MD", b"# Title\n"))
    assert (document.kind, document.text) == ("markdown", "# Title\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_how_to_read_the_text(write, encoding):
    assert read_document(write("note.txt", "žluť".encode(encoding))).text == "žluť"


def test_invalid_utf8_is_named_with_its_place(write):
    code, message = failing(write("note.txt", b"caf\xe9"), ValidationError)
    assert code == "VAL_004"
    assert "not valid UTF-8 (byte 3)" in message


def test_broken_utf16_is_refused(write):
    code, message = failing(write("note.txt", b"\xff\xfe\x00\xd8x"), ValidationError)
    assert code == "VAL_004"
    assert "UTF-16" in message


def test_a_database_is_not_even_opened(tmp_path, monkeypatch):
    path = tmp_path / "zapomni.db"
    path.write_text("text all the same", encoding="utf-8")
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("was opened"))
    with pytest.raises(ValidationError, match="database"):
        read_document(path)


@pytest.mark.parametrize("name", ["picture.png", "notes.txt"])
def test_binary_content_is_refused_whatever_its_name(write, name):
    code, _ = failing(write(name, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), ProcessingError)
    assert code == "PROC_003"


@pytest.mark.parametrize("content", [b"", b" \n "])
@pytest.mark.parametrize("name", ["note.txt", "note.md", "page.html"])
def test_a_file_without_text_is_refused(write, name, content):
    assert failing(write(name, content), ValidationError)[0] == "VAL_001"


def test_a_missing_file_a_folder_and_a_pipe_are_told_apart(tmp_path):
    assert "no such file" in failing(tmp_path / "none.txt", ValidationError)[1]
    assert "folder" in failing(tmp_path, ValidationError)[1]
    os.mkfifo(tmp_path / "pipe")
    assert "regular file" in failing(tmp_path / "pipe", ValidationError)[1]


def test_a_name_no_file_can_have_is_refused(tmp_path):
    assert failing(tmp_path / "a\0b", ProcessingError)[0] == "PROC_002"


def test_a_file_nobody_may_read_is_refused(write, monkeypatch):
    path = write("note.txt", b"text")

    def denied(self):
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, whom no file mode stops.
    monkeypatch.setattr(Path, "read_bytes", denied)
    code, message = failing(path, ProcessingError)
    assert code == "PROC_002"
    assert "not allowed" in message


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(documents.MAX_BYTES + 1)
    code, message = failing(path, ValidationError)
    assert code == "VAL_003"
    assert "50 MB" in message


PAGE = b"""<!DOCTYPE html><html><head><title>Field
 &amp; notes</title><style>p {}</style></head><body>
<nav>Home | About</nav><h1>Storage</h1><p>One   file,<br>one <b>writer</b>.</p>
<script>track()</script><pre>
def f():
    return 1
</pre><ul><li>first</li><li><p>second</p></li></ul>
<table><tr><th>name</th><th>size</th></tr><tr><td>a</td><td>1</td></tr></table></body></html>"""


@pytest.mark.parametrize("name", ["page.html", "saved-page", "page.txt"])
def test_html_becomes_structured_text_without_scripts_and_navigation(write, name):
    document = read_document(write(name, PAGE))
    assert document.kind == "html"
    assert document.metadata == {"file_name": name, "title": "Field & notes"}
    assert document.text == (
        "# Storage\n\nOne file,\none writer.\n\n"
        "```\ndef f():\n    return 1\n```\n\n"
        "- first\n- second\n\n"
        "name | size |\na | 1 |"
    )


def test_html_in_an_old_encoding_is_read_as_it_declares(write):
    page = '<meta charset="windows-1251"><p>Привет</p>'.encode("windows-1251")
    assert read_document(write("page.html", page)).text == "Привет"


def test_html_that_declares_an_unknown_encoding_must_be_utf8(write):
    page = b'<meta charset="klingon-8"><p>caf\xe9</p>'
    assert failing(write("page.html", page), ValidationError)[0] == "VAL_004"


def test_deeply_nested_html_is_read(write):
    page = b"<div>" * 3000 + b"deep"
    assert read_document(write("page.html", page)).text == "deep"


def test_pdf_pages_are_separated_by_blank_lines(write):
    document = read_document(write("paper.pdf", pdf_bytes("First page", "Second page")))
    assert document.kind == "pdf"
    assert document.text == "First page\n\nSecond page"
    assert document.metadata == {"file_name": "paper.pdf", "pages": 2, "title": "Field notes"}


def test_a_pdf_without_text_says_it_may_be_a_scan(write):
    code, message = failing(write("scan.pdf", pdf_bytes("")), ValidationError)
    assert code == "VAL_001"
    assert "OCR" in message


def test_a_damaged_pdf_is_refused(write):
    assert failing(write("paper.pdf", b"%PDF-1.4 garbage"), ProcessingError)[0] == "PROC_002"


@pytest.mark.parametrize("suffix", [".pdf", ".docx"])
def test_text_under_a_foreign_suffix_is_refused(write, suffix):
    code, message = failing(write(f"note{suffix}", b"just words"), ProcessingError)
    assert code == "PROC_003"
    assert suffix in message


def test_word_documents_keep_headings_lists_and_tables(tmp_path):
    document = docx.Document()
    document.core_properties.title = "Plan"
    document.add_heading("Plan", level=1)
    document.add_paragraph("Ship it.")
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("second", style="List Number")
    document.add_heading("Costs", level=2)
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(
        [*table.rows[0].cells, *table.rows[1].cells], ["a", "b", "c", "d"], strict=True
    ):
        cell.text = text
    document.save(str(tmp_path / "plan.docx"))

    read = read_document(tmp_path / "plan.docx")
    assert read.kind == "docx"
    assert read.text == "# Plan\n\nShip it.\n\n- first\n- second\n\n## Costs\n\na | b\nc | d"
    assert read.metadata == {"file_name": "plan.docx", "title": "Plan"}


def zip_file(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


def test_other_archives_and_damaged_documents_are_refused(tmp_path, write):
    archive = zip_file(tmp_path / "files.zip", **{"a.txt": "text"})
    assert failing(archive, ProcessingError)[0] == "PROC_003"
    assert failing(write("cut.docx", b"PK\x03\x04cut"), ProcessingError)[0] == "PROC_003"
    damaged = zip_file(tmp_path / "damaged.docx", **{"word__document.xml": "<w"})
    assert failing(damaged, ProcessingError)[0] == "PROC_002"


def test_a_document_that_unpacks_to_too_much_is_refused(tmp_path):
    path = tmp_path / "bomb.docx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "x")
        archive.filelist[0].file_size = 600_000_000  # only the directory of the archive says so
    assert failing(path, ValidationError)[0] == "VAL_003"


@pytest.mark.parametrize(
    ("library", "name", "content"),
    [
        ("pypdfium2", "paper.pdf", pdf_bytes("text")),
        ("selectolax", "page.html", PAGE),
    ],
)
def test_a_missing_library_is_named_by_the_command_that_installs_it(
    write, tmp_path, monkeypatch, library, name, content
):
    (tmp_path / f"{library}.py").write_text("raise ImportError", encoding="utf-8")
    inherited = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{inherited}".rstrip(os.pathsep))
    code, message = failing(write(name, content), ProcessingError)
    assert code == "PROC_002"
    assert "pip install 'zapomni[docs]'" in message


# --- Limits -----------------------------------------------------------------------------


def docx_bomb() -> bytes:
    """Return a small Word document of five million empty paragraphs."""
    plain, bomb = io.BytesIO(), io.BytesIO()
    docx.Document().save(plain)
    with (
        zipfile.ZipFile(plain) as source,
        zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == "word/document.xml":
                content = content.replace(b"<w:sectPr", b"<w:p/>" * 5_000_000 + b"<w:sectPr", 1)
            target.writestr(entry.filename, content)
    return bomb.getvalue()


def pdf_bomb() -> bytes:
    """Return a PDF whose page unpacks twice, to 200 MB of letters."""
    packer = zlib.compressobj(9)
    once = b"".join(packer.compress(b"(x) Tj " * 150_000) for _ in range(200)) + packer.flush()
    twice = zlib.compress(once, 9)
    packed = f"<< /Length {len(twice)} /Filter [/FlateDecode /FlateDecode] >>\nstream\n".encode()
    plain = pdf_bytes("PAGE")
    start, end = plain.index(b"<< /Length"), plain.index(b"\nendstream")
    return plain[:start] + packed + twice + plain[end:]


def html_bomb() -> bytes:
    """Return a page whose parser walks up 300,000 levels at each of them."""
    return b"<div>" * 300_000 + b"deep"


@pytest.mark.parametrize(
    ("name", "content", "limit"),
    [
        ("bomb.docx", docx_bomb, "256 MB of memory"),
        ("bomb.pdf", pdf_bomb, "256 MB of memory"),
        ("bomb.html", html_bomb, "more than 2 s"),
    ],
)
def test_a_file_made_to_hurt_is_given_up_with_the_limit_it_reached(
    write, monkeypatch, name, content, limit
):
    bomb = content()
    assert len(bomb) < 2_000_000
    # Next to busy processes the same work takes more of a processor's time.
    seconds = 2 if "2 s" in limit else 60
    limits = ChildLimits(memory_bytes=256 << 20, cpu_seconds=seconds)
    monkeypatch.setattr(documents, "LIMITS", limits)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = CliRunner().invoke(cli, ["add", "--file", str(write(name, bomb)), "--json"])
    (failed,) = json.loads(done.stdout)["failed"]
    assert done.exit_code == 1
    assert failed["error_code"] == "PROC_002"
    assert limit in failed["error"]
    # Not in our own process: that one may be serving others.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 << 10


def test_what_is_read_without_limits_elsewhere_is_read_within_ours(write):
    page = b"<p>" + b"words and <b>more</b> words<br>" * 100_000
    assert read_document(write("long.html", page)).text.count("more") == 100_000
