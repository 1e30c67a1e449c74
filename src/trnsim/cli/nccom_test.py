"""``trnsim nccom-test``: the time of collectives on the emulated instance, size by size."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim.arch import target_of_chip
from trnsim.cli.options import command, parser
from trnsim.cli.parsing import Command
from trnsim.cli.quantity_options import whole
from trnsim.cli.terminal import echo
from trnsim.document.values import json_text
from trnsim.files import check_writable, write
from trnsim.instance.model import InstanceModel, instance_model
from trnsim.tools.nccom import notes, report
from trnsim.tools.nccom.hosts import ALLOCATED, DEFAULT_PORT, MOST_PORT, NodeOptions, node_notes
from trnsim.tools.nccom.operations import ITEM_BYTES, OPERATIONS
from trnsim.tools.nccom.options import CHECKS, DEFAULT_DIMENSION, RANDOM, OperationOptions
from trnsim.tools.nccom.sizes import DEFAULT_SIZE
from trnsim.tools.nccom.streams import blocks, streams_of
from trnsim.tools.nccom.times import PlannedOperation, SizeTime, fabric_of, planned_operation
from trnsim.tools.nccom.values import check

app = parser()
_MULTI_WORD_OPTIONS: Final = ("--hosts", "-s", "--stats", "-t")
"""Options that take all words up to the next option."""
_CHECK_NAMES: Final = ("--check", "-c")
_MOST_OPERATIONS: Final = 10_000_000
_SEED_RANGE: Final = 2**32
_SHAPE: Final = "[STEP,STEP][COUNT,COUNT]"


class NccomCommand(Command):
    """A command with options that take several words, and with an optional word for --check."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments in the form that `single_word_arguments` gives them."""
        return super().parse_args(ctx, list(single_word_arguments(args)))


def single_word_arguments(args: Sequence[str]) -> Iterator[str]:
    """The arguments with an option before each of its words: ``-s a b`` becomes ``-s a -s b``.

    ``--check`` without random or all_ones becomes ``--check random``, so that the word behind it
    can be the operation.
    """
    words = list(args)
    while words:
        word = words.pop(0)
        if word in _CHECK_NAMES:
            yield from (word, words.pop(0) if words and words[0] in CHECKS else RANDOM)
        elif word in _MULTI_WORD_OPTIONS and words and not words[0].startswith("-"):
            while words and not words[0].startswith("-"):
                yield from (word, words.pop(0))
        else:
            yield word


def _count(text: str, *names: str, minimum: int = 1, maximum: int = _MOST_OPERATIONS) -> Any:
    return whole(text, *names, minimum=minimum, maximum=maximum, metavar="NUMBER")


def _size(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, metavar="SIZE")


