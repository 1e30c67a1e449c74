import sys
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.clients import plugin
from trnsim.torch.clients.plugin import Plugin


class Theirs:
    def choose(self):
        return "cpu"


@pytest.fixture
def module():
    made = ModuleType("a_client.place")
    made.Theirs = Theirs
    return made


@pytest.fixture
def release(monkeypatch):
    """Sets the installed release of the package."""

    def set_to(number):
        monkeypatch.setattr(plugin.metadata, "version", lambda _: number)

    return set_to


def made(*replaces):
    return Plugin(
        package="a-client",
        tested_releases=("1.2", "2"),
        module="a_client.place",
        replaced_names=replaces,
        reason="it knows the CPU alone",
        source="a_client 1.2 place.py",
        apply=lambda module: setattr(module, "served", True),
    )


@pytest.mark.parametrize("number", ["1.2", "1.2.0", "1.2.17", "2.0", "2"])
def test_a_tested_release_is_served_without_a_word(module, release, number):
    release(number)
    made("Theirs", "Theirs.choose").patch(module)
    assert module.served


@pytest.mark.parametrize("number", ["1.20", "1.1.9", "1.3", "21.0", "3", "0.2"])
def test_an_untested_release_is_served_with_a_warning(module, release, number):
    release(number)
    with pytest.warns(UserWarning, match=f"tested with a-client 1.2 and 2, not {number}$"):
        made("Theirs.choose").patch(module)
    assert module.served


def test_a_package_without_a_release_is_untested(module):
    with pytest.warns(UserWarning, match="not of unknown release$"):
        made("Theirs").patch(module)
    assert module.served


@pytest.mark.parametrize("number", ["1.2.0", "9"])
@pytest.mark.parametrize("gone", ["Ours", "Theirs.decide", "Theirs.choose.at", "Ours.choose"])
def test_a_release_without_what_is_replaced_is_left_as_it_is(module, release, number, gone):
    release(number)
    before = dict(vars(module))
    with pytest.warns(UserWarning, match="is left as it is") as warned:
        made("Theirs.choose", gone).patch(module)
    assert vars(module) == before
    assert len(warned) == 1
    assert str(warned[0].message) == (
        f"trnsim: a-client {number} has no {gone} in a_client.place and is left as it is: "
        "it knows the CPU alone. The device was tested with a-client 1.2 and 2"
    )


def test_a_replacement_reaches_those_who_have_taken_the_name_already(module, monkeypatch):
    reader, other = ModuleType("reader"), ModuleType("other")
    reader.Theirs, other.Theirs = Theirs, "another thing of that name"
    monkeypatch.setitem(sys.modules, "reader", reader)
    monkeypatch.setitem(sys.modules, "other", other)
    plugin.replace(module, "Theirs", 1)
    assert (module.Theirs, reader.Theirs) == (1, 1)
    assert other.Theirs == "another thing of that name"
