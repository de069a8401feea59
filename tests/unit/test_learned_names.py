"""Names that no gazetteer lists: a text says or shows that they are names."""

from __future__ import annotations

import pytest

from zapomni_core.modules.graph import RuleExtractor, load_gazetteer
from zapomni_core.modules.graph.words import is_ordinary
from zapomni_db.rules import FACTS, SHOWN

pytestmark = pytest.mark.anyio
RULES = RuleExtractor(load_gazetteer())


async def nodes(*texts: str) -> dict[str, str]:
    """Return what would be nodes if these were all texts: names and their types."""
    sure: dict[tuple[str, str], float] = {}
    for text in texts:
        for entity in await RULES.extract_entities(text):
            key = entity.name, entity.type
            sure[key] = sure.get(key, 0) + entity.confidence
    return {n: kind for (n, kind), all_ in sure.items() if all_ >= SHOWN and kind not in FACTS}


async def test_a_speaker_is_a_person_without_being_listed():
    assert await nodes("Nate Prewitt: Inline pre-commit linting") == {
        "Nate Prewitt": "PERSON",
        "pre-commit": "TECHNOLOGY",
    }
    assert (await nodes("Zorblax: I moved to Rome"))["Zorblax"] == "PERSON"
    assert (await nodes("Bug report.\nNate said it works"))["Nate"] == "PERSON"


@pytest.mark.parametrize(
    "text",
    ["Decision: use cursors", "Note: it is slow", "High Availability: not yet", "Status: Accepted"],
)
async def test_what_a_line_is_about_is_no_speaker(text):
    assert await nodes(text) == {}


@pytest.mark.parametrize("field", ["Author", "Co-authored-by", "Signed-off-by", "Reviewed-by"])
async def test_authors_are_people(field):
    found = await nodes(f"Fix the parser\n\n{field}: Blix Yarrow <blix@example.org>")
    assert found["Blix Yarrow"] == "PERSON"


async def test_a_given_name_is_the_person_it_was_introduced_with():
    text = "Author: Blix Yarrow <blix@example.org>\n\nBlix found it in the cache."
    people = [e.name for e in await RULES.extract_entities(text) if e.type == "PERSON"]
    assert people == ["Blix Yarrow", "Blix Yarrow"]


@pytest.mark.parametrize("name", ["B. Yarrow", "J. R. Yarrow", "J.R. Yarrow"])
async def test_initials_belong_to_the_name_behind_them(name):
    for text in (f"Thanks to {name} for the fix.", f"{name} maintains Sentry."):
        assert (await nodes(text))[name] == "PERSON"


async def test_the_letter_of_an_item_is_no_initial():
    assert await nodes("Choose one:\nA. Zolid\nB. Quxolan") == {}


@pytest.mark.parametrize("text", ["@ " + "ж" * 100_000, "x[bot] " + "a" * 100_000])
async def test_a_word_without_an_end_is_read_in_one_go(text):
    assert await nodes(text) in ({}, {"x": "TECHNOLOGY"})


@pytest.mark.parametrize("word", ["accept", "accepts", "accepted", "policies", "openly"])
def test_forms_of_ordinary_words_are_ordinary(word):
    assert is_ordinary(word)


async def test_capitals_that_repeat_are_a_name():
    once = "The jobs are in Zolid at the moment."
    assert await nodes(once) == {}
    again = "Retries of Zolid are too slow."
    assert await nodes(once, again) == {"Zolid": "CONCEPT"}


@pytest.mark.parametrize(
    "text",
    [
        "We use Zolid daily.",
        "Ask for a Zolid account.",
        "It needs Zolid 2.1 now.",
        "Bump Zolid to 2.1.",
    ],
)
async def test_a_name_that_is_used_is_a_technology(text):
    assert (await nodes(text, text))["Zolid"] == "TECHNOLOGY"