def _file(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class NccomOptions:
    """Options of ``trnsim nccom-test``: those of AWS's tool, and --show-interval."""

    operation: Annotated[
        str, typer.Argument(help=f"One of {', '.join(OPERATIONS)}.", metavar="OPERATION")
    ]
    nworkers: Annotated[int, _count("Ranks on all instances.", "--nworkers", "-r")]
    nnodes: Annotated[int, _count("Instances, as many ranks on each.", "--nnodes", "-N")] = 1
    minbytes: Annotated[str, _size("The first size.", "--minbytes", "-b")] = DEFAULT_SIZE
    maxbytes: Annotated[str, _size("The end of the sizes.", "--maxbytes", "-e")] = DEFAULT_SIZE
    stepbytes: Annotated[
        str, _size("Bytes between two sizes; a tenth of the way.", "--stepbytes", "-i")
    ] = ""
    stepfactor: Annotated[
        str, _size("The factor from one size to the next, in place of -i.", "--stepfactor", "-f")
    ] = ""
    iters: Annotated[
        int, _count("Operations; an estimate is the same in each.", "--iters", "-n")
    ] = 20
    warmup_iters: Annotated[
        int,
        _count("Operations before them, which do not count.", "--warmup_iters", "-w", minimum=0),
    ] = 5
    neff_iters: Annotated[
        int | None,
        _count("Runs of the program; --iters is then within one.", "--neff_iters", "-I"),
    ] = None
    neff_warmup_iters: Annotated[
        int | None,
        _count("Runs of the program that do not count.", "--neff_warmup_iters", "-W", minimum=0),
    ] = None
    datatype: Annotated[
        str,
        typer.Option("--datatype", "-d", help=f"One of {', '.join(ITEM_BYTES)}.", metavar="DTYPE"),
    ] = "uint8"
    check: Annotated[
        str,
        typer.Option(
            *_CHECK_NAMES,
            help="Compute values and compare them with golden ones: of random inputs, or of ones.",
            metavar="[random|all_ones]",
        ),
    ] = ""
    seed: Annotated[
        int | None,
        _count(
            "Seed of all random draws, from 0 on.", "--seed", minimum=0, maximum=_SEED_RANGE - 1
        ),
    ] = None
    unique_buff: Annotated[
        bool, typer.Option("--unique-buff", help="A buffer of its own for each operation.")
    ] = False
    coalesced_cc_size_ratio: Annotated[
        str,
        typer.Option(
            "--coalesced-cc-size-ratio",
            help="Split each message in these parts, which share a start.",
            metavar="[1,2,1]",
        ),
    ] = ""
    shared_output_buff: Annotated[
        bool, typer.Option("--shared-output-buff", help="One output buffer for two cores.")
    ] = False
    variable_size_op_metadata: Annotated[
        Path | None,
        _file("JSON of alltoallv's and all_gatherv's counts.", "--variable-size-op-metadata"),
    ] = None
    hosts: Annotated[
        list[str] | None,
        typer.Option("--hosts", "-s", help="Hosts of MPI, as many as --nnodes.", metavar="HOST..."),
    ] = None
    hosts_file: Annotated[
        Path | None, _file("A file of hosts, one per line; default: ~/hosts.", "--hosts-file")
    ] = None
    mpi_log_dir: Annotated[
        Path | None, typer.Option("--mpi-log-dir", help="For logs of nodes.", metavar="DIR")
    ] = None
    slurm_mode: Annotated[
        bool, typer.Option("--slurm-mode", "-S", help="Nodes are those of a job of Slurm.")
    ] = False
    slurm_vcpus_per_node: Annotated[
        int | None, _count("vCPUs of each node.", "--slurm-vcpus-per-node", "-u")
    ] = None
    slurm_setup_script: Annotated[
        str,
        typer.Option(
            "--slurm-setup-script", help="Is checked and not run.", metavar="FILE|default"
        ),
    ] = ""
    slurm_job_id: Annotated[
        str,
        typer.Option(
            "--slurm-job-id", help="A job whose nodes are read, as scontrol says.", metavar="JOB"
        ),
    ] = ALLOCATED
    slurm_use_head_node_neuron_bench: Annotated[
        bool,
        typer.Option(
            "--slurm-use-head-node-neuron-bench", help="Copy the head node's neuron-bench."
        ),
    ] = False
    non_interactive: Annotated[
        bool, typer.Option("--non-interactive", help="No progress is shown, nor is without.")
    ] = False
    report_to_json_file: Annotated[
        Path | None, _file("Write rows, options, P10 and P90.", "--report-to-json-file")
    ] = None
    stats: Annotated[
        list[str] | None,
        typer.Option("--stats", "-t", help="Columns of the time: avg, p50, ...", metavar="STAT..."),
    ] = None
    show_algorithm: Annotated[
        bool, typer.Option("--show-algorithm", help="Name the algorithm of each size.")
    ] = False
    show_input_output_size: Annotated[
        bool, typer.Option("--show-input-output-size", help="Bytes of a rank's input and output.")
    ] = False
    show_interval: Annotated[
        bool, typer.Option("--show-interval", help="P10 and P90 as columns; trnsim's own option.")
    ] = False
    debug: Annotated[bool, typer.Option("--debug", help="Sources of each time, on stderr.")] = False
    sb2sb: Annotated[bool, typer.Option("--sb2sb", help="Tensors in SBUF, from trn2 on.")] = False
    input_shape: Annotated[
        str, typer.Option("--input-shape", help="Of --sb2sb's input.", metavar=_SHAPE)
    ] = ""
    output_shape: Annotated[
        str, typer.Option("--output-shape", help="Of --sb2sb's output.", metavar=_SHAPE)
    ] = ""
    cc_dim: Annotated[
        int,
        _count(
            "Join tensors of --sb2sb along: 0 free, 1 partition.", "--cc-dim", minimum=0, maximum=1
        ),
    ] = DEFAULT_DIMENSION
    data_parallel_dimension: Annotated[
        int | None, _count("Ranks of each group; groups work at once.", "--data-parallel-dimension")
    ] = None
    custom_replica_groups: Annotated[
        Path | None, _file("JSON of groups of ranks.", "--custom-replica-groups")
    ] = None
    custom_src_target_pairs: Annotated[
        Path | None, _file("JSON of permute's pairs.", "--custom-src-target-pairs")
    ] = None
    streams_json: Annotated[
        Path | None, _file("JSON of operations at once, one a stream.", "--streams-json")
    ] = None
    vcpu_pin_mode: Annotated[
        bool, typer.Option("--vcpu-pin-mode", help="Pin a thread for each rank.")
    ] = False
    data_collector_port: Annotated[
        int, _count("Port for latencies of nodes.", "--data-collector-port", maximum=MOST_PORT)
    ] = DEFAULT_PORT
    data_collector_host: Annotated[
        str, typer.Option("--data-collector-host", help="Host for them.", metavar="HOST")
    ] = ""

    def operation_options(self) -> OperationOptions:
        """The options of an operation."""
        names = {field.name for field in fields(OperationOptions)}
        return OperationOptions(**{k: value for k, value in self.values().items() if k in names})

    def node_options(self) -> NodeOptions:
        """The options of nodes."""
        values = {field.name: self.values()[field.name] for field in fields(NodeOptions)}
        values["hosts"] = tuple(self.hosts or ())
        return NodeOptions(**values)

    def columns(self) -> report.ReportColumns:
        """The columns of the table."""
        return report.ReportColumns(
            report.statistics(self.stats or ()),
            self.show_algorithm,
            self.show_input_output_size,
            self.show_interval,
        )

    def values(self) -> dict[str, Any]:
        """The options by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@app.command(cls=NccomCommand)
@command(NccomOptions)
def nccom_test(options: NccomOptions) -> None:
    """Estimate collectives of ranks on the emulated instance, size by size, as AWS's tool does.

    Each is a program of its own that the host starts; `trnsim plan collective` has the time inside
    a program too. Sizes and GB are in powers of 1024. The instance is TRNSIM_INSTANCE, else the
    smallest of the target chip. P10 to P90 of each time are told on stderr, with the published
    times that it rests on. In `trnsim shell` this is `nccom-test`.

    Example: trnsim nccom-test allr --nworkers 32 --minbytes 1KB --maxbytes 1MB --stepfactor 8
    """
    columns = options.columns()
    model = instance_model()
    if options.report_to_json_file is not None:
        check_writable(options.report_to_json_file)
    fabric = fabric_of(model.name, model.lnc, options.nnodes, options.nworkers)
    base = options.operation_options()
    streams = streams_of(base, options.streams_json)
    operations = [
        planned_operation(stream, fabric, target_of_chip(model.chip)) for stream in streams
    ]
    rows = blocks(operations)
    _print_notes(options, model, _notes(options, model, streams), rows)
    for operation in operations:
        if operation.options.check:
            _check_values(operation)
    echo("\n".join(report.table(block, columns) for block in rows))
    if options.report_to_json_file is not None:
        answer = report.answer(rows, columns, {**options.values(), "instance": model.name})
        write(options.report_to_json_file, json_text(answer) + "\n")


def _notes(
    options: NccomOptions, model: InstanceModel, streams: Sequence[OperationOptions]
) -> list[str]:
    """Notes on stderr about the options."""
    values = options.values()
    defaults = {
        field.name: None if field.default is MISSING else field.default
        for field in (*fields(OperationOptions), *fields(NccomOptions))
    }
    for stream in streams:  # a stream may state what the command line does not
        values |= {
            name: getattr(stream, name)
            for name in notes.IGNORED
            if hasattr(stream, name) and getattr(stream, name) != defaults[name]
        }
    counts = notes.iterations(
        options.iters, options.warmup_iters, options.neff_iters, options.neff_warmup_iters
    )
    lines = [
        *node_notes(options.node_options(), model.vcpus),
        notes.iterations_line(counts, values),
        notes.stats_line(options.columns().stats),
        notes.pairs_line(streams),
        notes.streams_line(len(streams)),
        notes.ignored_line(values, defaults),
    ]
    return [line for line in lines if line]


def _print_notes(
    options: NccomOptions, model: InstanceModel, lines: Sequence[str], rows: list[list[SizeTime]]
) -> None:
    """Print on stderr the instances of the operations, `lines`, and P10 and P90 of `rows`."""
    all_rows = [row for block in rows for row in block]
    place = f"emulated by trnsim on {options.nnodes} x {model.name}"
    echo(f"{place}: {report.floor_text(all_rows)}", is_error=True)
    for line in lines:
        echo(line, is_error=True)
    if not options.show_interval:
        for line in report.interval_lines(all_rows):
            echo(line, is_error=True)
    echo(report.coverage_text(all_rows), is_error=True)
    for words in dict.fromkeys(row.measurements_text for row in all_rows if row.measurements_text):
        echo(f"times: {words} (trnsim calibrate)", is_error=True)
    if options.debug:
        for row in dict.fromkeys(all_rows):
            echo(f"debug: {row.nbytes:,} bytes: {row.time.origin}", is_error=True)


def _check_values(operation: PlannedOperation) -> None:
    """Compute the values of an operation at each size, and print what was compared."""
    seed = operation.options.seed
    if seed is None:
        seed = int(time.time()) % _SEED_RANGE
    checks = [check(operation, nbytes, seed) for nbytes in operation.sizes]
    inputs = operation.options.check
    seed_words = f" with --seed {seed}" if inputs == RANDOM else ""
    sizes = f"{len(checks)} size{'' if len(checks) == 1 else 's'}"
    echo(
        f"--check {inputs}{seed_words}: {operation.operation.name} is right at {sizes}, in up to "
        f"{max(size.elements for size in checks):,} elements of a rank; largest difference "
        f"{max(size.error for size in checks):.3g}",
        is_error=True,
    )
