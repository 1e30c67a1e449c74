from pathlib import Path

import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.errors import BadInput

CONFIG = str(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def run(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("command", ["train", "serve"])
def test_an_unknown_platform_lists_the_legal_ones(command):
    with pytest.raises(BadInput, match=r"^target 'foo' is not known; legal: trn1, trn2, trn3, "):
        run(command, CONFIG, "--on", "foo")


def test_no_platform_at_all_is_refused():
    with pytest.raises(BadInput, match=r"^--on names no platform\n  fix: for example --on trn1,t"):
        run("train", CONFIG, "--on", ",")
