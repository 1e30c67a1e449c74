"""Ranks of a group agree on a collective before any of them begins it.

Each publishes its arguments in a shared store. Ranks whose arguments differ, that wait for each
other in different collectives, or for a rank that has ended, get an error here; inside the
transport they would hang, or exchange wrong bytes. It costs a write and a read of the store
(`bench/agreeing.py`).

Sender and receiver of a message agree too, in the order of messages of a pair of ranks. A receive
may begin long before its send, so each side publishes its arguments when it begins, and reads the
other's where it waits.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from trnsim.device import alive
from trnsim.device.steps import tell_of_waiting
from trnsim.device.store import Store

_PATIENCE_S: Final = 0.25
"""Seconds after which a waiting rank publishes that it waits, and reads the others' state."""
_PAUSE_S: Final = 0.01
"""The longest pause between two looks at the store."""
_LEAST_S: Final = 0.0002
"""The shortest pause."""
_NONE: Final = "-"
"""A value that no rank publishes."""
_SHARE: Final = 3
"""A pause is at most this part of the time waited so far."""


@dataclass(frozen=True)
class CallArguments:
    """A rank's arguments of a collective, or of a message between two ranks.

    Attributes:
        kind: name of the collective.
        tensors: dtypes and shapes that must be the same in all ranks.
        root: the rank that all must name; -1 for none.
        sends: elements for each rank of the group, where these may differ.
        receives: elements from each rank of the group.
        line: line of the program.
        elements: elements of a message from one rank to another; -1 for a collective.
    """

    kind: str
    tensors: str = ""
    root: int = -1
    sends: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()
    line: str = ""
    elements: int = -1

    def __str__(self) -> str:
        parts = [self.kind, self.tensors]
        parts += [f"root {self.root}"] if self.root >= 0 else []
        parts += [f"sends {list(self.sends)}"] if self.sends else []
        parts += [f"receives {list(self.receives)}"] if self.receives else []
        parts += [f"at {self.line}"] if self.line else []
        return " ".join(part for part in parts if part)

    @property
    def is_of_a_pair(self) -> bool:
        """True for a send or a receive."""
        return self.elements >= 0

    @property
    def comparable(self) -> tuple[Any, ...]:
        """The part that must be equal in all ranks of a group, or in sender and receiver."""
        if self.is_of_a_pair:
            return self.tensors.partition("[")[0], self.elements
        return self.kind, self.tensors, self.root


class CallFailure(NamedTuple):
    """The reason why a collective cannot begin.

    Attributes:
        reason: the reason in words, with ranks, lines and their arguments.
        fix: a remedy.
        lost: the ranks that have ended; () where all are alive.
    """

    reason: str
    fix: str
    lost: tuple[int, ...] = ()


class PendingCall(NamedTuple):
    """A call in which a rank waits for the others of a group.

    Attributes:
        group: name of the group, or of a pair of ranks of which the first sends.
        ranks: ranks of the group.
        number: number of earlier calls of the group.
        arguments: arguments of the rank.
    """

    group: str
    ranks: tuple[int, ...]
    number: int
    arguments: CallArguments


