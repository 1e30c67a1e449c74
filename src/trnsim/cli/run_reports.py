"""The reports of `trnsim run` on disk; one that cannot be written does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from trnsim import files
from trnsim.cli import array_files, report_files
from trnsim.cli.run_document import (
    RANKS_SCHEMA,
    Files,
    RunPart,
    kernel_part,
    ranks_part,
    run_document,
    step_part,
)
from trnsim.document.values import json_text, with_schema
from trnsim.errors import BadInput
from trnsim.foreign_text import file_name
from trnsim.profile import report_of, write_report, write_traces
from trnsim.profile.tables.parquet import EXTRA
from trnsim.runs import Run
from trnsim.worlds import World

FOLDER: Final = Path("trnsim-report")
"""The folder of reports without --report."""
_STEP_PAGE: Final = "step.html"
_ANSWER_FILES: Final = (report_files.PAGE, report_files.FIGURES, report_files.TABLE, _STEP_PAGE)
_RESERVED_NAMES: Final = frozenset(Path(name).stem for name in _ANSWER_FILES)
"""Names of the files of the answer and of a step, which no kernel's files get."""


@dataclass
class Reports:
    """The reports of a script's runs, which are written here, and the parts of its answer.

    Attributes:
        folder: the folder of all reports; if None, only pages and stored reports are written, to
            `FOLDER`.
        reason: the reason for the choice of chips, in words.
        tell: function that shows which report is being written.
        is_verbose: True if the answer is in full.
        errors: the errors of files that could not be written.
        note: a note on reports that need a missing library; "" for none.
        step_page: the page of the training step that the kernels are a part of; "" for none.
    """

    folder: Path | None
    reason: str
    tell: Callable[[str], None]
    is_verbose: bool
    parts: list[RunPart] = field(default_factory=list)
    errors: list[BadInput] = field(default_factory=list)
    note: str = ""
    step_page: str = ""

    def attempt(self, write: Callable[[], object]) -> None:
        """Call a writer, and keep its error."""
        try:
            write()
        except BadInput as error:
            self.errors.append(error)

    def save(self, path: Path, runs: Sequence[Run]) -> None:
        """Write what the last run returned.

        Raises:
            BadInput: nothing ran, or it cannot be written.
        """
        if not runs:
            raise BadInput(f"--output {path}: no kernel ran, so there is nothing to save")
        array_files.save(path, runs[-1].outputs)

    def add_step(self, recording: Any, target: str, runs: Sequence[Sequence[Run]] = ()) -> None:
        """Add the training step in `recording`, with links to the pages of kernels in `runs`."""
        self.step_page = _STEP_PAGE
        kernels = _by_kernel(runs)
        pages: dict[str, str] = {}
        for group, name in zip(kernels, _names(kernels), strict=True):
            pages.setdefault(group[0].title, f"{name}.html")
        self.tell("step: device time")
        from trnsim.device.step_report import step_report  # noqa: PLC0415  of a framework's program

        report, paths = step_report(recording, target, self.reason, pages), Files()
        self.attempt(lambda: paths.update(report=report.write(self.folder or FOLDER)))
        self.parts.append(step_part(report, paths, is_verbose=self.is_verbose))

    def add_kernels(self, runs: Sequence[Sequence[Run]]) -> None:
        """Add kernels, given their runs by chip; the runs of one kernel share a report.

        Files of several kernels, and those of a reserved name, have a number behind the name.
        """
        kernels = _by_kernel(runs)
        for group, name in zip(kernels, _names(kernels), strict=True):
            self._add_kernel(group, name)

    def _add_kernel(self, runs: list[Run], name: str) -> None:
        self.tell(f"{name}: report")
        report, paths = report_of(runs), Files()
        if self.step_page:
            report["step"] = self.step_page
        folder = self.folder or FOLDER

        def write() -> None:
            paths["report"] = write_report(report, folder, name)
            paths["stored"] = paths["report"].with_suffix(".json")
            for run in runs if self.folder is not None else ():
                chip = "" if len(runs) == 1 else f" {run.target.name}"
                traces = write_traces(run, folder, f"{name}-{run.target.name}", self.tell)
                paths.update({f"{kind}{chip}": path for kind, path in traces.items()})
                if "tables" not in traces:
                    self.note = f"Parquet tables are not written: {EXTRA}"

        self.attempt(write)
        profiles = report["profiles"]
        part = kernel_part(runs, profiles, paths, self.reason, is_verbose=self.is_verbose)
        self.parts.append(part)

    def add_worlds(self, worlds: Sequence[World], requested_ranks: int | None = None) -> None:
        """Add runs on ranks: page and figures, and with `folder` also the trace."""
        for number, world in enumerate(worlds):
            name = f"{file_name(world.runs[0].title)}-ranks-{number}"
            base, paths = (self.folder or FOLDER) / name, Files()

            def write(world: World = world, base: Path = base, paths: Files = paths) -> None:
                paths["report"] = world.report(base.with_suffix(".html"))
                values = with_schema(
                    {**world.summary.as_dict(), "lanes": world.lanes()}, RANKS_SCHEMA
                )
                figures = base.with_suffix(".world.json")
                paths["figures"] = files.write(figures, f"{json_text(values)}\n")
                if self.folder is not None:
                    paths["trace"] = world.trace(base.with_suffix(".perfetto-trace"))

            self.attempt(write)
            unused = None if requested_ranks == len(world.runs) else requested_ranks
            self.parts.append(
                ranks_part(world.summary, paths, is_verbose=self.is_verbose, unused_ranks=unused)
            )

    def answer(
        self, script: Path, chips: Sequence[str], output: Path | None = None, *, as_json: bool
    ) -> None:
        """Print the answer, and write it to `output` and to `folder`, if they are not None."""
        document = run_document(self.parts, script.name, chips, self.reason, self.note)
        if self.parts or as_json:
            self.attempt(lambda: report_files.answer(document, None, output, as_json=as_json))
        if self.folder is not None and self.parts:
            folder = self.folder
            self.attempt(lambda: report_files.write_report(folder, document))


def _by_kernel(runs: Sequence[Sequence[Run]]) -> list[list[Run]]:
    """The runs of each kernel, from the runs of each chip."""
    return [[run for run in group if run is not None] for group in zip_longest(*runs)]


def _names(kernels: Sequence[Sequence[Run]]) -> list[str]:
    """Names for kernels' files: with a number if there are several, or the name is reserved."""
    names = [file_name(group[0].title) for group in kernels]
    if len(names) == 1 and names[0].casefold() not in _RESERVED_NAMES:
        return names
    return [f"{name}-{number}" for number, name in enumerate(names)]
