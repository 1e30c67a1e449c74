"""A request on a replica, and the cache of the prefixes that requests share."""

from __future__ import annotations

from collections import OrderedDict

from trnsim.system.serve.load import Request


class Sequence:
    """A request on a replica.

    Attributes:
        place: its place in the load.
        request: the request.
        prompt: count of its prompt's tokens, cached ones too; after a preemption with its answer so
            far.
        steps: decode steps that it needs from when it joins; while it runs, `ends` holds.
        base: number such that its tokens are `base` + growth times the replica's steps: a step ages
            all running sequences at once.
        shared: tokens of its prefix that lie in the cache.
        filled: tokens of `prompt` that are computed.
        ends: the step of the replica at which it ends.
        is_running: whether it decodes.
    """

    __slots__ = (
        "base",
        "ends",
        "filled",
        "is_running",
        "place",
        "prompt",
        "request",
        "shared",
        "steps",
    )

    def __init__(self, place: int, request: Request, steps: int) -> None:
        self.place = place
        self.request = request
        self.prompt = request.input_tokens
        self.steps = steps
        self.base = 0.0
        self.shared = 0
        self.filled = 0
        self.ends = 0
        self.is_running = False


class PrefixCache:
    """Cache of the keys and values of prefixes, the least recently used first.

    Attributes:
        tokens: tokens in the cache.
    """

    def __init__(self, block_tokens: int) -> None:
        self._block_size = block_tokens
        self._entries: OrderedDict[str, list[int]] = OrderedDict()
        self.tokens = 0

    def _prefix_tokens(self, sequence: Sequence) -> int:
        """Tokens in full blocks of a prefix; at least one token of a prompt is computed."""
        most = min(sequence.request.prefix_tokens, sequence.prompt - 1)
        return most // self._block_size * self._block_size

    def take(self, sequence: Sequence) -> int:
        """Take the cached prefix of a sequence into use; return its tokens."""
        if not sequence.request.prefix:
            return 0
        entry = self._entries.get(sequence.request.prefix)
        if entry is None:
            return 0
        self._entries.move_to_end(sequence.request.prefix)
        tokens = min(entry[0], self._prefix_tokens(sequence))
        if tokens:
            entry[1] += 1
            sequence.shared = tokens
        return tokens

    def keep(self, sequence: Sequence, room: float) -> None:
        """Cache the prefix of a sequence whose prompt is computed, if `room` tokens hold it."""
        name = sequence.request.prefix
        if not name or sequence.shared:
            return
        tokens = self._prefix_tokens(sequence)
        if not tokens:
            return
        entry = self._entries.get(name)
        if entry is None:
            if tokens > room and not self.evict(tokens - room):
                return
            entry = self._entries[name] = [tokens, 0]
            self.tokens += tokens
        sequence.shared = min(tokens, entry[0])
        entry[1] += 1

    def release(self, sequence: Sequence) -> None:
        """Release the prefix of a sequence that ends or is preempted."""
        if sequence.shared:
            self._entries[sequence.request.prefix][1] -= 1
            sequence.shared = 0

    def evict(self, tokens: float) -> bool:
        """Drop unused prefixes until `tokens` are free; True if they are."""
        for name in [name for name, (_, users) in self._entries.items() if not users]:
            if tokens <= 0:
                break
            dropped = self._entries.pop(name)[0]
            self.tokens -= dropped
            tokens -= dropped
        return tokens <= 0
