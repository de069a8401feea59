"""Each language's sample yields the symbols and calls a reader of it would name."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading import calls, outline, read

from zapomni_core.modules.codebase.languages import LANGUAGES, language_of, load_grammar
from zapomni_core.modules.codebase.models import SymbolKind

SAMPLES = Path(__file__).parent / "samples"

EXPECTED = {
    "sample.c": (
        "c",
        """
        macro MAX
        constant N
        struct foo
        type baz_t
        enum e
        function helper
        function ptr
        variable global
        """,
        """
        helper -> make
        helper -> g.cb
        helper -> helper
        """,
    ),
    "sample.cpp": (
        "cpp",
        """
        namespace ns
        class ns.Foo
        method ns.Foo.Foo
        method ns.Foo.m
        function ns.tf
        method ns.Foo.n
        function operator+
        enum Color
        type Al
        """,
        """
        ns.Foo.Foo -> init
        ns.Foo.m -> this.x.go
        ns.Foo.m -> n
        ns.Foo.m -> Other.st
        ns.tf -> std.make_unique
        ns.tf -> Foo
        ns.tf -> p.m
        ns.Foo.n -> m
        """,
    ),
    "sample.cs": (
        "csharp",
        """
        namespace N.M
        class N.M.Foo
        field N.M.Foo._svc
        field N.M.Foo.P
        field N.M.Foo.K
        method N.M.Foo.Foo
        method N.M.Foo.Go
        interface N.M.IBaz
        method N.M.IBaz.M
        struct N.M.S
        enum N.M.E
        class N.M.R
        """,
        """
        N.M.Foo.Go -> Baz
        N.M.Foo.Go -> _svc.Do().Then
        N.M.Foo.Go -> _svc.Do
        N.M.Foo.Go -> Help
        N.M.Foo.Go -> x.y
        """,
    ),
    "sample.go": (
        "go",
        """
        struct Foo
        interface If
        method If.M
        type Alias
        constant A
        variable V
        method Foo.Do
        function Plain
        """,
        """
        module -> New
        Foo.Do -> NewBar
        Foo.Do -> f.Bar.Go
        Foo.Do -> fmt.Foo
        Foo.Do -> x.y
        Foo.Do -> a.b
        """,
    ),
    "sample.java": (
        "java",
        """
        class A
        field A.foo
        field A.K
        method A.A
        method A.m
        enum A.E
        constant A.E.X
        constant A.E.Y
        interface A.I
        method A.I.n
        class A.R
        """,
        """
        A -> Foo
        A.m -> foo.go().then
        A.m -> foo.go
        A.m -> Util.s
        A.m -> helper
        A.m -> Baz
        """,
    ),
    "sample.js": (
        "javascript",
        """
        variable w
        class Foo
        method Foo.handler
        method Foo.constructor
        method Foo.m
        function arrow
        function f
        function gen
        function helper
        constant LIMIT
        """,
        """
        module -> require
        module -> require
        Foo.handler -> this.m
        Foo.constructor -> super
        Foo.constructor -> T
        Foo.m -> this.t.go().then
        Foo.m -> this.t.go
        arrow -> foo
        gen -> ns.z
        helper -> gen
        """,
    ),
    "sample.json": (
        "json",
        """
        key a
        key b
        key b.c
        key b.c.d
        """,
        """

        """,
    ),
    "sample.kt": (
        "kotlin",
        """
        class Foo
        field Foo.p
        field Foo.K
        method Foo.make
        method Foo.go
        interface Baz
        method Baz.m
        class Obj
        method Obj.o
        enum E
        function ext
        type T
        constant TOP
        """,
        """
        Foo -> Q
        Foo.make -> Foo
        Foo.go -> Q
        Foo.go -> svc.doIt().then
        Foo.go -> svc.doIt
        Foo.go -> help
        Foo.go -> x.y
        ext -> Foo
        """,
    ),
    "sample.lua": (
        "lua",
        """
        variable M
        variable util
        method M.go
        method M.meth
        function loc
        method M.anon
        variable K
        """,
        """
        module -> require
        M.go -> util.make
        M.go -> x.run
        M.go -> M.help
        M.meth -> self.y.z
        M.anon -> loc
        """,
    ),
    "sample.md": (
        "markdown",
        """
        section One
        section One.Two *x*
        section Three
        """,
        """

        """,
    ),
    "sample.php": (
        "php",
        """
        class Foo
        constant Foo.K
        field Foo.svc
        method Foo.__construct
        method Foo.go
        interface Baz
        trait Tr
        enum En
        function help
        constant Z
        """,
        """
        Foo.__construct -> Svc
        Foo.go -> Q
        Foo.go -> this.svc.do().then
        Foo.go -> this.svc.do
        Foo.go -> self.st
        Foo.go -> parent.m
        Foo.go -> help
        Foo.go -> E.f
        help -> Foo
        """,
    ),
    "sample.py.txt": (
        "python",
        """
        constant LIMIT
        variable name
        class Foo
        constant Foo.KIND
        field Foo.size
        method Foo.__init__
        method Foo.value
        method Foo.go
        function Foo.go.inner
        function top
        """,
        """
        Foo.__init__ -> make_cache
        Foo.value -> self.svc.get
        Foo.go.inner -> x.run
        Foo.go -> self.lock
        Foo.go -> inner
        Foo.go -> super().go
        Foo.go -> super
        top -> items
        """,
    ),
    "sample.rb": (
        "ruby",
        """
        namespace M
        class M.Foo
        constant M.Foo.K
        method M.Foo.initialize
        method M.Foo.make
        method M.Foo.go
        function top
        """,
        """
        module -> require_relative
        M.Foo -> include
        M.Foo.initialize -> Svc.new
        M.Foo.make -> new
        M.Foo.go -> Foo.new
        M.Foo.go -> self.svc.do().then
        M.Foo.go -> self.svc.do
        M.Foo.go -> z.q
        M.Foo.go -> help
        top -> M.Foo.make
        """,
    ),
    "sample.rs": (
        "rust",
        """
        namespace m2
        function m2.x
        struct Foo
        enum E
        trait Tr
        method Tr.m
        method Tr.d
        method Foo.m
        constant Foo.K
        method Foo.new
        constant C
        macro mm
        function f
        """,
        """
        Tr.d -> self.m
        Foo.m -> self.a.go
        Foo.m -> Foo.new
        Foo.m -> x.y
        f -> Foo.new
        f -> mm
        """,
    ),
    "sample.scala": (
        "scala",
        """
        class Foo
        field Foo.p
        method Foo.go
        class Foo#2
        field Foo.K
        method Foo.apply
        trait Baz
        method Baz.m
        class D
        enum E
        type T
        """,
        """
        Foo -> Q
        Foo.go -> Q
        Foo.go -> svc.run().next
        Foo.go -> svc.run
        Foo.go -> help
        Foo.go -> Other.st
        Foo.apply -> Foo
        """,
    ),
    "sample.sh": (
        "bash",
        """
        function go
        function help
        variable K
        variable V
        """,
        """
        module -> source
        go -> help
        go -> make
        help -> echo
        help -> grep
        """,
    ),
    "sample.sql": (
        "sql",
        """
        table s.users
        view v
        function f
        type mood
        function tr
        view mv
        """,
        """
        v -> count
        v -> my_fn
        f -> g
        """,
    ),
    "sample.swift": (
        "swift",
        """
        class Foo
        field Foo.svc
        method Foo.init
        method Foo.go
        struct S
        field S.a
        interface P
        method P.m
        enum E
        class Foo#2
        method Foo.ext
        function top
        type T
        """,
        """
        Foo.go -> Q
        Foo.go -> svc.run().then
        Foo.go -> svc.run
        Foo.go -> help
        Foo.go -> Other.st
        Foo.go -> x.y
        top -> Foo
        """,
    ),
    "sample.toml": (
        "toml",
        """
        key a
        key tool.x
        key tool.x.b
        key arr
        key arr.d
        """,
        """

        """,
    ),
    "sample.ts": (
        "typescript",
        """
        interface I
        method I.m
        field I.p
        class C
        method C.constructor
        method C.m
        method C.n
        type U
        enum E
        namespace N
        function N.f
        variable v
        function g
        function h
        """,
        """
        C -> Foo
        C.constructor -> super
        C.m -> a.go
        C.m -> this.svc.call
        h -> a.b
        """,
    ),
    "sample.yaml": (
        "yaml",
        """
        key a
        key b
        key b.c
        key b.d
        key b.d.e
        key b.d.f
        """,
        """

        """,
    ),
}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_sample_is_read_as_expected(name):
    language, symbols, called = EXPECTED[name]

    file = read(name.removesuffix(".txt"), (SAMPLES / name).read_bytes())

    assert file.language == language
    assert not file.has_errors
    assert outline(file) == lines(symbols)
    assert calls(file) == lines(called)


def test_every_language_has_a_sample():
    read_here = {language for language, _, _ in EXPECTED.values()}
    assert read_here | {"tsx"} == set(LANGUAGES)


@pytest.mark.parametrize("name", LANGUAGES)
def test_queries_name_only_kinds_and_captures_we_know(name):
    _, query = load_grammar(name)
    captures = {query.capture_name(n) for n in range(query.capture_count)}
    kinds = {one.removeprefix("definition.") for one in captures if one.startswith("definition.")}
    assert kinds <= set(SymbolKind.__args__)
    assert {one for one in captures if not one.startswith(("definition.", "_"))} <= {
        *("name", "body", "receiver", "returns", "wrapper", "wrapped", "doc", "comment"),
        *("call", "invocation", "inherit", "inheriting", "decorate", "use"),
        *("export", "exported", "default"),
        *("import", "module", "imported", "path", "alias", "star", "tree"),
        *("bind", "parameter", "property", "value", "type", "element", "enter"),
        *("return", "yield"),
    }


DOCS = {
    "sample.js": {"Foo": "A foo.", "Foo.m": "Does m.", "arrow": "Doubles."},
    "sample.ts": {"I": "An i."},
    "sample.go": {"Foo": "Foo does.", "Foo.Do": "Do it."},
    "sample.rs": {"Foo": "A foo.", "Foo.new": "Makes one."},
    "sample.java": {"A": "An a.", "A.m": "Does m."},
    "sample.c": {"foo": "A foo.", "helper": "Helps."},
    "sample.cpp": {"ns.Foo": "A foo."},
    "sample.rb": {"M": "A module.", "M.Foo": "A foo.", "M.Foo.go": "Goes."},
    "sample.php": {"Foo": "A foo.", "Foo.go": "Goes."},
    "sample.kt": {"Foo": "A foo.", "Foo.go": "Goes."},
    "sample.swift": {"Foo": "A foo.", "Foo.go": "Goes."},
    "sample.scala": {"Foo": "A foo.", "Foo.go": "Goes."},
    "sample.lua": {"M.go": "Goes."},
    "sample.sh": {"go": "Goes."},
    "sample.sql": {"s.users": "Users."},
    "sample.py.txt": {"": "What the module is for.", "Foo": "A foo.\n\nMore."},
}


@pytest.mark.parametrize("name", DOCS)
def test_what_documents_a_symbol_is_found(name):
    file = read(name.removesuffix(".txt"), (SAMPLES / name).read_bytes())
    found = {one.qualified_name: one.docstring for one in file.symbols if one.docstring}
    assert {key: found.get(key) for key in DOCS[name]} == DOCS[name]


DECORATORS = {
    "sample.ts": {"C": ("Injectable()",)},
    "sample.rs": {"Foo": ("derive(Debug)",)},
    "sample.java": {"A": ("Ann",), "A.m": ("Override",)},
    "sample.cs": {"N.M.Foo": ("Attr",)},
    "sample.kt": {"Foo": ("Ann",)},
    "sample.py.txt": {"Foo": ("decorate(1)", "plain"), "Foo.value": ("property",)},
}


@pytest.mark.parametrize("name", DECORATORS)
def test_decorators_are_found(name):
    file = read(name.removesuffix(".txt"), (SAMPLES / name).read_bytes())
    found = {one.qualified_name: one.decorators for one in file.symbols if one.decorators}
    assert found == DECORATORS[name]


INHERITED = {
    "sample.js": ["Foo Bar.Baz"],
    "sample.ts": ["I J", "C D", "C I", "C K"],
    "sample.go": ["Foo Base"],
    "sample.rs": ["Tr Sup", "Foo Tr"],
    "sample.java": ["A B", "A C", "A D", "A.I J"],
    "sample.cpp": ["ns.Foo Bar", "ns.Foo q.Baz"],
    "sample.cs": ["N.M.Foo Bar", "N.M.Foo IBaz"],
    "sample.rb": ["M.Foo Bar.Baz", "M.Foo Mixin"],
    "sample.php": ["Foo Bar", "Foo Baz", "Foo Tr"],
    "sample.kt": ["Foo Bar", "Foo Baz"],
    "sample.swift": ["Foo Bar", "Foo Baz"],
    "sample.scala": ["Foo Bar", "Foo Baz"],
    "sample.py.txt": ["Foo Bar", "Foo other.Baz"],
}


@pytest.mark.parametrize("name", INHERITED)
def test_bases_are_found(name):
    file = read(name.removesuffix(".txt"), (SAMPLES / name).read_bytes())
    found = [
        f"{file.symbols[one.scope].qualified_name} {one.target}"
        for one in file.facts.references
        if one.kind == "inherit"
    ]
    assert found == INHERITED[name]


IMPORTED = {
    "sample.js": "./m:default:def ./m:a:b ./m:c:c ./n.js::ns ./o:x:x ./p::w ./r:q:q",
    "sample.ts": "./a:A:A",
    "sample.go": "fmt::fmt x/y/z::al",
    "sample.rs": "crate.a:b:b crate.a:c:d super:f:f inner::inner",
    "sample.java": "com.y:Z:Z com.z:*:*",
    "sample.c": "a.h:*:*",
    "sample.cs": "System:*:* B:C:A",
    "sample.rb": "./b:*:*",
    "sample.kt": "c.d:E:E f:G:H",
    "sample.scala": "c.d:E:E c.d:F:G h:I:I",
    "sample.lua": "a.util::util",
    "sample.sh": "./lib.sh:*:*",
    "sample.py.txt": "os::os .other:a:b .other:c:c base:*:*",
}


@pytest.mark.parametrize("name", IMPORTED)
def test_imports_are_found(name):
    file = read(name.removesuffix(".txt"), (SAMPLES / name).read_bytes())
    found = [f"{one.module}:{one.name}:{one.alias}" for one in file.facts.imports]
    assert found == IMPORTED[name].split()


@pytest.mark.parametrize(
    ("path", "data", "language"),
    [
        ("a/b.PY", b"", "python"),
        ("x.tsx", b"", "tsx"),
        ("Rakefile", b"", "ruby"),
        ("a.h", b"int f(void);\n", "c"),
        ("a.h", b"namespace x { class Y; }\n", "cpp"),
        ("a.h", b"void f() { std::sort(); }\n", "cpp"),
        ("run", b"#!/usr/bin/env python3\n", "python"),
        ("run", b"#!/usr/bin/env -S python3.11 -u\n", "python"),
        ("run", b"#!/bin/bash -e\n", "bash"),
        ("run", b"#!/usr/local/bin/node18 --flag\n", "javascript"),
        ("run", b"plain words\n", "text"),
        ("run.xyz", b"#!/bin/bash\n", "text"),
        ("Dockerfile", b"FROM x\n", "text"),
        ("a.txt", b"", "text"),
    ],
)
def test_a_files_language_is_told_by_name_or_first_line(path, data, language):
    assert language_of(path, data) == language


def test_tsx_is_read_with_its_tags():
    file = read("a.tsx", "export const App = (p: P) => <div onClick={() => go(p)}>{f()}</div>;\n")

    assert not file.has_errors
    assert outline(file) == ["function App"]
    assert calls(file) == ["App -> go", "App -> f"]
