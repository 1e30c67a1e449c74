"""Agreement of the ranks of a group on a collective, before any of them begins it.

Each rank publishes its arguments in a shared store. Ranks whose arguments differ, that wait for
each other in different collectives, or for a rank that has ended, get an error here; inside the
transport they would hang, or exchange wrong bytes. The agreement costs a write to the store, and
reads of the others' shared memory (`boards.py`, `bench/agreeing.py`).

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
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from trnsim.device import alive
from trnsim.device.boards import Boards
from trnsim.device.program_sequence import sequence_failure
from trnsim.device.steps import tell_of_waiting
from trnsim.device.store import Store

_PATIENCE_S: Final = 0.25
"""Seconds after which a waiting rank publishes that it waits, and reads the others' state."""
_MAX_PAUSE_S: Final = 0.01
"""The longest pause between two reads of the store."""
_MIN_PAUSE_S: Final = 0.0002
"""The shortest pause."""
_ABSENT: Final = "-"
"""Value of an absent key in an atomic read; no rank publishes it."""
_PAUSE_DIVISOR: Final = 3
"""A pause is at most the time waited so far, divided by this."""


@dataclass(frozen=True)
class CallArguments:
    """A rank's arguments of a collective, or of a message between two ranks.

    Attributes:
        name: name of the collective; for a message "send to rank 1", with its tag if it has one.
        tensors: dtypes and shapes that all ranks share; of a message only the dtype is compared.
        root: the rank that all must name; -1 for none.
        send_counts: number of elements for each rank of the group, where these may differ.
        receive_counts: number of elements from each rank of the group.
        elements: number of elements of a message; -1 for a collective.
        programs: text of the programs with collectives that the rank has run since the group's
            last call (`ProgramSequence.published`).
    """

    name: str
    tensors: str = ""
    root: int = -1
    send_counts: tuple[int, ...] = ()
    receive_counts: tuple[int, ...] = ()
    line: str = ""
    elements: int = -1
    programs: str = ""

    def __str__(self) -> str:
        parts = [self.name, self.tensors]
        parts += [f"root {self.root}"] if self.root >= 0 else []
        parts += [f"sends {list(self.send_counts)}"] if self.send_counts else []
        parts += [f"receives {list(self.receive_counts)}"] if self.receive_counts else []
        parts += [f"at {self.line}"] if self.line else []
        return " ".join(part for part in parts if part)

    @property
    def is_point_to_point(self) -> bool:
        """True for a send or a receive."""
        return self.elements >= 0

    @property
    def comparison_key(self) -> tuple[Any, ...]:
        """The part that must be equal in all ranks of a group, or in sender and receiver."""
        if self.is_point_to_point:
            dtype = self.tensors.partition("[")[0]
            return dtype, self.elements
        return self.name, self.tensors, self.root


class CallFailure(NamedTuple):
    """The reason why a collective cannot begin.

    Attributes:
        reason: the reason in words, with ranks, lines and their arguments.
        ended_ranks: the ranks that have ended; () where all are alive.
    """

    reason: str
    fix: str
    ended_ranks: tuple[int, ...] = ()


class PendingCall(NamedTuple):
    """A call in which a rank waits for the other ranks of a group.

    Attributes:
        group: name of the group, or of a pair of ranks, sender first.
        number: index of the call among the group's calls.
    """

    group: str
    ranks: tuple[int, ...]
    number: int
    arguments: CallArguments


