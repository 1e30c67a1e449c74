"""Capacities by the documents, with the source of the very memory."""

import pytest

from trnsim.errors import OutOfMemory
from trnsim.memory import Memory, capacity_bytes, capacity_source


def test_capacities_are_those_of_the_architecture_guides(core_v2, core_v3, core_v4):
    kib = [capacity_bytes(core, Memory.SBUF) / 1024 for core in (core_v2, core_v3, core_v4)]
    assert kib == [192, 224, 256]
    assert {capacity_bytes(c, Memory.PSUM) for c in (core_v2, core_v3, core_v4)} == {16 * 1024}


@pytest.mark.parametrize("memory", list(Memory))
def test_an_error_cites_the_memory_that_is_too_small(bench, core, memory):
    work = bench(core, has_values=False)
    too_many = capacity_bytes(core, memory) + 1
    with pytest.raises(
        OutOfMemory, match=f"a {memory.value} tensor .* needs {too_many} bytes"
    ) as e:
        work.empty((1, too_many), "uint8", memory)
    assert e.value.source == capacity_source(core, memory)


def test_sources_of_on_chip_memories_differ(core):
    assert capacity_source(core, Memory.PSUM) != capacity_source(core, Memory.SBUF)
