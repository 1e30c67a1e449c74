"""The command line: ``trnsim COMMAND``. One command per file; each prints plain aligned text.

A command's file, and with it the rooms that it needs, is imported when the command is called:
`trnsim --help` imports the parser alone.
"""

from __future__ import annotations

import errno
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand

from trnsim.cli.error_text import message
from trnsim.cli.parsing import HELP_OPTIONS, CommandGroup, Parser
from trnsim.cli.terminal import complain, echo, leave_output, open_missing_streams
from trnsim.errors import EmulatorError
from trnsim.version import VERSION

__all__ = ["COMMANDS", "GROUPS", "app", "main"]

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Kernels and programs": {
        "demo": "Show what trnsim does: a kernel, a mistake, a training loop, a cost, the claims.",
        "run": "Run a Python program, or one of its NKI kernels, on an emulated NeuronCore.",
        "check": "Check kernels without a chip: values, legality, races, time, and what a change "
        "costs.",
        "tune": "Find the fastest setting of a kernel's parameters on the timing model.",
        "launch": "Run a program as ranks of emulated instances, one process per rank.",
        "migrate": "Say what later versions of NKI refuse or change in a file of kernels.",
        "profile": "Open, print and compare stored reports.",
        "mcp": "Serve run, check, tune, explain, profile and plan to assistants as tools.",
        "lsp": "Serve editors: refusals and races at their lines, times beside them.",
        "explain": "Print what an instruction takes, where it runs, what it computes, and what it "
        "costs.",
    },
    "Models": {
        "compile": "Compile a model to a program for a NeuronCore: its time, what bounds it, where "
        "it goes.",
        "neuronx-cc": "Compile a graph of XLA, by the name and flags of AWS's compiler.",
        "neuron_parallel_compile": "Collect the graphs of a trial run, compile them all, and keep "
        "the programs in the cache.",
        "models": "List the models that commands take by name, with parameters, layers, heads and "
        "context.",
    },
    "Plans and decisions": {
        "plan": "Estimate time and USD of training or serving a model, platform by platform.",
        "job": "Check, price, convert and compare specs of jobs: Slurm, Kubernetes, SageMaker, "
        "Batch, ECS.",
        "why": "Say why two answers differ, term by term, the largest first.",
        "assess": "Say go, pilot, no-go, needs-quote or stay for each workload of an inventory.",
        "calibrate": "Teach every estimate what you measured, from the logs of your runs.",
        "pilot": "Run a workload on today's instance and on AWS's chips, and renew its decision.",
        "guard": "Watch workloads that moved: fallback rules, alerts, and what was saved.",
    },
    "The emulated instance": {
        "shell": "Run a program, or your shell, where Neuron's clients find an instance's devices.",
        "fault": "Inject a hardware fault into the emulated instance.",
        "neuron-ls": "List the devices of the emulated instance, and the programs that run on "
        "them.",
        "nccom-test": "Estimate collectives of ranks on the emulated instance, size by size, as "
        "AWS's tool does.",
        "neuron-top": "Show what emulated programs do now: cores, vCPUs, memory; the key q ends "
        "it.",
        "neuron-monitor": "Print one JSON report per line whenever a group of metrics is due; end "
        "it with Ctrl-C.",
        "neuron-monitor-prometheus": "Answer Prometheus's scrapes with what neuron-monitor "
        "measures; end it with Ctrl-C.",
        "neuron-monitor-k8s-info": "Tell neuron-monitor which pods of Kubernetes hold cores and "
        "devices; end it with Ctrl-C.",
        "neuron-monitor-otlp": "Send what neuron-monitor measures to a collector of OpenTelemetry; "
        "end it with Ctrl-C.",
    },
    "Clusters": {
        "k8s": "Place pods of Kubernetes on emulated instances.",
        "slurm": "Declare Neuron devices to Slurm, and run the ranks of its steps.",
    },
    "Reference": {
        "chips": "List Trainium, Inferentia, GPUs and TPUs, with peaks, memory and contradictions.",
        "instances": "List instance types with memory and price, or which of them hold a model.",
        "prices": "Show dated prices, compare them, or read today's from AWS.",
        "claims": "Recompute what four documents claim of Trainium and Inferentia, and judge each "
        "claim.",
        "report-bug": "Write what a stranger needs to find a fault: versions, command and error, "
        "without values.",
    },
}
"""By heading of the help, its commands, each with the first sentence of its help."""

COMMANDS: Final = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""By command, each a module of this package, the first sentence of its help."""

_EPILOG: Final = """
Begin with:
  trnsim demo  a kernel, a mistake, a training loop, a cost
  trnsim run examples/attention.py  a program's kernels: values, time, a page
  trnsim plan train llama-3.1-8b  time and USD, platform by platform
  trnsim COMMAND --help  what a command answers, its options, an example

An option means the same in every command: --on names chips, families or instance types, --json
prints JSON, --output FILE writes the answer as .json, .csv, .txt, .md or .html, --report DIR
writes its page, figures and table.
"""


def module_of(command: str) -> str:
    """The module of a command."""
    return f"trnsim.cli.{command.replace('-', '_')}"


@cache
def command_of(name: str) -> Any:
    """The command `name`, from its file; a process imports the file once."""
    return typer.main.get_command(import_module(module_of(name)).app)


class Commands(CommandGroup):
    """The commands by name; until a command is called, only its summary exists."""

    groups: ClassVar = {heading: list(commands) for heading, commands in GROUPS.items()}

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, text in COMMANDS.items():
            self.add_command(TyperCommand(name, help=text))

    def main(self, *args: Any, prog_name: str | None = None, **settings: Any) -> Any:
        """Run the command that the arguments name; `python -m trnsim` is called trnsim too."""
        return super().main(*args, prog_name=prog_name or "trnsim", **settings)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the command that `args` begin with, the command, and its own arguments."""
        name, _, arguments = super().resolve_command(ctx, args)
        return name, command_of(str(name)), arguments


app = Parser(
    name="trnsim",
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    context_settings=HELP_OPTIONS,
    epilog=_EPILOG,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        echo(f"trnsim {VERSION}")
        raise typer.Exit


@app.callback()
def trnsim(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """A Trainium you can pip install: run its programs, estimate their time and their cost."""
    from trnsim.site import take_used  # noqa: PLC0415  the version and the help need none

    take_used()  # forgets what earlier estimates of this process used


_OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def main() -> None:
    """Run the command line; any `EmulatorError` is printed on stderr, with exit status 2.

    The exit status is 1 when the output cannot be written, as on a full disk.
    """
    open_missing_streams()
    try:
        app()
    except EmulatorError as error:
        complain(message(error))
        raise SystemExit(2) from None
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        leave_output()
        complain(f"cannot write the output: {error.strerror}")
        raise SystemExit(1) from None
