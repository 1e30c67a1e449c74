"""Absent names of a module: two errors with the same words, and a near name for a misspelt one."""

import importlib
import sys
from types import ModuleType

import pytest

from trnsim import absence
from trnsim.absence import Absence, AbsentAttribute, AbsentNames, RefusedImport
from trnsim.errors import NotModelled

GONE = Absence("gone.old went", "gone.new", "a page")


@pytest.fixture
def module(monkeypatch):
    """A module `gone` with a name `newest`, which had `old`."""
    made = ModuleType("gone")
    made.newest = 1
    made.__path__ = []
    monkeypatch.setitem(sys.modules, "gone", made)
    monkeypatch.setattr(absence._finder, "of_modules", dict(absence._finder.of_modules))
    made.__getattr__ = AbsentNames("gone", "public", {"old": GONE}.get).serve
    return made


def test_an_absent_name_is_no_attribute_and_says_why(module):
    assert not hasattr(module, "old")
    with pytest.raises(AbsentAttribute) as raised:
        module.old  # noqa: B018  reading it is the test
    assert isinstance(raised.value, NotModelled)
    assert all(words in str(raised.value) for words in GONE)


def test_a_from_import_of_an_absent_name_says_the_same(module):
    del module
    with pytest.raises(RefusedImport) as raised:
        from gone import old  # noqa: F401, PLC0415
    assert raised.value.name == "public"
    assert all(words in str(raised.value) for words in GONE)


def test_a_misspelt_name_is_told_the_near_one(module):
    with pytest.raises(
        AttributeError, match=r"'public' has no attribute 'newst'; did you mean 'newest'"
    ):
        module.newst  # noqa: B018  likewise
    with pytest.raises(
        ImportError, match=r"cannot import name 'newst' from 'public'; did you mean"
    ):
        from gone import newst  # noqa: F401, PLC0415


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("newst", "newest"),
        ("newes_", "newest"),
        ("nest", "newest"),
        ("new", "newer"),
        ("net", ""),
        ("newer", "newer"),
        ("newxr", "newer"),
        ("_newest", ""),
        ("__pat__", ""),
    ],
)
def test_the_near_name_is_the_most_like_one_of_three_quarters(module, name, near):
    module.newer = 2
    assert AbsentNames("gone", "public", {}.get).closest_name(name) == near


def test_a_namespace_that_is_no_module_has_no_near_names(module):
    del module
    assert not AbsentNames("gone.further", "public.further", {}.get).closest_name("newst")


def test_a_name_of_the_module_that_is_no_submodule_is_pythons_matter(module):
    del module
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'gone\.newest'"):
        importlib.import_module("gone.newest")


def test_a_submodule_that_is_loaded_is_another_finders(module, monkeypatch):
    monkeypatch.setitem(sys.modules, "gone.newst", module)
    assert absence._finder.find_spec("gone.newst") is None


def test_any_other_name_is_pythons_matter(module):
    with pytest.raises(AttributeError, match=r"^module 'public' has no attribute 'far'$"):
        module.far  # noqa: B018  likewise
    with pytest.raises(ImportError, match="cannot import name 'far'") as raised:
        from gone import far  # noqa: F401, PLC0415
    assert not isinstance(raised.value, NotModelled)


def test_one_finder_stands_last():
    assert [type(finder) for finder in sys.meta_path].count(absence._Finder) == 1
    assert sys.meta_path.index(absence._finder) > 0
