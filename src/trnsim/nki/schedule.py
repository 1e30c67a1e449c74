"""`kernel.with_schedule`: dependency edges between the named instructions of a kernel.

An edge fixes the order of issue alone: AWS documents it as a constraint on the compiler's
scheduler.

Source: how-to-scheduling-apis.rst, Adding dependency edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final, NoReturn

from trnsim.behaviours import Version
from trnsim.behaviours.scheduling import DEPENDENCY_KIND
from trnsim.errors import IllegalInstruction, NotModelled, SourceLine
from trnsim.nki.instruction import add_edge, dependency, refuse_out_of_loop
from trnsim.program.edges import Edge, Turns, loops_of

if TYPE_CHECKING:
    from trnsim.program import CoreContext

_SOURCE: Final = "how-to-scheduling-apis.rst, Adding dependency edges"
_FORM: Final = '[("act1", "act0"), ("store", ["act0", "act1"])]'
_MOST_LISTED: Final = 12
"""Names that an error lists."""


@dataclass(frozen=True)
class Schedule:
    """The edges of `kernel.with_schedule`.

    Attributes:
        pairs: (consumer, producer) by name.
        line: the line of the call.
    """

    pairs: tuple[tuple[str, str], ...]
    line: SourceLine | None

    def apply(self, core: CoreContext, first_index: int) -> set[str]:
        """Add the edges to the instructions of `core` from number `first_index` on.

        Returns the names of the schedule that no such instruction has.

        Raises:
            IllegalInstruction: for an ambiguous name, an edge out of a device loop, and a cycle.
        """
        absent_names: set[str] = set()
        for consumer, producer in self.pairs:
            consumers, producers = (self._turns(core, first_index, n) for n in (consumer, producer))
            endpoints = ((consumer, consumers), (producer, producers))
            absent_names |= {name for name, indices in endpoints if not indices}
            for index, turns in consumers.items() if producers else ():
                self._add(core, (consumer, index, turns), producer, producers)
        return absent_names

    def refuse_absent(self, cores: Sequence[CoreContext], absent_names: Iterable[str]) -> NoReturn:
        """Raise the error of names that no core has."""
        sorted_names = sorted(absent_names)
        labels = list(dict.fromkeys(name for core in cores for name in core.labels))
        similar_names = [
            match for name in sorted_names for match in get_close_matches(name, labels, 1)
        ]
        ending = f" and {len(labels) - _MOST_LISTED} more" if len(labels) > _MOST_LISTED else ""
        names = ", ".join(map(repr, labels[:_MOST_LISTED])) + ending if labels else "none"
        raise IllegalInstruction(
            f"with_schedule names {', '.join(map(repr, sorted_names))}, which no instruction of "
            f"the run has; names of this run: {names}",
            fix=f"write {', '.join(map(repr, similar_names))}"
            if similar_names
            else 'name the instruction where it is issued: nisa.activation(..., name="act0")',
            source=_SOURCE,
            line=self.line,
        )

    def _turns(self, core: CoreContext, first_index: int, name: str) -> dict[int, Turns]:
        """Index -> enclosing turns of device loops, for the instructions labelled `name`.

        An instruction in the body of a device loop is there once for each turn.

        Raises:
            IllegalInstruction: if instructions of several places have this name.
        """
        labels = [label for label in core.labels.get(name, ()) if label[0] >= first_index]
        distinct_turns = {turns for _, turns in labels}
        if (
            len(distinct_turns) < len(labels)
            or len({loops_of(turns) for turns in distinct_turns}) > 1
        ):
            lines = list(dict.fromkeys(str(core.program.line(index)) for index, _ in labels))
            raise IllegalInstruction(
                f"with_schedule names {name!r}, which {len(labels)} instructions have, at "
                f"{', '.join(lines[:_MOST_LISTED])}; legal: a name of one instruction",
                fix='number the names of a Python loop: name=f"act{i}"',
                source=f"{_SOURCE}: the second example names each turn of its loop",
                line=self.line,
            )
        return dict(labels)

    def _add(
        self,
        core: CoreContext,
        consumer: tuple[str, int, Turns],
        producer: str,
        producers: dict[int, Turns],
    ) -> None:
        """Add the edge to one consumer from the producer of the same turn.

        Args:
            core: the core.
            consumer: name, index and enclosing turns of the consumer.
            producer: name of the producer.
            producers: index -> enclosing turns, for the instructions of that name.
        """
        name, index, turns = consumer
        for producer_index, producer_turns in producers.items():
            if turns[: len(producer_turns)] == producer_turns:
                text = f"{name!r} after {producer!r}"
                edge = Edge(index, producer_index, False, "with_schedule", self.line, text)
                add_edge(core, edge, _SOURCE)
                return
        producer_index, producer_turns = next(iter(producers.items()))
        refuse_out_of_loop(repr(name), turns, repr(producer), producer_turns)


def schedule_of(edges: object, line: SourceLine | None, version: Version) -> Schedule:
    """The schedule of a call `kernel.with_schedule(edges)` at `line`, in a version of NKI.

    Raises:
        IllegalInstruction: for anything but pairs of names, and for a cycle among names.
        NotModelled: for a kind of dependency, from NKI 0.7 on.
    """
    pairs = tuple(_pairs(edges, version))
    _refuse_cycle(pairs)
    return Schedule(pairs, line)


def _pairs(edges: object, version: Version) -> Iterator[tuple[str, str]]:
    """(consumer, producer) of each edge; a list of producers gives several edges."""
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        _refuse(f"with_schedule was given {edges!r:.80}")
    for pair in edges:
        if not isinstance(pair, tuple | list):
            _refuse(f"with_schedule has the edge {pair!r:.80}")
        if any(isinstance(part, dependency) for part in pair):
            refuse_kind(f"with_schedule has the edge {pair!r:.80}", version)
        if len(pair) != len(("consumer", "producer")):
            _refuse(f"with_schedule has the edge {pair!r:.80} of {len(pair)} parts")
        consumer, producers = pair
        for producer in producers if isinstance(producers, list | tuple) else [producers]:
            for name in (consumer, producer):
                if not isinstance(name, str):
                    _refuse(f"with_schedule has {name!r:.80} in the place of a name")
            yield consumer, producer


def _refuse(usage: str) -> NoReturn:
    raise IllegalInstruction(
        f"{usage}; legal: pairs of a consumer's name and a producer's, or a list of producers",
        fix=f"pass a list such as {_FORM}",
        source=_SOURCE,
    )


def refuse_kind(usage: str, version: Version) -> NoReturn:
    """Raise the error of a schedule with a kind of dependency."""
    if not version.follows(DEPENDENCY_KIND):
        raise DEPENDENCY_KIND.refusal(version, usage)
    raise NotModelled(
        f"{usage}: NKI 0.7 accepts a kind there, in a form that is not public",
        fix="leave the kind out, or call depends_on(kind=...) on the instruction",
        source="nki.isa.dependency",
    )


def _refuse_cycle(pairs: Sequence[tuple[str, str]]) -> None:
    """Refuse pairs whose names form a cycle, before the kernel runs."""
    producers: defaultdict[str, list[str]] = defaultdict(list)
    for consumer, producer in pairs:
        producers[consumer].append(producer)
    try:
        TopologicalSorter(producers).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]  # graphlib lists a producer before its consumer
        raise IllegalInstruction(
            f"with_schedule has a cycle: {' after '.join(map(repr, cycle))}; legal: edges along "
            "which time goes forward",
            fix="leave out one of these edges",
            source=_SOURCE,
        ) from None
