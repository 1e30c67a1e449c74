"""The cuts of this process: the recording of its calls, and the ledger of its programs."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from torch import Tensor

from trnsim.device import call_log
from trnsim.device.program_line import program_line, program_place
from trnsim.device.report_parts import ReportPart, report_parts
from trnsim.errors import BadInput
from trnsim.formatting import counted
from trnsim.torch import call_recording
from trnsim.torch.api import memory
from trnsim.torch.scope_tracker import scope_tracker
from trnsim.xla.cuts import exchanges
from trnsim.xla.cuts.foreign_calls import ProgramRecorder
from trnsim.xla.cuts.ledger import (
    COMPILE_TIME,
    FROM_DEVICE,
    MARK_STEP,
    NS_PER_S,
    TO_DEVICE,
    CutRecord,
    Ledger,
    ProgramRecord,
)
from trnsim.xla.cuts.programs import CutProgram, input_indices, program_of
from trnsim.xla.cuts.recorder import COPIED
from trnsim.xla.cuts.values import RecordedValue, order_of

if TYPE_CHECKING:
    from trnsim.xla.cuts.compiling import CompiledCut

SYNC: Final = "sync"
_MOST_REPEATED: Final = 64
"""Number of the latest programs that are looked up by their calls; others are by their digest."""
_Results: TypeAlias = tuple[bool, bool, tuple[RecordedValue, ...]]
"""(True if the results stay lazy, True if they are those of a step, the results)."""


class TensorsRefused(BadInput, TypeError):
    """Values that are not the tensors that a function computes."""


def _checked_tensors(tensors: Any, kind: str) -> list[Tensor]:
    """The tensors of an argument; `kind` is the name of the function that has it.

    Raises:
        TensorsRefused: for anything but tensors.
    """
    is_iterable = isinstance(tensors, Iterable)
    values = list(tensors) if is_iterable else [tensors]
    others = values if not is_iterable else [v for v in values if not isinstance(v, Tensor)]
    if others:
        word = f"{others[0]!r:.60}"
        raise TensorsRefused(
            f"{kind} of {f'a list with {word}' if is_iterable else word}; legal: a list of tensors",
            fix="leave out what is no tensor" if is_iterable else "pass [tensor]",
            line=program_line(),
        )
    return values


class Cuts:
    """Cuts of the program's calls, from `begin` on.

    Attributes:
        recorder: the values that are not computed.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.recorder = ProgramRecorder(self._read, self._transfer)
        self.recorder.end_step = self.end_step
        self._is_fetching = False
        self._repeats: dict[_Results, tuple[ProgramRecord, CutProgram]] = {}

    def begin(self) -> None:
        """Record the device's calls from now on; a second call does nothing."""
        if self.recorder not in call_recording.watchers:
            call_recording.watchers.append(self.recorder)
            memory.placement_listeners.append(self.recorder.placed)
            report_parts.append(self._report)

    def _report(self) -> ReportPart:
        from trnsim.xla.cuts.report import CutReport  # noqa: PLC0415  few programs are reported

        return CutReport(self.ledger)

    def end_step(self, kind: str = SYNC) -> None:
        """Cut at the end of a step: all live results are computed."""
        self.ledger.counters[MARK_STEP] += 1
        cut = self.ledger.cut(kind, program_place())
        self._run(
            self.recorder.live_values(),
            cut,
            is_step=True,
            overwritten_values=self.recorder.origins(),
        )
        self.recorder.settle()

    def sync(self, tensors: Sequence[Tensor], kind: str) -> None:
        """Compute some tensors, which are data from then on.

        Raises:
            TensorsRefused: for anything but tensors.
        """
        tensors = _checked_tensors(tensors, kind)
        cut = self.ledger.cut(kind, program_place())
        values = [self.recorder.value_of(tensor) for tensor in tensors]
        self._run(values, cut)
        for tensor in tensors:
            self.recorder.mark_computed(tensor)

    def program_of(self, tensors: Sequence[Tensor], kind: str = "program_of") -> CutProgram:
        """The program that tensors need, without a cut.

        Raises:
            TensorsRefused: for anything but tensors.
        """
        values = [self.recorder.value_of(tensor) for tensor in _checked_tensors(tensors, kind)]
        return program_of([value for value in values if value.node is not None])

    @contextmanager
    def fetch_together(self, tensors: Sequence[Tensor], kind: str) -> Generator[None]:
        """A context in which copies of some tensors to the host are one cut, with a common program.

        The tensors stay lazy, as at a read.
        """
        values = [self.recorder.value_of(tensor) for tensor in tensors]
        if values:
            self._run(values, self.ledger.cut(kind, program_place()), is_read=True)
            self._transfer("from")
        self._is_fetching = True
        try:
            yield
        finally:
            self._is_fetching = False

    def _read(self, kind: str, values: Sequence[RecordedValue]) -> None:
        """A cut at a read of the host."""
        if self._is_fetching:
            return
        if kind.startswith("aten::"):
            self.ledger.counters[kind] += 1
        is_kept = kind == COPIED
        self._run(values, self.ledger.cut(kind, program_place()), is_read=not is_kept)

    def _run(
        self,
        values: Sequence[RecordedValue],
        cut: CutRecord,
        *,
        is_read: bool = False,
        is_step: bool = False,
        overwritten_values: Sequence[RecordedValue] = (),
    ) -> None:
        """Execute the program of the values that are not computed; a step's are in any order."""
        lazy_values = [value for value in values if value.node is not None]
        if not lazy_values:
            return
        key = (is_read, is_step, tuple(lazy_values))
        record = self._repeated_record(key, overwritten_values)
        is_new = False
        if record is None:
            program = program_of(
                sorted(lazy_values, key=order_of) if is_step else lazy_values,
                is_read=is_read,
                overwritten_values=overwritten_values,
            )
            record, is_new = self.ledger.record_of(program, cut)
            if is_new:
                self._compile(record, program)
                self.ledger.add(record, program, cut)
            self._repeats[key] = (record, program)
            while len(self._repeats) > _MOST_REPEATED:
                del self._repeats[next(iter(self._repeats))]
        self.ledger.execute(record, cut, is_new=is_new)
        exchanges.note(self._repeats[key][1], record, cut)
        if record.compiled is not None and call_log.listening_recordings():
            for call in record.compiled.calls:
                call_log.note(call, 0, scope_tracker.scope)

    def _repeated_record(
        self, key: _Results, overwritten_values: Sequence[RecordedValue]
    ) -> ProgramRecord | None:
        """The record of a program of the same calls; None where there is none."""
        record, program = self._repeats.get(key, (None, None))
        if record is None or program is None or self.ledger.programs.get(record.digest) != record:
            return None
        return (
            record if input_indices(program.data, overwritten_values) == program.donated else None
        )

    def _compile(self, record: ProgramRecord, program: CutProgram) -> None:
        """Compile a new program; an error, or an interruption, gets a note that names it."""
        began_s = time.perf_counter()
        try:
            with call_log.without_recording():
                record.compiled = compile_program(program, f"program-{record.number}")
        except BaseException as error:
            place = f"{record.place[0]}:{record.place[1]}" if record.place else "no line"
            error.add_note(
                f"in the compilation of program {record.number} ({counted(record.calls, 'call')}), "
                f"cut by {record.kind} at {place}"
            )
            raise
        elapsed_s = time.perf_counter() - began_s
        self.ledger.sample(COMPILE_TIME, elapsed_s * NS_PER_S)

    def _transfer(self, direction: str) -> None:
        """Count a copy to or from the device, whose time is not known."""
        if not self._is_fetching:
            self.ledger.sample(TO_DEVICE if direction == "to" else FROM_DEVICE, 0.0)

    def record(
        self, name: str, args: Sequence[Any], results: Sequence[Tensor], constants: Any = ()
    ) -> None:
        """Record a call that is no PyTorch operator."""
        self.recorder.record(name, args, results, constants)


def compile_program(program: CutProgram, name: str) -> CompiledCut:
    """Compile a program; the first program loads the compiler."""
    from trnsim.xla.cuts import compiling  # noqa: PLC0415  takes 50 ms

    return compiling.compile_program(program, name)


cuts: Final = Cuts()
"""The cuts of this process."""
