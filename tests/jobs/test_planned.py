import pytest

from trnsim.jobs.parallelism import options_of, parallelism_in
from trnsim.jobs.planned import layout_options, planned_job
from trnsim.jobs.plans import parallelism_of
from trnsim.place.machine import machine
from trnsim.system.train.layout import Layout

LAYOUT = Layout(
    tensor=8,
    pipeline=2,
    virtual=2,
    data=4,
    context=1,
    expert=1,
    zero=1,
    recompute="full",
    is_sequence=True,
    micro_batch=2,
    global_batch=64,
    sequence=8192,
    dtype="bf16",
    optimizer="adamw",
)
READ_BACK = {
    "tensor": 8,
    "pipeline": 2,
    "virtual": 2,
    "context": 1,
    "expert": 1,
    "zero": 1,
    "recompute": "full",
    "is_sequence": True,
    "micro_batch": 2,
    "global_batch": 64,
    "sequence": 8192,
    "dtype": "bf16",
    "optimizer": "adamw",
}


def test_the_options_of_a_layout_are_read_back():
    assert parallelism_in(options_of(layout_options(LAYOUT))).stated_fields == READ_BACK


def test_the_job_of_a_plan_has_its_instances_and_its_layout():
    job = planned_job(machine("trn2.48xlarge", 2), LAYOUT, model="m", steps=100)
    (role,) = job.roles
    assert (job.model, role.replicas, role.instance) == ("m", 2, "trn2.48xlarge")
    assert (role.processes, role.devices, role.gpus, role.efa) == (64, 16, None, 16)
    assert role.lnc == 2
    assert role.variable("FI_PROVIDER") == "efa"
    assert role.command[:5] == ("torchrun", "--nproc-per-node", "64", "--nnodes", "2")
    assert "$MASTER_ADDR:29500" in role.command
    assert parallelism_of(job).stated_fields == READ_BACK | {"steps": 100}


def test_one_instance_needs_no_head_and_no_fabric():
    (role,) = planned_job(machine("trn1.2xlarge"), Layout()).roles
    assert role.efa is None
    assert role.command[:4] == ("torchrun", "--nproc-per-node", "2", "--standalone")
    assert role.environment == (("NEURON_RT_NUM_CORES", "1"), ("NEURON_LOGICAL_NC_CONFIG", "1"))


@pytest.mark.parametrize("words", [(), ("--seed", "3")])
def test_gpus_have_no_cores_and_further_words_are_last(words):
    (role,) = planned_job(machine("p5.48xlarge", 2), LAYOUT, words=words).roles
    assert (role.gpus, role.devices, role.lnc) == (8, None, None)
    assert role.command[len(role.command) - len(words) :] == words
