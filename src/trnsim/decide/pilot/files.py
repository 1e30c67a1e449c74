"""Folder of a pilot: launch files, a page for the people who run it, and `pilot.json`.

`Pilot.told` has the value of a pilot of each workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.calibrate.logs import FORMATS
from trnsim.decide.pilot.document import RESULTS
from trnsim.decide.pilot.measure import MOST_SIGMA
from trnsim.decide.pilot.plan import PILOT_FILE, Pilot
from trnsim.decide.pilot.sides import Side
from trnsim.errors import BadInput
from trnsim.foreign_text import markdown_text
from trnsim.formatting import amount, amounts, markdown_table

README: Final = "README.md"
LAUNCH: Final = "launch"
_RUN_TEXT_BY_KIND: Final = {
    "train": "Each side's run is started by one of its three files: for torchrun, Slurm or "
    "Kubernetes. Options are Megatron's; a `train.py` of another framework translates them. "
    "Seed, order of data, sequences of a step and number of steps are the same on both sides: "
    "change none. Log every step with its loss.",
    "serve": "Each side has a server and a load test, with the same requests. Set MODEL to the "
    "folder of weights and tokenizer, start the server, then the load test, once to warm up and "
    "once for the log.",
    "infer": "Each side passes the same items, by your `infer.py` with the options of its file. "
    "Its log has a row a batch: sent_s, ttft_s and e2e_s (both the seconds of the batch), and "
    "output_tokens, the items of the batch.",
}


def check(folder: Path, *, is_forced: bool) -> None:
    """Refuse a folder that has a pilot already or is not writable, before any prediction.

    Raises:
        BadInput: the folder is refused.
    """
    if (folder / PILOT_FILE).exists() and not is_forced:
        raise BadInput(
            f"{folder} has a pilot already ({PILOT_FILE})",
            fix="name another folder, or write over it with --force",
        )
    files.check_folder(folder)


def clear(folder: Path) -> None:
    """Remove the files of an older pilot from `folder`: its launch files and its result.

    Raises:
        BadInput: a file cannot be removed.
    """
    if not (folder / PILOT_FILE).exists():
        return
    old_files = [
        *(folder / LAUNCH).glob("t*-*.*"),
        *(folder / name for name in RESULTS),
        folder / PILOT_FILE,
    ]
    for path in old_files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(f"cannot remove {path}: {error.strerror}") from error


def write(pilot: Pilot, launch: Mapping[str, str], folder: Path) -> list[Path]:
    """Write a pilot to `folder`, which is created; returns the paths of its files.

    Args:
        pilot: plan of the pilot.
        launch: texts of the launch files, by name.
        folder: folder of the pilot.

    Raises:
        BadInput: the folder cannot be written.
    """
    contents = {
        **{f"{LAUNCH}/{name}": text for name, text in launch.items()},
        README: readme(pilot, launch),
        PILOT_FILE: pilot.text(),
    }
    return files.write_together(folder, contents)


def readme(pilot: Pilot, launch: Mapping[str, str]) -> str:
    """Page in Markdown for the people who run the pilot."""
    today, there = pilot.today, pilot.there
    old_decision = pilot.workload_decision
    parts = [
        f"# Pilot: {markdown_text(pilot.workload)}, {today.instance} and {there.instance}",
        (
            f"Decision of {pilot.decision.as_of}: **{old_decision.verdict}**. "
            f"{markdown_text(old_decision.reason)}.\n"
            "\n"
            f"Why this workload: {pilot.why}."
        ),
        "## What to run",
        markdown_table(
            ("side", "instances", "predicted", "hours", "USD", "layout"),
            [_row(pilot, today), _row(pilot, there)],
        ),
        f"Hours are of the whole run of {_run_size(pilot)}, and of its start.",
        _RUN_TEXT_BY_KIND[pilot.run.kind],
        "\n".join(f"- `{LAUNCH}/{name}`" for name in sorted(launch)),
        "## Logs",
        (
            "Names of logs begin with their side: `today.log`, `there.log`; further runs of a side "
            f"are `today-2.log` and so on. Formats: {', '.join(FORMATS)}, one on a side. A model "
            f"that is named in a log is called `{pilot.run.model}`. Logits of the same prompts go "
            "to `today.npy` and `there.npy`, by numpy.save."
        ),
        "    trnsim pilot read DIR today.log there.log",
        (
            f"A side whose rate is not known within {MOST_SIGMA:.0%} is refused: run it longer, or "
            "again. Three runs of today's side or more give the noise of its loss."
        ),
        "## What must be shown",
        markdown_table(
            ("threshold", "legal", "unit", "from"),
            [
                (
                    markdown_text(threshold.name),
                    f"{'>=' if threshold.is_least else '<='} {amount(threshold.limit)}",
                    threshold.unit,
                    threshold.source,
                )
                for threshold in pilot.thresholds
            ],
        ),
    ]
    if len(pilot.told) > 1:
        parts += ["## The other workloads", _other_values(pilot)]
    return "\n\n".join(parts) + "\n"


def _row(pilot: Pilot, side: Side) -> tuple[str, ...]:
    return (
        side.name,
        f"{side.instances} x {side.instance}",
        f"{amounts(side.rate_per_s)} {pilot.run.unit}/s",
        amount(side.hours),
        "-" if side.usd is None else amount(side.usd),
        side.layout,
    )


def _run_size(pilot: Pilot) -> str:
    run = pilot.run
    if run.kind == "train":
        return f"{run.steps} steps of {run.sequences} sequences of {run.sequence} tokens"
    if run.kind == "serve":
        return f"{run.count} requests of {run.input_len} tokens, answers of {run.output_len}"
    return f"{amount(pilot.today.units)} items"


def _other_values(pilot: Pilot) -> str:
    rows = [
        (
            markdown_text(value.workload),
            value.instance or "-",
            "-" if value.refused else amount(value.value_usd),
            "-" if value.run_usd is None else amount(value.run_usd + value.delay_usd),
            markdown_text(value.refused or ""),
        )
        for value in pilot.told
    ]
    return markdown_table(("workload", "there", "worth USD", "costs USD", "no pilot"), rows)
