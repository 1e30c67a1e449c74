"""Buffers that nothing holds are freed; those that something holds are not."""

import gc
import sys
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from trnsim.jax import private
from trnsim.jax.pjrt import sweep as tested
from trnsim.jax.pjrt.sweep import buffers, sweep

SPLIT = jax.sharding.PartitionSpec("x")


def test_dead_buffers_go_and_live_ones_stay(neuron):
    kept = [jax.device_put(np.full(3, at, np.float32), neuron[0]) for at in range(20)]
    for at in range(200):
        jax.device_put(np.full(3, at, np.float32), neuron[0]) + 1
    gc.collect()
    sweep()
    before = len(buffers)
    assert before < 100 + len(jax.live_arrays())
    assert [float(one[0]) for one in kept] == list(range(20))


@pytest.mark.slow
def test_ten_thousand_calls_leave_nothing_behind(neuron):
    f = jax.jit(lambda a: a + 1)
    x = jax.device_put(np.ones(4, np.float32), neuron[0])
    for _ in range(10_000):
        y = f(x)
    assert float(y[0]) == 2
    sweep()
    gc.collect()
    sweep()
    assert len(buffers) < 300 + 8 * len(jax.live_arrays())


@pytest.mark.slow
def test_arrays_that_are_put_at_one_place_again_and_again_are_freed(neuron):
    """JAX puts each from a new frame, at the address of the last one's."""
    both = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(neuron[:2]), "x"), SPLIT)
    before = len(buffers)
    for at in range(2000):
        jax.device_put(np.full(3, at, np.float32), neuron[0])
        jax.device_put(np.full(4, at, np.float32), both)
    assert len(buffers) < before + 3000


def test_a_traced_program_is_traced_as_before(neuron):
    """A frame's mark is where a debugger has its own function; that one stays."""
    seen = []

    def trace(frame, event, arg):
        del arg
        if frame.f_code is work.__code__:
            seen.append(event)
            return trace
        return None

    def work():
        jax.device_put(np.ones(3, np.float32), neuron[0])
        return jax.device_put(np.ones(4, np.float32), neuron[0])

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = work()
    finally:
        sys.settrace(before)
    assert found.shape == (4,)
    assert seen == ["call", "line", "line", "return"]


def test_the_shards_of_a_call_that_still_runs_are_kept(neuron, monkeypatch):
    monkeypatch.setattr(tested, "_LEAST_BUFFERS_BETWEEN_SWEEPS", 0)  # a sweep at every buffer
    mesh = jax.sharding.Mesh(np.array(neuron), ("x",))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    given = np.arange(64, dtype=np.float32).reshape(8, 8)
    array = jax.device_put(given, split)
    np.testing.assert_array_equal(np.asarray(array), given)
    found = jax.jit(lambda a, b: (a @ b.T, a - b), out_shardings=split)(array, array)
    np.testing.assert_array_equal(np.asarray(found[0]), given @ given.T)
    numbers = jax.jit(lambda a, b, c: a + b * c)(given, given, given)
    np.testing.assert_array_equal(np.asarray(numbers), given + given * given)


@pytest.mark.slow
def test_a_loop_over_large_arrays_does_not_fill_the_memory(neuron):
    limit = neuron[4].memory_stats()["bytes_limit"]
    one = jax.device_put(np.ones(1 << 20, np.float32), neuron[4])
    double = jax.jit(lambda a: a * 2)
    for _ in range(200):  # 800 MiB in all
        last = double(one)
    stats = neuron[4].memory_stats()
    assert stats["bytes_in_use"] < 64 << 20 < limit
    assert float(jnp.max(last)) == 2


def test_a_sweep_keeps_nothing_that_its_callers_hold(neuron):
    def calls():
        array = jax.device_put(np.ones(3, np.float32), neuron[0])
        sweep()
        return weakref.ref(array)

    assert calls()() is None


@pytest.mark.slow
def test_results_that_no_array_holds_yet_are_kept_wherever_jax_is(neuron):
    x = jax.device_put(np.arange(4, dtype=np.float32), neuron[0])

    def trace(frame, event, arg):
        del arg
        if not frame.f_code.co_filename.startswith(private.FOLDER):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            sys.settrace(None)
            sweep()
            sys.settrace(trace)
        return trace

    jax.jit(lambda a: (a - 1, a * 5))(x)  # what JAX makes once is made
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        y, z = jax.jit(lambda a: (a + 1, a * 3))(x)
    finally:
        sys.settrace(before)
    assert float(y.sum()) == 10
    assert z.tolist() == [0, 3, 6, 9]


@pytest.mark.slow
def test_threads_that_sweep_free_nothing_of_each_other(neuron, monkeypatch):
    monkeypatch.setattr(tested, "_LEAST_BUFFERS_BETWEEN_SWEEPS", 3)
    f = jax.jit(lambda a, b: (a + b, a * b))
    found = []

    def work(at):
        x = jax.device_put(np.full(4, at, np.float32), neuron[at])
        for _ in range(60):
            y, z = f(x, jax.device_put(np.ones(4, np.float32), neuron[at]))
            found.append((float(y[0]), float(z[0])) == (at + 1, at))

    threads = [threading.Thread(target=work, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 360
    assert all(found)
