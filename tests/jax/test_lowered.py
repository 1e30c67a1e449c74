import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.device.call_log import Recording, recordings
from trnsim.device.collective_log import CollectiveCall
from trnsim.device.fallback_policy import HostFallback, state
from trnsim.device.numerics import mode, numerics
from trnsim.device.step_time import step_time
from trnsim.fabric.floors import Floor

pytestmark = pytest.mark.usefixtures("neuron")


@pytest.fixture
def recorded(neuron):
    """Runs a function on the first device: its result, and the calls that were recorded."""

    def run(function, *given):
        own = [jax.device_put(one, neuron[0]) for one in given]
        jax.block_until_ready(own)
        recording = Recording()
        recordings.append(recording)
        try:
            return np.asarray(jax.jit(function)(*own)), recording
        finally:
            recordings.remove(recording)

    return run


def layers(x, w):
    for number in range(2):
        with jax.named_scope(f"layer{number}"):
            x = jnp.tanh(x @ w)
    return x


def numbers(*shape, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def test_a_call_is_recorded_once_with_the_time_of_its_program(recorded):
    _, recording = recorded(layers, numbers(16, 64), numbers(64, 64))
    (event,) = recording.events
    assert event.call.name.startswith("jit_layers-")
    found = step_time(recording, "trn2")
    assert 1e-6 < found.device_time_s < 1e-4
    assert found.flop == 2 * 2 * 16 * 64 * 64
    assert not found.missing
    assert {name for name, _, _ in found.by("module")} >= {"layer0", "layer1"}
    assert sum(taken for _, _, taken in found.by("module")) == pytest.approx(found.device_time_s)


def test_equal_calls_are_one_program(recorded):
    def twice(x):
        return jax.jit(jnp.sin)(x) + 1

    _, recording = recorded(twice, numbers(4))
    assert len(recording.events) == 1
    again, other = Recording(), jax.jit(twice)
    x = jax.device_put(numbers(4), jax.devices("neuron")[0])
    recordings.append(again)
    try:
        other(x), other(x)
    finally:
        recordings.remove(again)
    assert len({event.call for event in again.events}) == 1
    assert len(again.events) == 2


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16, np.float16])
def test_exact_values_are_near_those_of_the_host(recorded, dtype):
    x, w = numbers(16, 64).astype(dtype), (numbers(64, 64) / 8).astype(dtype)
    fast, _ = recorded(layers, x, w)
    with numerics("exact") as on_host:
        exact, _ = recorded(layers, x, w)
    assert not on_host
    assert exact.dtype == fast.dtype
    difference = np.abs(exact.astype(np.float64) - fast.astype(np.float64)).max()
    assert difference <= 8 * float(jnp.finfo(dtype).eps)


def test_exact_values_of_a_product_are_those_of_its_tiles(recorded):
    x, w = numbers(8, 3000), numbers(3000, 8)
    fast, _ = recorded(jnp.matmul, x, w)
    with numerics("exact"):
        exact, _ = recorded(jnp.matmul, x, w)
    assert (exact != fast).any()  # sums in another order
    bound = 2 * 3000 * 2.0**-24 * (np.abs(x) @ np.abs(w))
    assert (np.abs(exact - fast) <= bound).all()


def test_shapes_have_a_time_and_no_values(recorded):
    with numerics("shapes"):
        found, recording = recorded(layers, numbers(16, 64), numbers(64, 64))
    assert found.shape == (16, 64)
    assert not found.any()
    assert step_time(recording, "trn2").device_time_s > 0


def transformed(x):
    return jnp.abs(jnp.fft.fft(x))


def test_what_has_no_graph_runs_untimed_and_says_why(recorded):
    found, recording = recorded(transformed, numbers(8))
    assert found == pytest.approx(np.abs(np.fft.fft(numbers(8))), rel=1e-5)
    (reason,) = step_time(recording, "trn2").missing
    assert "jit_transformed has no time on trn2: stablehlo.convert: a tensor of complex" in reason


def test_in_exact_numerics_the_host_stands_in_and_is_counted(recorded, monkeypatch):
    monkeypatch.setattr(state, "on_host", type(state.on_host)())
    with numerics("exact") as on_host, pytest.warns(HostFallback, match="jit_transformed runs on"):
        found, _ = recorded(transformed, numbers(8))
    assert found == pytest.approx(np.abs(np.fft.fft(numbers(8))), rel=1e-5)
    assert sum(on_host.values()) == 1
    assert state.on_host == {"jit_transformed": 1}


