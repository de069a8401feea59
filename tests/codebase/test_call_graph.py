"""Calls, bases and decorators lead to the symbols a reader would name."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from reading import edges, resolved

from zapomni_core.modules.codebase import Resolver, Snapshot
from zapomni_core.modules.codebase.callgraph import Type, parse_type
from zapomni_core.modules.codebase.languages import LANGUAGES


def python(files: dict[str, str] | None = None, **more: str) -> dict[str, str]:
    return {f"{name}.py": textwrap.dedent(text) for name, text in ((files or {}) | more).items()}


def test_by_scope():
    files = python(
        a="""
        def f(): g()
        def g():
            def inner(): f()
            inner()
            def f(): ...
        class C:
            def m(self): m(); f()
        def m(): ...
        f()
        """
    )
    assert resolved(files) == [
        "f -> a.py:g",
        "g.inner -> a.py:g.f",
        "g -> a.py:g.inner",
        "C.m -> a.py:m",
        "C.m -> a.py:f",
        " -> a.py:f",
    ]


def test_a_module_calls_nothing_that_it_neither_defines_nor_imports():
    files = {
        "a.ts": "export class Request { send() { const once = () => {}; once() } }\n",
        "b.ts": "import undo from 'undo';\ntype Error = string;\n"
        "export function f() { const { once } = undo(); once(); throw new Error() }\n",
    }
    assert resolved(files) == ["Request.send -> a.ts:Request.send.once"]


def test_a_local_name_hides_the_one_outside():
    files = python(
        a="""
        def f(): ...
        def g(f): f()
        def h():
            f = other()
            f()
        def i():
            for f in x: f()
        def j(): f()
        """
    )
    assert resolved(files) == ["j -> a.py:f"]


def test_by_import():
    files = python(
        {
            "pkg/__init__": "from .inner import made as built\nfrom . import inner\n",
            "pkg/inner": "def made(): ...\nclass C:\n    def m(self): ...\n",
            "pkg/sub/__init__": "",
            "pkg/sub/deep": "from ..inner import made\nfrom ... import outside\nmade()\n",
        },
        user="""
        import pkg
        import pkg.inner as pi
        import pkg.sub.deep
        from pkg import built
        from pkg.inner import *
        from pkg import inner
        pkg.built()
        pi.made()
        pkg.inner.made()
        built()
        made()
        inner.C().m()
        pkg.sub.deep.made()
        def f():
            from pkg.inner import C as Local
            Local()
        """,
    )
    assert resolved(files) == [
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:made",
        " -> pkg/inner.py:C.m",
        " -> pkg/inner.py:C",
        " -> pkg/inner.py:made",
        "f -> pkg/inner.py:C",
    ]


def test_packages_are_found_below_src_and_the_standard_library_is_not_taken_for_ours():
    files = python(
        {
            "src/pkg/__init__": "",
            "src/pkg/json": "def dumps(): ...\n",
            "src/pkg/mod": "import json\nfrom pkg import json as own\njson.dumps()\nown.dumps()\n",
            "tests/t": "import pkg.json\npkg.json.dumps()\n",
            "tools/logging": "def info(): ...\n",
            "other": "import logging\nlogging.info()\n",
        }
    )
    assert resolved(files) == [" -> src/pkg/json.py:dumps"] * 2


def test_by_self_class_and_super():
    files = python(
        a="""
        class Base:
            def both(self): ...
            def base(self): self.both()
            @classmethod
            def make(cls): return cls()
            @staticmethod
            def still(): ...
        class Child(Base):
            def both(self):
                super().both()
                self.base()
                Child.still()
                self.make().both()
                self.nothing()
        """
    )
    assert resolved(files) == [
        "Base.base -> a.py:Base.both",
        "Base.make -> a.py:Base",
        "Child.both -> a.py:Base.both",
        "Child.both -> a.py:Base.base",
        "Child.both -> a.py:Base.still",
        "Child.both -> a.py:Child.both",
        "Child.both -> a.py:Base.make",
    ]
    assert resolved(files, "inherit") == ["Child -> a.py:Base"]


def test_by_what_a_name_was_assigned_or_is_said_to_be():
    files = python(
        a="""
        from typing import Optional, Union, Dict, List, Type
        class A:
            other: "B"
            def run(self): ...
            def __enter__(self): return self
            def __iter__(self) -> "Iterator[B]": ...
            def __getitem__(self, key) -> "B": ...
            def __call__(self): ...
        class B:
            def stop(self): ...
            @property
            def owner(self) -> A: ...
        def make() -> A: ...
        def untold(): return B()
        def gen():
            yield A()
        def f(p: Optional[A], q: "Union[A, None]" = None, r: List[B] = (), s: Dict[str, B] = {},
              t: Type[A] = A, u=None):
            p.run()
            p.other.stop()
            q.other.owner.run()
            for one in r: one.stop()
            r[0].stop()
            s["x"].stop()
            s.get(1).stop()
            for two in s.values(): two.stop()
            t().run()
            u.unknown()
            x = make()
            x.run()
            untold().stop()
            with make() as y: y.run()
            z = A() if p else B()
            for three in gen(): three.run()
            for four in x: four.stop()
            x["k"].stop()
            x()
            many = [B() for _ in r]
            many[0].stop()
            (five := make()).run()
            five.run()
        """
    )
    found = [line.removeprefix("f -> a.py:") for line in resolved(files) if line.startswith("f ")]
    assert [one for one in found if one not in ("A", "B", "make", "untold", "gen")] == [
        *("A.run", "B.stop", "A.run", "B.stop", "B.stop", "B.stop", "B.stop", "B.stop", "A.run"),
        *("A.run", "B.stop", "A.run", "A.run", "B.stop", "B.stop", "A.__call__", "B.stop"),
        *("A.run", "A.run"),
    ]


def test_what_comes_of_a_value_and_of_what_comes_of_it():
    files = python(
        a="""
        import os
        class A:
            def run(self): ...
            def __call__(self) -> "B": ...
            async def __aenter__(self) -> "B": ...
        class B:
            def stop(self): ...
        def f(p: A, q: "list[A]", r: "Callable[[], B]"):
            x = p if q else B()
            x.run()
            p().stop()
            r().stop()
            A[int]().run()
            for one in q.copy(): one.run()
            async with p as b: b.stop()
            with B() as c: c.stop()
            with os.popen("x") as d: d.stop()
            for e in os.listdir(): e.stop()
            os.environ["x"].stop()
            for g in {}: g.stop()
            q.sort().stop()
            f.stop()
            f[0].stop()
        """
    )
    found = [line.removeprefix("f -> a.py:") for line in resolved(files) if line.startswith("f ")]
    assert [one for one in found if one not in ("A", "B")] == [
        *("A.run", "B.stop", "A.__call__", "B.stop", "A.run", "A.run", "B.stop", "B.stop"),
    ]


def test_by_attributes_of_the_instance():
    files = python(
        a="""
        class Engine:
            def start(self): return self
            def stop(self): ...
        class Car:
            spare = Engine()
            def __init__(self, engine: Engine, other=None):
                self.engine = engine
                self.backup: Engine = other
                self.made = Engine().start()
            def go(self):
                self.engine.start().stop()
                self.backup.start()
                self.made.stop()
                self.spare.stop()
        class Lorry(Car):
            def go(self): self.engine.stop()
        """
    )
    assert resolved(files) == [
        "Car -> a.py:Engine",
        "Car.__init__ -> a.py:Engine.start",
        "Car.__init__ -> a.py:Engine",
        "Car.go -> a.py:Engine.stop",
        "Car.go -> a.py:Engine.start",
        "Car.go -> a.py:Engine.start",
        "Car.go -> a.py:Engine.stop",
        "Car.go -> a.py:Engine.stop",
        "Lorry.go -> a.py:Engine.stop",
    ]


def test_a_name_that_is_special_elsewhere_is_any_name_here():
    files = python(
        a="""
        class Base:
            def up(self): ...
        class C(Base):
            def f(self, parent: "D", base=None):
                parent.down()
                base.up()
        class D:
            def down(self): ...
            def up(self): ...
        """
    )
    assert resolved(files) == ["C.f -> a.py:D.down"]


def test_what_returns_itself_is_what_it_was_called_on():
    files = python(
        a="""
        class Base:
            def with_x(self): return self
        class Child(Base):
            def only_child(self): ...
        def f(): Child().with_x().only_child()
        """
    )
    assert "f -> a.py:Child.only_child" in resolved(files)


def test_of_overloads_and_properties_the_one_that_runs():
    files = python(
        a="""
        from typing import overload
        @overload
        def f(x: int): ...
        @overload
        def f(x: str): ...
        def f(x): ...
        class C:
            @property
            def v(self): ...
            @v.setter
            def v(self, x): ...
        f(1)
        """
    )
    assert resolved(files) == [" -> a.py:f#3"]


def test_either_of_two_definitions_is_weaker():
    files = python(a="try:\n    def f(): ...\nexcept E:\n    def f(): ...\nf()\n")
    both = edges(files)

    assert [edge.callee.qualified_name for edge in both] == ["f", "f#2"]
    assert {edge.strength for edge in both} == {0.75}


def test_decorators_are_edges_of_what_they_decorate():
    files = python(a="def d(x): return x\n@d\ndef f(): ...\n@d\nclass C: ...\n")

    assert resolved(files, "decorate") == ["f -> a.py:d", "C -> a.py:d"]


def test_what_is_not_of_the_repository_stays_a_name():
    files = python(
        a="""
        import os
        from requests import get
        class Session(get.Base):
            def f(self, x):
                os.path.join()
                get().json()
                print(x)
                x.append(1)
                "".join(x)
                self.inherited()
                missing()
                super().f()
        def json(): ...
        """
    )
    found = edges(files)

    assert {edge.callee for edge in found} == {None}
    assert {edge.strength for edge in found} == {0.1}
    assert [edge.name for edge in found] == [
        *("join", "json", "get", "print", "append", "join", "inherited", "missing", "f", "super")
    ]


def test_the_only_method_of_its_name_is_a_guess():
    files = python(
        a="class C:\n    def frobnicate(self): ...\n    def get(self): ...\n",
        b="def f(x):\n    x.frobnicate()\n    x.get()\n    frobnicate()\n",
        c="class D:\n    def twice(self): ...\nclass E:\n    def twice(self): ...\n",
        d="def f(x): x.twice()\n",
    )
    guesses = [edge for edge in edges(files) if edge.callee]

    assert [(edge.callee.qualified_name, edge.strength) for edge in guesses] == [
        ("C.frobnicate", 0.5)
    ]


def test_of_two_that_everybody_knows_the_near_one_is_meant():
    files = {
        "a/help.c": "int help(void) { return 1; }\n",
        "b/help.c": "int help(void) { return 2; }\n",
        "a/main.c": "int main(void) { return help(); }\n",
        "c/main.c": "int main(void) { return help(); }\n",
    }
    assert resolved(files) == ["main -> a/help.c:help"]


def test_strengths_say_how_sure_it_is():
    files = python(
        a="""
        class C:
            def m(self): self.n()
            def n(self): ...
        def f(x: C):
            C()
            x.m()
            C.n(x)
        """
    )
    assert [(edge.name, edge.strength) for edge in edges(files)] == [
        ("n", 0.95),
        ("C", 1.0),
        ("m", 0.8),
        ("n", 1.0),
    ]


def test_names_that_explain_each_other_end():
    files = python(
        a="from b import x\nx = x\ndef f(): return g()\ndef g(): return f()\nf().m()\nx()\n"
        "class A(B): ...\nclass B(A):\n    def m(self): self.nothing()\nA().m()\n",
        b="from a import x\n",
        c="".join(f"x{n} = x{n + 1}\n" for n in range(500))
        + "x500 = f\ndef f(): ...\nx0()\nx499()\n",
    )
    assert " -> c.py:f" in resolved(files)


def test_a_file_that_is_not_there_has_no_edges():
    assert Resolver(Snapshot({})).resolve("a.py") == []


GRAPHS = sorted((Path(__file__).parent / "graphs").glob("*.txt"))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_other_languages_are_resolved_by_the_same_rules(path):
    """A graph's file holds some files, `=== path` before each, and the edges they must yield."""
    parts = re.split(r"^=== (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    expected = files.pop("edges").splitlines()

    assert [f"module{edge}" if edge[0] == " " else edge for edge in resolved(files)] == expected


def test_every_language_that_calls_has_a_graph():
    told = {language.name for language in LANGUAGES.values() if language.chains or language.shared}
    assert {path.stem for path in GRAPHS} == told - {"python", "tsx"}


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("Foo", [Type("instance", "Foo")]),
        ("'pkg.Foo'", [Type("instance", "pkg.Foo")]),
        ("Optional[Foo]", [Type("instance", "Foo")]),
        ("Foo | None | Bar", [Type("instance", "Foo"), Type("instance", "Bar")]),
        ("t.Union[Foo, 'Bar']", [Type("instance", "Foo"), Type("instance", "Bar")]),
        ("List[Foo]", [Type("many", inner=(Type("instance", "Foo"),))]),
        ("dict[str, Foo]", [Type("map", inner=(Type("instance", "Foo"),))]),
        ("type[Foo]", [Type("class", "Foo")]),
        ("Callable[[int], Foo]", [Type("function", inner=(Type("instance", "Foo"),))]),
        ("Coroutine[Any, Any, Foo]", [Type("instance", "Foo")]),
        ("Custom[Foo]", [Type("instance", "Custom")]),
        ("*pkg.Foo", [Type("instance", "pkg.Foo")]),
        ("[]Foo", [Type("many", inner=(Type("instance", "Foo"),))]),
        ("map[string]*Foo", [Type("map", inner=(Type("instance", "Foo"),))]),
        ("(*Foo, error)", [Type("instance", "Foo")]),
        ("&mut Foo", [Type("instance", "Foo")]),
        ("Option<Box<Foo>>", [Type("instance", "Foo")]),
        ("Vec<a::Foo>", [Type("many", inner=(Type("instance", "a.Foo"),))]),
        ("Foo[]", [Type("many", inner=(Type("instance", "Foo"),))]),
        ("Foo?", [Type("instance", "Foo")]),
        ("const Foo", [Type("instance", "Foo")]),
        ("struct foo", [Type("instance", "foo")]),
        ("None", []),
        ("", []),
        ("[", []),
        ("[4]Foo", [Type("many", inner=(Type("instance", "Foo"),))]),
    ],
)
def test_types_are_read_as_they_are_written(text, types):
    assert list(parse_type(text)) == types