class Agreement:
    """The agreements of rank `rank` with the other ranks of a store."""

    def __init__(self, store: Store, rank: int, world: int, prefix: str = "trnsim") -> None:
        self.rank = rank
        self._store = store
        self._world = range(world)
        self._prefix = prefix
        self._call_counts: Counter[str] = Counter()
        self._calling_threads: set[int] = set()
        self._has_store = True
        self._has_published_wait = False
        self._lock_paths: dict[int, str] = {}
        self._any_source_ranks: set[int] = set()
        self._last_read_keys: dict[str, str] = {}
        store.set(self._lock_key(rank), alive.held_lock())
        self._boards = Boards(store, rank, prefix)

    def meet(self, group: str, ranks: Sequence[int], args: CallArguments) -> CallFailure | None:
        """Wait until all `ranks` of `group` have called its next collective; return its failure.

        None where all agree, or where the store is gone: the transport then raises the error.
        """
        call = self._next_call(group, ranks, args)
        return self._unless_store_gone(lambda: self._publish_and_wait(call))

    def begin(self, group: str, sender: int, receiver: int, args: CallArguments) -> PendingCall:
        """Publish this rank's send to `receiver`, or its receive from `sender`."""
        call = self._next_call(f"{group}/{sender}>{receiver}", (sender, receiver), args)
        if receiver not in self._any_source_ranks:
            self._unless_store_gone(lambda: self._publish(call))
        return call

    def mismatch(self, call: PendingCall) -> CallFailure | None:
        """The failure of a message whose peer has begun with other arguments; does not wait."""
        if call.ranks[1] in self._any_source_ranks:
            return None
        return self._unless_store_gone(
            lambda: disagreement({**self._arrived_arguments(call), self.rank: call.arguments})
        )

    def wait_for_peer(self, call: PendingCall, wait_s: float = math.inf) -> CallFailure | None:
        """Wait until the peer of a message has begun too; return the failure of the message.

        None where both agree, or after `wait_s`: the transport then goes on.
        """
        if call.ranks[1] in self._any_source_ranks:
            return None
        return self._unless_store_gone(lambda: self._wait(call, wait_s))

    def receives_from_any(self) -> None:
        """Publish that this rank receives from any sender: its receives are checked no more."""
        if self.rank not in self._any_source_ranks:
            self._any_source_ranks.add(self.rank)
            self._unless_store_gone(lambda: self._store.set(self._any_source_key(self.rank), "1"))

    def _next_call(self, group: str, ranks: Sequence[int], arguments: CallArguments) -> PendingCall:
        call = PendingCall(group, tuple(ranks), self._call_counts[group], arguments)
        self._call_counts[group] += 1
        self._calling_threads.add(threading.get_ident())
        return call

    def _unless_store_gone(self, access: Callable[[], CallFailure | None]) -> CallFailure | None:
        """The result of `access`; None once the store has ended with its process."""
        if not self._has_store:
            return None
        try:
            return access()
        except RuntimeError:
            self._has_store = False
            return None

    def _publish(self, call: PendingCall) -> None:
        self._store.set(self._call_key(call, self.rank), _encoded(call))

    def _publish_and_wait(self, call: PendingCall) -> CallFailure | None:
        self._publish(call)
        has_counts = bool(call.arguments.send_counts)  # each rank reads those of the others
        has_met = not has_counts and self._boards.meet(*call[:3], _encoded(call), _PATIENCE_S)
        return None if has_met else self._wait(call)

    def _wait(self, call: PendingCall, wait_s: float = math.inf) -> CallFailure | None:
        text, has_counts = _encoded(call), bool(call.arguments.send_counts)
        begun_s = checked_s = now_s = time.monotonic()
        failure: CallFailure | None = None
        while now_s - begun_s <= wait_s:
            texts = self._published_texts(call)
            if not has_counts and all(texts.get(rank) == text for rank in call.ranks):
                break
            by_rank = _arguments_at(texts, call.number) | {self.rank: call.arguments}
            if len(by_rank) == len(call.ranks):
                failure = disagreement(by_rank)
                self._delete_previous_key(call)
                break
            now_s = time.monotonic()
            if now_s - checked_s > _PATIENCE_S:
                checked_s = now_s
                if self._peer_receives_from_any(call):
                    break
                self._publish_wait(call)
                failure = self._published_deadlock(call) or self._failure_of_missing(call, by_rank)
                if failure is not None:
                    break
            time.sleep(min(max((now_s - begun_s) / _PAUSE_DIVISOR, _MIN_PAUSE_S), _MAX_PAUSE_S))
        self._withdraw_wait()
        return failure

    def _delete_previous_key(self, call: PendingCall) -> None:
        """Delete the peer's text of the message before this one, which this rank has read."""
        if call.arguments.is_point_to_point:
            previous_key = self._last_read_keys.get(call.group)
            self._last_read_keys[call.group] = self._call_key(call, sum(call.ranks) - self.rank)
            if previous_key is not None:
                self._store.delete_key(previous_key)

    def _peer_receives_from_any(self, call: PendingCall) -> bool:
        """True if the receiver of a message has published that it receives from any sender."""
        receiver = call.ranks[-1]
        if call.arguments.is_point_to_point and self._store.check([self._any_source_key(receiver)]):
            self._any_source_ranks.add(receiver)
            return True
        return False

    def _published_texts(self, call: PendingCall) -> dict[int, str]:
        """By rank the text that it published for this call, or for an earlier collective.

        A rank has two keys in a group, for its collectives of even and of odd number. It is at most
        one collective ahead, so all have read a text before it is overwritten. The text of a
        message may be deleted by the peer at any time. A read of a missing key would wait for it,
        so such texts are read with `compare_set`, which returns at once.
        """
        keys = {rank: self._call_key(call, rank) for rank in call.ranks}
        if not call.arguments.is_point_to_point:
            return self._values_of(keys)
        texts = {rank: self._store.compare_set(key, _ABSENT, _ABSENT) for rank, key in keys.items()}
        return {rank: text.decode() for rank, text in texts.items() if text != _ABSENT.encode()}

    def _arrived_arguments(self, call: PendingCall) -> dict[int, CallArguments]:
        """The arguments of the ranks that have made this call, by rank."""
        return _arguments_at(self._published_texts(call), call.number)

    def _values_of(self, keys: Mapping[int, str]) -> dict[int, str]:
        """The values of keys by rank; a rank whose key has no value is left out."""
        if not self._store.check(list(keys.values())):
            keys = {rank: key for rank, key in keys.items() if self._store.check([key])}
        values = self._store.multi_get(list(keys.values())) if keys else []
        return {rank: value.decode() for rank, value in zip(keys, values, strict=True)}

    # Ranks that do not come

    def _publish_wait(self, call: PendingCall) -> None:
        """Publish the call in which this rank waits; not if other threads of it make calls."""
        if len(self._calling_threads) == 1:
            group, ranks, number, arguments = call
            text = json.dumps([group, ranks, number, list(vars(arguments).values())])
            self._store.set(self._wait_key(self.rank), text)
            if not self._has_published_wait:
                tell_of_waiting(is_waiting=True)
            self._has_published_wait = True

    def _withdraw_wait(self) -> None:
        if self._has_published_wait:
            self._store.set(self._wait_key(self.rank), "")
            tell_of_waiting(is_waiting=False)
            self._has_published_wait = False

    def _failure_of_missing(
        self, call: PendingCall, by_rank: Mapping[int, CallArguments]
    ) -> CallFailure | None:
        """The failure of a call whose other ranks have ended, or wait for this rank; else None."""
        missing_ranks = [rank for rank in call.ranks if rank not in by_rank]
        ended_ranks = [rank for rank in missing_ranks if alive.has_ended(self._lock_path(rank))]
        if ended_ranks:
            by_rank = self._arrived_arguments(call)  # again: it may publish just before its end
            ended_ranks = [rank for rank in ended_ranks if rank not in by_rank]
        if ended_ranks:
            earlier_texts = self._published_texts(call._replace(number=max(call.number - 1, 0)))
            return _ended_failure(call, ended_ranks, earlier_texts)
        return self._deadlock(call, missing_ranks) if len(self._calling_threads) == 1 else None

    def _deadlock(self, own_call: PendingCall, missing: Sequence[int]) -> CallFailure | None:
        """The failure of ranks that wait for each other in a circle; None if there is none.

        A rank is stuck if it waits for a stuck rank. This rank is assumed stuck; if a rank that it
        waits for is then stuck too, they wait in a circle. The rank that detects a circle publishes
        it, so that it is reported once, even if a rank goes on after the error.
        """
        calls = {rank: call for rank, call in self._waiting_calls().items() if rank != self.rank}
        stuck_calls = {self.rank: own_call}
        is_growing = True
        while is_growing:
            is_growing = False
            for rank, call in calls.items():
                if rank not in stuck_calls and self._waits_for_stuck(call, stuck_calls):
                    stuck_calls[rank] = call
                    is_growing = True
        if not any(rank in stuck_calls for rank in missing):
            return None
        failure = _deadlock_failure(stuck_calls)
        for rank, call in stuck_calls.items():
            text = json.dumps([call.group, call.number, failure.reason, failure.fix])
            self._store.set(self._deadlock_key(rank), text)
        return failure

    def _published_deadlock(self, call: PendingCall) -> CallFailure | None:
        """The failure of a circle with `call` that another rank detected; None without one."""
        for text in self._values_of({self.rank: self._deadlock_key(self.rank)}).values():
            group, number, reason, fix = json.loads(text)
            if (group, number) == (call.group, call.number):
                return CallFailure(reason, fix)
        return None

    def _waits_for_stuck(self, call: PendingCall, stuck_calls: Mapping[int, PendingCall]) -> bool:
        stuck_ranks = [rank for rank in call.ranks if rank in stuck_calls]
        if not stuck_ranks:
            return False
        numbers = {rank: _decoded(text)[0] for rank, text in self._published_texts(call).items()}
        return any(numbers.get(rank, -1) < call.number for rank in stuck_ranks)

    def _waiting_calls(self) -> dict[int, PendingCall]:
        """Calls in which ranks have published that they wait, unless the call has failed."""
        calls: dict[int, PendingCall] = {}
        for rank, text in self._values_of({r: self._wait_key(r) for r in self._world}).items():
            if text:
                group, ranks, number, arguments = json.loads(text)
                calls[rank] = PendingCall(group, tuple(ranks), number, _arguments_of(arguments))
        for rank, text in self._values_of({r: self._deadlock_key(r) for r in calls}).items():
            if tuple(json.loads(text)[:2]) == (calls[rank].group, calls[rank].number):
                del calls[rank]
        return calls

    def _lock_path(self, rank: int) -> str:
        if rank not in self._lock_paths:
            self._lock_paths |= self._values_of({rank: self._lock_key(rank)})
        return self._lock_paths.get(rank, "")

    def _call_key(self, call: PendingCall, rank: int) -> str:
        """Key of a rank's arguments: one of two by turns for collectives, one for each message."""
        slot = call.number if call.arguments.is_point_to_point else call.number % 2
        return f"{self._prefix}/{call.group}/{rank}/{slot}"

    def _any_source_key(self, rank: int) -> str:
        return f"{self._prefix}/from-any/{rank}"

    def _wait_key(self, rank: int) -> str:
        return f"{self._prefix}/waits/{rank}"

    def _deadlock_key(self, rank: int) -> str:
        return f"{self._prefix}/deadlock/{rank}"

    def _lock_key(self, rank: int) -> str:
        return f"{self._prefix}/alive/{rank}"


