"""The log at a path, in the format that its content shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.calibrate.logs import timed
from trnsim.calibrate.logs.load_tests import guidellm, is_guidellm, is_vllm, vllm
from trnsim.calibrate.logs.measured import RunLog
from trnsim.calibrate.logs.numbers import with_numbers
from trnsim.calibrate.logs.tables import table
from trnsim.calibrate.logs.timed import TimedLog
from trnsim.calibrate.logs.training_logs import (
    is_nemo,
    is_torchtitan,
    is_trainer,
    is_trainer_text,
    nemo,
    torchtitan,
    trainer,
    trainer_text,
)
from trnsim.errors import BadInput
from trnsim.reader import FileContent, SourcePlace, fault, load, parse

FORMATS: Final = ("vllm", "guidellm", "torchtitan", "trainer", "nemo", "csv")
"""Formats of runs."""
TOOLS: Final = ("neuron-profile", "neuron-monitor", "nccom-test", "bill")
"""Formats of tools, which have times and no run."""
_JSON: Final = (".json", ".jsonl", ".ndjson")


def read(path: Path | str) -> RunLog:
    """The log of a run at `path`.

    Raises:
        BadInput: it cannot be read, is in none of `FORMATS`, or its figures are not legal.
    """
    log = read_any(path)
    if isinstance(log, TimedLog):
        raise fault(
            path,
            f"a log of {log.format}, which has no run; legal: {', '.join(FORMATS)}",
            "give it to trnsim calibrate",
        )
    return log


def read_any(path: Path | str) -> RunLog | TimedLog:
    """The log of a run or of a tool at `path`.

    Raises:
        BadInput: it cannot be read, is in no known format, or its figures are not legal.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    log: RunLog | TimedLog | None
    if suffix == ".csv":
        document = with_numbers(load(path, is_table=True), timed.BILL_NUMBERS)
        return timed.of_rows(document.root) or table(path)
    if suffix == ".parquet":
        return timed.parquet(path)
    if suffix in _JSON:
        place = json_content(path).root
        log = of_json(place) or timed.of_json(place)
    else:
        log = _of_text(path)
    if log is not None:
        return log
    raise fault(
        path,
        f"no log of a known kind; legal: {', '.join((*FORMATS, *TOOLS))}",
        fix="write a CSV with step, loss and step_s, or with sent_s, ttft_s, e2e_s, output_tokens",
    )


def json_content(path: Path) -> FileContent:
    """The content of a file of JSON, or of JSON lines.

    Raises:
        BadInput: it is neither.
    """
    content = files.read_bytes(path)
    try:
        return parse(content, path, form="json")
    except BadInput as error:
        try:
            return parse(content, path, form="json lines")
        except BadInput as lines_error:
            # The error on the later line names the fault: the other form stops before it.
            raise max(
                (error, lines_error), key=lambda each: each.line.line if each.line else 0
            ) from None


def of_json(place: SourcePlace) -> RunLog | None:
    """The log in the JSON of a load test or a trainer; None for any other value.

    Raises:
        BadInput: its figures are not legal.
    """
    if is_vllm(place.value):
        return vllm(place)
    if is_guidellm(place.value):
        return guidellm(place)
    return trainer(place) if is_trainer(place.value) else None


def _of_text(path: Path) -> RunLog | TimedLog | None:
    """The log in lines of text; None for any other text."""
    text, name = files.read_text(path), str(path)
    if is_torchtitan(text):
        return torchtitan(name, text)
    if is_nemo(text):
        return nemo(name, text)
    if timed.is_nccom(text):
        return timed.nccom(name, text)
    return trainer_text(name, text) if is_trainer_text(text) else None