@pytest.mark.parametrize("mark", ["List[", "(", "[", "[]", "a|", "a<", "a,", "]", "map["])
def test_types_nested_without_end_are_read_all_the_same(mark):
    assert len(parse_type(mark * 3000)) <= 1


# --- Scripts: what a module exports, and by which name ------------------------------------


def test_scripts_export_by_default_under_other_names_and_through_files_that_import_each_other():
    files = {
        "src/internal.ts": "export * from './action';\nexport * from './spy';\n"
        "export { stop as halt } from './spy';\nexport * as all from './spy';\n",
        "src/action.ts": "import { report, halt, all } from './internal';\n"
        "export function act() { report(); halt(); all.stop() }\n",
        "src/spy.ts": "import { act } from './internal';\nimport Box, { make } from './box';\n"
        "export function report() { act() }\n"
        "export function stop() { new Box().open(); make(); JSON.parse('') }\n"
        "class Other { parse() {} }\n",
        "src/box.ts": "class Box { #lid = new Lid(); open() { this.#lift(); this.#lid.turn() }\n"
        "  #lift() {} }\nclass Lid { turn() {} }\n"
        "function build(): void;\nfunction build(how?: number) {}\n"
        "export default Box;\nexport { build as make };\n",
        "src/tests/a.test.ts": "import { report } from '..';\nreport();\n",
        "src/index.ts": "export { report } from './spy';\n",
    }
    assert sorted(resolved(files)) == [
        " -> src/spy.ts:report",
        "Box -> src/box.ts:Lid",
        "Box.open -> src/box.ts:Box.lift",
        "Box.open -> src/box.ts:Lid.turn",
        "act -> src/spy.ts:report",
        "act -> src/spy.ts:stop",
        "act -> src/spy.ts:stop",
        "report -> src/action.ts:act",
        "stop -> src/box.ts:Box",
        "stop -> src/box.ts:Box.open",
        "stop -> src/box.ts:build#2",
    ]


