"""AWS's entry points: the target that they choose, and the warnings that they give."""

import inspect

import numpy as np
import pytest

import trnsim
from trnsim.errors import BadInput, DataRace, IllegalInstruction, OutOfMemory
from trnsim.nki import cpu_simulate, jit, simulate, simulator
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.notices import RaceWarning, SimulatorOnlyWarning
from trnsim.user_warnings import SpillWarning


@jit
def generation(x):
    """The core's generation and the number of cores."""
    del x
    return nisa.get_nc_version().name, nl.num_programs()


@jit
def spread(x):
    """A broadcast that only AWS's simulator makes."""
    out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.ones((4, 8), x.dtype)))
    return out


@jit
def racy(x):
    """Both cores write the same row, each its number, and nothing orders them."""
    nl.store(x, nl.full(x.shape, 1.0 + nl.program_id(0), x.dtype))
    return x


@jit
def overfull(x):
    """Three tiles of 100 KB a partition are alive together."""
    tiles = [nl.full((1, 25_000), value, x.dtype) for value in (1.0, 2.0, 3.0)]
    for tile in tiles:
        nisa.tensor_tensor(tile, tile, tiles[-1], nl.add)
        nisa.dma_copy(x, tile[:, 0:1])
    return x


X = np.zeros((1, 1), np.float32)
COLUMN = np.arange(4, dtype=np.float32).reshape(4, 1)


@pytest.fixture(autouse=True)
def _target(monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    monkeypatch.delenv("NKI_NC_VERSION", raising=False)


def test_every_entry_point_launches_on_one_core_or_two():
    for cores in (1, 2):
        assert simulate(generation[cores])(X) == ("gen3", cores)
        assert simulate(generation)[cores](X) == ("gen3", cores)
        assert cpu_simulate(generation)[cores](x=X) == ("gen3", cores)
        assert simulator.simulate_kernel(generation, (X,), {}, cores) == ("gen3", cores)
        assert simulator.simulate_kernel(generation, kwargs={"x": X}, lnc=cores) == ("gen3", cores)
    with pytest.raises(BadInput, match=r"generation\[3\]; legal"):
        cpu_simulate(generation)[3]


def test_a_plain_function_is_enough():
    assert simulate(generation.__wrapped__)(X) == ("gen3", 1)
    assert simulator.simulate_kernel(generation.__wrapped__, (X,)) == ("gen3", 1)


def test_cpu_simulate_asks_its_own_variable_first_and_at_each_call(monkeypatch):
    launch = cpu_simulate(generation)
    for value, expected in (("gen2", "gen2"), ("gen4", "gen4"), ("gen3", "gen3")):
        monkeypatch.setenv("NKI_NC_VERSION", value)
        assert launch(X)[0] == expected
        assert simulate(generation)(X)[0] == "gen3"


def test_a_simulated_kernel_keeps_the_name_and_the_signature():
    assert simulate(generation).__name__ == "generation"
    assert str(inspect.signature(simulate(generation))) == "(x)"


def test_what_only_the_compiler_refuses_warns_on_awss_simulator(monkeypatch):
    with pytest.raises(IllegalInstruction, match=r"nl\.add of .* legal: equal shapes"):
        trnsim.run(spread, COLUMN)
    with pytest.raises(IllegalInstruction, match="legal: equal shapes"):
        spread(COLUMN)
    expected = np.broadcast_to(COLUMN + 1, (4, 8))
    with pytest.warns(SimulatorOnlyWarning, match="legal: equal shapes"):
        np.testing.assert_array_equal(simulate(spread)(COLUMN), expected)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    with pytest.warns(SimulatorOnlyWarning, match="legal: equal shapes"):
        np.testing.assert_array_equal(spread(COLUMN), expected)


def test_a_race_warns_through_awss_entry_points_and_is_an_error_in_trnsims():
    with pytest.raises(DataRace):
        trnsim.run(racy[2], X.copy())
    for launch in (racy[2], simulate(racy[2]), cpu_simulate(racy)[2]):
        with pytest.warns(RaceWarning):
            assert launch(X.copy()) == 2


def test_what_sbuf_has_no_room_for_is_spilled_and_that_is_told():
    """memory-hierarchy-overview.rst: "the Neuron compiler will insert the necessary spills"."""
    for call in (simulate(overfull), overfull):
        with pytest.warns(SpillWarning, match="300000 are live at") as caught:
            assert call(X.copy()) == 6
        (warning,) = caught
        assert warning.filename == __file__
        # AWS's simulator has no notion of time.
        assert ("saved to HBM" in str(warning.message)) == (call is overfull)
    with pytest.warns(SpillWarning, match="saved to HBM"):
        assert "saved to HBM" in trnsim.run(overfull, X.copy()).overfull[0]
    with pytest.raises(OutOfMemory, match="300000 are live at"):
        trnsim.run(overfull, X.copy(), capacity="raise")
