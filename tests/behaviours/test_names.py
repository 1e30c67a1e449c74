"""Tests of names and keywords by version: both sides of each row's boundary."""

import numpy as np
import pytest

import trnsim
from trnsim import nki
from trnsim.behaviours import VERSIONS
from trnsim.behaviours.chosen import pinned
from trnsim.behaviours.names import BY_FORM
from trnsim.nki import collectives

MODULES = {"nl": nki.language, "nisa": nki.isa}
NAMES = [
    form
    for form in BY_FORM
    if "(" not in form
    and form.split(".")[0] in MODULES
    and form.split(".")[1] in dir(MODULES[form.split(".")[0]])
]


@pytest.mark.parametrize("form", NAMES)
def test_a_name_exists_in_the_versions_of_its_row_alone(form):
    short, name = form.split(".")
    for version in VERSIONS.values():
        with pinned(version, "a test"):
            exists = hasattr(MODULES[short], name)
            assert exists == version.follows(BY_FORM[form]), version
            assert (name in dir(MODULES[short])) == exists


def test_a_name_of_another_version_is_explained_with_its_replacement():
    with pinned("0.7", "--nki"), pytest.raises(AttributeError) as caught:
        nki.language.dynamic_range  # noqa: B018
    assert "nl.dynamic_range exists in NKI 0.2 to 0.6, and --nki asks for NKI 0.7" in str(
        caught.value
    )
    assert "nl.fori_loop" in str(caught.value)


def test_an_import_of_such_a_name_fails_with_the_same_words():
    with pinned("0.5", "--nki"), pytest.raises(ImportError, match=r"exists from NKI 0\.6 on"):
        exec("from trnsim.nki.language import fori_loop", {})  # noqa: S102


def test_a_name_that_was_imported_before_is_refused_where_it_is_called():
    load = nki.language.load

    @nki.jit
    def kernel(x):
        load(x)

    with pytest.raises(trnsim.errors.IllegalInstruction) as caught:
        trnsim.run(kernel, np.zeros((1, 1), np.float32), nki="0.2")
    assert "nl.load under NKI 0.2" in caught.value.reason
    assert caught.value.line.file == __file__


KEYWORDS = [form for form in BY_FORM if form.endswith("=)") and form[:4] in ("nisa", "ncc.")]


def refusal_of(form, version):
    """The error of a call with that keyword alone, and nothing else of use."""
    name, _, keyword = form.removesuffix("=)").partition("(")
    module, _, function = name.partition(".")
    modules = {**MODULES, "ncc": collectives}

    @nki.jit
    def kernel(x):
        del x
        getattr(modules[module], function)(**{keyword: 0})

    with pytest.raises(Exception) as caught:  # noqa: PT011  a call without operands never runs
        trnsim.run(kernel, np.zeros((1, 1), np.float32), nki=version.name)
    return str(caught.value)


@pytest.mark.parametrize("form", KEYWORDS)
def test_a_keyword_is_refused_by_its_row_in_the_versions_without_it(form):
    for version in VERSIONS.values():
        message = refusal_of(form, version)
        is_of_row = f"{form} under {version}, where {BY_FORM[form].otherwise}" in message
        assert is_of_row != version.follows(BY_FORM[form]), (version, message)
