from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zapomni_core.shared.addresses import ServerAddress, parse_server

CHARACTERS = st.characters(exclude_categories=["Cs"])


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("falkordb://host", ServerAddress(host="host")),
        ("falkordb://host/", ServerAddress(host="host")),
        ("FalkorDB://HOST:7000/Team", ServerAddress(host="host", port=7000, graph="Team")),
        ("redis://host:6380/g", ServerAddress(host="host", port=6380, graph="g")),
        ("falkordbs://host/g", ServerAddress(host="host", tls=True, graph="g")),
        ("rediss://host", ServerAddress(host="host", tls=True)),
        ("falkordbs://h?ca=/etc/ca.pem", ServerAddress(host="h", tls=True, ca="/etc/ca.pem")),
        ("falkordb://:pw@host", ServerAddress(host="host", password="pw")),
        ("falkordb://ada@host", ServerAddress(host="host", username="ada")),
        (
            "falkordb://a%40b:p%3Aw%2F%3F%23@host/g%2F%C3%A4",
            ServerAddress(host="host", username="a@b", password="p:w/?#", graph="g/ä"),
        ),
        ("falkordb://[::1]:7000/g", ServerAddress(host="::1", port=7000, graph="g")),
        ("unix:///run/f.sock", ServerAddress(socket="/run/f.sock")),
        ("unix:///run/a%20b.sock?graph=g", ServerAddress(socket="/run/a b.sock", graph="g")),
        ("unix://u:p@/run/f.sock", ServerAddress(socket="/run/f.sock", username="u", password="p")),
    ],
)
def test_an_address_is_read_to_the_letter(url, address):
    assert parse_server(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "postgres://u:secret@host/db",
        "falkordb://u:secret@/graph",
        "falkordb://u:sec?ret@host/graph",
        "falkordb://u:sec#ret@host/graph",
        "falkordb://u:secret@host/graph#secret",
        "falkordb://u:secret@host:99999/graph",
        "falkordb://u:secret@host:abc/graph",
        "falkordb://u:secret@[::1/graph",
        "falkordb://u:secret@host/g?graph=g",
        "falkordb://u:secret@host/g?ca=/etc/ca.pem",
        "falkordbs://u:secret@host/g?insecure=1",
        "unix://u:secret@relative.sock",
        "unix://u:secret@/",
        "unix://u:secret@/run/f.sock?db=1",
        "//u:secret@host",
        "",
    ],
)
def test_what_is_no_address_is_refused_without_quoting_it(url):
    with pytest.raises(ValueError, match=r"it |the |what ") as caught:
        parse_server(url)
    for part in ("secret", "sec", "ret", "abc", "insecure"):
        assert part not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    ["falkordb://h:1/a%2Fb", "falkordbs://[::1]:6379/g", "unix:///run/a%20b.sock?graph=%C3%A4"],
)
def test_an_address_is_shown_as_it_would_be_written(url):
    assert str(parse_server(url)) == url


@given(
    st.builds(
        ServerAddress,
        host=st.sampled_from(["h", "::1"]),
        username=st.text(CHARACTERS),
        password=st.text(CHARACTERS),
        graph=st.text(CHARACTERS, min_size=1),
    )
)
def test_a_whole_address_is_read_back_the_same(address):
    assert parse_server(address.url()) == address


@given(st.text(CHARACTERS, min_size=1), st.text(CHARACTERS, min_size=1))
def test_no_name_or_password_is_ever_shown(username, password):
    address = ServerAddress(host="h", username=username, password=password)
    assert repr(address) == repr(ServerAddress(host="h"))
    assert str(address) == "falkordb://h:6379/zapomni"
