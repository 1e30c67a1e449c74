"""Teams: the NeuronCores that run a kernel, a single core or several in lockstep (LNC=2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from trnsim.arch import NeuronCore
from trnsim.isa.language.machine import RankLink
from trnsim.memory import HbmBytes, SharedTensors, Storage
from trnsim.program.connections import LoopObserver, Peer
from trnsim.program.context import CoreContext
from trnsim.program.current import issuing_to
from trnsim.program.execution import Watcher
from trnsim.program.joint import JointCall
from trnsim.program.lockstep import Lockstep, Meetings, Mirror, do_nothing
from trnsim.program.ranks import Member, Wait
from trnsim.program.records import Call, RankCall


class SharedMemoryObserver(Watcher, Protocol):
    """A watcher that is also told of collectives with other ranks."""

    def joins(self) -> None:
        """Called when all cores come to a collective of their rank."""


class Team:
    """The cores that run a kernel together.

    Attributes:
        contexts: the context of each core, by rank.
    """

    def __init__(
        self,
        core: NeuronCore,
        cores: int = 1,
        *,
        has_values: bool = True,
        watcher: SharedMemoryObserver | None = None,
        loops: Sequence[LoopObserver] | None = None,
        call: Call | RankCall | JointCall | None = None,
        is_mirrored: bool = False,
        member: Member | None = None,
    ) -> None:
        """A team of `cores` cores, each with one of the loop observers, if there are any.

        Several cores need a `watcher`. With a `member` they are the cores of a rank of a world.
        With a `call` they follow the record of an earlier call. A single core may represent both
        cores of a logical core, which run the same instructions (`is_mirrored`).
        """
        observers: Sequence[LoopObserver | None] = loops or (None,) * cores
        self._lockstep = Lockstep(cores)
        self._call = call
        shared = SharedTensors()
        self.contexts: list[CoreContext] = []
        if watcher is None:
            peer = _mirrored_peer(shared) if is_mirrored else None
            link = None if member is None else member.link(0, member.wait_alone)
            context = CoreContext(
                core, has_values=has_values, peer=peer, loops=observers[0], ranks=link
            )
            self.contexts = [context]
            return
        if member is not None:
            self._lockstep.yield_to_ranks = member.hand_over
            member.on_join = watcher.joins
            member.inner_waits = lambda: [Wait(*wait) for wait in self._lockstep.inner_waits()]
        on_meeting = call.meets if isinstance(call, JointCall) else watcher.meets
        meetings = Meetings(self._lockstep, on_meeting)
        for rank in range(cores):
            peer = Peer(
                rank,
                cores,
                meetings.link(rank),
                self._lockstep.hand_over,
                watcher.before,
                watcher.accessed,
                shared,
            )
            context = CoreContext(
                core,
                has_values=has_values,
                peer=peer,
                loops=observers[rank],
                ranks=self._link(member, rank),
            )
            self.contexts.append(context)

    @property
    def hbm(self) -> HbmBytes:
        """The HBM that its cores use so far, without spills."""
        parts = [context.memory.hbm for context in self.contexts]
        return HbmBytes(
            sum(part.tensors for part in parts),
            sum(part.constants for part in parts),
            sum(part.scratchpad for part in parts),
        )

    def run(self, body: Callable[[], object], inputs: Sequence[Storage] = ()) -> list[object]:
        """Run `body` on every core, in lockstep if there are several; returns the results by rank.

        Args:
            body: a function that issues the instructions.
            inputs: the storages that `body` receives.

        Raises:
            UninitializedRead: for a read of shared HBM that no core has written.
        """
        if len(self.contexts) == 1:
            return [self._run_alone(self.contexts[0], body, inputs)]

        def body_of(context: CoreContext) -> Callable[[], object]:
            def run_on_core() -> object:
                with issuing_to(context):
                    return body()

            return run_on_core

        if isinstance(self._call, JointCall):
            self._call.begin(self.contexts, inputs)
        results = self._lockstep.run([body_of(context) for context in self.contexts])
        for context in self.contexts:
            if context.unwritten_shared:
                raise context.unwritten_shared[0]
        if isinstance(self._call, JointCall):
            self._call.end()
        return results

    def _link(self, member: Member | None, core: int) -> RankLink | None:
        """The link of one of several cores to other ranks."""
        if member is None:
            return None
        return member.link(core, partial(self._lockstep.wait_until, core, is_outside=True))

    def _run_alone(
        self, context: CoreContext, body: Callable[[], object], inputs: Sequence[Storage]
    ) -> object:
        """Run `body` on the single core."""
        call = None if isinstance(self._call, JointCall) else self._call
        if call is not None:
            call.begin(context, inputs)
        with issuing_to(context):
            result = body()
        if call is not None:
            call.end(context)
        return result


def _mirrored_peer(shared: SharedTensors) -> Peer:
    """The peer of a mirrored core, which runs the same instructions; races are not checked."""
    mirror = Mirror()
    callbacks = do_nothing, do_nothing, do_nothing
    return Peer(mirror.core, mirror.cores, mirror, *callbacks, shared, is_watched=False)
