"""What instructions touch beside their tiles, compared with what they declare.

Each instruction is executed on a machine that notes who reads and who changes its state: its
typical instances, and these with each value of the parameters on which that depends.
"""

from dataclasses import fields, replace

import numpy as np
import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4
from trnsim.dtypes import INT32
from trnsim.errors import EmulatorError
from trnsim.isa import Engine, Instruction, ReduceCmd, Scalar, VirtualRegister
from trnsim.isa.language.declaration import State, StateUse
from trnsim.isa.language.machine import Machine
from trnsim.isa.reference.example import examples
from trnsim.memory import ByteMask, Storage, Tile

CLASSES = list(Instruction.registry.values())
CORES = (NEURONCORE_V4, NEURONCORE_V3, NEURONCORE_V2)
READS = {"read", "draw", "words", "states", "is_disjoint", "covers", "of"}
WRITES = {"write", "forget", "draw", "seed", "put", "add", "mark"}
VARIED = {
    "reduce_cmd": list(ReduceCmd),
    "accumulate": [None, True, False],
}


class Spy:
    """Something that notes the calls of its methods, as (what, "read" or "write")."""

    def __init__(self, watched, what, found):
        self._watched, self._what, self._found = watched, what, found

    def __getattr__(self, name):
        assert name in READS | WRITES, f"{name} reads or writes {self._what}: say which above"
        self._found |= {(self._what, "read")} if name in READS else set()
        self._found |= {(self._what, "write")} if name in WRITES else set()
        return getattr(self._watched, name)


class SpiedRegister(VirtualRegister):
    """A register that notes who reads and who fills it."""

    def __init__(self, what, found):
        super().__init__(1)
        self._what, self._found = what, found

    @property
    def value(self):
        self._found.add((self._what, "read"))
        return super().value

    def put(self, value, tell=None):
        self._found.add((self._what, "write"))
        super().put(value, tell)

    def forget(self):
        self._found.add((self._what, "write"))
        super().forget()


class SpiedScalar(Scalar):
    """A scalar that notes who reads and who sets it."""

    def __init__(self, what, found):
        super().__init__(INT32)
        super().put(1)
        self._what, self._found = what, found

    @property
    def value(self):
        self._found.add((self._what, "read"))
        return super().value

    def put(self, value):
        self._found.add((self._what, "write"))
        super().put(value)


class Neighbour:
    """The other core of a pair, which sends what it is sent."""

    core, cores = 0, 2

    def __init__(self, found):
        self._found = found

    def meet(self, meeting, sent=None, data=None):
        del meeting, data
        self._found.add(("meeting", "waits"))
        return sent


class OtherRanks:
    """The other ranks of a world, which send what they are sent."""

    rank, ranks, core, fabric = 0, 4, 0, None

    def __init__(self, found):
        self._found = found

    def is_among(self, ranks):
        return self.rank in ranks

    def number_was_read(self):
        """Whoever compares ranks is told; it changes no state."""

    def exchange(self, exchange):
        self._found.add(("meeting", "waits"))
        return exchange.results([exchange.offered_arrays()] * len(exchange.ranks))[0]


def machine_of(core, engine, found):
    """A machine that notes accesses; its state is set, so that nothing is read undefined."""
    machine = Machine(core, Neighbour(found), OtherRanks(found))
    states = (
        (machine.accumulators, State.accumulators),
        (machine.random, State.generators),
    )
    assert vars(machine).keys() == {"core", "link", "ranks", "accumulators", "random"}
    for kept, state in states:
        for owner, held in kept.items():
            if state is State.accumulators:
                held.write(0, np.ones((int(core.partitions), 1), np.float32))
            kept[owner] = Spy(held, state if owner is engine else (state, owner), found)
    return machine


def with_bytes(tile, value):
    """The tile on a storage that holds `value` everywhere, in shared HBM where it is there."""
    data = np.zeros(tile.storage.nbytes, np.uint8)
    pitch_bytes = tile.storage.pitch_bytes
    storage = Storage(tile.memory, data.nbytes, pitch_bytes, data=data, is_written=True)
    storage.is_shared = True
    made = Tile(storage, tile.dtype, tile.pattern)
    if not tile.dtype.is_packed:
        made.store(np.full(tile.shape, value, np.float32))
    return made


