"""Programs of frameworks in the persistent cache: their graphs extracted, or themselves compiled.

On a chip every new program goes through the cache. Here a program's time is computed when somebody
asks for it, so the cache is used where the environment wants it: NEURON_EXTRACT_GRAPHS_ONLY stores
graphs, and a folder that NEURON_COMPILE_CACHE_URL or --cache_dir names gets the programs too.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Final

from trnsim.compiler import Flags
from trnsim.compiler.compile_cache import (
    CacheKey,
    cache_settings,
    compile_cached,
    extract_graph,
    is_extracting,
)
from trnsim.compiler.compile_cache.cached_compilation import Tell, tell_on_stderr
from trnsim.compiler.compile_cache.settings import compiler_version, is_cache_named
from trnsim.compiler.flags import VARIABLE, program_flags
from trnsim.compiler.stand_in import StandIn
from trnsim.device import graph_file
from trnsim.device.device_core import compiled_cores, target
from trnsim.device.model_report import ModelReport, Subject, report_model
from trnsim.errors import NotModelled
from trnsim.formatting import plural

_told_paths: Final[set[str]] = set()


def keeps_programs() -> bool:
    """True if programs are to be kept: graphs are extracted, or the cache has a name."""
    return is_extracting() or is_cache_named()


def keep_program(make: Callable[[], Subject], tell: Tell = tell_on_stderr) -> None:
    """Store the graph of a new program, or compile it through the cache, as the environment asks.

    Raises:
        CachedFailure: it failed before, and is not to be tried again.
        EmulatorError: it does not compile, or the graph cannot be written.
    """
    if not keeps_programs():
        return
    settings = cache_settings()
    if str(settings.folder) not in _told_paths:
        _told_paths.add(str(settings.folder))
        tell("NEURON_CACHE", f"Compile cache path: {settings.folder}")
    variable_flags, chip = os.environ.get(VARIABLE, ""), target()
    flags = Flags.parse(variable_flags)
    all_flags = program_flags(variable_flags, chip.name, compiled_cores(chip, flags))
    subject = make()
    missing = subject.model_graph.missing
    if missing and not is_extracting():
        have = plural(len(missing), "operator has", "operators have")
        reason = f"{len(missing)} {have} no lowering: {missing[0]}"
        leave_program(subject.title, reason, tell)
        return
    try:
        graph, key = graph_file.graph_bytes(subject), graph_file.graph_key(subject)
    except NotModelled as error:
        leave_program(subject.title, error.reason, tell)
        return
    entry_key = CacheKey.of(key, all_flags)
    if is_extracting():
        extract_graph(graph, all_flags, settings, key=entry_key, tell=tell)
        return

    def compiled() -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the framework tells refusals itself
            report = report_model(subject, chip.name, flags)
        return stored_program(report, all_flags, graph_file.FORMAT, graph).serialized()

    compile_cached(graph, all_flags, compiled, settings, key=entry_key, tell=tell)


def leave_program(title: str, reason: str, tell: Tell = tell_on_stderr) -> None:
    """Say why a program is not kept, where programs are."""
    if keeps_programs():
        tell("NEURON_CACHE", f"{title} is not kept: {reason}")


def stored_program(
    report: ModelReport, flags: Sequence[str], graph_format: str, graph: bytes
) -> StandIn:
    """The file in place of a NEFF, of a report on a graph."""
    program = report.program
    return StandIn(
        program.target,
        program.lnc,
        tuple(flags),
        compiler_version(),
        graph_format,
        graph,
        report.as_dict(),
    )