async def test_several_capitals_in_a_sentence_are_one_name():
    found = await nodes("All mails are sent by GOV.UK Notify since May.")
    assert "GOV.UK Notify" in found
    assert await nodes("we moved it to Aurora Serverless in spring") == {
        "Aurora Serverless": "TECHNOLOGY"
    }


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("# ADR-0012: Use Postgres\n\nText.", "ADR-12", "Use Postgres"),
        ("# 12. Use Postgres\n\n## Status\n\nAccepted", "ADR-12", "Use Postgres"),
        ("# 0012. Installation: Use Postgres\n\n## Status\nAccepted", "ADR-12",
         "Installation: Use Postgres"),
        ("Superseded by ADR019.", "ADR-19", ""),
        ("Superseded by [ADR-0020](./0020-minimum-version.md)", "ADR-20", ""),
        ("Rejected, see [018](docs/adr/0018-ingress.md)", "ADR-18", ""),
    ],
)  # fmt: skip
async def test_decision_records_are_entities(text, name, title):
    found = [e for e in await RULES.extract_entities(text) if e.type == "DECISION"]
    assert {(e.name, e.entity_id) for e in found} == {(name, found[0].entity_id)}
    assert max(e.description for e in found) == title


async def test_a_record_without_a_number_is_called_by_its_title():
    text = "# Use Concourse\n\nDate: today\n\n## Status\n\nAccepted\n\n## Decision\n\nYes."
    assert (await nodes(text))["Use Concourse"] == "DECISION"


async def test_numbered_chapters_are_no_records():
    found = await RULES.extract_entities("# 2. Installation\n\nRun it.")
    assert [e for e in found if e.type == "DECISION"] == []


async def test_abbreviations_are_known_by_what_they_abbreviate():
    text = "The Government Digital Agency (GDA) runs it. Ask the GDA."
    entities = await RULES.extract_entities(text)
    long, short = (next(e for e in entities if e.name == n) for n in
                   ("Government Digital Agency", "GDA"))  # fmt: skip
    assert long.type == "ORG"
    assert short.aliases == ["Government Digital Agency"]


async def test_the_words_of_a_link_name_the_project_it_leads_to():
    text = (
        "- [kubehook](https://github.com/negz/kubehook) - not compatible\n- [here](https://x.org)"
    )
    assert await nodes(text) == {"kubehook": "TECHNOLOGY"}
    assert (await nodes("It uses `Wibblet`_ now.\n\n.. _Wibblet: https://wibblet.org/x"))[
        "Wibblet"
    ] == "TECHNOLOGY"


async def test_unknown_names_in_a_list_are_what_their_neighbors_are():
    found = await nodes("- Kubernetes\n- Zwarm\n- Docker", "We looked at Redis, Blorbdb and Kafka.")
    assert (found["Zwarm"], found["Blorbdb"]) == ("TECHNOLOGY", "TECHNOLOGY")
    assert (await nodes("| *RabbitMQ* | Stable |\n| *Zookeepa* | Redis |"))["RabbitMQ"]


@pytest.mark.parametrize(
    "text",
    [
        "first<br>second <br/> third <td align='left'>x</td>",
        "a .json and a .py",
        "there are 42 or 1,000 of `4,000,000+`",
        "it is _really_ and **very** good",
        "returns `None` or `True`, `None`, `None`, `None`, `None`, `False`",
        "Date: Fri Jul 24 11:22:18 2026",
        "We've seen it. We've not.",
        "let x = fooBar ; y[barFoo] = { }",
        "---\nslack_channel: help-desk\nredirect_from:\n  - /leave\n---\n\nRead on.",
        'See the {% page "/promotions" %} of {{ site.title }}.',
        "The Candidate is asked by the Supervisor. The Candidate answers the Supervisor.",
        "Check it against the draft(`a` or `b`)",
        "it takes 75 MiB, or 2 GiB; 75 MiB; 80 MiB",
        "A Council, the Council, each Council and that Council",
        "a meeting is required",
    ],
)
async def test_markup_extensions_numbers_and_values_are_no_nodes(text):
    assert await nodes(text) == {}