def drawn(x):
    key = jax.random.key(3, impl="rbg")
    return x + jax.random.uniform(key, x.shape)


def test_random_numbers_are_the_hosts_in_exact_numerics(recorded):
    fast, _ = recorded(drawn, numbers(4, 6))
    with numerics("exact") as on_host, warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallback)
        exact, _ = recorded(drawn, numbers(4, 6))
    assert on_host == {"random numbers are the host's": 1}
    np.testing.assert_array_equal(exact, fast)


def test_the_chip_refuses_what_has_no_graph_by_name_and_line(recorded, monkeypatch):
    monkeypatch.setattr(state, "policy", "chip")
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"stablehlo\.convert: a tensor of complex"
    ):
        recorded(transformed, numbers(9))
    assert recorded(jnp.sin, numbers(3))[0] == pytest.approx(np.sin(numbers(3)), rel=1e-6)


def test_devices_that_exchange_are_timed_with_their_collectives(neuron):
    recording = Recording()
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i", devices=neuron[:4])
    recordings.append(recording)
    try:
        found = np.asarray(total(numbers(4, 100)))
    finally:
        recordings.remove(recording)
    assert found[0] == pytest.approx(numbers(4, 100).sum(0), rel=1e-5)
    (collective,) = recording.collectives
    assert (collective.kind, collective.nbytes) == ("all_reduce", 400)
    assert len(collective.ranks) == 4
    assert not step_time(recording, "trn2").missing


def over(neuron, rows, columns):
    """A mesh of the first devices, and shardings over it."""
    found = np.array(neuron[: rows * columns]).reshape(rows, columns)
    mesh = jax.sharding.Mesh(found, ("a", "b"))
    return lambda *spec: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))


@pytest.fixture
def split(neuron):
    """Runs a product over a mesh of 2 x 4, contracted along b: its result, and the recording."""
    place = over(neuron, 2, 4)
    x, w = (
        jax.device_put(numbers(*shape), place(*spec))
        for shape, spec in (((16, 64), ("a", "b")), ((64, 24), ("b", None)))
    )
    jax.block_until_ready((x, w))

    def run():
        recording = Recording()
        recordings.append(recording)
        try:
            found = jax.jit(lambda x, w: jnp.tanh(x @ w), out_shardings=place("a"))(x, w)
            return np.asarray(found), recording
        finally:
            recordings.remove(recording)

    return run


def test_a_program_that_xla_splits_has_the_time_of_what_a_device_does(split):
    found, recording = split()
    assert found == pytest.approx(np.tanh(numbers(16, 64) @ numbers(64, 24)), abs=1e-5)
    assert len(recording.events) == 8
    assert len({event.call for event in recording.events}) == 1
    time = step_time(recording, "trn2")
    assert not time.missing
    assert time.flop == 8 * 2 * 8 * 16 * 24  # 16 of 64 are contracted, 8 of 16 rows
    # Rows of 24 columns, 8 a device, are summed over four devices.
    (collective,) = recording.collectives
    assert collective == CollectiveCall("all_reduce", 8 * 24 * 4, (0, 1, 2, 3), Floor.PROGRAM)


def test_exact_values_of_several_devices_are_those_of_their_programs(split):
    fast, _ = split()
    with numerics("exact") as on_host:
        exact, _ = split()
    assert not on_host
    assert (exact != fast).any()  # sums in another order
    assert np.abs(exact - fast).max() < 1e-5


def test_shapes_of_several_devices_are_zeros(split):
    with numerics("shapes"):
        found, recording = split()
    assert found.shape == (16, 24)
    assert not found.any()
    assert step_time(recording, "trn2").device_time_s > 0


