"""Tracebacks of trnsim's errors in plain Python and in IPython: the frames of the user's program.

An error of a kernel is raised ten frames below the kernel's line, which says nothing to its author.
Frames of trnsim, of Python's own library and of installed packages are left out. All stay with
TRNSIM_FULL_TRACEBACK=1, in a bug of trnsim itself, and where no frame is the user's.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # every program that imports trnsim pays for what stands here
if TYPE_CHECKING:
    from traceback import FrameSummary, StackSummary, TracebackException
    from types import TracebackType

FULL_TRACEBACK = "TRNSIM_FULL_TRACEBACK"
"""The variable that keeps all frames."""
_INSTALLED = {"site-packages", "dist-packages"}
_OWN = "_trnsim_shows_users_frames"
"""The attribute of an error of another package that is shown as one of trnsim."""
_OPERATORS = os.path.join(os.path.dirname(__file__), "torch", "dispatch", "")  # noqa: PTH118, PTH120
"""Files with the kernels of PyTorch's operators."""
_shown_texts: list[str] = []
"""The text of the last error for `show_text_as_own`, or nothing."""


def install() -> None:
    """Let Python print errors of trnsim with the user's frames alone, and others as before."""
    earlier_hook = sys.excepthook

    def hook(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        lines = traceback_lines(error) if "trnsim.errors" in sys.modules else None
        if lines is None:
            earlier_hook(kind, error, traceback)
        else:
            sys.stderr.write("\n".join([*lines, ""]))

    if getattr(earlier_hook, "__module__", "") != __name__:
        sys.excepthook = hook


def keeps_all_frames() -> bool:
    """True if the variable `FULL_TRACEBACK` asks for all frames."""
    return os.environ.get(FULL_TRACEBACK, "0") not in ("", "0")


def show_as_own(error: BaseException) -> None:
    """Show an error of the user's program, which frameworks and trnsim call, as one of trnsim's."""
    setattr(error, _OWN, True)


def explain(error: BaseException, note: str) -> None:
    """Add a note to an error of the user's program or data, and show it as one of trnsim's."""
    error.add_note(note)
    show_as_own(error)


def show_text_as_own(error: BaseException) -> None:
    """Show an error of a framework as trnsim's `error` if it has the same text.

    A caller in C++ that receives `error` raises one of its own with the same text.
    """
    _shown_texts[:] = [f"{type(error).__name__}: {error}"]


def traceback_lines(error: BaseException) -> list[str] | None:
    """The lines of an error of trnsim; None for another error, or where all frames are to stay."""
    if keeps_all_frames():
        return None
    summary = _own_traceback(error)
    if summary is None:
        return None
    frame_count = len(summary.stack)
    summary.stack = users_stack(summary.stack)
    summary.__cause__ = summary.__context__ = None
    lines = "".join(summary.format()).rstrip("\n").split("\n")
    if len(summary.stack) < frame_count:
        lines.append(
            f"(frames of trnsim and of libraries are left out; {FULL_TRACEBACK}=1 shows all)"
        )
    return lines


def _own_traceback(error: BaseException) -> TracebackException | None:
    """The traceback, with all frames, of an error of trnsim or one shown as such; else None."""
    from traceback import TracebackException  # noqa: PLC0415  for an error alone

    from trnsim.errors import EmulatorError, InternalError  # noqa: PLC0415

    if isinstance(error, EmulatorError):
        is_own = not isinstance(error, InternalError)
        return TracebackException.from_exception(error) if is_own else None
    if getattr(error, _OWN, False) or _is_of_operator(error):
        return TracebackException.from_exception(error)
    if isinstance(error, RuntimeError) and any(text in str(error) for text in _shown_texts):
        own_error = RuntimeError(*_shown_texts)
        return TracebackException(type(own_error), own_error, error.__traceback__)
    return None


def _is_of_operator(error: BaseException) -> bool:
    """True for an error of one of PyTorch's operators on the device, for shapes for example.

    It is raised in C++, within the kernel of the operator here; the types are those that PyTorch
    gives its errors. Source: c10/util/Exception.h.
    """
    if type(error) not in (RuntimeError, IndexError, ValueError, NotImplementedError):
        return False
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OPERATORS)


def users_text(error: BaseException) -> str:
    """An error of the user's program as Python prints it, with the user's frames alone.

    A SyntaxError of the user's file has no frames: its line stands in the error.
    """
    from traceback import StackSummary, TracebackException  # noqa: PLC0415  for an error alone

    summary = TracebackException.from_exception(error)
    summary.stack = StackSummary.from_list(_of_user(summary.stack))
    return "".join(summary.format(chain=False)).rstrip("\n")


def users_stack(stack: StackSummary) -> StackSummary:
    """The frames of the user's program, or all if it has none; cells of notebooks as `In[3]`."""
    from traceback import StackSummary  # noqa: PLC0415  for an error alone

    return StackSummary.from_list(_of_user(stack) or stack)


def _of_user(stack: StackSummary) -> list[FrameSummary]:
    from traceback import FrameSummary  # noqa: PLC0415  for an error alone

    from trnsim.errors import is_users_file, shown_file  # noqa: PLC0415

    frames: list[FrameSummary] = []
    for frame in stack:
        parts = frame.filename.replace("\\", "/").split("/")
        if is_users_file(frame.filename) and _INSTALLED.isdisjoint(parts):
            name = shown_file(frame.filename)
            if name != frame.filename:
                frame = FrameSummary(name, frame.lineno, frame.name, line=frame.line)  # noqa: PLW2901
            frames.append(frame)
    return frames
