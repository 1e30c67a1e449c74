"""Runs of a function on example inputs: its errors say for which inputs it ran, and where."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from torch import Tensor
from torch.utils import _pytree as pytree

from trnsim.device.program_line import program_line
from trnsim.errors import EmulatorError, NotModelled, SourceLine, is_of_trnsim, is_program_file
from trnsim.torch.aten.spec import tensor_text
from trnsim.user_traceback import explain

_log: Final = logging.getLogger("torch._subclasses.fake_tensor")
_COMPILED: Final = "a dynamo-optimized function"
"""Words of PyTorch's error about a compiled function in a trace: torch/_dynamo/eval_frame.py."""
_MOST_SHOWN: Final = 8
_MOST_CHARACTERS: Final = 80
"""Characters of an argument that is no tensor, of which the first line is shown."""


@contextmanager
def example_run(title: str, example_inputs: Any) -> Generator[None]:
    """Context in which a function runs on example inputs.

    An error keeps its type, as programs catch it, and has a note.
    """
    _log.addFilter(_is_no_operator_failure)
    try:
        yield
    except EmulatorError:
        raise
    except Exception as error:
        _refuse_compilation(error, title)
        frames = _frames(error.__traceback__)
        if not is_of_trnsim(frames[-1].file):
            explain(error, "\n  ".join(_note(title, example_inputs, frames)))
        raise
    finally:
        _log.removeFilter(_is_no_operator_failure)


def _refuse_compilation(error: Exception, title: str) -> None:
    """Refuse a function that compiles a part of itself, by PyTorch's error about it.

    Raises:
        NotModelled: for such an error.
    """
    if type(error).__module__ == "torch._dynamo.exc" or _COMPILED in str(error):
        raise NotModelled(
            f"{title} compiles a part of itself when it is called, which no trace can follow: "
            "torch.compile, or torch.cond, flex_attention and loops, which call it",
            fix="torch.compile(model, backend='neuron'); or torch.where, and attention by products",
            line=program_line(),
        ) from error


def _note(title: str, example_inputs: Any, frames: list[SourceLine]) -> list[str]:
    programs = [frame for frame in frames if is_program_file(frame.file)]
    line = programs[-1] if programs else program_line()
    forms = list(map(_text, pytree.tree_leaves(example_inputs)))
    shown = f"{', '.join(forms[:_MOST_SHOWN])}{', ...' if len(forms) > _MOST_SHOWN else ''}"
    return [
        f"{title} raised it for the example inputs {shown}",
        "fix: inputs with which it runs on the host too",
        *([f"at {line}"] if line is not None else []),
    ]


def _text(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)[:_MOST_CHARACTERS].partition("\n")[0]
    return tensor_text(value)


def _frames(traceback: TracebackType | None) -> list[SourceLine]:
    """The lines of a traceback, the outermost first."""
    frames: list[SourceLine] = []
    while traceback is not None:
        frames.append(SourceLine(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def _is_no_operator_failure(record: logging.LogRecord) -> bool:
    """False for PyTorch's record, with all its frames, of the error that is raised next.

    Source: torch/_subclasses/fake_tensor.py, FakeTensorMode._dispatch_impl.
    """
    return not str(record.msg).startswith("failed while attempting to run meta")
