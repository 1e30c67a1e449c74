"""Commands as functions: run, check, tune, explain, profile, plan."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.api.bounds import Answer, Bounds, answer
from trnsim.errors import BadInput

__all__ = [
    "check",
    "explain",
    "plan_collective",
    "plan_infer",
    "plan_serve",
    "plan_train",
    "profile",
    "profile_diff",
    "run",
    "tune",
]

_CONFIGS: Final = (".json", ".yaml", ".yml")
"""Endings of a model's configuration; another word is a model's name, or that of its folder."""


def run(
    file: str,
    *,
    on: Sequence[str] = (),
    nki: str | None = None,
    inputs: Sequence[str] = (),
    kernel: str | None = None,
    arguments: Sequence[str] = (),
    bounds: Bounds | None = None,
) -> Answer:
    """The kernels and steps of a program that runs: their times, bounds and advice.

    Reports lie in trnsim-report below the folder; `profile` reads them.

    Args:
        file: a Python program, or with `inputs` a file of kernels.
        on: chips or instance types; default: trn2.
        nki: the version of NKI whose rules kernels follow, or "all" to compare them.
        inputs: .npy files for the arguments of the kernel, in order.
        kernel: the kernel to call, where the file has several.
        arguments: arguments of the program.
        bounds: bounds of the call.

    Raises:
        BadInput: the command refuses, gives no answer, or leaves its bounds.
    """
    bounds = bounds or Bounds()
    arrays = [bounds.path(name) for name in _items("inputs", inputs)]
    words = ["run", "--json", *_options(on=on, nki=nki, kernel=kernel)]
    words += [word for name in arrays for word in ("--input", name)]
    program_words = map(str, _items("arguments", arguments))
    return answer([*words, bounds.path(file), "--", *program_words], bounds)


def check(
    file: str,
    *,
    on: Sequence[str] = (),
    max_us: float | None = None,
    kernel: str | None = None,
    baseline: str | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """The checks of a file's kernels: values against a reference, legality, races, time.

    Args:
        file: a Python file with kernels.
        on: chips; default: trn2.
        max_us: the longest time that passes, in microseconds.
        kernel: the kernel to check, where the file has several.
        baseline: a file of times to compare with.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    bounds = bounds or Bounds()
    times = None if baseline is None else bounds.path(baseline)
    options = _options(on=on, max_us=max_us, kernel=kernel, baseline=times)
    return answer(["check", bounds.path(file), "--json", *options], bounds)