def _encoded(call: PendingCall) -> str:
    """The number and arguments of a call, as the text that a rank publishes."""
    return json.dumps([call.number, *vars(call.arguments).values()], separators=(",", ":"))


def _decoded(text: str) -> tuple[int, CallArguments]:
    """The number and arguments of a call, from the text that a rank published."""
    number, *fields = json.loads(text)
    return number, _arguments_of(fields)


def _arguments_of(fields: Sequence[Any]) -> CallArguments:
    name, tensors, root, send_counts, receive_counts, *last = fields
    return CallArguments(name, tensors, root, tuple(send_counts), tuple(receive_counts), *last)


def _arguments_at(texts: Mapping[int, str], number: int) -> dict[int, CallArguments]:
    """The arguments of call `number` by rank, of the ranks whose text is of that call."""
    calls = {rank: _decoded(text) for rank, text in texts.items()}
    return {rank: arguments for rank, (n, arguments) in calls.items() if n == number}


# Failures as text


def disagreement(by_rank: Mapping[int, CallArguments]) -> CallFailure | None:
    """The reason why ranks with these arguments cannot begin; None where they agree."""
    if len({arguments.comparison_key for arguments in by_rank.values()}) > 1:
        if any(arguments.is_point_to_point for arguments in by_rank.values()):
            ranks = " and ".join(f"rank {rank}" for rank in sorted(by_rank))
            return CallFailure(f"{ranks} pass what does not fit\n{_table(by_rank)}", _MESSAGE_FIX)
        names = list(dict.fromkeys(arguments.name for arguments in by_rank.values()))
        problem = " beside ".join(names) if len(names) > 1 else f"{names[0]} of different tensors"
        if len(names) == 1 and len({arguments.tensors for arguments in by_rank.values()}) == 1:
            problem = f"{names[0]} from different roots"
        return CallFailure(
            f"{problem}: ranks {sorted(by_rank)} meet, and passed\n{_table(by_rank)}",
            _COLLECTIVE_FIX,
        )
    programs = {rank: arguments.programs for rank, arguments in by_rank.items()}
    failure = sequence_failure(programs, next(iter(by_rank.values())).name)
    return _count_mismatch(by_rank) if failure is None else CallFailure(*failure)


