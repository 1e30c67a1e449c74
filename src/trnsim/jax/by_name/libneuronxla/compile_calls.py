"""`neuron_xla_compile` and `neuron_xla_wlo_compile`: a graph's bytes to the bytes of its program.

Source: their callers in aws-neuron/neuronx-distributed, src/neuronx_distributed/trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Final

from trnsim.arch import target as chip_named
from trnsim.compiler import Flags
from trnsim.compiler.compile_cache import (
    CacheKey,
    cache_settings,
    compile_cached,
    extract_graph,
    is_extracting,
)
from trnsim.compiler.flags import flag_settings, program_flags
from trnsim.device.device_core import compiled_cores, target
from trnsim.device.fallback_policy import VARIABLE as POLICY_VARIABLE
from trnsim.device.fallback_policy import state
from trnsim.errors import BadInput, NotModelled
from trnsim.files import write
from trnsim.jax.programs import chip_of, compile_program

_FORMATS: Final = ("hlo", "stablehlo")
_WHERE: Final = "compiler_flags"
_GRAPH: Final = "model.hlo_module.pb"
_PROGRAM: Final = "model.neff"
_REPORT: Final = "report.txt"

other_graphs: Final[dict[bytes, Callable[[bytes, list[str], str], tuple[str, bytes]]]] = {}
"""Compilers of graphs that are neither HLO nor StableHLO, by the bytes with which a graph begins.

Each is a function from the graph, flags and a chip to the text of a report and the program.
"""


def neuron_xla_compile(
    module_bytes: bytes,
    compiler_flags: str | Sequence[str] = "",
    input_format: str = "hlo",
    platform_target: str = "",
    cache_key: str | None = None,
    retry_failed_compilation: bool = False,
    lazy: bool = True,
    use_cache: bool = True,
    cache_dir: str | None = None,
    work_dir: str | PathLike[str] | None = None,
    create_subdir: bool = True,
) -> bytes:
    """The file in place of a NEFF, as bytes, of a graph's bytes.

    Args:
        module_bytes: a HloModuleProto, or StableHLO.
        compiler_flags: flags of neuronx-cc, as one text or a list.
        input_format: "hlo" or "stablehlo"; the bytes determine the format.
        platform_target: the family of instances; default: the target of the flags, or of the
            device.
        cache_key: the graph's hash; None to compute it.
        retry_failed_compilation: True to compile a graph again that failed before.
        lazy: has no effect: a program is one file.
        use_cache: False to keep nothing.
        cache_dir: the cache's folder, which takes precedence over the environment's.
        work_dir: a folder for the graph, the program and the report's text.
        create_subdir: True for a folder of the graph's own in `work_dir`.

    Raises:
        EmulatorError: the graph does not compile, or a flag does not exist.
    """
    del lazy
    _check_format(module_bytes, input_format)
    chip, words = _chip(compiler_flags, platform_target), _words(compiler_flags)
    cores = compiled_cores(chip_named(chip), Flags.parse(words, _WHERE))
    flags = program_flags(words, chip, cores, _WHERE)
    key = _key(module_bytes, cache_key, [*flags, *_policy_words()])
    settings = cache_settings(cache_dir)
    if is_extracting() and use_cache:
        extract_graph(module_bytes, flags, settings, key=key)
        return b""
    texts: list[str] = []

    def make() -> bytes:
        text, program = _compile(module_bytes, words, chip, key.folder_name)
        texts.append(text)
        return program

    settings = replace(
        settings,
        folder=settings.folder if use_cache else None,
        retries_failed=settings.retries_failed or retry_failed_compilation,
    )
    content = compile_cached(module_bytes, flags, make, settings, key=key).content
    if work_dir is not None:
        subfolder = key.folder_name if create_subdir else ""
        _write_work(Path(work_dir) / subfolder, module_bytes, content, texts)
    return content


def _compile(graph: bytes, words: list[str], chip: str, title: str) -> tuple[str, bytes]:
    """The report's text and the program of a graph."""
    for magic, compile_graph in other_graphs.items():
        if graph.startswith(magic):
            return compile_graph(graph, words, chip)
    report, stored_program = compile_program(
        graph, title, words, chip, flags_origin=_WHERE, title=title
    )
    return report.long_text(), stored_program.serialized()


def _check_format(module_bytes: Any, input_format: str) -> None:
    """Refuse a graph that is no bytes, and a format that AWS's function does not have.

    Raises:
        BadInput: for a value of another type, or another word.
    """
    if not isinstance(module_bytes, bytes):
        raise BadInput(
            f"module_bytes is a {type(module_bytes).__name__}; legal: bytes",
            fix="hlo_module.SerializeToString()",
        )
    if input_format not in _FORMATS:
        raise BadInput(
            f"input_format={input_format!r}; legal: {', '.join(_FORMATS)}", fix="input_format='hlo'"
        )


def _key(graph: bytes, cache_key: str | None, flags: Sequence[str]) -> CacheKey:
    """The key of the graph's entry: of the caller's hash, else of the graph's bytes."""
    if cache_key is None:
        return CacheKey.of(graph, flags)
    return CacheKey.from_hash(cache_key, flags)


def _policy_words() -> list[str]:
    """The policy as words of a key, as it decides which graphs compile; [] for the default."""
    return [] if state.policy == "host" else [f"{POLICY_VARIABLE}={state.policy}"]


def _write_work(folder: Path, graph: bytes, program: bytes, reports: Sequence[str]) -> None:
    """Write the graph, the program and a report, if any, to a folder."""
    write(folder / _GRAPH, graph, parents=True)
    write(folder / _PROGRAM, program)
    for report in reports:
        write(folder / _REPORT, f"{report}\n")


def neuron_xla_wlo_compile(
    module_bytes: bytes, compiler_flags: str | Sequence[str] = "", **settings: Any
) -> tuple[bytes, None]:
    """The file in place of a NEFF, and None: no weight gets another layout here.

    It has the arguments of `neuron_xla_compile`.

    Raises:
        EmulatorError: as `neuron_xla_compile`.
    """
    return neuron_xla_compile(module_bytes, compiler_flags, **settings), None


def _words(flags: str | Sequence[str]) -> list[str]:
    """The flags that a program depends on, without the flag of the target."""
    return [
        f"--{flag.name}={value}" if value else f"--{flag.name}"
        for flag, value in flag_settings(flags, _WHERE)
        if not flag.is_of_host and flag.name != "target"
    ]


def _chip(flags: str | Sequence[str], platform_target: str) -> str:
    """The chip that the caller, the flags or the environment name.

    Raises:
        NotModelled: for a chip that is not emulated.
    """
    flag_target = Flags.parse(flags, _WHERE).target
    chip = chip_of(platform_target or flag_target)
    if not chip:
        return target().name
    if chip in ("inf1", "trn0"):
        raise NotModelled(f"platform_target={chip!r} is not emulated", fix="platform_target='trn2'")
    return chip_named(chip).name
