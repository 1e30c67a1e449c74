from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number, whole, wholes


def echo(
    tokens: Annotated[int | None, whole("Of a run.", unit="tokens", example="10B")] = None,
    slo: Annotated[float, number("A limit.", "--slo", unit="s", default="100ms")] = 0.1,
    sizes: Annotated[Any, wholes("Of batches.", example="8,16")] = None,
):
    """Print its options."""
    typer.echo((tokens, slo, sizes))


@pytest.fixture(scope="module")
def run():
    app = parser()
    app.command()(echo)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_options_take_units(run):
    assert run("--tokens", "10B", "--slo", "30 ms", "--sizes", "8,1k").output == (
        "(10000000000, 0.03, (8, 1000))\n"
    )
    assert run().output == "(None, 0.1, None)\n"


def test_help_names_the_unit_and_an_example(run):
    told = run("--help").output
    for part in ("--tokens TOKENS|10B", "--slo SECONDS|30ms", "--sizes NUMBER|8,16"):
        assert part in told
    assert "[default: 100ms]" in told


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("--tokens", "10BB", "'--tokens': '10BB' has the unit 'BB'; legal: k, M, B, T, Ki, Mi, Gi"),
        ("--tokens", "1.5", "'--tokens': '1.5' is no whole number of tokens"),
        ("--slo", "nan", "'--slo': 'nan' is no finite number [s]"),
    ],
)
def test_an_error_names_the_option_and_what_is_legal(run, option, text, message):
    result = run(option, text)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
