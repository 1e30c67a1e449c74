"""Models of PyTorch on a chip: from a configuration, a Python file, or an exported program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trnsim.compiler import Flags
from trnsim.device import model_report
from trnsim.device.configured import model_title, with_question
from trnsim.device.model_report import ModelReport, Subject
from trnsim.errors import OutOfMemory
from trnsim.torch.device_errors import OutOfDeviceMemory
from trnsim.torch.models.config import read_config
from trnsim.torch.models.exported import exported_graph
from trnsim.torch.models.model_graph import model_graph
from trnsim.torch.models.script import script_graph
from trnsim.workload.shape import ModelShape


def of_config(path: Path, shape: ModelShape, dtype: str = "bfloat16") -> Subject:
    """A model of transformers, by its configuration.

    The subject also has the same pass as a question to `trnsim plan`, for a second estimate.

    Raises:
        BadInput: for a file that is no configuration, or a shape that it does not have.
    """
    config = read_config(path)
    graph = model_graph(config, shape, dtype=dtype)
    title = model_title(config.model_type, path, shape)
    item = "tokens" if shape.phase != "encode" or hasattr(config, "vocab_size") else "images"
    number = shape.batch * (shape.tokens if item == "tokens" else 1)
    return with_question(Subject(title, graph, (item, number)), path, shape, dtype)


def of_script(path: Path) -> Subject:
    """The model of a Python file on the arguments that it defines.

    Raises:
        BadInput: for a file without a model, or without arguments.
    """
    return Subject(path.name, script_graph(path))


def of_export(path: Path) -> Subject:
    """An exported program.

    Raises:
        BadInput: for a file that is not an exported program.
        CompilerRefusal: for a program with dynamic dimensions.
    """
    return Subject(path.name, exported_graph(path))


def report_model(
    subject: Subject,
    target: str,
    flags: Flags = Flags(),  # noqa: B008  frozen
    lnc: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> ModelReport:
    """The report on a model on a chip, with PyTorch's errors (see `trnsim.device.model_report`).

    `tell` is called with lines on the progress.

    Raises:
        BadInput: for cores that the chip does not have, or contradictory numbers of cores.
        CompilerRefusal: for a graph that neuronx-cc refuses, if TRNSIM_POLICY is chip.
        OutOfDeviceMemory: for a graph over the HBM of a NeuronCore.
    """
    try:
        return model_report.report_model(subject, target, flags, lnc, tell)
    except OutOfMemory as error:
        raise OutOfDeviceMemory(
            error.reason, fix=error.fix, source=error.source, line=error.line
        ) from error


__all__ = [
    "ModelReport",
    "Subject",
    "of_config",
    "of_export",
    "of_script",
    "report_model",
]