async def test_emphasis_hides_nothing():
    assert await nodes("We use **Redis** and _Kafka_ here") == {
        "Redis": "TECHNOLOGY",
        "Kafka": "TECHNOLOGY",
    }


async def test_a_company_with_its_legal_form_is_the_company():
    (acme, *_) = await RULES.extract_entities("Acme Corp uses PostgreSQL")
    assert (acme.name, acme.surface, acme.type) == ("Acme", "Acme Corp", "ORG")


async def test_front_matter_has_a_title_and_authors():
    found = await nodes(
        "---\ntitle: Zolid is slow with Redis\nauthor: Blix Yarrow\nlayout: p\n---\nText"
    )
    assert found == {"Redis": "TECHNOLOGY", "Blix Yarrow": "PERSON"}


async def test_emphasis_may_continue_in_the_next_line():
    assert await nodes("The _Guidance to\nreview_ section and **Redis and\nKafka** are there") == {
        "Redis": "TECHNOLOGY",
        "Kafka": "TECHNOLOGY",
    }


async def test_an_abbreviation_means_what_its_text_says_whatever_it_means_elsewhere():
    text = "We have an Alternate Work Schedule (AWS). Ask for AWS."
    assert await nodes(text) == {"Alternate Work Schedule": "CONCEPT"}
    assert await nodes("It runs on AWS.") == {"AWS": "TECHNOLOGY"}


async def test_small_letters_within_an_abbreviation_make_no_code():
    found = await nodes("They asked DfQ.", "Members of DfQ sign in.", "It is up to DfQ now.")
    assert found == {"DfQ": "CONCEPT"}
    assert await nodes("They use DfE Sign-in for it.") == {"DfE Sign-in": "TECHNOLOGY"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("It must be FedRAMP approved.", "TECHNOLOGY"),
        ("We migrated the queue to SolidQueue.", "TECHNOLOGY"),
        ("The RequestBuilder class and the UserID.", "CODE"),
        ("word " * 60 + "Sign it with DocuSign please.", "TECHNOLOGY"),
        ("word " * 60 + "replace DocuSign in `sign.py` please.", "CODE"),
    ],
)
async def test_words_with_capitals_inside_are_products_or_code(text, kind):
    found = await nodes(text)
    assert {found[name] for name in found if name[0].isupper()} == {kind}


async def test_offices_are_organizations_and_longer_names_no_places():
    found = await nodes(
        "Ask the Office of General Counsel or the Architecture Review Board.",
        "They met at San Francisco Airport, as outlined by Jemma Sheargold.",
    )
    assert found == {
        "Office of General Counsel": "ORG",
        "Architecture Review Board": "ORG",
        "San Francisco Airport": "CONCEPT",
        "Jemma Sheargold": "PERSON",
    }


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("* Moshe Atlow @MoLow (member)", {"Moshe Atlow", "MoLow"}),
        ("Thanks to Antoine du Hamel (@aduh95).", {"Antoine du Hamel", "aduh95"}),
        ("Reported by @silverwind and @Fishrock123.", {"silverwind", "Fishrock123"}),
        ("* Anna Kowalska\n* Gibson Fahnestock\n* Zbyszek Tenerowicz",
         {"Anna Kowalska", "Gibson Fahnestock", "Zbyszek Tenerowicz"}),
        ("| Anna Kowalska | AK |\n| Ujjwal Sharma | USA |", {"Anna Kowalska", "Ujjwal Sharma"}),
        ("It was founded by Anna Kowalska and Arnout Schuijff.",
         {"Anna Kowalska", "Arnout Schuijff"}),
        ("Anna Kowalska (AK), John Miller (JM), Yehuda Katz (YK)",
         {"Anna Kowalska", "John Miller", "Yehuda Katz"}),
        ("AWB: I agree.\nJHD: So do I.\nAWB: Then it is done.\nJHD: Yes.", {"AWB", "JHD"}),
        ("We discussed it with Yomi Adetutu.", {"Yomi Adetutu"}),
        ("Michaël Zasso (he/him) joined late.", {"Michaël Zasso"}),
        ("Alex Jackson moved to another team.", {"Alex Jackson"}),
    ],
)  # fmt: skip
async def test_people_are_found_by_lists_handles_and_initials(text, people):
    found = await nodes(text)
    assert {name for name, kind in found.items() if kind == "PERSON"} == people


