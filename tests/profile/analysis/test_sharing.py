"""Which instructions an engine that is far less busy is given."""

from trnsim.isa import Engine
from trnsim.profile.analysis.examination import Examination
from trnsim.profile.analysis.sharing import one_engine_alone


def shared(kernel):
    return one_engine_alone(Examination(kernel.timeline()), 0.5)


def test_independent_instructions_are_given_one_by_one(kernel):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for _ in range(16):
        kernel.copy(psum)
    figures = shared(kernel).figures
    assert figures["how"] == ""
    assert 6 <= figures["n"] <= 10
    assert figures["movable"] == 16
    assert figures["name"] == "nisa.engine.scalar"


def test_chains_are_given_as_a_whole_where_that_is_faster(kernel):
    for tile in [kernel.load(128, 1024) for _ in range(8)]:
        last = tile
        for _ in range(5):
            last = kernel.copy(last)
    figures = shared(kernel).figures
    assert figures["how"] == ", chains as a whole"
    assert figures["n"] % 5 == 0


def test_one_chain_alone_gains_nothing_elsewhere(kernel):
    tile = kernel.load(128, 2048)
    for _ in range(16):
        tile = kernel.copy(tile)
    repair = shared(kernel)
    assert repair is None or repair.device_time_s >= kernel.timeline().device_time_s


def test_an_engine_that_is_as_busy_is_given_nothing(kernel):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for turn in range(32):
        kernel.copy(psum, engine=(Engine.vector, Engine.scalar)[turn % 2])
    assert shared(kernel) is None


def test_an_empty_program_has_no_busy_engine(kernel):
    assert shared(kernel) is None
