"""Notes on stderr about options that an estimate accepts.

Nothing runs, so options of processes, buffers and hosts have no effect, and a note names them. AWS
says that some (buffers, SBUF) may make an operation faster, but not by how much; here none does.

Source: aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, CLI arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from trnsim.tools.nccom.options import OperationOptions
from trnsim.tools.nccom.report import AVERAGE

IGNORED: Final = {
    "mpi_log_dir": "no process runs on a host, so no log is written",
    "slurm_vcpus_per_node": "no process runs on a node",
    "slurm_use_head_node_neuron_bench": "no binary is copied",
    "vcpu_pin_mode": "no thread is pinned",
    "data_collector_port": "no latencies are sent",
    "data_collector_host": "no latencies are sent",
    "unique_buff": "no time of unique buffers is published",
    "shared_output_buff": "no time of a shared buffer is published",
    "sb2sb": "no time of tensors in SBUF is published; that of HBM is shown",
    "cc_dim": "the order of joined tensors takes no time here",
    "coalesced_cc_size_ratio": "the parts are one message with one start",
    "ops_per_iter": "each operation of a stream has the same time",
}
"""Options without an effect on a time, each with the reason."""
_OF_STREAMS: Final = ("ops_per_iter",)


class Iterations(NamedTuple):
    """Numbers of runs of an operation.

    Attributes:
        measured: operations whose time would count.
        total: measured operations and those of the warm-up.
        programs: runs of the program; 0 where the tool spreads operations over programs itself.
    """

    measured: int
    total: int
    programs: int


def iterations(
    iters: int, warmup_iters: int, neff_iters: int | None, neff_warmup_iters: int | None
) -> Iterations:
    """The numbers of operations for the options, as AWS's page counts them.

    `iters` and `warmup_iters` are totals, but counts of one program if `neff_iters` or
    `neff_warmup_iters` is stated; then the program runs as often as these two say together.
    """
    if neff_iters is None and neff_warmup_iters is None:
        return Iterations(iters, iters + warmup_iters, 0)
    programs = 1 if neff_iters is None else neff_iters
    runs = programs + (neff_warmup_iters or 0)
    return Iterations(programs * iters, runs * (iters + warmup_iters), runs)


def ignored_line(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """One line that names the options without an effect; "" where there is none.

    Args:
        values: all options by name.
        defaults: their defaults.
    """
    options = [
        f"{name if name in _OF_STREAMS else '--' + name.replace('_', '-')} ({why})"
        for name, why in IGNORED.items()
        if name in values and values[name] != defaults[name]
    ]
    return f"without effect on an estimate: {', '.join(options)}" if options else ""


def stats_line(stats: Iterable[str]) -> str:
    """One line about percentiles of iterations; "" without one."""
    names = [stat for stat in stats if stat != AVERAGE]
    if not names:
        return ""
    return (
        f"--stats {' '.join(names)}: an estimate has one time for all iterations, so each "
        "percentile is the average; P10 to P90 are of the estimate"
    )


def iterations_line(counts: Iterations, values: Mapping[str, Any]) -> str:
    """One line about the iterations; "" where they are the defaults."""
    names = ("neff_iters", "neff_warmup_iters")
    if all(values[name] is None for name in names):
        return ""
    return (
        f"{counts.measured} of {counts.total} operations would count, in {counts.programs} runs of "
        "a program; the estimate is the same for each"
    )


def pairs_line(operations: Sequence[OperationOptions]) -> str:
    """One line about pairs that no file states; "" where there are none."""
    names = [
        options.operation
        for options in operations
        if options.operation in ("sendrecv", "permute") and options.custom_src_target_pairs is None
    ]
    if not names:
        return ""
    text = ", ".join(dict.fromkeys(names))
    return f"{text}: each rank sends to the next one of its group (AWS names no other pairs)"


def streams_line(count: int) -> str:
    """One line about streams; "" for one."""
    return f"{count} streams: each has the time that it has alone" if count > 1 else ""