@pytest.mark.parametrize(
    "text",
    [
        "You can get in touch with us at <hello@example.org>.",
        "facilitator: a person who helps to solve problems",
        "- [Codit: Menu Tools](https://example.org/a)\n- [Codit: Batch Tools](https://example.org/b)",
        "dependency-type: indirect\nupdate-type: minor",
        "Ask PeopleOps about it. My Codespace says so.",
    ],
)
async def test_words_before_an_address_or_a_colon_are_no_people(text):
    assert "PERSON" not in (await nodes(text, text)).values()


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("It is run by the Foundation for Public Code.", "Foundation for Public Code", "ORG"),
        ("Ask the Office for National Statistics.", "Office for National Statistics", "ORG"),
        ("Read what the National Cyber Security Centre says.", "National Cyber Security Centre",
         "ORG"),
        ("We like Free Software Foundation Europe.", "Free Software Foundation Europe", "ORG"),
        ("They met in the City of Amsterdam.", "City of Amsterdam", "PLACE"),
        ("All QuxCorp employees sign it.", "QuxCorp", "ORG"),
        ("Read the GitHub Privacy Statement.", "GitHub Privacy Statement", "CONCEPT"),
        ("It is encrypted by Transport Layer Security (TLS).", "Transport Layer Security",
         "TECHNOLOGY"),
    ],
)  # fmt: skip
async def test_the_last_words_of_a_name_say_what_it_is(text, name, kind):
    assert (await nodes(text, text))[name] == kind


@pytest.mark.parametrize(
    "text",
    [
        "Every MFA-enabled service, Mon-Fri.",
        "Teams can do it. Teams should ask _their customers._",
        "I Don\u2019t know. We Won't do it.",
        "Click the Online Training of last week.",
        "Read the Node.js Project Calendar and the Node.js Release Notes.",
        "The Licensor hereby grants You the Licensed Material, and the Affirmer hereby waives it.",
        "Colors are `#f12345` and `(^#(?:[0-9]{3}){1,2}$)|^$`.",
        "| Support Representative | Delivery Coordinator |",
    ],
)
async def test_words_with_capitals_are_no_names_by_that_alone(text):
    names = set(await nodes(text, text, text, text, text)) - {"Node.js"}
    assert names == set()


async def test_an_ordinary_word_before_a_known_name_is_no_part_of_it():
    assert await nodes("They read about Effective Java.") == {"Java": "TECHNOLOGY"}


async def test_items_are_alike_only_if_both_begin_with_a_name():
    assert await nodes("* Redis\n* Blorbdb\n* Kafka") == {
        "Redis": "TECHNOLOGY",
        "Blorbdb": "TECHNOLOGY",
        "Kafka": "TECHNOLOGY",
    }
    found = await nodes("* We discussed Redis\n* Zibi will look at it")
    assert found == {"Redis": "TECHNOLOGY"}
    assert "Sujitec" not in await nodes("| Sujitec | Igalia |\n| --- | --- |")


async def test_packages_are_those_that_a_list_of_dependencies_names():
    text = "The project relies on these libraries:\n\n* `qertifi` - certificates\n* `h17` - HTTP."
    assert await nodes(text) == {"qertifi": "PACKAGE", "h17": "PACKAGE"}
    assert await nodes("Sent by [`mitmqroxy`](https://mitmqroxy.org).") == {
        "mitmqroxy": "TECHNOLOGY"
    }


