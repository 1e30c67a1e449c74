"""The list scheduler once more, by stepping through time: slow and plain.

It follows the rules in the docstrings of `trnsim.timing.order` and `schedule`, and shares no code
with them. The Tensor Engine's utilization limit is that of `trnsim.timing.throttle`, which has
tests of its own.

At each moment, cores are looked at by rank, and the engines of a core in the order in which its
kernel first uses them. A free engine starts the earliest instruction of its window that is ready:

- What it waits for has ended, a semaphore ago if on another engine; what it follows has started.
- A core comes to its meetings one after the other. A meeting starts when the last core of its group
  has come and the engines of all are free; until then the engines do other work. An exchange of a
  core with itself is no meeting.
- An engine that has chosen an instruction waits with it until the ports that it needs are free.
- The DMA engines take a transfer when one of their queues is free, which then issues it; among free
  queues, the one that was free first. They move the data of one transfer after the other.
- An engine that needs another table of functions, or another stationary tile, than it holds loads
  it before.
"""

from trnsim.isa import Engine
from trnsim.timing.throttle import UtilizationLimit


class PlainCore:
    """One core's instructions: None for the times of those that have not started."""

    def __init__(self, rank, program, core, policy):
        self.rank, self.program, self.policy = rank, program, policy
        self.semaphore_s = float(core.engine_semaphore_s)
        self.limit = UtilizationLimit(core)
        checked = [program.instruction(index) for index in range(len(program))]
        self.engine = [one.engine for one in checked]
        self.cost = [one.instruction.price(core, one.dims) for one in checked]
        found = [one.instruction.meeting(rank) for one in checked]
        self.meeting = [m if m is not None and m.receiver != rank else None for m in found]
        self.start_s, self.busy_until_s, self.end_s = ([None] * len(program) for _ in range(3))
        self.free_s = dict.fromkeys(self.engine, 0.0)  # of DMA, when a queue is free
        self.queues_s = [0.0] * core.dma_queues
        self.moved_s = 0.0
        self.held = {}
        self.port_free_s = {}
        self.came = {}  # the meeting that it waits at: instruction -> meeting

    def ready(self, index, now_s):
        """Whether nothing but its engine keeps an instruction from starting."""
        for earlier in self.program.waits_for(index):
            end_s = self.end_s[earlier]
            if end_s is None:
                return False
            if self.engine[earlier] is not self.engine[index]:
                end_s += self.semaphore_s
            if end_s > now_s:
                return False
        after = [*self.program.follows(index)]
        if self.meeting[index] is not None:
            after += [i for i in range(index) if self.meeting[i] is not None]
        return all(self.start_s[i] is not None and self.start_s[i] <= now_s for i in after)

    def choice(self, engine, now_s):
        """The instruction that a free engine takes, or None."""
        left = [
            index
            for index, where in enumerate(self.engine)
            if where is engine and self.start_s[index] is None
        ]
        seen = self.policy.window(engine)
        for place, index in enumerate(left):
            if place < seen and index not in self.came and self.ready(index, now_s):
                return index
        return None

    def begin(self, index, start_s):
        engine, cost = self.engine[index], self.cost[index]
        taken_s = cost.interval_s
        if engine is Engine.tensor and taken_s:
            taken_s = self.limit.record_work(start_s, taken_s)
        needed = self.needed(index)
        if needed not in ("", self.held.get(engine)):
            self.held[engine] = needed
            taken_s += cost.held_load_s
        if engine is Engine.dma:
            start_s = self.issue(start_s, cost.issue_s)
        self.start_s[index] = start_s
        self.busy_until_s[index] = self.free_s[engine] = start_s + taken_s
        if engine is Engine.dma:
            self.moved_s, self.free_s[engine] = self.busy_until_s[index], min(self.queues_s)
        self.end_s[index] = self.busy_until_s[index] + cost.latency_s
        for port in cost.ports:
            self.port_free_s[port] = self.busy_until_s[index]

    def needed(self, index):
        """The table or the tile that its engine must hold for an instruction, or ""."""
        cost, touches = self.cost[index], self.program.touches
        if cost.held_read is None:
            return cost.table
        reads = [
            (serial, at.pattern) for serial, at, is_out in touches.tiles_of(index) if not is_out
        ]
        every = self.program.instruction(index).instruction.accesses()[0]
        return reads[cost.held_read] if len(reads) == len(every) else index

    def issue(self, ready_s, issue_s):
        """When the engines take up a transfer that the first free queue issues."""
        queue = self.queues_s.index(min(self.queues_s))
        begun_s = max(ready_s, self.queues_s[queue])
        self.queues_s[queue] = begun_s + issue_s
        return max(begun_s, self.moved_s)

    def moments_s(self):
        """When something may become possible."""
        ended = [time_s for time_s in self.end_s if time_s is not None]
        yield from self.free_s.values()
        yield from ended
        yield from (time_s + self.semaphore_s for time_s in ended)
        yield from (time_s for time_s in self.start_s if time_s is not None)


def ring(cores, one):
    """The cores that `one` meets, if all have come; else None."""
    members, (meeting,) = [one], one.came.values()
    while meeting.receiver != one.rank:
        one_after = cores[meeting.receiver]
        if [met.label for met in one_after.came.values()] != [meeting.label]:
            return None
        members.append(one_after)
        (meeting,) = one_after.came.values()
    return members


def take(cores, one, index, now_s):
    """A core's engine takes an instruction; at a meeting it starts with those of the others."""
    if one.meeting[index] is None:
        held_s = [one.port_free_s.get(port, 0.0) for port in one.cost[index].ports]
        one.begin(index, max(now_s, *held_s, 0.0))
        return
    one.came[index] = one.meeting[index]
    members = ring(cores, one)
    if members is None:
        return
    indices = [next(iter(member.came)) for member in members]
    together = list(zip(members, indices, strict=True))
    moved_s = [m.moved_s for m, i in together if m.engine[i] is Engine.dma]
    start_s = max(now_s, *(m.free_s[m.engine[i]] for m, i in together), *moved_s)
    for member, at in together:
        member.came.clear()
        member.begin(at, start_s)


def next_choice(cores, now_s):
    """The first core with a free engine that has something to start, and that instruction."""
    for one in cores:
        for engine, free_s in one.free_s.items():
            if free_s <= now_s:
                index = one.choice(engine, now_s)
                if index is not None:
                    return one, index
    return None


def plain_schedules(programs, core, policy):
    """The cores of a launch with the times of all their instructions."""
    cores = [PlainCore(rank, program, core, policy) for rank, program in enumerate(programs)]
    now_s = 0.0
    while any(None in one.start_s for one in cores):
        found = next_choice(cores, now_s)
        if found is not None:
            take(cores, *found, now_s)
        else:
            now_s = min(t for one in cores for t in one.moments_s() if t > now_s)
    return cores
