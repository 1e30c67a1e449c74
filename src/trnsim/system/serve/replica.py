"""One replica: its queue, its sequences with their blocks, and its next step.

Equal decode steps are simulated as one event: until a sequence ends, a bucket or a block is full,
or a request comes that could begin. Their number is exact, so results do not depend on it.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from heapq import heappop, heappush

from trnsim.errors import InternalError
from trnsim.system.serve.engine import GRANULE, Engine, Role, StepCosts, rounded_count
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
        entry = self._entries.get(sequence.request.prefix)
        if entry is None or not sequence.request.prefix:
            return 0
        self._entries.move_to_end(sequence.request.prefix)
        tokens = min(entry[0], self._prefix_tokens(sequence))
        if tokens:
            entry[1] += 1
            sequence.shared = tokens
        return tokens

    def keep(self, sequence: Sequence, room: float) -> None:
        """Cache the prefix of a sequence whose prompt is computed, if `room` tokens hold it."""
        name, tokens = sequence.request.prefix, self._prefix_tokens(sequence)
        if not name or not tokens or sequence.shared:
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


class Replica:
    """One replica of a deployment.

    Attributes:
        engine: its rules.
        waiting: sequences that have not begun.
        busy_s: seconds of steps.
        outstanding: tokens of its requests that have not ended, by which a router weighs it.
        decodes: decode steps by (batch, length), as priced: compiled sizes, or a dynamic engine's
            live batch.
        sequence_steps: decode steps times the live sequences of each.
        prefills: prefill steps by (prompts, tokens, past).
        preempted: number of preemptions.
        cached_tokens: tokens of prompts that came from the cache.
    """

    def __init__(self, engine: Engine, costs: StepCosts) -> None:
        self.engine = engine
        self._costs = costs
        self.waiting: deque[Sequence] = deque()
        self._filling: list[Sequence] = []
        self._running: dict[int, Sequence] = {}
        self._ends_heap: list[tuple[int, int, Sequence]] = []
        self._longest_heap: list[tuple[float, int, Sequence]] = []
        self._cache = PrefixCache(engine.block_tokens)
        self._base_tokens = 0.0
        self._shared_tokens = 0
        self._steps = 0
        self._growth = engine.growth
        self._action: tuple[str, float, float, int] | None = None
        self._chunks: list[tuple[Sequence, int]] = []
        self._joined_sequences: list[Sequence] = []
        self._last_step = (0, 0)
        self._has_filled = False
        self.busy_s = 0.0
        self.outstanding = 0
        self.decodes: Counter[tuple[int, int]] = Counter()
        self.prefills: Counter[tuple[int, int, int]] = Counter()
        self.sequence_steps = 0
        self.preempted = 0
        self.cached_tokens = 0

    @property
    def is_idle(self) -> bool:
        """True if no step is under way."""
        return self._action is None

    @property
    def _is_turn_of_decodes(self) -> bool:
        """True if the running sequences take a step before the next prompt."""
        return self.engine.is_alternating and self._has_filled and bool(self._running)

    def add(self, sequence: Sequence) -> None:
        """Add a request to the queue."""
        self.waiting.append(sequence)
        self.outstanding += sequence.request.tokens

    # What happens next.

    def plan(self, now_s: float) -> tuple[float, list[Sequence]] | None:
        """The end of the next step or steps, and the sequences that begin; None without work."""
        is_turn = self._is_turn_of_decodes
        begun = [] if is_turn else self._admit()
        if self._filling:
            duration_s = self._fill()
            self._action = ("fill", now_s, duration_s, 1)
            self._has_filled = True
            return now_s + duration_s, begun
        if not self._running:
            return None
        self._has_filled = False
        count = 1 if is_turn else self._steps_at_once()
        duration_s = self._begin_decodes(count)
        self._action = ("decode", now_s, duration_s, count)
        return now_s + count * duration_s, begun

    def interrupt(self, now_s: float) -> float | None:
        """The earlier end of the current steps if a waiting request could begin; None otherwise."""
        if self._action is None or not self.waiting or not self._has_place(0):
            return None
        kind, start_s, duration_s, count = self._action
        if kind != "decode" or not self._has_blocks_for(self.waiting[0]):
            return None
        steps = max(math.ceil((now_s - start_s) / duration_s), 1)
        if steps >= count:
            return None
        self._count_decodes(steps - count)
        self._action = (kind, start_s, duration_s, steps)
        return start_s + steps * duration_s

    def complete(self, now_s: float) -> tuple[list[tuple[Sequence, float]], list[Sequence]]:
        """End the steps; return first tokens with their times, and the sequences that ended."""
        if self._action is None:
            raise InternalError("a replica ends a step that it did not begin")
        kind, start_s, duration_s, count = self._action
        self._action = None
        self.busy_s += count * duration_s
        first = [(sequence, start_s + duration_s) for sequence in self._joined_sequences]
        self._joined_sequences = []
        ended: list[Sequence] = []
        if self._running and (kind == "decode" or self.engine.is_mixing):
            self._steps += count
            ended = self._ended_sequences()
        if kind == "fill":
            first += [(sequence, now_s) for sequence in self._finish_prompts(ended)]
        for sequence in ended:
            self.outstanding -= sequence.request.tokens
        return first, ended

    # Prompts.

    def _admit(self) -> list[Sequence]:
        """Begin waiting sequences while there is a place and memory for them."""
        begun: list[Sequence] = []
        while (
            self.waiting and self._has_place(len(begun)) and self._has_blocks_for(self.waiting[0])
        ):
            sequence = self.waiting.popleft()
            if self.engine.role is Role.DECODE:
                self._join(sequence)
                self._joined_sequences.append(sequence)
                begun.append(sequence)
                continue
            if self.engine.has_prefix_cache:
                sequence.filled = self._cache.take(sequence)
                self._shared_tokens += sequence.filled
                self.cached_tokens += sequence.filled
            self._filling.append(sequence)
            begun.append(sequence)
        return begun

    def _has_place(self, begun: int) -> bool:
        engine = self.engine
        if len(self._running) + len(self._filling) >= engine.max_num_seqs:
            return False
        if engine.role is Role.DECODE:
            return True
        if engine.is_compiled:
            return begun < engine.prompts_at_once and self._fits_in_step()
        return (
            sum(sequence.prompt - sequence.filled for sequence in self._filling)
            < self._prompt_budget
        )

    @property
    def _prompt_budget(self) -> int:
        """Tokens of a dynamic step that are left for prompts."""
        engine = self.engine
        if not engine.is_chunked:
            return engine.max_num_batched_tokens
        return engine.max_num_batched_tokens - len(self._running) * (1 + engine.draft_tokens)

    def _fits_in_step(self) -> bool:
        """True if the next prompt fits in a compiled step with the chosen ones."""
        if not self._filling:
            return True
        filling = [*self._filling, self.waiting[0]]
        longest = self.engine.bucket(max(sequence.prompt - sequence.filled for sequence in filling))
        prompts = self.engine.prompts(len(filling))
        return prompts * longest <= self.engine.max_num_batched_tokens

    def _fill(self) -> float:
        """Seconds of the next step with prompts, whose chunks are recorded."""
        return self._fill_compiled() if self.engine.is_compiled else self._fill_dynamic()

    def _fill_compiled(self) -> float:
        """Seconds of all segments of the chosen prompts, one after another."""
        engine, chosen = self.engine, self._filling
        self._chunks = [(sequence, sequence.prompt - sequence.filled) for sequence in chosen]
        left = max(tokens for _, tokens in self._chunks)
        past = max(sequence.filled for sequence in chosen)
        duration_s = 0.0
        for step in engine.segments(engine.prompts(len(chosen)), left, past):
            self.prefills[step] += 1
            duration_s += self._costs.prefill(*step)
        return duration_s

    def _fill_dynamic(self) -> float:
        """Seconds of one step: a token of each running sequence, and chunks of prompts."""
        engine = self.engine
        budget = max(self._prompt_budget, 1)
        self._chunks = []
        for sequence in self._filling:
            tokens = min(sequence.prompt - sequence.filled, budget)
            if tokens <= 0:
                break
            self._chunks.append((sequence, tokens))
            budget -= tokens
        count = len(self._chunks)
        tokens = rounded_count(-(-sum(tokens for _, tokens in self._chunks) // count))
        past = rounded_count(sum(sequence.filled for sequence, _ in self._chunks) // count)
        if not (engine.is_mixing and self._running):
            self.prefills[count, tokens, past] += 1
            return self._costs.prefill(count, tokens, past)
        self._make_room(1)
        batch, length = len(self._running), self._estimated_length()
        self.sequence_steps += batch
        self.decodes[batch, length] += 1
        return self._costs.mixed(count, tokens, past, rounded_count(batch), rounded_count(length))

    def _finish_prompts(self, ended: list[Sequence]) -> list[Sequence]:
        """Mark the chunks of a step as computed; return the finished prompts.

        Prompts that need no decode step here are added to `ended`.
        """
        first: list[Sequence] = []
        for sequence, tokens in self._chunks:
            sequence.filled += tokens
            if sequence.filled < sequence.prompt:
                continue
            self._filling.remove(sequence)
            if self.engine.has_prefix_cache:
                before = sequence.shared
                self._cache.keep(sequence, self._room_for_cache())
                self._shared_tokens += sequence.shared - before
            first.append(sequence)
            if sequence.steps and self.engine.role is Role.BOTH:
                self._join(sequence)
            else:
                self._release(sequence)
                ended.append(sequence)
        self._chunks = []
        return first

    def _room_for_cache(self) -> float:
        """Tokens of a compiled engine's memory for prefixes; a dynamic one shares blocks."""
        engine = self.engine
        if not engine.is_compiled:
            return math.inf
        left = engine.blocks - engine.max_num_seqs * engine.slot_blocks
        return left * engine.block_tokens - self._cache.tokens

    # Decodes.

    def _join(self, sequence: Sequence) -> None:
        """Add a sequence to those that decode."""
        sequence.base = sequence.prompt - self._growth * self._steps
        sequence.ends = self._steps + sequence.steps
        sequence.is_running = True
        self._running[sequence.place] = sequence
        self._base_tokens += sequence.base
        heappush(self._ends_heap, (sequence.ends, sequence.place, sequence))
        if self.engine.is_compiled:
            heappush(self._longest_heap, (-sequence.base, sequence.place, sequence))

    def _leave(self, sequence: Sequence) -> None:
        """Remove a sequence from those that decode."""
        sequence.is_running = False
        self._base_tokens -= sequence.base
        del self._running[sequence.place]
        if not self._running:
            self._base_tokens = 0.0
        self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        self._shared_tokens -= sequence.shared
        self._cache.release(sequence)

    def _ended_sequences(self) -> list[Sequence]:
        """Remove and return the sequences whose last step is done."""
        ended: list[Sequence] = []
        heap = self._ends_heap
        while heap and (heap[0][0] <= self._steps or not _is_live(heap[0])):
            entry = heappop(heap)
            if _is_live(entry):
                self._leave(entry[2])
                ended.append(entry[2])
        return ended

    def _steps_at_once(self) -> int:
        """Number of the next decode steps that are all alike."""
        heap = self._ends_heap
        while not _is_live(heap[0]):
            heappop(heap)
        count = heap[0][0] - self._steps
        if self.engine.is_compiled:
            longest = self._longest_keys()
            room = self.engine.bucket(longest) - longest
            return min(count, max(int(room / self._growth) + 1, 1))
        count = min(count, self._make_room(count))
        mean = self._mean_tokens()
        return min(
            count, max(math.ceil(((mean // GRANULE + 1) * GRANULE - mean) / self._growth), 1)
        )

    def _longest_keys(self) -> float:
        """Keys that the longest sequence attends to in the next step."""
        heap = self._longest_heap
        while not heap[0][2].is_running or -heap[0][0] != heap[0][2].base:
            heappop(heap)
        return self._growth * self._steps - heap[0][0] + 1 + self.engine.draft_tokens

    def _mean_tokens(self) -> float:
        return self._base_tokens / len(self._running) + self._growth * self._steps

    def _estimated_length(self) -> int:
        """The length for which a decode step is estimated."""
        is_compiled = self.engine.is_compiled
        return self.engine.length(self._longest_keys() if is_compiled else self._mean_tokens())

    def _begin_decodes(self, count: int) -> float:
        """Count `count` decode steps of the running sequences; the seconds of each."""
        live = len(self._running)
        batch = self.engine.batch(live) if self.engine.is_compiled else live
        self._last_step = (batch, self._estimated_length())
        self._count_decodes(count)
        return self._costs.decode(*self._last_step)

    def _count_decodes(self, count: int) -> None:
        """Count `count` more steps like the last; fewer if negative."""
        self.decodes[self._last_step] += count
        self.sequence_steps += count * len(self._running)

    # Memory.

    def _tokens_in_blocks(self) -> float:
        """Tokens in blocks: of running sequences, of prompts that have begun, of prefixes."""
        running = self._base_tokens + self._growth * self._steps * len(self._running)
        filling = sum(sequence.prompt for sequence in self._filling)
        return running + filling - self._shared_tokens + self._cache.tokens

    def _used_blocks(self, steps: int) -> int:
        """Exact number of blocks in use after `steps` more steps."""
        block, more = self.engine.block_tokens, self._growth * (self._steps + steps)
        running = sum(
            math.ceil((sequence.base + more - sequence.shared) / block)
            for sequence in self._running.values()
        )
        prompts = [sequence.prompt - sequence.shared for sequence in self._filling]
        filling = sum(-(-tokens // block) for tokens in prompts)
        return running + filling + self._cache.tokens // block

    def _has_blocks_for(self, sequence: Sequence) -> bool:
        """True if there are blocks for its prompt, after unused prefixes are evicted."""
        engine = self.engine
        if engine.is_compiled:
            return True  # each of `max_num_seqs` has its own
        block, tokens = engine.block_tokens, sequence.prompt + 1
        count = len(self._running) + len(self._filling) + 1
        if (self._tokens_in_blocks() + tokens) / block + count <= engine.blocks:
            return True
        over = self._used_blocks(0) + -(-tokens // block) - engine.blocks
        return over <= 0 or self._cache.evict(over * block)

    def _make_room(self, count: int) -> int:
        """How many of the next `count` steps have blocks; preempts sequences until one has."""
        engine = self.engine
        while True:
            live = len(self._running)
            others = live + len(self._filling)
            free = (engine.blocks - others) * engine.block_tokens - self._tokens_in_blocks()
            sure = int(free / (live * self._growth))
            if sure >= 1:
                return min(count, sure)
            over = self._used_blocks(1) - engine.blocks
            if over <= 0 or self._cache.evict(over * engine.block_tokens) or live == 1:
                return 1
            self._preempt()

    def _preempt(self) -> None:
        """Requeue the sequence that began last; its prompt grows by its answer so far.

        Source: vLLM's documentation, Optimization and Tuning, Preemption: recomputed in V1.
        """
        sequence = next(reversed(self._running.values()))
        tokens = sequence.base + self._growth * self._steps
        sequence.steps = sequence.ends - self._steps - 1  # its prompt's step gives a token, too
        self._leave(sequence)
        sequence.prompt = int(tokens)
        sequence.filled = 0
        self.waiting.appendleft(sequence)
        self.preempted += 1


def _is_live(entry: tuple[int, int, Sequence]) -> bool:
    """True if an entry of the heap of ends is still valid."""
    return entry[2].is_running and entry[2].ends == entry[0]