@pytest.mark.parametrize(
    "text",
    [
        "start_tls.started host=x\n```\n\nMore text.",
        "call_it(x)\n```\nMore text.\n```python\nother_call(y)\n```\n",
    ],
)
async def test_a_passage_may_begin_within_a_block_of_code(text):
    assert await nodes(text) == {}


async def test_a_version_with_a_placeholder_is_no_code():
    assert await nodes("Dropped in v20.x and v18.x.") == {}


@pytest.mark.parametrize(
    "text",
    [
        "1. Set it:\n\n   ```bash\n   $ export FROB_HOME=zed-home\n   ```\n",
        "> Set it:\n>\n> ```\n> frob_home = zed_home\n> ```\n",
        "It is called so::\n\n    frob_home = zed_home.frobnicate(FrobThing)\n",
        ".. code-block:: python\n   :linenos:\n\n   frob_home = zed_home()\n",
        ">>> frob_home = zed_home()\nFrobThing(12)\n",
        "frob_home = zed_home()\nFrobThing.run(frob_home)\n",
        "<!-- Describe the FrobThing and\nthe frob_home",
        "the FrobThing here.\n-->\n",
    ],
)
async def test_blocks_of_code_and_cut_comments_name_nothing(text):
    assert await nodes(text) == {}


@pytest.mark.parametrize(
    "code", ["foo", "write_foo", "MyStruct", "xx.yy.zz", "<name>.pth", "T", "&T", "arg3"]
)
async def test_what_examples_call_things_is_no_name(code):
    assert await nodes(f"See `{code}` and `{code}`.", f"Use `{code}`.") == {}


async def test_names_of_code_that_look_like_placeholders_are_names():
    text = "Use `i32`, `QuxCorp` and `rust_2018`."
    assert {"i32", "QuxCorp", "rust_2018"} <= set(await nodes(text, text))


async def test_a_table_of_contents_names_nothing():
    line = "- [Version Skew Strategy](#version-skew-strategy)\n"
    assert await nodes(line, line, line, line) == {}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("With Sam Clegg, Wes Todd, Andrew Brown.", "Wes Todd", "PERSON"),
        ("* Khahil White (@theheels)", "Khahil White", "PERSON"),
        ("Thanks to Francis McCabe for it.", "Francis McCabe", "PERSON"),
    ],
)
async def test_people_with_names_that_are_words_are_people(text, name, kind):
    assert (await nodes(text))[name] == kind


@pytest.mark.parametrize(
    "text",
    [
        "This also works for KerasTuner library users.",
        "@inlinable public func run() {}",
        "We have 7 people on the @moderator group.",
        "There are many astronomy packages.",
        "It holds for any PL>=100 there.",
        "The Max Version of it.",
    ],
)
async def test_what_looks_like_a_person_a_company_or_a_package_is_none(text):
    assert not {"ORG", "PERSON", "PACKAGE"} & set((await nodes(text, text)).values())


async def test_a_list_of_links_to_accounts_names_people():
    text = (
        "* [weex](https://github.com/weex)\n* [ysksn](https://github.com/ysksn)\n"
        "* [goofy-bz](mailto:goofy@example.org)\n* [Blix Yarrow](mailto:blix@example.org)"
    )
    people = dict.fromkeys(("weex", "ysksn", "goofy-bz", "Blix Yarrow"), "PERSON")
    assert await nodes(text) == people
    alone = "We mirror [qertifi](https://github.com/qertifi)."
    assert (await nodes(alone))["qertifi"] == "TECHNOLOGY"


