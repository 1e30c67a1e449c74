"""Sequence: the state of a request on a replica; and the prefix cache of a replica."""

from __future__ import annotations

from collections import OrderedDict

from trnsim.system.serve.load import Request


class Sequence:
    """The state of a request on a replica.

    Attributes:
        index: index of the request in the load.
        prompt_tokens: tokens of its prompt, cached ones included; after a preemption also those of
            its answer so far.
        decode_steps: decode steps that it needs in all; valid until it runs, then `end_step` is.
        base_tokens: length minus (tokens per step x the replica's decode steps so far), a constant
            while it runs, so that a step lengthens all running sequences at once.
        shared_tokens: tokens of its prefix that it uses from the cache.
        filled_tokens: tokens of `prompt_tokens` that are computed or cached.
        end_step: count of the replica's decode steps at which it ends.
        is_running: whether it decodes.
    """

    __slots__ = (
        "base_tokens",
        "decode_steps",
        "end_step",
        "filled_tokens",
        "index",
        "is_running",
        "prompt_tokens",
        "request",
        "shared_tokens",
    )

    def __init__(self, index: int, request: Request, decode_steps: int) -> None:
        self.index = index
        self.request = request
        self.prompt_tokens = request.input_tokens
        self.decode_steps = decode_steps
        self.base_tokens = 0.0
        self.shared_tokens = 0
        self.filled_tokens = 0
        self.end_step = 0
        self.is_running = False


class PrefixCache:
    """Cache of the keys and values of shared prefixes, evicted least recently used first."""

    def __init__(self, block_tokens: int) -> None:
        self._block_size = block_tokens
        self._entries: OrderedDict[str, list[int]] = OrderedDict()  # name: [tokens, users]
        self.tokens = 0

    def _prefix_tokens(self, sequence: Sequence) -> int:
        """Tokens of a prefix that can be cached: full blocks, and not the whole prompt."""
        most_tokens = min(sequence.request.prefix_tokens, sequence.prompt_tokens - 1)
        return most_tokens // self._block_size * self._block_size

    def take(self, sequence: Sequence) -> int:
        """Attach the cached prefix of a sequence to it; return its tokens, 0 if none is cached."""
        if not sequence.request.prefix:
            return 0
        entry = self._entries.get(sequence.request.prefix)
        if entry is None:
            return 0
        self._entries.move_to_end(sequence.request.prefix)
        tokens = min(entry[0], self._prefix_tokens(sequence))
        if tokens:
            entry[1] += 1
            sequence.shared_tokens = tokens
        return tokens

    def keep(self, sequence: Sequence, free_tokens: float) -> None:
        """Cache the prefix of a sequence whose prompt is computed, if `free_tokens` hold it."""
        name = sequence.request.prefix
        if not name or sequence.shared_tokens:
            return
        tokens = self._prefix_tokens(sequence)
        if not tokens:
            return
        entry = self._entries.get(name)
        if entry is None:
            if tokens > free_tokens and not self.evict(tokens - free_tokens):
                return
            entry = self._entries[name] = [tokens, 0]
            self.tokens += tokens
        sequence.shared_tokens = min(tokens, entry[0])
        entry[1] += 1

    def release(self, sequence: Sequence) -> None:
        """Release the prefix of a sequence that ends or is preempted."""
        if sequence.shared_tokens:
            self._entries[sequence.request.prefix][1] -= 1
            sequence.shared_tokens = 0

    def evict(self, tokens: float) -> bool:
        """Drop unused prefixes until `tokens` are free; True if they are."""
        for name in [name for name, (_, users) in self._entries.items() if not users]:
            if tokens <= 0:
                break
            entry_tokens = self._entries.pop(name)[0]
            self.tokens -= entry_tokens
            tokens -= entry_tokens
        return tokens <= 0