def test_an_argument_that_lies_elsewhere_than_the_shares_is_moved_first(neuron):
    place = over(neuron, 2, 2)
    mapped = jax.shard_map(
        lambda x: x * 2,
        mesh=place().mesh,
        in_specs=jax.sharding.PartitionSpec("a"),
        out_specs=jax.sharding.PartitionSpec("a"),
    )
    for spec, kinds in (
        (("a",), []),
        (("b",), ["collective_permute"]),
        ((None, "a"), ["all_to_all"]),
    ):
        recording = Recording()
        x = jax.device_put(numbers(8, 8), place(*spec))
        recordings.append(recording)
        try:
            jax.block_until_ready(jax.jit(mapped, in_shardings=place(*spec))(x))
        finally:
            recordings.remove(recording)
        assert [one.kind for one in recording.collectives] == kinds
        assert not step_time(recording, "trn2").missing


def test_what_the_number_of_a_device_chooses_is_timed_where_it_is_done(neuron):
    place = over(neuron, 4, 1)
    branches = [lambda x: x, lambda x: x @ x @ x]

    def body(x):
        return jax.lax.switch(jax.lax.axis_index("a") // 3, branches, x)

    spec = jax.sharding.PartitionSpec("a")
    mapped = jax.shard_map(body, mesh=place().mesh, in_specs=spec, out_specs=spec)
    recording, x = Recording(), jax.device_put(numbers(256, 64), place("a"))
    recordings.append(recording)
    try:
        found = np.asarray(jax.jit(mapped)(x))
    finally:
        recordings.remove(recording)
    last = numbers(256, 64)[192:]
    np.testing.assert_allclose(found[:192], numbers(256, 64)[:192])
    np.testing.assert_allclose(found[192:], last @ last @ last, rtol=1e-4, atol=1e-3)
    assert [len(event.call.graph.nodes) for event in recording.events] == [0, 0, 0, 2]


def test_numerics_are_those_of_every_framework():
    assert mode.kind == "fast"


@pytest.mark.slow
def test_exact_values_of_loops_and_branches_are_those_of_their_kernels(recorded):
    def program(x):
        def trip(carried, _):
            return jnp.tanh(carried @ carried.T @ x), None

        looped = jax.lax.scan(trip, x, length=40)[0]
        return jax.lax.cond(x[0, 0] > 5, lambda a: a - 1, lambda a: a * 2, looped)

    given = numbers(4, 6) / 4
    fast, _ = recorded(program, given)
    with numerics("exact") as on_host:
        exact, _ = recorded(program, given)
    assert not on_host
    np.testing.assert_allclose(exact, fast, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_program_is_kept_in_a_cache_that_has_a_name(ran, tmp_path):
    program = (
        "import jax, jax.numpy as jnp;"
        "print(float(jax.jit(lambda a: (a @ a).sum())(jnp.ones((8, 8)))))"
    )
    settings = {"JAX_PLATFORMS": "neuron", "NEURON_COMPILE_CACHE_URL": str(tmp_path)}
    extracted = ran(program, NEURON_EXTRACT_GRAPHS_ONLY="1", **settings)
    graphs = sorted(tmp_path.rglob("model.hlo_module.pb"))
    assert extracted.stdout == "512.0\n"
    assert len(graphs) == extracted.stderr.count("Extracting graphs")
    assert not list(tmp_path.rglob("model.neff"))
    compiled = ran(program, **settings)
    assert len(list(tmp_path.rglob("model.neff"))) == len(graphs)
    assert "Using a cached neff at" not in compiled.stderr
    assert ran(program, **settings).stderr.count("Using a cached neff at") == len(graphs)
    assert sorted(tmp_path.rglob("model.hlo_module.pb")) == graphs


@pytest.mark.slow
def test_executions_ask_the_callback_of_snapshots(ran):
    program = """
import jax, jax.numpy as jnp, libneuronxla
f, x, calls = jax.jit(lambda a: a + 1), jnp.ones(3), []
f(x)
libneuronxla.register_hlo_snapshot_callback(lambda *words: calls.append(words) or "")
f(x), f(x)
print(calls)
libneuronxla.register_hlo_snapshot_callback(lambda *_: "inputs")
try: f(x)
except Exception as error: print(str(error).splitlines()[0])
"""
    done = ran(program, JAX_PLATFORMS="neuron")
    lines = done.stdout.splitlines()
    assert lines[0] == "[('jit__lambda', 0, 0), ('jit__lambda', 0, 1)]"
    assert "a snapshot of 'inputs' of jit__lambda, execution 0" in lines[1]