async def test_everyone_a_change_is_by_is_a_person():
    text = "- Add `Link` (#39732 and #39734 by @BlixYarrow, @TheZorb and @kobl)"
    found = await nodes(text)
    assert {name for name, kind in found.items() if kind == "PERSON"} == {
        "BlixYarrow", "TheZorb", "kobl",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Based on comments from Mariot Chovin, and later ones",
        "Quoting Mariot Chovin: keep it simple.",
        "h/t [Mariot Chovin](https://mariotchovin.example)",
        "It was said by Mariot Chovin,\n(Director of Engineering), in May.",
    ],
)
async def test_who_is_quoted_or_thanked_is_a_person(text):
    assert (await nodes(text))["Mariot Chovin"] == "PERSON"


async def test_a_name_in_backticks_may_be_a_person():
    assert await nodes("Quoting `Anna Fowler`: keep it.") == {"Anna Fowler": "PERSON"}
    assert (await nodes("Let Kendal know.", "Let Kendal know, too."))["Kendal"] == "PERSON"


@pytest.mark.parametrize(
    "text",
    [
        "Click `Run Workflow`, then select `resource addresses`.",
        "They are listed in the **Pending Approvals** section.",
        "Go to DNS Management->Hosted Zones; from A->B->C to A->C->B.",
        "It is GOV\\.QX here.",
        "It is one server/ROOM of two.",
        "Name files in PascalCase or camelCase.",
        "Give feedback in nitpick/required/question/future/note form.",
        "See :ref:`testing_plugins` and `.json`.",
        "- Chore(deps): tidy",
        "Tidy\n\nChange-Id: abc\nBlorb-Session: xyz",
        "- Deciders: devs, devops",
        "It serves JSON over HTTP; see the README and the LICENSE.",
    ],
)
async def test_labels_of_screens_markup_and_common_formats_are_no_nodes(text):
    assert await nodes(text, text, text) == {}


async def test_a_common_format_is_still_found_by_its_name():
    found = await RULES.extract_entities("It serves JSON/YAML over HTTP.")
    assert {entity.name for entity in found} == {"JSON", "YAML", "HTTP"}


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("See GHSA-hx34-2pfw-2qfj.", "GHSA-hx34-2pfw-2qfj", "REFERENCE"),
        ("See nodejs/node/pull/51334.", "nodejs/node/pull/51334", "REFERENCE"),
        ("It raises `NoSuchCommand`.", "NoSuchCommand", "ERROR"),
        ("It throws a BlorbTimeout at them.", "BlorbTimeout", "ERROR"),
        ("Put it into the `/autoload` directory.", "/autoload", "FILE"),
        ("See `man git-log`.", "man git-log", "COMMAND"),
        ("Docs of [blorb.is](https://blorb.is) say so.", "blorb.is", "URL"),
        ("Two EC2s run it.", "EC2", "TECHNOLOGY"),
        ("We use Phoenix.", "Phoenix", "TECHNOLOGY"),
        ("We met in Phoenix.", "Phoenix", "PLACE"),
        ("Ask GSA staff.", "GSA", "ORG"),
        ("Ask ZQB staff.", "ZQB", "ORG"),
        ("Amazon Simple Email Service (SES) sends it.", "Simple Email Service", "TECHNOLOGY"),
        ("They are at the University of North Carolina.", "University of North Carolina", "ORG"),
        ("The State of JS survey says so.", "State of JS", "CONCEPT"),
        ("- dependency-name: blorbsoup4", "blorbsoup4", "PACKAGE"),
    ],
)
async def test_what_names_are_by_their_form_and_the_words_around_them(text, name, kind):
    assert (name, kind) in {(e.name, e.type) for e in await RULES.extract_entities(text)}


async def test_what_works_for_a_thing_is_not_employed_by_it():
    found = await RULES.extract_entities("This works for Blorbset's pages, too.")
    assert "ORG" not in {entity.type for entity in found}


async def test_several_of_what_a_name_has_are_no_part_of_the_name():
    found = await nodes("It allows only Fastly IPs.", "Allow Fastly IPs.")
    assert found == {"Fastly": "TECHNOLOGY"}
