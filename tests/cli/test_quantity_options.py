from importlib import import_module
from inspect import signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from trnsim.cli import COMMANDS, module_of, plan
from trnsim.cli.options import parser
from trnsim.cli.quantity_options import number, whole, wholes


def echo(
    tokens: Annotated[int | None, whole("Of a run.", unit="tokens", example="10B")] = None,
    slo: Annotated[
        float, number("A limit.", "--slo", unit="s", default="100ms", exclusive_minimum=0)
    ] = 0.1,
    sizes: Annotated[Any, wholes("Of batches.", example="8,16")] = None,
    cores: Annotated[int, whole("Of a rank.", minimum=1, maximum=8)] = 1,
    rest: Annotated[float, number("Of a run.", unit="s", minimum=0)] = 0.0,  # noqa: ARG001
):
    """Print its options."""
    typer.echo((tokens, slo, sizes, cores))


@pytest.fixture(scope="module")
def run():
    app = parser()
    app.command()(echo)
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_options_take_units(run):
    assert run("--tokens", "10B", "--slo", "30 ms", "--sizes", "8,1k").output == (
        "(10000000000, 0.03, (8, 1000), 1)\n"
    )
    assert run().output == "(None, 0.1, None, 1)\n"


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
        ("--cores", "0", "'--cores': '0' is below 1; legal: whole numbers from 1 to 8"),
        ("--cores", "9", "'--cores': '9' is above 8; legal: whole numbers from 1 to 8"),
        ("--slo", "nan", "'--slo': 'nan' is no finite number [s]"),
        ("--slo", "0", "'--slo': '0' is not above 0; legal: numbers above 0"),
        ("--rest", "-1ms", "'--rest': '-1ms' is below 0; legal: numbers from 0 on"),
    ],
)
def test_an_error_names_the_option_and_what_is_legal(run, option, text, message):
    result = run(option, text)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_every_option_that_is_a_number_is_read_alike():
    plain = set()
    for module in (import_module(module_of(name)) for name in COMMANDS):
        for function in functions_of(module.app):
            plain |= plain_numbers(function)
    for name in plan.COMMANDS:
        plain |= plain_numbers(getattr(import_module(f"{plan.__name__}.{name}"), name))
    assert plain == set()


def functions_of(app):
    """The functions of an application's commands."""
    inner = [function for group in app.registered_groups for function in functions_of_group(group)]
    return [*(command.callback for command in app.registered_commands), *inner]


def functions_of_group(group):
    return functions_of(group.typer_instance)


def plain_numbers(function):
    """The options of a command that are numbers and are read without units."""
    hints = get_type_hints(function, include_extras=True)
    found = set()
    for parameter in signature(function).parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if get_origin(hint) is not Annotated:
            continue
        kind, option = get_args(hint)[:2]
        if {int, float} & {kind, *get_args(kind)} and option.parser is None:
            names = [*option.param_decls, f"--{parameter.name.replace('_', '-')}"]
            found.add(next(name for name in names if name.startswith("--")))
    return found
