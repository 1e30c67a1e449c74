"""The log at a path, in the format that its content shows."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.calibrate.logs.load_tests import guidellm, is_guidellm, is_vllm, vllm
from trnsim.calibrate.logs.measured import RunLog
from trnsim.calibrate.logs.tables import table
from trnsim.calibrate.logs.training_logs import is_nemo, is_torchtitan, nemo, torchtitan
from trnsim.reader import SourcePlace, fault, load

FORMATS: Final = ("vllm", "guidellm", "torchtitan", "nemo", "csv")


def read(path: Path | str) -> RunLog:
    """The log at `path`.

    Raises:
        BadInput: it cannot be read, is in none of `FORMATS`, or its figures are not legal.
    """
    path = Path(path)
    if path.suffix.lower() == ".csv":
        return table(path)
    name = str(path)
    if path.suffix.lower() == ".json":
        log = of_json(load(path).root)
        if log is not None:
            return log
    else:
        text = files.read_text(path)
        if is_torchtitan(text):
            return torchtitan(name, text)
        if is_nemo(text):
            return nemo(name, text)
    raise fault(
        path,
        f"no log of a known kind; legal: {', '.join(FORMATS)}",
        fix="write a CSV with step, loss and step_s, or with sent_s, ttft_s, e2e_s, output_tokens",
    )


def of_json(place: SourcePlace) -> RunLog | None:
    """The log in the JSON of a load test; None for any other value.

    Raises:
        BadInput: its figures are not legal.
    """
    if is_vllm(place.value):
        return vllm(place)
    return guidellm(place) if is_guidellm(place.value) else None
