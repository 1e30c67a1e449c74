"""`nki.isa.NkiInstruction`: the handle of an issued instruction, and its explicit dependencies.

A dependency edge between two instructions changes their times, never their values.

Source: nki.isa.NkiInstruction, nki.isa.dependency; how-to-scheduling-apis.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from trnsim.absence import refuse_attribute
from trnsim.behaviours.scheduling import DEPENDENCY_KIND, DEPENDS_ON
from trnsim.enumerations import Enumeration
from trnsim.errors import IllegalInstruction, SourceLine, user_line
from trnsim.nki.dialect import follows, require
from trnsim.program import CoreContext
from trnsim.program.edges import Edge, Turns, loops_of
from trnsim.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.program import Program

_SOURCE: Final = "nki.isa.NkiInstruction, depends_on"


class dependency(Enumeration, public="nisa.dependency"):  # noqa: N801  AWS's name
    """The kind of an edge between two instructions.

    Attributes:
        runtime: a semaphore, on which the consumer waits each time that it runs.
        schedule: an order of issue, which the compiler keeps; engines may overlap.
    """

    runtime = "runtime"
    schedule = "schedule"


class DependencyWarning(DeprecationWarning):
    """Warning of `depends_on` without a kind, which a future release of NKI requires."""


class NkiInstruction:
    """An issued instruction, which calls of `nki.isa` return.

    Attributes:
        index: its place in the core's program.
        name: the label that the call gave (`name=`), or None.
        turns: the device loops that enclose it, with the number of the pass of each loop.
    """

    __slots__ = ("core", "index", "name", "turns")

    def __init__(
        self,
        core: CoreContext | None = None,
        name: str | None = None,
    ) -> None:
        """The instruction that `core` issued last.

        Raises:
            IllegalInstruction: for a call in a program, where functions of nki.isa return it.
        """
        if not isinstance(core, CoreContext):  # a call of a program
            _refuse_call()
        self.index = core.last
        self.core = core
        self.turns = core.nesting.turns
        self.name = name
        if name is not None:
            self._record_name(name)

    def depends_on(
        self, *producers: NkiInstruction, kind: dependency | None = None
    ) -> NkiInstruction:
        """Add edges from each producer to this instruction, and return this instruction.

        Args:
            *producers: instructions of the same kernel, issued before or after this one.
            kind: `nisa.dependency.runtime`: this instruction starts when the producers have ended,
                at the cost of a semaphore between engines. `nisa.dependency.schedule`: it is only
                issued after the producers. None: as runtime, with a warning since NKI 0.7.

        Raises:
            IllegalInstruction: for a producer that is no instruction of this run on this core, a
                cycle, and an edge of kind runtime out of a device loop; before NKI 0.6, and for a
                kind before NKI 0.7.

        Source: nki.isa.NkiInstruction.
        """
        require(DEPENDS_ON, "depends_on")
        if kind is not None:
            require(DEPENDENCY_KIND, f"depends_on(kind={kind})")
            _check_kind(kind)
        elif follows(DEPENDENCY_KIND):
            warn(
                "depends_on without `kind` is deprecated: a future release of NKI requires it\n"
                "  fix: pass kind=nisa.dependency.runtime, which is what it does now; or "
                f"nisa.dependency.schedule for an order of issue alone\n  source: {_SOURCE}",
                DependencyWarning,
            )
        line, waits = user_line(), kind is not dependency.schedule
        for producer in producers:
            self._check(producer, waits=waits)
            text = f"{self.label} after {producer.label}"
            add_edge(
                self.core,
                Edge(self.index, producer.index, waits, "depends_on", line, text),
                _SOURCE,
            )
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse a name that instructions lack."""
        refuse_attribute(lambda: "nisa.NkiInstruction", name, ["depends_on", "name"])

    @property
    def label(self) -> str:
        """The instruction's name in quotes; its opcode if it has no name."""
        return repr(self.name) if self.name else self.core.program.instruction(self.index).opcode

    def _record_name(self, name: object) -> None:
        """Record its name, by which `with_schedule` finds it."""
        if not isinstance(name, str):
            raise IllegalInstruction(
                f"an instruction with name={name!r}; legal: a string",
                fix='name it by a string such as name="load0", or leave name out',
                source="how-to-scheduling-apis.rst, Adding dependency edges",
            )
        self.core.labels.setdefault(name, []).append((self.index, self.turns))

    def _check(self, producer: object, *, waits: bool) -> None:
        """Refuse a producer that this instruction cannot wait for."""
        if not isinstance(producer, NkiInstruction):
            raise IllegalInstruction(
                f"depends_on was given a {type(producer).__name__}; legal: NkiInstruction, the "
                "result of a call of nki.isa",
                fix="pass the results of calls: c.depends_on(a, b); names are for "
                "kernel.with_schedule",
                source=_SOURCE,
            )
        if producer.core is not self.core:
            raise IllegalInstruction(
                f"{self} depends on {producer} of another run or core; legal: instructions of "
                "one run of a kernel, on one core",
                fix="make both in one call of the kernel; cores meet in nisa.core_barrier",
                source=_SOURCE,
            )
        if waits:
            refuse_out_of_loop(str(self), self.turns, str(producer), producer.turns)

    def __repr__(self) -> str:
        return instruction_text(self.core.program, self.index, self.name)


