"""A training step with every rank of its own: the oracle of a step that is folded.

Each rank has a clock and a list of what it does: compute, exchange with its group (which waits for
its last member), hand on to another stage. Groups are lists of ranks, and the fabric of all
instances times them all at once. It shares the work of a layer with what it judges, and nothing of
schedules' timing, spreads, closed forms among instances, or overlap.
"""

from collections import defaultdict, deque

from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric
from trnsim.system.train.memory import WEIGHT_BYTES
from trnsim.system.train.pipeline import BACKWARD, FORWARD, orders
from trnsim.system.train.stages import chunks, training_pass
from trnsim.workload.gradients import Recompute, backward, recomputation
from trnsim.workload.operators import Axis
from trnsim.workload.summary import PartSummary


class Ranks:
    """The ranks of a layout on whole instances."""

    def __init__(self, machine, layout):
        self.layout = layout
        self.fabric = fabric(machine.instance.name, nodes=machine.count, lnc=machine.lnc)
        self.known = {}

    def place(self, rank):
        one = self.layout
        rank, tensor = divmod(rank, one.tensor)
        rank, context = divmod(rank, one.context)
        stage, data = divmod(rank, one.data)
        return tensor, context, data, stage

    def groups(self, axis):
        """All groups of an axis: ranks whose places differ in it alone."""
        found = defaultdict(list)
        for rank in range(self.layout.ranks):
            tensor, context, data, stage = self.place(rank)
            key = {
                "tensor": (context, data, stage),
                "context": (tensor, data, stage),
                "expert": (tensor, context, data // self.layout.expert, stage),
                "data": (tensor, stage),
                "expert data": (tensor, context, data % self.layout.expert, stage),
            }[axis]
            found[key].append(rank)
        if axis == "expert data":  # context ranks have the same experts, but tokens of their own
            return list(found.values())
        return list(found.values())

    def exchange_s(self, axis, kind, nbytes):
        """Seconds of a collective of all groups of an axis, all at once."""
        key = axis, kind, nbytes
        if key not in self.known:
            groups = self.groups(axis)
            alone = len(groups[0]) == 1 or not nbytes
            self.known[key] = 0.0 if alone else time_on(self.fabric, kind, nbytes, groups).time_s
        return self.known[key]

    def hand_on_s(self, nbytes):
        """Seconds in which all ranks of the first stage send to the second, all at once."""
        if self.layout.pipeline == 1:
            return 0.0
        each = self.layout.ranks // self.layout.pipeline
        pairs = [(rank, rank + each) for rank in range(each)]
        return time_on(self.fabric, "send", nbytes, pairs).time_s


class Unfolded:
    """A step of a layout, rank by rank."""

    def __init__(self, model, machine, layout, times):
        self.model, self.machine, self.layout, self.times = model, machine, layout, times
        self.ranks = Ranks(machine, layout)
        self.chunks = chunks(model, layout)

    def work(self, chunk, kind):
        """What a rank does for a micro batch on a chunk: seconds alone, and exchanges by axis."""
        computes, exchanges = 0.0, defaultdict(float)
        for part in chunk:
            block, given = part.summary, training_pass(self.layout)
            moved = [*block.exchanges]
            if kind == FORWARD:
                seconds = self.times.forward(block, given).time_s
            else:
                again = PartSummary("layer", 1)
                if part.is_layer:
                    again = recomputation(block, Recompute(self.layout.recompute))
                seconds = self.times.backward(block, given).time_s
                if again.products:  # scores alone are computed in the launch of the gradients
                    launch_s = 0.0 if self.layout.recompute == "full" else self.times.fixed_s
                    seconds += self.times.forward(again, given).time_s - launch_s
                moved = [*backward(block).exchanges, *again.exchanges]
            computes += part.times * seconds
            for one in moved:
                axis = Axis(one.axis).value
                took_s = self.ranks.exchange_s(axis, one.kind, one.nbytes)
                exchanges[axis] += part.times * one.times * took_s
        return computes, dict(exchanges)

    def program(self, rank, order):
        """What a rank does in a step, in its order."""
        tensor, context, data, stage = self.ranks.place(rank)
        del tensor, context, data
        each = self.layout.ranks // self.layout.pipeline
        last = len(self.chunks) - 1
        for kind, part, one in order[stage]:
            ahead, back = (rank - each) % self.layout.ranks, (rank + each) % self.layout.ranks
            source, target = (ahead, back) if kind == FORWARD else (back, ahead)
            is_first = part == 0 if kind == FORWARD else part == last
            is_last = part == last if kind == FORWARD else part == 0
            if not is_first:
                before = part - 1 if kind == FORWARD else part + 1
                yield "receive", (source, rank, kind, before, one)
            computes, exchanges = self.work_of[kind, part]
            yield "compute", computes
            for axis, seconds in exchanges.items():
                yield "exchange", (axis, seconds, (kind, part, one))
            if not is_last:
                yield "send", (rank, target, kind, part, one)

    def pipeline_s(self):
        """Seconds until the last rank is done."""
        layout = self.layout
        order = orders("1f1b", layout.pipeline, layout.virtual, layout.micro_batches)
        self.work_of = {
            (kind, at): self.work(chunk, kind)
            for at, chunk in enumerate(self.chunks)
            for kind in (FORWARD, BACKWARD)
        }
        elements = layout.micro_batch * layout.sequence / layout.context * self.model.decoder.hidden
        nbytes = WEIGHT_BYTES[layout.dtype] * elements
        moved_s = self.ranks.hand_on_s(nbytes / layout.tensor)
        if not layout.is_sequence and layout.pipeline > 1:
            moved_s += self.ranks.exchange_s("tensor", "all_gather", nbytes)
        return self.run(order, moved_s)

    def run(self, order, moved_s):
        count = self.layout.ranks
        self.programs = [deque(self.program(rank, order)) for rank in range(count)]
        self.member = {
            axis: {rank: tuple(group) for group in self.ranks.groups(axis) for rank in group}
            for axis in ("tensor", "context", "expert")
        }
        self.clock, self.arrived, self.sent = [0.0] * count, defaultdict(dict), {}
        self.ready, self.waiting, self.moved_s = deque(range(count)), {}, moved_s
        while self.ready:
            rank = self.ready.popleft()
            while self.programs[rank]:
                what, given = self.programs[rank][0]
                if not getattr(self, what)(rank, given):
                    break
                self.programs[rank].popleft()
        assert not any(self.programs), "ranks wait for each other"
        return max(self.clock)

    def compute(self, rank, seconds):
        self.clock[rank] += seconds
        return True

    def send(self, rank, message):
        self.sent[message] = self.clock[rank] + self.moved_s
        if message in self.waiting:
            self.ready.append(self.waiting.pop(message))
        return True

    def receive(self, rank, message):
        if message not in self.sent:
            self.waiting[message] = rank
            return False
        self.clock[rank] = max(self.clock[rank], self.sent[message])
        return True

    def exchange(self, rank, given):
        """Wait for the group; who comes last lets all others go on."""
        axis, seconds, name = given
        group = self.member[axis][rank]
        here = self.arrived[group, axis, name]
        here[rank] = self.clock[rank]
        if len(here) < len(group):
            return False
        end_s = max(here.values()) + seconds
        for one in group:
            self.clock[one] = end_s
            if one != rank:
                self.programs[one].popleft()
                self.ready.append(one)
        return True