class Agreement:
    """One rank's side of all agreements through one store.

    Attributes:
        rank: the rank.
    """

    def __init__(self, store: Store, rank: int, world: int, prefix: str = "trnsim") -> None:
        self.rank = rank
        self._store = store
        self._world = range(world)
        self._prefix = prefix
        self._met: Counter[str] = Counter()
        self._threads: set[int] = set()
        self._is_whole = True
        self._has_told = False
        self._locks: dict[int, str] = {}
        self._takers: set[int] = set()
        self._read: dict[str, str] = {}
        store.set(self._alive(rank), alive.lock())

    def meet(self, group: str, ranks: Sequence[int], own: CallArguments) -> CallFailure | None:
        """Wait until all `ranks` of `group` are at its next collective; the failure if they fail.

        None where all agree, or where the store is gone: the transport then raises the error.
        """
        call = self._next(group, ranks, own)
        return self._unless_gone(lambda: self._said_and_awaited(call))

    def begin(self, group: str, sender: int, receiver: int, own: CallArguments) -> PendingCall:
        """Publish a send to `receiver` or a receive from `sender` of this rank."""
        call = self._next(f"{group}/{sender}>{receiver}", (sender, receiver), own)
        if receiver not in self._takers:
            self._unless_gone(lambda: self._say(call))
        return call

    def disagrees(self, call: PendingCall) -> CallFailure | None:
        """The reason why a message cannot pass, if its other side has begun too."""
        if call.ranks[1] in self._takers:
            return None
        own = {self.rank: call.arguments}
        return self._unless_gone(lambda: disagreement(self._come(call) | own))

    def awaited(self, call: PendingCall, wait_s: float = math.inf) -> CallFailure | None:
        """Wait until the other side of a message has begun too, or the reason why it fails.

        None where both agree, or after `wait_s`: the transport then goes on.
        """
        if call.ranks[1] in self._takers:
            return None
        return self._unless_gone(lambda: self._awaited(call, wait_s))

    def receives_from_any(self) -> None:
        """Publish that this rank receives from any sender: its receives are checked no more."""
        if self.rank not in self._takers:
            self._takers.add(self.rank)
            self._unless_gone(lambda: self._store.set(self._from_any(self.rank), "1"))

    def _next(self, group: str, ranks: Sequence[int], arguments: CallArguments) -> PendingCall:
        call = PendingCall(group, tuple(ranks), self._met[group], arguments)
        self._met[group] += 1
        self._threads.add(threading.get_ident())
        return call

    def _unless_gone(self, ask: Callable[[], CallFailure | None]) -> CallFailure | None:
        """The result of `ask`; None once the store has ended with its process."""
        if not self._is_whole:
            return None
        try:
            return ask()
        except RuntimeError:
            self._is_whole = False
            return None

    def _say(self, call: PendingCall) -> None:
        self._store.set(self._said(call, self.rank), _content(call))

    def _said_and_awaited(self, call: PendingCall) -> CallFailure | None:
        self._say(call)
        return self._awaited(call)

    def _awaited(self, call: PendingCall, wait_s: float = math.inf) -> CallFailure | None:
        content, is_uneven = _content(call), bool(call.arguments.sends)
        begun_s = looked_s = now_s = time.monotonic()
        finding: CallFailure | None = None
        while now_s - begun_s <= wait_s:
            contents = self._contents(call)
            if not is_uneven and all(contents.get(rank) == content for rank in call.ranks):
                break
            by_rank = _arguments_at(contents, call.number) | {self.rank: call.arguments}
            if len(by_rank) == len(call.ranks):
                finding = disagreement(by_rank)
                self._forget(call)
                break
            now_s = time.monotonic()
            if now_s - looked_s > _PATIENCE_S:
                looked_s = now_s
                if self._is_for_any(call):
                    break
                self._tell(call)
                finding = self._told(call) or self._hopeless(call, by_rank)
                if finding is not None:
                    break
            time.sleep(min(max((now_s - begun_s) / _SHARE, _LEAST_S), _PAUSE_S))
        self._wait_no_more()
        return finding

    def _forget(self, call: PendingCall) -> None:
        """Note that the other side of a message was read, and remove the previous one's key."""
        if call.arguments.is_of_a_pair:
            before = self._read.get(call.group)
            self._read[call.group] = self._said(call, sum(call.ranks) - self.rank)
            if before is not None:
                self._store.delete_key(before)

    def _is_for_any(self, call: PendingCall) -> bool:
        """True if the receiver of a message has published that it receives from any sender."""
        receiver = call.ranks[-1]
        if call.arguments.is_of_a_pair and self._store.check([self._from_any(receiver)]):
            self._takers.add(receiver)
            return True
        return False

    def _contents(self, call: PendingCall) -> dict[int, str]:
        """By rank the content for its last even or odd collective of the group.

        A rank is at most one collective ahead, so its content for this one is never overwritten
        before all have read it. The content of a message is removed by its other side at any time,
        and a store waits for missing keys: so these are read in one step.
        """
        keys = {rank: self._said(call, rank) for rank in call.ranks}
        if not call.arguments.is_of_a_pair:
            return self._present(keys)
        texts = {rank: self._store.compare_set(key, _NONE, _NONE) for rank, key in keys.items()}
        return {rank: text.decode() for rank, text in texts.items() if text != _NONE.encode()}

    def _come(self, call: PendingCall) -> dict[int, CallArguments]:
        """Arguments of this collective by rank, of those that have come to it."""
        return _arguments_at(self._contents(call), call.number)

    def _present(self, keys: Mapping[int, str]) -> dict[int, str]:
        """The values of those keys that have one."""
        if not self._store.check(list(keys.values())):
            keys = {rank: key for rank, key in keys.items() if self._store.check([key])}
        values = self._store.multi_get(list(keys.values())) if keys else []
        return {rank: value.decode() for rank, value in zip(keys, values, strict=True)}

    # When the others do not come

    def _tell(self, call: PendingCall) -> None:
        """Publish the call in which this rank waits, unless another of its threads may go on."""
        if len(self._threads) == 1:
            group, ranks, number, arguments = call
            content = json.dumps([group, ranks, number, list(asdict(arguments).values())])
            self._store.set(self._waits(self.rank), content)
            if not self._has_told:
                tell_of_waiting(is_waiting=True)
            self._has_told = True

    def _wait_no_more(self) -> None:
        if self._has_told:
            self._store.set(self._waits(self.rank), "")
            tell_of_waiting(is_waiting=False)
            self._has_told = False

    def _hopeless(
        self, call: PendingCall, by_rank: Mapping[int, CallArguments]
    ) -> CallFailure | None:
        missing = [rank for rank in call.ranks if rank not in by_rank]
        lost = [rank for rank in missing if alive.has_ended(self._lock_of(rank))]
        if lost:
            by_rank = self._come(call)  # what it said last may have come while it ended
            lost = [rank for rank in lost if rank not in by_rank]
        if lost:
            before = self._contents(call._replace(number=max(call.number - 1, 0)))
            return _ended(call, lost, {rank: _read(said) for rank, said in before.items()})
        return self._deadlock(call, missing) if len(self._threads) == 1 else None

    def _deadlock(self, own: PendingCall, missing: Sequence[int]) -> CallFailure | None:
        """A circle of ranks that wait for each other; None if there is none.

        A rank is stuck if it waits in a collective to which a stuck rank has not come. This one is
        stuck as long as those that it misses are. The rank that detects a circle publishes it, so
        that each is reported once: a rank that goes on after the error does not meet it again.
        """
        waiting = {rank: call for rank, call in self._waiting().items() if rank != self.rank}
        stuck = {self.rank: own}
        is_growing = True
        while is_growing:
            is_growing = False
            for rank, call in waiting.items():
                if rank not in stuck and self._waits_for(call, stuck):
                    stuck[rank] = call
                    is_growing = True
        if not any(rank in stuck for rank in missing):
            return None
        finding = _waiting_in_vain(stuck)
        for rank, call in stuck.items():
            content = json.dumps([call.group, call.number, finding.reason, finding.fix])
            self._store.set(self._in_vain(rank), content)
        return finding

    def _told(self, call: PendingCall) -> CallFailure | None:
        """The failure that another rank published for this rank's call."""
        for content in self._present({self.rank: self._in_vain(self.rank)}).values():
            group, number, reason, fix = json.loads(content)
            if (group, number) == (call.group, call.number):
                return CallFailure(reason, fix)
        return None

    def _waits_for(self, call: PendingCall, stuck: Mapping[int, PendingCall]) -> bool:
        awaited = [rank for rank in call.ranks if rank in stuck]
        if not awaited:
            return False
        numbers = {rank: _read(content)[0] for rank, content in self._contents(call).items()}
        return any(numbers.get(rank, -1) < call.number for rank in awaited)

    def _waiting(self) -> dict[int, PendingCall]:
        """Calls in which ranks have published that they wait, without those that have failed."""
        waiting: dict[int, PendingCall] = {}
        for rank, content in self._present({r: self._waits(r) for r in self._world}).items():
            if content:
                group, ranks, number, arguments = json.loads(content)
                waiting[rank] = PendingCall(group, tuple(ranks), number, _arguments_of(arguments))
        for rank, content in self._present({r: self._in_vain(r) for r in waiting}).items():
            if tuple(json.loads(content)[:2]) == (waiting[rank].group, waiting[rank].number):
                del waiting[rank]
        return waiting

    def _lock_of(self, rank: int) -> str:
        if rank not in self._locks:
            self._locks |= self._present({rank: self._alive(rank)})
        return self._locks.get(rank, "")

    def _said(self, call: PendingCall, rank: int) -> str:
        """The key of a rank's arguments: the last two of collectives, all pending of messages."""
        slot = call.number if call.arguments.is_of_a_pair else call.number % 2
        return f"{self._prefix}/{call.group}/{rank}/{slot}"

    def _from_any(self, rank: int) -> str:
        return f"{self._prefix}/from-any/{rank}"

    def _waits(self, rank: int) -> str:
        return f"{self._prefix}/waits/{rank}"

    def _in_vain(self, rank: int) -> str:
        return f"{self._prefix}/in-vain/{rank}"

    def _alive(self, rank: int) -> str:
        return f"{self._prefix}/alive/{rank}"