def tune(
    file: str,
    *,
    on: Sequence[str] = (),
    kernel: str | None = None,
    runs: int | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """The fastest setting of the parameters that a kernel declares, with paired intervals.

    A kernel NAME has the values of its keywords in NAME_parameters, and runs on NAME_inputs(). A
    search that exceeds its time goes on from there at the next call.

    Args:
        file: a Python file with kernels.
        on: chips; default: trn2.
        kernel: the kernel to tune, where the file has several.
        runs: maximum number of settings tried; default: a fifth of all.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    bounds = bounds or Bounds()
    options = _options(on=on, kernel=kernel, runs=runs)
    return answer(["tune", bounds.path(file), "--json", *options], bounds)


def explain(name: str = "", *, bounds: Bounds | None = None) -> Answer:
    """An instruction, a chip, an instance or a claim, with sources; without a name, the list.

    Args:
        name: such as "nc_matmul", "trn2", "C07".
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    return answer(["explain", "--json", *_name(name)], bounds or Bounds())


def profile(report: str, *, bounds: Bounds | None = None) -> Answer:
    """The summary of a stored report: time, bottleneck, lines, advice.

    Args:
        report: the .json of a kernel that `run` stored.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    bounds = bounds or Bounds()
    return answer(["profile", "summary", bounds.path(report), "--json"], bounds)


def profile_diff(before: str, after: str, *, bounds: Bounds | None = None) -> Answer:
    """The changes between two stored reports, by engine and line.

    Args:
        before: the earlier report.
        after: the later report.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    bounds = bounds or Bounds()
    reports = [bounds.path(before), bounds.path(after)]
    return answer(["profile", "diff", *reports, "--json"], bounds)


def plan_train(
    model: str,
    *,
    on: Sequence[str] = (),
    instances: int | None = None,
    tokens: float | None = None,
    sequence: int | None = None,
    global_batch: int | None = None,
    tp: int | None = None,
    pp: int | None = None,
    price: str | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """The best layout of a training, its step, time and USD, platform by platform.

    Args:
        model: a model's name, or its config.json below the folder.
        on: chips, families or instance types.
        instances: number of instances.
        tokens: tokens of the run.
        sequence: tokens of a text.
        global_batch: sequences of a step.
        tp: ranks over which a layer is split.
        pp: pipeline stages.
        price: kind of purchase.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    fields = {"instances": instances, "tokens": tokens, "sequence": sequence, "tp": tp, "pp": pp}
    return _plan("train", model, bounds, on, fields | {"global_batch": global_batch}, price)


def plan_infer(
    model: str,
    *,
    on: Sequence[str] = (),
    batch: int | None = None,
    sequence: int | None = None,
    image: int | None = None,
    price: str | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """Latency, items a second and USD per million items of encoders, images and diffusion.

    Args:
        model: a model's name, or its config.json below the folder.
        on: chips, families or instance types.
        batch: items that go through a copy at once.
        sequence: tokens of a text.
        image: pixels of an image along a side.
        price: kind of purchase.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    fields = {"batch": batch, "sequence": sequence, "image": image}
    return _plan("infer", model, bounds, on, fields, price)


def plan_serve(
    model: str,
    *,
    on: Sequence[str] = (),
    request_rate: float | None = None,
    input_len: int | None = None,
    output_len: int | None = None,
    slo_ttft: float | None = None,
    slo_tpot: float | None = None,
    price: str | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """The instances of least cost that serve a load within an SLO, with latencies and USD.

    Args:
        model: a model's name, or its config.json below the folder.
        on: chips, families or instance types.
        request_rate: requests a second; None for the largest rate that one instance keeps.
        input_len: tokens of prompts.
        output_len: tokens of answers.
        slo_ttft: seconds to the first token.
        slo_tpot: seconds between tokens.
        price: kind of purchase.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    fields = {
        "request_rate": request_rate,
        "input_len": input_len,
        "output_len": output_len,
        "slo_ttft": slo_ttft,
        "slo_tpot": slo_tpot,
    }
    return _plan("serve", model, bounds, on, fields, price)


def plan_collective(
    kind: str,
    size_bytes: int,
    *,
    on: Sequence[str] = (),
    ranks: int | None = None,
    instances: int | None = None,
    bounds: Bounds | None = None,
) -> Answer:
    """Time, algorithm and bandwidth of a collective, platform by platform.

    Args:
        kind: such as "all_reduce".
        size_bytes: bytes of the whole message.
        on: chips, families or instance types.
        ranks: ranks of a group.
        instances: instances on which they lie.
        bounds: bounds of the call.

    Raises:
        BadInput: as `run`.
    """
    options = _options(on=on, bytes=size_bytes, ranks=ranks, instances=instances)
    words = ["plan", "collective", "--json", *options, *_name(kind)]
    return answer(words, bounds or Bounds(), has_page=True)


def _plan(
    kind: str,
    model: object,
    bounds: Bounds | None,
    on: Sequence[str],
    fields: Mapping[str, Any],
    price: str | None,
) -> Answer:
    bounds = bounds or Bounds()
    options = _options(on=on, price=price, **fields)
    if isinstance(model, str | Path) and _is_file(model, bounds):
        words = [bounds.path(model)]
    else:
        words = _name(model)
    return answer(["plan", kind, "--json", *options, *words], bounds, has_page=True)


def _is_file(model: str | Path, bounds: Bounds) -> bool:
    """True for the path of a configuration; names of models on Hugging Face have slashes too."""
    if not model:
        return False
    path = Path(model)
    is_path = path.suffix in _CONFIGS or path.is_absolute() or ".." in path.parts
    return is_path or os.path.lexists(bounds.folder / path)


def _items(name: str, values: Any) -> Sequence[Any]:
    """A list or a tuple unchanged.

    Raises:
        BadInput: for any other value, such as a text, whose items are its characters.
    """
    if not isinstance(values, list | tuple):
        raise BadInput(f"{name}={values!r:.60}; legal: a list", fix=f"{name}=[...]")
    return values


def _name(word: object) -> list[str]:
    """The words of a command for a name: the name, or none for an empty name.

    Raises:
        BadInput: it begins with a dash, or is no text.
    """
    if not isinstance(word, str):
        raise BadInput(f"{word!r}; legal: text", fix="write the name between quotation marks")
    if word.startswith("-"):
        raise BadInput(f"{word!r} begins with a dash; legal: a name")
    return [word] if word else []


def _options(**values: Any) -> list[str]:
    """The options of a command, each as one word with its value; none for None and ""."""
    words = []
    for name, value in values.items():
        if value is None:
            continue
        text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
        if text:
            words.append(f"--{name.replace('_', '-')}={text}")
    return words
