"""One grammar: every command's help fits its terminal, and an option means the same everywhere."""

import re
from collections import defaultdict
from importlib import import_module

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from trnsim.cli import COMMANDS, app, module_of

COLUMNS = (60, 80, 120)
ANSWER_OPTIONS = {"--json", "--output", "--report"}
WITHOUT_ANSWER = {
    "demo": "a tour of several commands",
    "launch": "the output of rank 0 stands above the report of the world",
    "slurm launch": "likewise",
    "shell": "the program's own output",
    "fault": "one line of the instance's log",
    "neuron-ls": "AWS's command: --json-output, as there",
    "nccom-test": "AWS's command: --report-to-json-file, as there",
    "neuronx-cc compile": "AWS's command: --output is the file in place of a NEFF, as there",
    "neuronx-cc list-operators": "AWS's command: a list",
    "neuron_parallel_compile": "AWS's command: the program's own output above the summary",
    "neuron-top": "AWS's command: a screen",
    "neuron-monitor": "AWS's command: a stream of JSON",
    "neuron-monitor-prometheus": "AWS's command: a server",
    "neuron-monitor-k8s-info": "AWS's command: a client",
    "neuron-monitor-otlp": "AWS's command: a client",
    "mcp": "a server",
    "lsp": "a server",
    "k8s device-plugin": "a server",
    "k8s node-problems": "a client",
    "k8s scheduler-extension": "a server",
    "profile view": "a page",
    "pilot write": "a folder of files that are run",
    "guard write": "a folder of files that monitors read",
    "job write": "a spec",
    "prices refresh": "a file for --prices",
}
"""Commands that return no document, with what they print instead."""
OWN_MEANING = {
    "--output": "run also saves what the kernel returns, profile view its page, prices refresh a "
    "file for --prices, job write a spec",
    "--on": "launch, shell, demo and a layer have one platform; job: of roles that state no "
    "instance type",
    "--report": "demo, run, launch and compile have pages of their own, with traces or logs",
    "--instances": "train compares several numbers; prices says what is sold",
    "--batch": "of sequences, images or items",
    "--sequence": "the usual length is the model's, the phase's or the example's",
    "--steps": "of a denoiser, or of a pilot",
    "--dtype": "of products, or of weights and activations",
    "--trace": "written by train, read by serve",
    "--emit": "each planner writes files of its own launchers",
    "--tokens": "of a run, or of a sequence",
    "--ranks": "of a kernel, or of a collective",
    "--phase": "a config.json says it, or a layer needs it",
    "--for": "a time, or a model",
    "--period": "of exports, or of readings",
    "--kind": "a comparison takes the first kind that all have",
}
"""Options whose help is the command's own, with the reason."""


def walked(name, command):
    names = getattr(command, "commands", ())
    if not names:
        yield name, command
    for below in names:
        yield from walked(f"{name} {below}", command.get_command(None, below))


def leaves():
    for name in COMMANDS:
        yield from walked(name, get_command(import_module(module_of(name)).app))


LEAVES = dict(leaves())
GROUPS = sorted({name.rpartition(" ")[0] for name in LEAVES if " " in name} | {""})


def options(command):
    return [each for each in command.params if each.param_type_name == "option"]


def helped(name, columns):
    result = CliRunner(env={"COLUMNS": str(columns)}).invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("name", [*GROUPS, *LEAVES])
def test_a_help_fits_its_terminal_and_cuts_nothing(name, columns):
    told = helped(name, columns)
    assert max(map(len, told.splitlines())) <= columns
    for command in subcommands(name):
        summary = " ".join((command.help or "").split("\n\n")[0].split())
        assert summary in " ".join(told.split())
    assert "<" not in told


def subcommands(name):
    if name in LEAVES:
        return []
    group = get_command(import_module(module_of(name)).app) if name else get_command(app)
    return [group.get_command(None, below) for below in group.commands]


@pytest.mark.parametrize("name", LEAVES)
def test_an_example_can_be_copied_at_any_width(name):
    found = [
        re.findall(
            r"(?:^ +|: )(trnsim .*[^.\s]) *$",  # prose that wraps at a command ends in a period
            re.sub(r" \\\n +", " ", helped(name, columns)),
            re.MULTILINE,
        )
        for columns in COLUMNS
    ]
    assert found[0] == found[1] == found[2]
    assert [line for line in found[0] if f"trnsim {name}" in line]


@pytest.mark.parametrize("name", LEAVES)
def test_every_parameter_is_told_and_says_its_kind(name):
    for parameter in LEAVES[name].params:
        assert parameter.help, parameter.name
        is_flag = getattr(parameter, "is_flag", False)
        assert is_flag or parameter.metavar, parameter.name


def test_an_option_of_one_name_has_one_meaning():
    told = defaultdict(lambda: defaultdict(list))
    for name, command in LEAVES.items():
        for option in options(command):
            if not getattr(option, "hidden", False):
                said = (option.help, option.metavar, getattr(option, "is_flag", False))
                told[option.opts[0]][said].append(name)
    several = {option: dict(said) for option, said in told.items() if len(said) > 1}
    assert set(several) == set(OWN_MEANING), several


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_with_an_answer_takes_the_three_options(name):
    found = {option.opts[0] for option in options(LEAVES[name])}
    assert (found >= ANSWER_OPTIONS) == (name not in WITHOUT_ANSWER), found


@pytest.mark.parametrize("name", LEAVES)
def test_a_former_name_is_read_and_not_shown(name):
    former = {"--out", "--instance"} & {opt for each in options(LEAVES[name]) for opt in each.opts}
    assert not [option for option in former if re.search(rf"{option}(?![\w-])", helped(name, 80))]
