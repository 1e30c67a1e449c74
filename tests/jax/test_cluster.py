import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from test_processes import free_port

from trnsim.errors import BadInput
from trnsim.jax.cluster import NeuronCluster

JOINS = """
import os
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
jax.distributed.initialize()
mesh = jax.make_mesh((jax.device_count(),), ("d",))
own = np.full(1, jax.process_index() + 1.0, np.float32)
a = jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), own)
total = lambda x: jax.lax.psum(x, "d")
found = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("d"), out_specs=P()))(a)
print("sum", float(found[0]), "of", jax.process_count(), "here", jax.process_index(), flush=True)
"""
SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}


def asked(code, plain_environment, **variables):
    return subprocess.run(
        [sys.executable, "-c", code], env=plain_environment | variables, capture_output=True,
        text=True, check=False, timeout=120,
    )  # fmt: skip


READ = ("JAX_", "NEURON_", "SLURM_", "TRNSIM_")


@pytest.fixture
def plain_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(READ)}


@pytest.mark.slow
def test_processes_that_awss_variables_name_join_without_an_argument(plain_environment):
    root = f"127.0.0.1:{free_port()}"

    def run(index):
        return asked(
            JOINS, plain_environment, JAX_PLATFORMS="neuron", NEURON_PJRT_PROCESS_INDEX=str(index),
            NEURON_PJRT_PROCESSES_NUM_DEVICES="1,1,1", NEURON_RT_ROOT_COMM_ID=root,
        )  # fmt: skip

    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(run, range(3)))
    for index, one in enumerate(done):
        assert f"sum 6.0 of 3 here {index}\n" in one.stdout, one.stderr


DETECTED = """
import json, os
from jax._src.clusters import ClusterEnv as env
for variables, port in {cases}:
    for name in [one for one in os.environ if one.startswith({read})]:
        del os.environ[name]
    os.environ.update(variables)
    found = next((one for one in env._cluster_types if one.is_env_present()), None)
    print(json.dumps(found and [
        found.name,
        found.get_coordinator_address(timeout_secs=1, override_coordinator_port=port),
        found.get_process_count(), found.get_process_id(), found.get_local_process_id(),
    ]))
"""
AWSS = {
    "NEURON_PJRT_PROCESS_INDEX": "1",
    "NEURON_PJRT_PROCESSES_NUM_DEVICES": "2,2",
    "NEURON_RT_ROOT_COMM_ID": "[::1]:4000",
}


OURS = ["neuron", "[::1]:4000", 2, 1, None]
CASES = [
    (AWSS, None, OURS),
    ({}, None, None),
    (AWSS | {"NEURON_RT_ROOT_COMM_ID": ""}, None, None),
    ({"NEURON_PJRT_PROCESSES_NUM_DEVICES": "2,2"}, None, None),
    # A batch system's own cluster comes first.
    (AWSS | SLURM, "9", ["slurm", "localhost:9", 1, 0, 0]),
    (AWSS, "77", ["neuron", "[::1]:77", 2, 1, None]),
]
"""Variables, a port that the program names, and what JAX finds."""


def found_of(cases, plain_environment, variables):
    """What JAX finds in each case, in a process that began with some variables."""
    code = DETECTED.format(cases=[(one, port) for one, port, _ in cases], read=READ)
    done = asked(code, plain_environment, **variables)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_the_cluster_is_there_where_its_variables_are(plain_environment):
    found = found_of(CASES, plain_environment, AWSS)
    assert found == [wanted for _, _, wanted in CASES]


@pytest.mark.slow
def test_what_was_launched_within_a_batch_system_is_no_job_of_its(plain_environment):
    launched = AWSS | SLURM | {"TRNSIM_RESTART": "0"}
    assert found_of([(launched, None, OURS)], plain_environment, launched) == [OURS]


def test_variables_that_name_no_cluster_are_refused(monkeypatch):
    for address in ("host", ":62182", "host:", "host:a", "host:0", "host:65536"):
        monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", address)
        with pytest.raises(BadInput, match=f"='{address}'; legal: an address and a port"):
            NeuronCluster.get_coordinator_address()
    monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", "[::1]:62182")
    assert NeuronCluster.get_coordinator_address() == "[::1]:62182"
    monkeypatch.setenv("NEURON_PJRT_PROCESS_INDEX", "a")
    with pytest.raises(BadInput, match="NEURON_PJRT_PROCESS_INDEX='a' is no number"):
        NeuronCluster.get_process_id()
    monkeypatch.setenv("NEURON_PJRT_PROCESS_INDEX", "1")
    monkeypatch.setenv("NEURON_PJRT_PROCESSES_NUM_DEVICES", "1,1,")
    with pytest.raises(BadInput, match="'1,1,' is no number of cores for each process"):
        NeuronCluster.get_process_count()
