import sys

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput


@pytest.mark.parametrize(
    ("words", "why"), [(["--time-limit", "0"], "'0' is not above 0"), (["--memory", "0"], "memory")]
)
def test_bounds_are_checked_before_an_editor_is_heard(words, why):
    result = CliRunner().invoke(app, ["lsp", *words])
    assert result.exit_code
    assert why in result.output + str(result.exception)


def test_without_the_package_its_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "trnsim.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    result = CliRunner().invoke(app, ["lsp"])
    assert isinstance(result.exception, BadInput)
    assert result.exception.fix == "pip install 'trnsim[lsp]'"