_COLLECTIVE_FIX: Final = (
    "let all ranks of a group make the same calls, in one order, with tensors of the same shape "
    "and dtype"
)
_MESSAGE_FIX: Final = (
    "receive what is sent, in the order in which it is: as many elements, of one dtype"
)


def _count_mismatch(by_rank: Mapping[int, CallArguments]) -> CallFailure | None:
    """The failure where a rank sends another number of elements than its peer receives."""
    ranks = sorted(by_rank)
    for sender, rank in enumerate(ranks):
        for receiver, peer in enumerate(ranks):
            sends, receives = by_rank[rank].send_counts, by_rank[peer].receive_counts
            if sends and receives and sends[receiver] != receives[sender]:
                return CallFailure(
                    f"{by_rank[rank].name}: rank {rank} sends {sends[receiver]} elements to rank "
                    f"{peer}, which receives {receives[sender]} from it; passed were\n"
                    f"{_table(by_rank)}",
                    "exchange the numbers of elements first, and receive what is sent",
                )
    return None


def _ended_failure(
    call: PendingCall, ranks: Sequence[int], earlier_texts: Mapping[int, str]
) -> CallFailure:
    is_pair = call.arguments.is_point_to_point
    call_kind = "call between these two" if is_pair else "collective of this group"
    lines = [f"  rank {rank}: {_last_call(earlier_texts.get(rank), call_kind)}" for rank in ranks]
    who = ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
    have = "has" if len(ranks) == 1 else "have"
    members = "" if is_pair else f" of ranks {list(call.ranks)}"
    return CallFailure(
        f"{call.arguments.name}{members} cannot begin: {who} {have} ended, and "
        f"this rank passed {call.arguments}\n" + "\n".join(lines),
        "look for the first error in the output of that process; where it has none, it made fewer "
        "calls than the others",
        tuple(ranks),
    )


def _last_call(text: str | None, call_kind: str) -> str:
    if text is None:
        return f"came to no {call_kind}"
    number, arguments = _decoded(text)
    return f"its last {call_kind} was number {number + 1}: {arguments}"


def _deadlock_failure(stuck_calls: Mapping[int, PendingCall]) -> CallFailure:
    calls = sorted(stuck_calls.items())
    lines = [f"  rank {rank}: {call.arguments}, {_position(call)}" for rank, call in calls]
    is_of_pairs = any(call.arguments.is_point_to_point for call in stuck_calls.values())
    calls_name = "calls" if is_of_pairs else "collectives"
    fix = "let all ranks go through their groups in one order"
    if is_of_pairs:
        fix += ", and have a receive for each send: where both send first, one may use isend"
    head = f"ranks {sorted(stuck_calls)} wait for each other in different {calls_name}"
    return CallFailure("\n".join([head, *lines]), fix)


def _position(call: PendingCall) -> str:
    if call.arguments.is_point_to_point:
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