def variants(instance, found):
    """The instance, with each value of what is varied, and with registers where there may be."""
    names = [f.name for f in fields(instance)]
    yield instance
    for name in names:
        for value in VARIED.get(name, ()):
            yield replace(instance, **{name: value})
        if isinstance(getattr(instance, name), int | VirtualRegister):
            yield replace(instance, **{name: SpiedRegister(name, found)})
        if name in instance.registers:
            yield replace(instance, **{name: SpiedScalar(name, found)})


def touched_by(instance, core):
    """What an instance touches on a core; None where it is not legal or meets no legal values."""
    found = set()
    touched = None
    for variant in variants(instance, found):
        before = set(found)
        try:
            variant.verify(core)
        except EmulatorError:
            continue
        finally:
            found &= before  # what is legal is not yet what is done
        for value in (1, 0):
            engine = variant.chosen_engine(core)
            machine = machine_of(core, engine, found)
            executed = variant.with_tiles(lambda tile, value=value: with_bytes(tile, value))
            try:
                with np.errstate(all="ignore"):
                    executed.execute(machine)
            except EmulatorError:
                found &= before  # what is refused half way has no part in this
                continue
            touched = found
            break
    return touched


def declared_by(made):
    """What a class declares, as (what, "read" or "write")."""
    uses = [(use.state, use.access) for use in made.state] + list(made.registers.items())
    found = {("meeting", "waits")} if made.meeting is not Instruction.meeting else set()
    for what, access in uses:
        found |= {(what, each) for each in ("read", "write") if access in (each, "update")}
    return found


@pytest.fixture
def watched(monkeypatch):
    """Notes who asks which elements of PSUM matmuls have started; give it a set to note in."""
    given = []

    def accumulation_mask(storage):
        if storage._accumulation_mask is None:
            storage._accumulation_mask = ByteMask(storage.nbytes)
            storage._accumulation_mask.fill()
        return Spy(storage._accumulation_mask, State.accumulation, given[-1])

    monkeypatch.setattr(Storage, "accumulation_mask", property(accumulation_mask))
    return given


def every_touch(made, watched):
    """What the instances of a class touch on the cores where they are legal."""
    found, was_executed = set(), False
    for core in CORES:
        for instance in examples(made):
            watched.append(set())
            touched = touched_by(instance, core)
            if touched is not None:
                was_executed = True
                found |= touched | watched[-1]
    assert was_executed, f"no instance of {made.opcode} was executed"
    return found


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.opcode)
def test_an_instruction_declares_what_it_touches_and_touches_what_it_declares(made, watched):
    assert every_touch(made, watched) == declared_by(made)


@pytest.mark.parametrize(
    ("opcode", "touched"),
    [
        ("activation", {(State.accumulators, "read"), (State.accumulators, "write")}),
        ("rng", {(State.generators, "read"), (State.generators, "write")}),
        ("nc_matmul", {(State.accumulation, "read"), (State.accumulation, "write")}),
        ("tensor_copy", set()),
        ("core_barrier", {("meeting", "waits")}),
        ("register_move", {("dst", "write"), ("src", "read")}),
    ],
)
def test_the_machine_notes_what_is_not_declared_as_well(opcode, touched, watched, monkeypatch):
    made = Instruction.registry[opcode]
    monkeypatch.setattr(made, "state", ())
    monkeypatch.setattr(made, "registers", {})
    assert every_touch(made, watched) == touched


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.opcode)
def test_a_state_is_declared_once_and_in_the_words_of_operands(made):
    assert len({use.state for use in made.state}) == len(made.state)
    words = {*made.registers.values(), *(use.access for use in made.state)}
    assert words <= {"read", "write", "update"}


def test_an_engines_state_is_that_of_the_engines_that_have_it():
    owners = {
        State.accumulators: {Engine.scalar, Engine.vector},
        State.generators: {Engine.gpsimd, Engine.vector},
        State.accumulation: {Engine.tensor},
    }
    for made in CLASSES:
        for use in made.state:
            assert isinstance(use, StateUse)
            assert set(made.engines) <= owners[use.state]


def test_what_steers_a_program_runs_without_values():
    steering = {made.opcode for made in CLASSES if made.runs_without_values}
    ranks = {made.opcode for made in CLASSES if made.source.startswith("nki.collectives")}
    registers = {"register_load", "register_move", "scalar_arithmetic", "scalar_load"}
    alone = {"all_gather_v_prepare", "all_to_all_v_prepare"}  # they meet nobody
    assert steering == (ranks - alone) | registers | {"core_barrier", "sendrecv"}