def test_modules_of_node_export_what_they_assign():
    files = {
        "a.js": "const run = require('./run');\nconst { walk, sit } = require('./more');\n"
        "const task = require('./task.js');\n"
        "function go() { run(); walk(); sit(); task() }\n",
        "run.js": "function run() {}\nmodule.exports = run;\n",
        "more.js": "const stay = () => 1;\nexports.walk = function () {};\n"
        "module.exports.sit = stay;\n",
        "task.js": "export default function () {}\n",
    }
    assert resolved(files) == [
        "go -> run.js:run",
        "go -> more.js:walk",
        "go -> more.js:stay",
        "go -> task.js:default",
    ]


# --- References that are no calls ---------------------------------------------------------


def test_a_call_of_what_a_call_returned_is_one_call():
    files = python(a="def f(x):\n    return lambda y: y\ndef g():\n    return f(1)(2)\n")
    assert resolved(files) == ["g -> a.py:f"]
    script = {"a.js": "function f(x) { return y => y }\nfunction g() { return f(1)(2) }\n"}
    assert resolved(script) == ["g -> a.js:f"]


def test_a_function_that_is_passed_on_or_put_into_a_table_is_used():
    files = python(
        handlers="""
        def start(): ...
        def stop(): ...
        class Late: ...
        """,
        app="""
        import handlers
        from handlers import start, stop

        TABLE = {"start": start, "stop": handlers.stop}
        ORDER = [start, stop]

        def run(stop):
            begin(target=start)
            map(stop, [])
            try:
                pass
            except handlers.Late:
                return isinstance(stop, (int, handlers.Late))

        class Loop:
            def __init__(self):
                on("tick", self.tick)
                on("tock", self.count)
                self.count = 0
            def tick(self): ...
        """,
    )
    assert sorted(set(resolved(files, "use"))) == [
        " -> handlers.py:start",
        " -> handlers.py:stop",
        "Loop.__init__ -> app.py:Loop.tick",
        "run -> handlers.py:Late",
        "run -> handlers.py:start",
    ]


