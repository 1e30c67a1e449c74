import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from socket import socket

import pytest

from trnsim.errors import BadInput
from trnsim.jax import private
from trnsim.jax.processes import Processes, cores, processes

COUNTS, INDEX = "NEURON_PJRT_PROCESSES_NUM_DEVICES", "NEURON_PJRT_PROCESS_INDEX"


@pytest.fixture
def asked(monkeypatch):
    """The processes and this one's cores, by variables and by what JAX has joined."""

    def ask(joined=(0, 1), **variables):
        monkeypatch.setattr(private, "joined_processes", lambda: joined)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return processes.__wrapped__(), cores.__wrapped__()

    processes.cache_clear()
    yield ask
    processes.cache_clear()


def test_a_process_alone_has_all_cores_that_it_may_use(asked):
    assert asked() == (Processes(0, 1), tuple(range(8)))
    assert asked(**{COUNTS: "3"}) == (Processes(0, 1), (0, 1, 2))


def test_each_of_several_has_its_number_of_cores(asked):
    assert asked((1, 2), **{COUNTS: "3,2", INDEX: "1"}) == (Processes(1, 2), (0, 1))


@pytest.mark.parametrize(
    ("joined", "variables", "message"),
    [
        ((0, 1), {COUNTS: "2,2"}, "2,2: 2 processes, and this one has joined no others"),
        ((0, 3), {COUNTS: "2,2"}, "2,2: 2 processes; jax.distributed.initialize has joined 3"),
        ((1, 2), {COUNTS: "2,2"}, "INDEX=0; jax.distributed.initialize was told process_id=1"),
        ((0, 1), {COUNTS: "9"}, "9: 9 cores for process 0, of 8 that it may use"),
    ],
)
def test_variables_that_say_something_else_are_refused(asked, joined, variables, message):
    with pytest.raises(BadInput, match=message):
        asked(joined, **variables)


def free_port():
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def together(program, count, own=(), **variables):
    """What each of several processes printed, and how it ended; each may have its own variables."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    known.pop("NEURON_RT_NUM_CORES", None)
    port = str(free_port())

    def run(index):
        return subprocess.run(
            [sys.executable, "-c", program, port, str(count), str(index)],
            env=known | variables | {INDEX: str(index)} | (own[index] if own else {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(run, range(count)))


BEGIN = """
import sys
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
port, count, index = map(int, sys.argv[1:])
jax.distributed.initialize(f"127.0.0.1:{port}", count, index, heartbeat_timeout_seconds=10)
mesh = Mesh(np.array(jax.devices()), "d")
total = jax.jit(
    jax.shard_map(lambda x: jax.lax.psum(x, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
)
x = np.arange(len(jax.devices()) * 6.0, dtype=np.float32).reshape(-1, 6)
first = jax.local_devices()[0].id
own = x[first : first + len(jax.local_devices())]
a = jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), own, x.shape)
"""
COMPUTES = (
    BEGIN
    + """
from jax.experimental import multihost_utils
whole = NamedSharding(mesh, P())
print(jax.process_index(), jax.process_count(), [one.id for one in jax.devices()])
print([one.process_index for one in jax.devices()], [one.id for one in jax.local_devices()])
print([one.neuron_core for one in jax.local_devices()])
assert (np.asarray(total(a))[0] == x.sum(0)).all()
product = jax.jit(lambda a: a.T @ a, out_shardings=whole)(a)
assert np.allclose(np.asarray(product), x.T @ x, rtol=1e-6)
rows = jax.jit(lambda a: a[::-1] * 2, out_shardings=NamedSharding(mesh, P("d")))(a)
mine = np.concatenate([one.data for one in rows.addressable_shards])
assert (mine == (x[::-1] * 2)[first : first + len(own)]).all()
assert multihost_utils.process_allgather(np.array([index])).ravel().tolist() == [*range(count)]
assert jax.device_put(3.0) + 1 == 4 and jax.jit(jax.numpy.sin)(0.0).device.id == first
multihost_utils.sync_global_devices("end")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("platforms", ["neuron", "neuron,cpu"])
def test_two_processes_compute_on_one_mesh(platforms):
    one, other = together(COMPUTES, 2, JAX_PLATFORMS=platforms, **{COUNTS: "2,2"})
    for process, (done, own) in enumerate([(one, [0, 1]), (other, [2, 3])]):
        assert done.returncode == 0, done.stderr
        expected = f"{process} 2 [0, 1, 2, 3]\n[0, 0, 1, 1] {own}\n{own}\n"
        assert done.stdout.replace("[Gloo]", "\n[Gloo]").startswith(expected)
        assert "WatchTasks" not in done.stderr


DIES = (
    BEGIN
    + """
import os, signal
total(a).block_until_ready()
if index == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    for _ in range(100):
        total(a).block_until_ready()
except Exception as error:
    print("error:", error, flush=True)
    os._exit(3)
"""
)


@pytest.mark.slow
def test_when_a_process_is_killed_the_other_gets_an_error():
    one, other = together(DIES, 2, JAX_PLATFORMS="neuron", **{COUNTS: "1,1"})
    assert other.returncode == -signal.SIGKILL
    assert one.returncode == 3, one.stderr
    assert "error: UNKNOWN: Gloo all-reduce failed" in one.stdout


FIGURES = (
    BEGIN
    + """
pairs = Mesh(np.array(jax.devices()).reshape(2, 2), ("p", "q"))
half = jax.jit(jax.shard_map(
    lambda x: jax.lax.ppermute(jax.lax.psum(x, "q"), "p", [(0, 1), (1, 0)]),
    mesh=pairs, in_specs=P(("p", "q")), out_specs=P("p")))
b = jax.make_array_from_process_local_data(NamedSharding(pairs, P(("p", "q"))), own, x.shape)
for _ in range(3):
    np.asarray(total(a).addressable_data(0))
np.asarray(half(b).addressable_data(0))
"""
)


@pytest.mark.slow
def test_each_process_tells_of_its_own_groups_by_numbers_of_all(tmp_path, monkeypatch):
    monkeypatch.setenv("TRNSIM_RANK_FIGURES", str(tmp_path))
    ranks = [{"RANK": str(rank)} for rank in range(4)]
    done = together(FIGURES, 4, ranks, JAX_PLATFORMS="neuron", **{COUNTS: "1,1,1,1"})
    assert [one.returncode for one in done] == [0] * 4, done[0].stderr
    for rank in range(4):
        found = json.loads((tmp_path / f"rank-{rank}.json").read_text())
        own = [rank // 2 * 2, rank // 2 * 2 + 1]
        told = {(one["kind"], *one["ranks"]): one["nbytes"] for one in found["collectives"]}
        assert told == {
            ("all_reduce", 0, 1, 2, 3): [24, 24, 24],
            ("all_reduce", *own): [24],
            ("collective_permute", rank, (rank + 2) % 4): [24],
        }
        assert {one["floor"] for one in found["collectives"]} == {"PROGRAM"}
        # Each reading of a result ends a step; the last has a call and the two exchanges of half.
        assert (found["steps"], found["calls"], found["missing"]) == (4, 1, {})
        assert [kind for kind, *_ in found["exchanges"].values()] == [
            "all_reduce",
            "collective_permute",
        ]
