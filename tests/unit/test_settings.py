from __future__ import annotations

from pathlib import Path

import pytest

from zapomni_core.exceptions import ConfigurationError
from zapomni_core.settings import Settings, load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "zapomni-home"
    folder.mkdir()
    return folder


def write_config(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text, encoding="utf-8")


def refusal(**arguments) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(**arguments)
    return caught.value


def test_without_anything_set_the_defaults_hold(private_home):
    settings = load_settings({})
    assert settings.home == Path.home() / ".zapomni" == private_home
    assert settings.database_path == private_home / "zapomni.db"
    assert settings.models_path == private_home / "models"
    assert settings.embedder == "local"
    assert settings.log_level is None


def test_the_process_environment_is_read(monkeypatch):
    monkeypatch.setenv("ZAPOMNI_EMBEDDER", "ollama")
    assert load_settings().embedder == "ollama"


def test_an_override_wins_over_the_environment_and_that_over_the_file(home):
    write_config(home, "chunk_size = 100\nchunk_overlap = 10\nembedder = 'none'\n")
    environ = {"ZAPOMNI_HOME": str(home), "ZAPOMNI_CHUNK_SIZE": "200", "ZAPOMNI_EMBEDDER": "openai"}
    settings = load_settings(environ, embedder="ollama")
    assert settings.embedder == "ollama"
    assert settings.chunk_size == 200
    assert settings.chunk_overlap == 10


def test_a_home_given_as_override_is_where_the_file_is_looked_for(home):
    write_config(home, "embedder = 'none'")
    assert load_settings({"ZAPOMNI_HOME": "/nowhere"}, home=home).embedder == "none"


def test_a_tilde_in_home_is_the_users_home():
    assert load_settings({"ZAPOMNI_HOME": "~/memory"}).home == Path.home() / "memory"


def test_a_relative_home_becomes_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert load_settings({"ZAPOMNI_HOME": "memory"}).home == tmp_path / "memory"


def test_other_environment_variables_are_none_of_our_business(home):
    assert load_settings({"ZAPOMNI_HOME": str(home), "ZAPOMNIX": "1", "PATH": "x"}).home == home


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("EMBEDER", "embedder"), ("OLLAMA", "ollama_host"), ("LOGLEVEL", "log_level")],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(wrong, near):
    error = refusal(environ={f"ZAPOMNI_{wrong}": "x"})
    assert error.error_code == "CONF_001"
    assert repr(wrong.lower()) in error.message
    assert f"did you mean {near!r}" in error.message
    assert f"ZAPOMNI_{near.upper()}" in error.message


def test_an_unknown_name_in_the_file_is_refused_too(home):
    write_config(home, "chunksize = 100")
    assert "did you mean 'chunk_size'" in refusal(environ={}, home=home).message


def test_an_unknown_override_is_refused_too():
    assert "did you mean 'storage'" in refusal(environ={}, storag="x").message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMBEDDER", "the-user's-words"),
        ("CHUNK_SIZE", "the-user's-words"),
        ("CHUNK_SIZE", "15"),
        ("CHUNK_SIZE", "8193"),
        ("CHUNK_OVERLAP", "-1"),
        ("EMBED_TIMEOUT_SECONDS", "0"),
        ("LOG_LEVEL", "the-user's-words"),
    ],
)
def test_an_impossible_value_is_refused_by_name_and_not_quoted(name, value):
    error = refusal(environ={f"ZAPOMNI_{name}": value})
    assert error.error_code == "CONF_002"
    assert name.lower() in error.message
    assert "the-user's-words" not in error.message


def test_all_wrong_values_are_named_at_once():
    error = refusal(environ={"ZAPOMNI_CHUNK_SIZE": "x", "ZAPOMNI_EMBEDDER": "y"})
    assert "chunk_size" in error.message
    assert "embedder" in error.message


def test_passages_cannot_overlap_whole():
    error = refusal(environ={"ZAPOMNI_CHUNK_SIZE": "30", "ZAPOMNI_CHUNK_OVERLAP": "30"})
    assert error.error_code == "CONF_002"
    assert "chunk_overlap must be below chunk_size" in error.message


