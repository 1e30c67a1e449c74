"""Random launches for the scheduler: any engine, cost, dependence, port and meeting."""

from dataclasses import dataclass, replace
from functools import cached_property

from hypothesis import strategies as st

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3
from trnsim.isa import Cost, Engine
from trnsim.isa.language.meeting import meeting_of
from trnsim.memory import Memory
from trnsim.program import Program
from trnsim.program.dependencies import Before
from trnsim.program.program import Checked
from trnsim.timing import Policy, choose_order, policy_of, replay

COMPILER, ISSUED = policy_of("compiler"), policy_of("issued")
DMA = Engine.dma
COMPUTE = (Engine.vector, Engine.scalar, Engine.gpsimd, Engine.tensor, Engine.sync)
PORTS = ((), (Memory.SBUF,), (Memory.SBUF,), (Memory.SBUF, Memory.PSUM))


@dataclass(frozen=True)
class Work:
    """An instruction without operands.

    Attributes:
        engine: its engine.
        interval: its work, in units of about 20 ns.
        latency: until its result can be read, likewise.
        ports: the memories whose ports it holds before v3.
        group: the cores that meet in it, in the order of their ring.
        issue: of a transfer, what its queue does for it, in tenths of a usual issue.
        table: the table of functions that it needs.
    """

    engine: Engine
    interval: int
    latency: int
    ports: tuple = ()
    group: tuple = ()
    issue: int = 0
    table: str = ""
    opcode = "work"
    meets_ranks = False
    operands = ()

    def price(self, core, dims):
        del dims
        unit_s = 4e3 / core.dma_bytes_per_s if self.engine is DMA else 20 / clock_hz(core, self)
        wait_s = core.dma_start_s / 100 if self.engine is DMA else core.access_latency_cycles / 3e9
        ports = () if core.vector_port_engines == 1 else self.ports
        return Cost(
            self.interval * unit_s,
            self.latency * wait_s,
            ports=ports,
            issue_s=self.issue * core.dma_issue_s / 10,
            table=self.table,
            held_load_s=core.activation_table_load_s / 10 if self.table else 0.0,
        )

    def meeting(self, rank):
        return meeting_of(self.group, rank, f"of {self.group}") if self.group else None


def clock_hz(core, work):
    clock = {Engine.scalar: core.scalar_clock_hz, Engine.gpsimd: core.gpsimd_clock_hz}
    clock[Engine.tensor] = core.tensor_clock_hz
    return clock.get(work.engine, core.vector_clock_hz)


def program_of(core, stream):
    """The program of (work, what it waits for, what it follows)."""
    program = Program(core)
    for index, (work, waits_for, follows) in enumerate(stream):
        program.checked.append(Checked(work, {}, work.engine, work.price(core, {})))
        program.append(index, Before(sorted(waits_for), sorted(follows)), None)
    return program


def launched(core, *stream, policy=ISSUED):
    """The schedule of one core's (work, what it waits for)."""
    program = program_of(core, [(work, waits_for, ()) for work, waits_for in stream])
    return replay([program], core, choose_order([program], core, policy))[0]


def stream_of(program):
    """The stream that `program_of` made a program of."""
    return [
        (program.instruction(i).instruction, [*program.waits_for(i)], [*program.follows(i)])
        for i in range(len(program))
    ]


amounts = st.sampled_from([0, 1, 1, 2, 3, 7, 30])
issues = st.sampled_from([0, 1, 3, 10, 40])
tables = st.sampled_from(["", "exp", "gelu"])


def some(indices):
    """None, one or two of the indices."""
    return st.sets(st.sampled_from(indices), max_size=2) if indices else st.just(set())


@st.composite
def streams(draw, most=16, meetings=(), engines=(*COMPUTE, DMA)):
    """Instructions with what each waits for and follows; the groups of `meetings` in order."""
    count = draw(st.integers(max(len(meetings), 1), len(meetings) + most))
    places = sorted(draw(st.permutations(range(count)))[: len(meetings)])
    group_at = dict(zip(places, meetings, strict=True))
    palette = draw(st.lists(st.sampled_from(engines), min_size=1, max_size=4))
    stream = []
    for index in range(count):
        group = group_at.get(index, ())
        engine = draw(st.sampled_from(palette))
        ports = draw(st.sampled_from(PORTS)) if engine in COMPUTE[:3] and not group else ()
        work = Work(engine, draw(amounts), draw(amounts), ports, group)
        if engine is DMA:
            work = replace(work, issue=draw(issues))
        elif engine is Engine.scalar:
            work = replace(work, table=draw(tables))
        own = [i for i in range(index) if stream[i][0].engine is engine is not DMA]
        waits_for, follows = draw(some(range(index))), draw(some(own))
        stream.append((work, waits_for, follows - waits_for))
    return stream


@dataclass(frozen=True)
class Launch:
    """What runs: the streams of all cores of a launch, on which NeuronCore, and how ordered."""

    streams: list
    name: str
    policy: Policy

    @property
    def core(self):
        return CORES[self.name]

    @cached_property
    def programs(self):
        return [program_of(self.core, stream) for stream in self.streams]

    @cached_property
    def order(self):
        return choose_order(self.programs, self.core, self.policy)

    def schedules(self, core=None):
        """In the order that was chosen, with the constants of another core if one is given."""
        return replay(self.programs, core or self.core, self.order)


CORES = {"v2": NEURONCORE_V2, "v3": NEURONCORE_V3}
LAUNCHED = [("v2", 1), ("v3", 1), ("v3", 2), ("v3", 3)]
POLICIES = [ISSUED, COMPILER, Policy("narrow", 2), Policy("wider", 4)]


@st.composite
def launches(draw, most=16, policies=POLICIES, engines=(*COMPUTE, DMA), among=LAUNCHED):
    """A launch on one of the (NeuronCore, number of cores) `among`; the cores meet in groups."""
    name, cores = draw(st.sampled_from(among))
    groups = st.lists(st.sampled_from(range(cores)), min_size=1, max_size=cores, unique=True)
    meetings = draw(st.lists(groups.map(tuple), max_size=4)) if cores > 1 else []
    own = [[group for group in meetings if rank in group] for rank in range(cores)]
    found = [draw(streams(most, groups, engines)) for groups in own]
    return Launch(found, name, draw(st.sampled_from(policies)))