def _refuse_call() -> NoReturn:
    raise IllegalInstruction(
        "a call of nisa.NkiInstruction; legal: instructions that calls of nki.isa return",
        fix="issue one, and keep what the call returns: copy = nisa.tensor_copy(dst, src)",
        source="nki.isa.NkiInstruction",
    )


def _check_kind(kind: object) -> None:
    if not isinstance(kind, dependency):
        raise IllegalInstruction(
            f"depends_on(kind={kind!r}); legal: nisa.dependency.runtime, nisa.dependency.schedule",
            fix="name one of these members",
            source=_SOURCE,
        )


def instruction_text(program: Program, index: int, name: str | None = None) -> str:
    """An instruction in an error: its opcode, its name and its line."""
    label = f" {name!r}" if name else ""
    return f"{program.instruction(index).opcode}{label} ({_line_text(program.line(index))})"


def add_edge(core: CoreContext, edge: Edge, source: str) -> None:
    """Add a dependency edge to a core's program.

    Args:
        core: the core.
        edge: the edge.
        source: document to cite in an error.

    Raises:
        IllegalInstruction: if the edge closes a cycle, with its instructions and their lines.
    """
    program = core.program
    cycle = core.ordering.cycle(program, edge.consumer, edge.producer)
    if cycle:
        raise IllegalInstruction(
            f"{edge.form}: {edge.text} closes a cycle: {_cycle_text(program, cycle)}; legal: "
            "edges along which time goes forward",
            fix="turn the edge around, or leave it out: an instruction already comes after those "
            "whose results it reads or overwrites",
            source=source,
            line=edge.line,
        )
    core.ordering.add(edge)


_MOST_INSTRUCTIONS: Final = 6
"""Maximum number of instructions of a cycle that an error lists."""


def _cycle_text(program: Program, cycle: Sequence[int]) -> str:
    """A cycle in words."""
    if len(cycle) == 1:
        return f"{instruction_text(program, cycle[0])} waits for itself"
    texts = [instruction_text(program, index) for index in cycle]
    if len(texts) > _MOST_INSTRUCTIONS:
        texts[_MOST_INSTRUCTIONS - 1 : -1] = [f"{len(texts) - _MOST_INSTRUCTIONS} more"]
    return f"{' comes after '.join(texts)}, which would come after {texts[0]}"


def refuse_out_of_loop(
    consumer: str, consumer_turns: Turns, producer: str, producer_turns: Turns
) -> None:
    """Refuse an edge from a producer in a device loop to a consumer outside of the same pass.

    The producer would signal the semaphore once in each pass of its loop.

    Args:
        consumer: the waiting instruction in words.
        consumer_turns: the passes of device loops that enclose the consumer.
        producer: the instruction that it waits for, in words.
        producer_turns: the passes of device loops that enclose the producer.
    """
    if consumer_turns[: len(producer_turns)] == producer_turns:
        return
    is_same = loops_of(consumer_turns)[: len(producer_turns)] == loops_of(producer_turns)
    origin = "an earlier turn of its loop" if is_same else "a device loop that it is not in"
    raise IllegalInstruction(
        f"{consumer} depends on {producer} of {origin}; legal: a producer at the same "
        "nesting of device loops, or outside of it",
        fix="make the edge within the loop's body; or wait for the whole loop by the tensors that "
        "it writes",
        source=f"{_SOURCE}: the semaphore fires each time, so an edge out of a loop would hang",
    )


def _line_text(line: SourceLine | None) -> str:
    return "no line" if line is None else f"at {line}"