def test_names_are_used_as_values_in_scripts_too():
    files = {
        "a.js": "import { save } from './b.js';\n"
        "export const routes = { save, list: show };\n"
        "function show() {}\n"
        "function setup(app) { app.on('x', show); return [save] }\n",
        "b.js": "export function save() {}\n",
    }
    assert sorted(set(resolved(files, "use"))) == [
        " -> a.js:show",
        " -> b.js:save",
        "setup -> a.js:show",
        "setup -> b.js:save",
    ]


def test_a_decorated_function_is_registered_unless_its_decorator_only_describes_it():
    files = python(
        a="""
        @app.route("/")
        def index(): ...
        class Shop:
            @property
            def name(self): ...
            @app.task
            def sell(self): ...
        """
    )
    found = edges(files, "register")
    assert [(e.caller.qualified_name, e.callee.qualified_name, e.name, e.line) for e in found] == [
        ("", "index", "route", 2),
        ("Shop", "Shop.sell", "task", 7),
    ]
    assert resolved(python(a="def f(x): return f\n@f(1)\ndef g(): ...\n")) == []


def test_methods_that_override_one_are_its_references():
    files = python(
        base="""
        class Base:
            def __init__(self): ...
            def run(self): ...
            def stop(self): ...
        """,
        more="""
        from base import Base
        class Middle(Base): ...
        class Last(Middle):
            def __init__(self): ...
            def run(self): ...
            def other(self): ...
        """,
    )
    assert resolved(files, "override") == ["Last.run -> base.py:Base.run"]
    script = {"a.ts": "interface Store { get(): void }\nclass Disk implements Store { get() {} }\n"}
    assert resolved(script, "override") == ["Disk.get -> a.ts:Store.get"]


def test_a_method_that_tests_override_is_no_guess_among_several():
    files = python(
        {
            "src/client": "class Client:\n    def transmit(self): ...\n",
            "src/use": "def go(thing):\n    thing.transmit()\n",
            "tests/test_client": "class Fake:\n    def transmit(self): ...\n",
        }
    )
    assert resolved(files) == ["go -> src/client.py:Client.transmit"]