def _content(call: PendingCall) -> str:
    """The content that a rank publishes for a call."""
    return json.dumps([call.number, *asdict(call.arguments).values()], separators=(",", ":"))


def _read(content: str) -> tuple[int, CallArguments]:
    """The number of a call and its arguments, from the content that a rank published."""
    number, *fields = json.loads(content)
    return number, _arguments_of(fields)


def _arguments_of(fields: Sequence[Any]) -> CallArguments:
    kind, tensors, root, sends, receives, *elements = fields
    return CallArguments(kind, tensors, root, tuple(sends), tuple(receives), *elements)


def _arguments_at(contents: Mapping[int, str], number: int) -> dict[int, CallArguments]:
    read = {rank: _read(content) for rank, content in contents.items()}
    return {
        rank: arguments for rank, (its_number, arguments) in read.items() if its_number == number
    }


# In words


def disagreement(by_rank: Mapping[int, CallArguments]) -> CallFailure | None:
    """The reason why ranks with these arguments cannot begin; None where they agree."""
    if len({arguments.comparable for arguments in by_rank.values()}) > 1:
        if any(arguments.is_of_a_pair for arguments in by_rank.values()):
            ranks = " and ".join(f"rank {rank}" for rank in sorted(by_rank))
            return CallFailure(f"{ranks} pass what does not fit\n{_table(by_rank)}", _FITTING)
        kinds = list(dict.fromkeys(arguments.kind for arguments in by_rank.values()))
        problem = " beside ".join(kinds) if len(kinds) > 1 else f"{kinds[0]} of different tensors"
        if len(kinds) == 1 and len({arguments.tensors for arguments in by_rank.values()}) == 1:
            problem = f"{kinds[0]} from different roots"
        return CallFailure(
            f"{problem}: ranks {sorted(by_rank)} meet, and passed\n{_table(by_rank)}", _ALIKE
        )
    return _uneven(by_rank)


