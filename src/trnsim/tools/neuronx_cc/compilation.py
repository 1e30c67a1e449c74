"""`neuronx-cc compile`: a graph in a file, its report, and the file in place of the NEFF."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trnsim.device.model_report import ModelReport
from trnsim.document.answer import Document
from trnsim.document.values import document_json
from trnsim.errors import BadInput
from trnsim.files import check_folder, check_readable, check_writable, read_bytes, write
from trnsim.foreign_text import file_name
from trnsim.jax.programs import compile_program
from trnsim.profile import report_of, write_report, write_traces
from trnsim.tools.neuronx_cc.arguments import LEVELS, PROGRAM, CompileArguments

STATUS_LINE: Final = "Compiler status PASS"
FAILED_STATUS: Final = 70
"""The exit status of a graph that does not compile, as public reports of neuronx-cc show it
(aws-neuron-sdk issues 619 and 819); its page says only that it is not 0."""
_FIX: Final = "name a file of HLO (text or HloModuleProto) or StableHLO"
_FOLDER_SUFFIXES: Final = (
    *(".html", ".json", ".txt", "-figures.json", ".perfetto-trace", ".trace.json"),
)
"""Suffixes that `write_folder` appends to the graph's name for its files."""


@dataclass(frozen=True)
class Compilation:
    """The result of a compilation.

    Attributes:
        files: the kind and path of each file that was written.
    """

    report: ModelReport
    files: tuple[tuple[str, Path], ...]


def check_files(arguments: CompileArguments) -> None:
    """Refuse files that cannot be read or written, before work begins.

    Raises:
        BadInput: a file cannot be read or written, or would be lost.
    """
    check_readable(arguments.model, fix=_FIX)
    paths = {"the graph": arguments.model}
    for name, path in (("output", arguments.output), ("logfile", arguments.logfile)):
        check_writable(path)
        for label, other in paths.items():
            if path.resolve() == other.resolve():
                raise BadInput(
                    f"{PROGRAM}: --{name}={path} is the file of {label}, which would be lost",
                    fix=f"--{name} with another file",
                )
        paths[f"--{name}"] = path
    if arguments.workdir is None:
        return
    check_folder(arguments.workdir)
    name = file_name(arguments.model.stem)
    report_paths = {arguments.workdir.resolve() / f"{name}{suffix}" for suffix in _FOLDER_SUFFIXES}
    for label, path in paths.items():
        if path.resolve() in report_paths:
            raise BadInput(
                f"{PROGRAM}: --workdir={arguments.workdir} gets a {path.name}, which is the file "
                f"of {label} and would be lost",
                fix="--workdir with another folder",
            )


def compile_file(
    arguments: CompileArguments, tell: Callable[[str], None] = lambda _: None
) -> Compilation:
    """Compile the graph in a file, and write the output, the log and the folder of the report.

    Raises:
        EmulatorError: the file holds no graph, or one that does not compile, or a file cannot be
            written.
    """
    content = read_bytes(arguments.model, fix=_FIX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # refusals stand in the report
        report, stored = compile_program(
            content,
            str(arguments.model),
            arguments.flags,
            arguments.target,
            flags_origin=PROGRAM,
            title=arguments.model.name,
            tell=tell,
        )
    files = [("log", write(arguments.logfile, f"{report.long_text()}\n"))]
    if arguments.workdir is not None:
        files += write_folder(report, arguments.workdir, file_name(arguments.model.stem))
    files.append(("program", write(arguments.output, stored.serialized())))
    return Compilation(report, tuple(files))


def write_folder(report: ModelReport, folder: Path, name: str) -> list[tuple[str, Path]]:
    """Write the whole report to a folder: page, stored report, text, JSON and traces.

    Raises:
        BadInput: a file cannot be written.
    """
    run = report.run()
    page = write_report(report_of([run], [report.scaled_estimate]), folder, name)
    figures = Document(report.title, report.as_dict(), [], schema="compile/1")
    return [
        ("report", page),
        ("stored", page.with_suffix(".json")),
        ("text", write(folder / f"{name}.txt", f"{report.long_text()}\n")),
        ("figures", write(folder / f"{name}-figures.json", f"{document_json(figures)}\n")),
        *write_traces(run, folder, name, lambda _: None).items(),
    ]


def messages(
    compilation: Compilation, level: int, ignored: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """Lines for stdout and lines for stderr at a level of verbosity, as AWS's page says."""
    report = compilation.report
    output_lines: list[str] = []
    error_lines: list[Any] = []
    if level <= LEVELS["info"]:
        output_lines.append(report.text())
        error_lines += ignored
    if level <= LEVELS["warning"]:
        ignored_words = set(ignored)
        error_lines += [words for words in report.compiler_notes if words not in ignored_words]
    output_lines.append(STATUS_LINE)
    return output_lines, [str(words) for words in error_lines]
