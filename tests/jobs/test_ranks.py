import pytest

from trnsim.jobs.job import Job, Role
from trnsim.jobs.ranks import all_ranks, is_neuron, machine_of, ranks_of

TORCHRUN = ("torchrun", "--nproc-per-node", "32", "train.py")


@pytest.mark.parametrize(
    ("role", "ranks"),
    [
        (Role(processes=8, command=TORCHRUN), 8),
        (Role(command=TORCHRUN), 32),
        (Role(command=("torchrun", "--nproc_per_node=$N")), None),
        (Role(command=("torchrun", "--nproc_per_node=99999999")), None),
        (Role(), None),
    ],
)
def test_ranks_are_stated_or_those_of_a_launcher(role, ranks):
    assert ranks_of(role) == ranks


def test_a_job_has_the_ranks_of_all_roles():
    assert all_ranks(Job(roles=(Role(processes=8), Role(processes=8, replicas=3)))) == 32
    assert all_ranks(Job(roles=(Role(processes=8), Role()))) is None
    assert all_ranks(Job(roles=(Role(processes=8, replicas=None),))) is None
    assert all_ranks(Job()) is None


@pytest.mark.parametrize(
    ("instance", "name"),
    [
        ("trn2.48xlarge", "trn2.48xlarge"),
        ("ml.trn1.32xlarge", "trn1.32xlarge"),
        ("p5.48xlarge", None),
        ("m5.large", None),
        ("", None),
    ],
)
def test_the_machine_of_a_role_has_chips_of_aws(instance, name):
    where = machine_of(Role(instance=instance, replicas=2))
    assert (where and where.instance.name) == name
    assert where is None or where.count == 2


def test_a_role_beyond_every_number_of_instances_has_no_machine():
    assert machine_of(Role(instance="trn1.32xlarge", replicas=10**9)) is None


def test_devices_make_a_role_one_of_neuron():
    assert is_neuron(Role(devices=1))
    assert is_neuron(Role(device_indexes=(0,)))
    assert is_neuron(Role(cores=2))
    assert is_neuron(Role(instance="inf2.xlarge"))
    assert not is_neuron(Role(instance="p5.48xlarge", gpus=8))
