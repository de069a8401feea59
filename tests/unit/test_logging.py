from __future__ import annotations

import json
import logging
import subprocess
import sys
import warnings
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from zapomni_core.exceptions import EmbeddingError, ProcessingError
from zapomni_core.infra.correlation import operation
from zapomni_core.infra.logging import get_logger, setup_logging

SECRET = "the user's own words"
log = get_logger("zapomni.test")


@pytest.fixture
def lines(capsys):
    def read() -> list[dict]:
        out, err = capsys.readouterr()
        assert out == ""
        assert SECRET not in err
        return [json.loads(line) for line in err.splitlines()]

    return read


def fail_in_layers() -> None:
    try:
        Path("/nowhere", SECRET).read_text(encoding="utf-8")
    except OSError as error:
        raise ProcessingError("Storing failed", "PROC_004", original_exception=error) from error


def test_a_line_is_json_with_event_time_level_and_fields(lines):
    setup_logging("INFO")
    log.info("memory_added", chunks=3)
    (line,) = lines()
    assert datetime.fromisoformat(line.pop("timestamp")).utcoffset() == timedelta(0)
    assert line == {
        "event": "memory_added",
        "level": "info",
        "logger": "zapomni.test",
        "chunks": 3,
        "correlation_id": None,
    }


def test_every_line_carries_the_id_of_its_operation(lines):
    setup_logging("INFO")
    with operation() as given:
        log.info("one")
        logging.getLogger("library").warning("two")
    assert [line["correlation_id"] for line in lines()] == [given, given]


def test_lines_below_the_level_are_not_written(lines):
    setup_logging("warning")
    log.debug("quiet")
    log.info("quiet")
    log.warning("loud")
    log.error("loud")
    log.critical("loud")
    assert [line["event"] for line in lines()] == ["loud"] * 3


def test_without_setup_warnings_still_go_to_stderr_only(lines):
    log.info("quiet")
    log.warning("loud")
    assert [line["event"] for line in lines()] == ["loud"]


def test_an_exception_is_its_type_its_code_and_its_places(lines):
    setup_logging()
    try:
        fail_in_layers()
    except ProcessingError:
        log.exception("add_failed")
    (line,) = lines()
    assert line["error_type"] == "ProcessingError"
    assert line["error_code"] == "PROC_004"
    assert [frame.rsplit(":", 1)[0] for frame in line["frames"]] == [
        "test_logging:test_an_exception_is_its_type_its_code_and_its_places",
        "test_logging:fail_in_layers",
    ]
    (cause,) = line["caused_by"]
    assert (cause["error_type"], cause["error_code"]) == ("FileNotFoundError", "ENOENT")


def test_no_path_and_no_foreign_message_reaches_a_line(capsys):
    setup_logging()
    try:
        fail_in_layers()
    except ProcessingError:
        log.exception("add_failed")
    err = capsys.readouterr().err
    assert SECRET not in err
    assert "/" not in err


@pytest.mark.parametrize(
    "value", [ValueError(SECRET), Path("/home") / SECRET, {SECRET}, SECRET.encode()], ids=type
)
def test_a_value_that_is_no_plain_json_is_named_by_its_type_only(lines, value):
    setup_logging()
    log.error("failed", value=value)
    assert lines()[0]["value"] == type(value).__name__


def test_a_long_chain_of_causes_is_cut(lines):
    setup_logging()
    error = EmbeddingError("top")
    current: BaseException = error
    for _ in range(50):
        current.__cause__ = RuntimeError(SECRET)
        current = current.__cause__
    log.error("failed", exc_info=error)
    assert len(lines()[0]["caused_by"]) == 5


def test_a_group_of_exceptions_names_what_it_holds(lines):
    setup_logging()
    log.error("failed", exc_info=ExceptionGroup(SECRET, [BrokenPipeError(32, SECRET)]))
    (line,) = lines()
    assert line["error_type"] == "ExceptionGroup"
    assert line["caused_by"] == [
        {"error_type": "BrokenPipeError", "error_code": "EPIPE", "frames": []}
    ]


def test_a_librarys_warning_becomes_a_json_line_without_its_text(lines):
    setup_logging()
    library = logging.getLogger("library")
    library.info("GET %s", SECRET)
    library.warning("cannot read %s", SECRET)
    try:
        int(SECRET)
    except ValueError:
        library.exception(SECRET)
    first, second = lines()
    assert first["event"] == second["event"] == "library_message"
    assert (first["level"], second["level"]) == ("warning", "error")
    assert first["logger"] == "library"
    assert first["where"].startswith("test_logging:test_a_librarys_warning")
    assert second["error_type"] == "ValueError"


def test_a_chatty_library_is_kept_quiet_below_warning(lines, monkeypatch):
    setup_logging("DEBUG")
    library = logging.getLogger("chatty")
    monkeypatch.setattr(library, "level", logging.DEBUG)
    library.info("GET %s", SECRET)
    assert lines() == []


def test_python_warnings_become_json_lines(lines):
    setup_logging()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(SECRET, UserWarning, stacklevel=1)
    assert lines()[0]["logger"] == "py.warnings"


def test_setting_up_twice_does_not_write_twice(lines):
    setup_logging()
    setup_logging()
    logging.getLogger("library").warning("once")
    assert len(lines()) == 1


def test_a_closed_stderr_does_not_break_the_operation(monkeypatch):
    setup_logging()
    with open("/dev/null", "w", encoding="utf-8") as closed:  # noqa: PTH123 - a stream to close
        pass
    monkeypatch.setattr(sys, "stderr", closed)
    log.error("nobody_hears_it")


def test_structlog_is_imported_with_the_first_line_and_not_before():
    program = (
        "import sys; from zapomni_core.infra.logging import get_logger, setup_logging;"
        "setup_logging('INFO'); log = get_logger('x'); log.debug('quiet');"
        "assert 'structlog' not in sys.modules; log.info('loud');"
        "assert 'structlog' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    assert json.loads(done.stderr)["event"] == "loud"