@pytest.mark.parametrize("content", [b"this is = = not TOML", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_file_that_is_no_toml_is_refused_without_its_path(home, content):
    (home / "config.toml").write_bytes(content)
    error = refusal(environ={}, home=home)
    assert error.error_code == "CONF_002"
    assert str(home) not in error.message


def test_a_folder_in_the_files_place_is_refused(home):
    (home / "config.toml").mkdir()
    assert refusal(environ={}, home=home).error_code == "CONF_002"


def test_the_file_cannot_move_its_own_folder(home):
    write_config(home, "home = '/elsewhere'")
    assert "cannot set home" in refusal(environ={}, home=home).message


@pytest.mark.parametrize("value", ["debug", "Debug", "DEBUG"])
def test_a_log_level_may_be_written_in_any_case(value):
    assert load_settings({"ZAPOMNI_LOG_LEVEL": value}).log_level == "DEBUG"


def test_another_kind_of_storage_is_refused_without_its_password():
    settings = load_settings({}, storage="postgres://user:secret@host/db")
    with pytest.raises(ConfigurationError) as caught:
        _ = settings.database_path
    assert caught.value.error_code == "CONF_002"
    assert "sqlite:///" in caught.value.message
    assert "secret" not in caught.value.message


def test_models_may_live_elsewhere(tmp_path):
    assert load_settings({}, models_dir=tmp_path).models_path == tmp_path


def test_a_key_is_not_shown():
    settings = load_settings({"ZAPOMNI_OPENAI_API_KEY": "sk-secret"})
    assert "sk-secret" not in repr(settings)
    assert settings.openai_api_key.get_secret_value() == "sk-secret"


def test_every_setting_is_documented():
    assert all(field.description for field in Settings.model_fields.values())


def test_settings_do_not_change_once_read():
    settings = load_settings({})
    with pytest.raises(ValueError, match="frozen"):
        settings.chunk_size = 99


@pytest.mark.parametrize(
    ("storage", "path"),
    [
        ("/data/a#b?c.db", "/data/a#b?c.db"),
        ("memory.db", Path.cwd() / "memory.db"),
        ("sqlite:///data/memory.db", "/data/memory.db"),
        ("sqlite:////data/memory.db", "/data/memory.db"),
    ],
)
def test_a_storage_path_is_taken_to_the_letter(storage, path):
    assert load_settings({}, storage=storage).database_path == Path(path)


@pytest.mark.parametrize("storage", ["postgres://server/db", "sqlite://server/db"])
def test_a_storage_that_is_no_file_is_refused(storage):
    settings = load_settings({}, storage=storage)

    with pytest.raises(ConfigurationError, match="must be a file path"):
        _ = settings.database_path


def test_a_home_sign_is_expanded_wherever_a_folder_is_named():
    home = Path.home()

    assert load_settings({}, models_dir="~/models").models_path == home / "models"
    assert load_settings({}, storage="~/memory.db").database_path == home / "memory.db"


def test_sqlite_by_name_is_the_default_file(private_home):
    settings = load_settings({"ZAPOMNI_STORAGE": "sqlite"})
    assert settings.database_path == private_home / "zapomni.db"
    assert settings.server is None


def test_a_server_is_where_the_address_says():
    server = load_settings({}, storage="falkordb://ada:pw@db.example:7000/team").server
    assert (server.host, server.port, server.graph) == ("db.example", 7000, "team")
    assert (server.username, server.password) == ("ada", "pw")


@pytest.mark.parametrize(
    ("storage", "graph"), [("falkordb://local", "zapomni"), ("falkordb://local/team", "team")]
)
def test_local_is_the_server_in_the_home_folder(storage, graph):
    home = Path("/home/ada/.zapomni")  # short enough for a socket
    server = load_settings({}, home=home, storage=storage).server
    assert server.socket == str(home / "falkordb" / "falkordb.sock")
    assert (server.graph, server.host, server.password) == (graph, "", "")


def test_an_address_that_cannot_be_read_is_refused_without_its_password():
    settings = load_settings({}, storage="falkordb://ada:secret@host:port/graph")
    with pytest.raises(ConfigurationError, match="no address of a server") as caught:
        _ = settings.server
    assert caught.value.error_code == "CONF_002"
    assert "secret" not in caught.value.message


def test_where_the_passwords_of_servers_are_is_never_shown():
    given = {"storage": "falkordb://ada:secret@host/graph", "cache": "redis://:secret@host"}
    settings = load_settings({}, **given)
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.server)):
        assert "secret" not in shown
    assert "ada" not in repr(settings.server)


@pytest.mark.parametrize("value", ["1", "true", "yes"])
def test_a_volatile_server_can_be_allowed(value):
    assert load_settings({}).allow_volatile is False
    assert load_settings({"ZAPOMNI_ALLOW_VOLATILE": value}).allow_volatile is True