_ALIKE: Final = (
    "let all ranks of a group make the same calls, in one order, with tensors of the same shape "
    "and dtype"
)
_FITTING: Final = (
    "receive what is sent, in the order in which it is: as many elements, of one dtype"
)


def _uneven(by_rank: Mapping[int, CallArguments]) -> CallFailure | None:
    """Two ranks of which one sends another number of elements than the other receives."""
    ranks = sorted(by_rank)
    for at, rank in enumerate(ranks):
        for to, peer in enumerate(ranks):
            sends, receives = by_rank[rank].sends, by_rank[peer].receives
            if sends and receives and sends[to] != receives[at]:
                return CallFailure(
                    f"{by_rank[rank].kind}: rank {rank} sends {sends[to]} elements to rank {peer}, "
                    f"which receives {receives[at]} from it; passed were\n{_table(by_rank)}",
                    "exchange the numbers of elements first, and receive what is sent",
                )
    return None


def _ended(
    call: PendingCall, lost: Sequence[int], before: Mapping[int, tuple[int, CallArguments]]
) -> CallFailure:
    is_pair = call.arguments.is_of_a_pair
    what_kind = "call between these two" if is_pair else "collective of this group"
    lines = [f"  rank {rank}: {_last_words(before.get(rank), what_kind)}" for rank in lost]
    who = ("rank " if len(lost) == 1 else "ranks ") + ", ".join(map(str, lost))
    have = "has" if len(lost) == 1 else "have"
    of = "" if is_pair else f" of ranks {list(call.ranks)}"
    return CallFailure(
        f"{call.arguments.kind}{of} cannot begin: {who} {have} ended, and "
        f"here is passed {call.arguments}\n" + "\n".join(lines),
        "look for the first error in the output of that process; where it has none, it made fewer "
        "calls than the others",
        tuple(lost),
    )


def _last_words(said: tuple[int, CallArguments] | None, call_kind: str) -> str:
    if said is None:
        return f"came to no {call_kind}"
    number, arguments = said
    return f"its last {call_kind} was number {number + 1}: {arguments}"


def _waiting_in_vain(stuck: Mapping[int, PendingCall]) -> CallFailure:
    lines = [
        f"  rank {rank}: {call.arguments}, {_where(call)}" for rank, call in sorted(stuck.items())
    ]
    is_of_pairs = any(call.arguments.is_of_a_pair for call in stuck.values())
    calls = "calls" if is_of_pairs else "collectives"
    fix = "let all ranks go through their groups in one order"
    if is_of_pairs:
        fix += ", and have a receive for each send: where both send first, one may use isend"
    return CallFailure(
        f"ranks {sorted(stuck)} wait for each other in different {calls}\n" + "\n".join(lines), fix
    )


def _where(call: PendingCall) -> str:
    if call.arguments.is_of_a_pair:
        return f"call {call.number + 1} of the two"
    return f"collective {call.number + 1} of group {call.group} of ranks {list(call.ranks)}"


def _table(by_rank: Mapping[int, CallArguments]) -> str:
    """A line for each of the distinct arguments, with its ranks."""
    by_text: dict[str, list[int]] = {}
    for rank, arguments in sorted(by_rank.items()):
        by_text.setdefault(str(arguments), []).append(rank)
    return "\n".join(
        f"  {'rank' if len(ranks) == 1 else 'ranks'} {_spans(ranks)}: {text}"
        for text, ranks in by_text.items()
    )


def _spans(ranks: Sequence[int]) -> str:
    """Ranks in order as text: "0-2, 7"."""
    spans: list[list[Any]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
