"""Executions: donation, room for results, and that a plain call does what every call does."""

import gc
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.device.call_log import recording
from trnsim.device.hbm import device_memory
from trnsim.device.numerics import numerics
from trnsim.jax.pjrt import calls
from trnsim.jax.pjrt.executables import executables
from trnsim.jax.pjrt.sweep import buffers, sweep
from trnsim.jax.snapshots import register_hlo_snapshot_callback


@pytest.mark.parametrize("mode", ["fast", "exact", "shapes"])
def test_a_donated_argument_is_gone_and_its_memory_with_it(neuron, mode):
    step = jax.jit(lambda a: a + 1, donate_argnums=0)
    gc.collect()
    neuron[3].memory_stats()  # sweeps
    before = neuron[3].memory_stats()["bytes_in_use"]
    x = jax.device_put(np.zeros(1000, np.float32), neuron[3])
    with numerics(mode):
        y = step(x)
        assert x.is_deleted()
        assert neuron[3].memory_stats()["bytes_in_use"] == before + 4000
        with pytest.raises(RuntimeError, match="deleted"):
            np.asarray(x)
        assert float(step(y)[0]) == (0 if mode == "shapes" else 2)


@pytest.mark.parametrize("mode", ["fast", "exact", "shapes"])
@pytest.mark.parametrize("donated", [(0,), (1,), (0, 1)])
def test_an_argument_that_is_donated_and_used_twice_is_refused(neuron, mode, donated):
    x = jax.device_put(np.arange(3, dtype=np.float32), neuron[0])
    with numerics(mode), pytest.raises(Exception, match=r"(?i)invalid_argument.*donate"):
        jax.jit(lambda a, b: (a + b, a - b), donate_argnums=donated)(x, x)


def test_a_donated_argument_of_a_program_that_the_host_computes_is_gone(neuron):
    x = jax.device_put(np.eye(3, dtype=np.float32), neuron[0])
    with numerics("exact") as on_host:
        y = jax.jit(lambda a: jnp.linalg.svd(a)[2] * 2, donate_argnums=0)(x)
        assert on_host
        assert x.is_deleted()
        np.testing.assert_array_equal(np.abs(y), 2 * np.eye(3))


def test_an_argument_given_twice_is_not_donated_under_itself(neuron):
    step = jax.jit(lambda a, b: (a + b, b * 2), donate_argnums=0)
    x = jax.device_put(np.full(3, 5, np.float32), neuron[0])
    try:
        first, second = step(x, x)
    except Exception as error:  # noqa: BLE001  JAX refuses it, in its own words
        assert "donate" in str(error)  # noqa: PT017
    else:
        assert (float(first[0]), float(second[0])) == (10, 10)


def test_results_that_do_not_fit_are_refused_with_a_table(neuron):
    kept = jax.device_put(np.zeros(1 << 20, np.float32), neuron[7])
    f = jax.jit(lambda a: jnp.zeros((1 << 17, 1 << 17), jnp.float32) + a[0])
    with pytest.raises(Exception, match="RESOURCE_EXHAUSTED") as caught:
        f(kept)
    text = str(caught.value)
    assert "neuron:7 ran out of memory: 64.00 GiB asked for" in text
    assert "24.00 GiB" in text
    assert "float32[1048576]" in text
    assert "test_calls.py" in text
    assert float((kept + 1)[0]) == 1, "the device goes on"


@pytest.fixture
def every_call_is_listened_to():
    """No call is plain, as a function is asked at each."""
    register_hlo_snapshot_callback(lambda *_: "")
    yield
    register_hlo_snapshot_callback(None)


def plain_calls():
    """The plain calls that have been made ready, the last executable's last."""
    return [
        call
        for executable in list(executables.values())
        for call in executable.plain_calls.values()
    ]


def results_of(device):
    """Results of several programs on a device, and the HBM that they take."""
    x = jax.device_put(np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4), device)
    narrow = x.astype(jnp.bfloat16)
    results = [
        jax.jit(lambda a: (a + 1, a > 0, a.sum(), a[:0]))(x),
        jax.jit(lambda a, b: a @ b.T)(x, narrow),
        jax.jit(lambda a: a, donate_argnums=0)(x + 1),
        jax.jit(jnp.linalg.qr)(x),
    ]
    held = device_memory(5).allocations
    taken_bytes = [held[array.unsafe_buffer_pointer()].nbytes for array in jax.tree.leaves(results)]
    return jax.tree.map(np.asarray, results), taken_bytes


