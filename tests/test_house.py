"""Names of the source, and the draw of source files for readers who have not seen them."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest
import trees

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "trnsim"
MODIFIERS = {"own", "has", "most", "least", "more", "above", "below"}
PARTICIPLES = {"asked", "done", "found", "given", "got", "held", "known", "made", "met", "named"}
PARTICIPLES |= {"needed", "noted", "passed", "said", "seen", "settled", "spent", "stated", "taken"}
PARTICIPLES |= {"turned", "wanted"}


def drawn(*options):
    command = [sys.executable, str(ROOT / "bench" / "house.py"), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.fixture(scope="module")
def first():
    return drawn("--draw", "35")


def test_a_draw_has_distinct_files_that_a_reader_can_open(first):
    assert len(set(first)) == 40
    assert all((SOURCE / file).is_file() for file in first)
    assert not any(file.endswith("__init__.py") or "/by_name/" in file for file in first)


def test_a_seed_draws_the_same_files_again(first):
    assert drawn("--draw", "35") == first


def test_later_draws_have_none_of_the_files_of_earlier_ones(first):
    second = drawn("--draw", "36", "--without", "35")
    assert len(second) == 40
    assert not set(first).intersection(second)
    third = drawn("--draw", "37", "--without", "35", "--without", "36")
    assert not set(third).intersection([*first, *second])


def test_as_many_files_are_drawn_as_asked():
    assert len(drawn("--draw", "1", "--files", "3")) == 3


def defined_names(tree):
    """Names that a program defines, without the underscores around them, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                pass
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                pass
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                pass
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                pass
            case _:
                continue
        yield name.strip("_"), getattr(node, "lineno", 0)


@pytest.mark.parametrize(
    "text",
    [
        "a, most = pair",
        "most: int = 0",
        "self._most = 1",
        "def most(): ...",
        "async def most(): ...",
        "class C:\n    def f(self, *, most): ...",
        "lambda *most: 0",
        "import b as most",
        "[most for most in rows]",
        "if most := rows: ...",
        "match x:\n    case [int() as most, *others]: ...",
        "match x:\n    case [a, *most]: ...",
        "match x:\n    case {'a': 1, **most}: ...",
        "try: ...\nexcept OSError as most: ...",
    ],
)
def test_every_way_of_defining_a_name_is_read(text):
    assert "most" in [name for name, _ in defined_names(ast.parse(text))]


@functools.cache
def places_of_names():
    """Places of the source, as "file:line", by the name that is defined there."""
    places = {}
    for path in SOURCE.rglob("*.py"):
        for name, line in defined_names(trees.tree(path)):
            places.setdefault(name, []).append(f"{path.relative_to(SOURCE)}:{line}")
    return places


def bare_names(words):
    """Places of the source at which a name is one of these words alone."""
    return [f"{place}: {name}" for name in words for place in places_of_names().get(name, ())]


def test_a_modifier_alone_is_no_name():
    use = ast.parse("f(most=x.most, a=most)")
    assert MODIFIERS.isdisjoint(name for name, _ in defined_names(use))
    assert not bare_names(MODIFIERS), "the noun is missing, such as `tokens` of `most_tokens`"


def test_a_participle_alone_is_no_name():
    assert not bare_names(PARTICIPLES), "say what it holds, such as `cached_programs` for `kept`"