@pytest.mark.slow
@pytest.mark.usefixtures("every_call_is_listened_to")
def test_a_plain_call_does_what_every_call_does(neuron):
    before = len(plain_calls())
    expected, expected_bytes = results_of(neuron[5])
    assert len(plain_calls()) == before
    register_hlo_snapshot_callback(None)
    found, found_bytes = results_of(neuron[5])
    assert len(plain_calls()) > before
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert jax.tree.map(lambda a: a.dtype, found) == jax.tree.map(lambda a: a.dtype, expected)
    assert found_bytes == expected_bytes == [48, 12, 4, 0, 36, 48, 36, 48]


def test_a_recording_sees_calls_that_were_plain_before(neuron):
    f = jax.jit(lambda a: a * 5)
    x = jax.device_put(np.ones(3, np.float32), neuron[1])
    f(x)
    with recording() as seen:
        f(x)
    f(x)
    assert [event.core for event in seen.events] == [1]


def test_a_plain_call_has_a_plan_for_each_device(neuron):
    f = jax.jit(lambda a: a * 7)
    for _ in range(2):
        for device in neuron[2:4]:
            found = f(jax.device_put(np.float32(3), device))
            assert (float(found), found.devices()) == (21, {device})
    last = list(executables.values())[-2:]
    assert {call.hbm.core for each in last for call in each.plain_calls.values() if call} >= {3}


def test_a_plain_call_without_room_is_refused_and_earlier_results_make_room(neuron, monkeypatch):
    device, memory = neuron[6], device_memory(6)
    f = jax.jit(lambda a: jnp.zeros(1000, jnp.float32) + a)
    x = jax.device_put(np.float32(1), device)
    kept = f(x)
    gc.collect()
    sweep()
    monkeypatch.setattr(memory, "capacity_bytes", memory.live_bytes + 4000)
    for _ in range(3):
        kept = f(x)  # the last result but one is swept for the new one
    with pytest.raises(ValueError, match="RESOURCE_EXHAUSTED"):
        [f(x), f(x)]
    assert kept.shape == (1000,)


def test_a_large_result_of_a_plain_call_names_its_line(neuron):
    f = jax.jit(lambda a: jnp.zeros(1 << 18, jnp.float32) + a)
    x = jax.device_put(np.float32(1), neuron[6])
    kept = [f(x), f(x)]
    assert "test_calls.py" in device_memory(6).table()
    small = buffers[x.unsafe_buffer_pointer()]
    assert (small.line, small.nbytes) == (None, 4)
    assert len(kept) == 2


def test_a_plain_call_of_a_deleted_array_is_refused(neuron):
    f = jax.jit(lambda a: a - 1)
    x = jax.device_put(np.ones(3, np.float32), neuron[0])
    f(x)
    buffers[x.unsafe_buffer_pointer()].free()
    with pytest.raises(ValueError, match="was deleted or donated"):
        f(x)


@pytest.mark.parametrize("count", [0, 1, 3, 40])
@pytest.mark.parametrize("donated", ["", " {jax.buffer_donor = true}"])
def test_another_number_of_arguments_than_the_programs_is_refused(neuron, count, donated):
    kind = "tensor<4xf32>"
    program = (
        f"func.func @main(%x: {kind}, %y: {kind}{donated}) -> {kind} "
        f"{{ %z = stablehlo.add %x, %y : {kind}\nreturn %z : {kind} }}"
    )
    loaded = neuron[0].client.compile_and_load(program, [neuron[0]])

    def arrays(number):
        return [jax.device_put(np.arange(4, dtype=np.float32), neuron[0]) for _ in range(number)]

    for _ in range(2):  # the second call has the plan of the first
        with pytest.raises(RuntimeError, match=f"INVALID_ARGUMENT: {count} arguments.*legal: 2,"):
            loaded.execute(arrays(count))
        (total,) = loaded.execute(arrays(2))
        assert np.asarray(total).tolist() == [0, 2, 4, 6]


def test_what_a_plain_call_raises_is_an_error_of_jax(neuron, monkeypatch):
    f = jax.jit(lambda a: a - 2)
    x = jax.device_put(np.ones(3, np.float32), neuron[0])
    f(x)
    monkeypatch.setattr(calls, "track_results", None)
    with pytest.raises(ValueError, match="TypeError: 'NoneType'"):
        f(x)


def test_programs_without_arguments_or_results_are_not_plain(neuron):
    before = sum(call is not None for call in plain_calls())
    with jax.default_device(neuron[0]):
        assert float(jax.jit(lambda: jnp.ones(()) * 3)()) == 3
        assert jax.jit(lambda _: ())(jnp.arange(3)) == ()
    assert sum(call is not None for call in plain_calls()) <= before + 1  # of arange


@pytest.mark.slow
def test_plain_calls_of_several_threads_keep_their_results(neuron):
    f = jax.jit(lambda a: a + 1)
    x = jax.device_put(np.zeros(3, np.float32), neuron[0])
    sums = []

    def work():
        y = x
        for _ in range(400):
            y = f(y)
        sums.append(float(y.sum()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [1200.0] * 4
