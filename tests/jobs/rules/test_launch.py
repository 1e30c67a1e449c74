import pytest

from trnsim.jobs.formats import read_specs
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.launch import RULES

TRN1, TRN2 = "#SBATCH --constraint=trn1.32xlarge", "#SBATCH --constraint=trn2.48xlarge"
TORCHRUN = "srun torchrun --nproc-per-node 32 --nnodes=2 train.py"
EFA = "export FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=1"
CONFIG = """\
trainer:
  num_nodes: 1
  devices: 64
  lnc: {lnc}
distributed_strategy: {{tensor_model_parallel_size: 8}}
"""


def found(tmp_path, text, rules=RULES):
    path = tmp_path / "job"
    path.write_text(text)
    (spec,) = read_specs(path)
    return [(finding.rule, finding.place.line) for finding in findings(spec, rules)]


def script(*lines):
    return "\n".join(["#!/bin/bash", *lines, ""])


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        ((TRN1, "export NEURON_LOGICAL_NC_CONFIG=2", "srun a"), [("lnc-of-chip", 3)]),
        ((TRN1, "export NEURON_LOGICAL_NC_CONFIG=1", "srun a"), []),
        ((TRN2, "export NEURON_LOGICAL_NC_CONFIG=2", "srun a"), []),
        ((TRN2, "export NEURON_RT_VIRTUAL_CORE_SIZE=4", "srun a"), [("lnc-of-chip", 3)]),
        ((TRN2, "export NEURON_RT_VIRTUAL_CORE_SIZE=two", "srun a"), [("lnc-of-chip", 3)]),
        (("#SBATCH -N 1", "export NEURON_RT_VIRTUAL_CORE_SIZE=2", "srun a"), []),
        (("#SBATCH -N 1", "export NEURON_RT_VIRTUAL_CORE_SIZE=3", "srun a"), [("lnc-of-chip", 3)]),
        (("#SBATCH -N 1", "export NEURON_RT_VIRTUAL_CORE_SIZE=$L", "srun a"), []),
        ((TRN1, "srun a --logical-nc-config 2"), [("lnc-of-chip", 3)]),
        ((TRN1, "srun a --logical-nc-config $L"), []),
        ((TRN1, "if x; then export NEURON_LOGICAL_NC_CONFIG=2; fi", "srun a"), []),
    ],
)
def test_lnc_is_one_that_the_chip_has(tmp_path, lines, broken):
    assert found(tmp_path, script(*lines)) == broken


def test_lnc_of_a_configuration_is_one_of_a_chip(tmp_path):
    assert found(tmp_path, CONFIG.format(lnc=3)) == [("lnc-of-chip", 4)]
    assert found(tmp_path, CONFIG.format(lnc=2)) == []


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("srun a --logical-nc-config=1", [("lnc-agreement", 3)]),
        ("srun a --logical-nc-config=2", []),
        ("NEURON_CC_FLAGS='-O1 --lnc=1' srun a", [("lnc-agreement", 3)]),
        ("NEURON_CC_FLAGS='-O1 -lnc 1' srun a", [("lnc-agreement", 3)]),
        ("NEURON_CC_FLAGS='--logical-nc-config=2' srun a", []),
        ("NEURON_CC_FLAGS='--model-type transformer' srun a", []),
        ("NEURON_CC_FLAGS=$FLAGS srun a", []),
    ],
)
def test_the_compiler_has_the_runtimes_lnc(tmp_path, line, broken):
    text = script(TRN2, "export NEURON_LOGICAL_NC_CONFIG=2", line)
    assert found(tmp_path, text) == broken
    assert found(tmp_path, script(TRN2, line)) == []


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        ((TRN1, "srun torchrun --nproc-per-node 32 a"), []),
        ((TRN1, "srun torchrun --nproc-per-node 33 a"), [("ranks-of-cores", 3)]),
        ((TRN1, "#SBATCH --ntasks-per-node=64", "srun a"), [("ranks-of-cores", 3)]),
        ((TRN2, "srun torchrun --nproc-per-node 64 a"), []),
        ((TRN2, "srun torchrun --nproc-per-node 128 a"), [("ranks-of-cores", 3)]),
        ((TRN2, "NEURON_LOGICAL_NC_CONFIG=1 srun torchrun --nproc-per-node 128 a"), []),
        ((TRN1, "#SBATCH --gres=neuron:4", "srun torchrun --nproc-per-node 8 a"), []),
        (
            (TRN1, "#SBATCH --gres=neuron:4", "srun torchrun --nproc-per-node 9 a"),
            [("ranks-of-cores", 4)],
        ),
        (
            (TRN1, "NEURON_LOGICAL_NC_CONFIG=2 srun torchrun --nproc-per-node 32 a"),
            [("lnc-of-chip", 3)],
        ),
        (("#SBATCH -C p5.48xlarge", "srun torchrun --nproc-per-node 99 a"), []),
        (("#SBATCH -N 1", "srun torchrun --nproc-per-node 999 a"), []),
    ],
)
def test_ranks_have_a_core_each(tmp_path, lines, broken):
    assert found(tmp_path, script(*lines)) == broken


@pytest.mark.parametrize(
    ("lines", "is_broken"),
    [
        (("srun nccom-test -r 64 -N 2 allr --hosts a b",), True),
        (("nccom-test -r 64 -N $NODES allr -s a b",), True),
        (("NEURON_RT_ROOT_COMM_ID=a:1 nccom-test -r 64 -N 2 allr --hosts a b",), False),
        (("export NEURON_RT_ROOT_COMM_ID=$A:1", "nccom-test -r 64 -N 2 allr --hosts a"), False),
        (("x && export NEURON_RT_ROOT_COMM_ID=1", "nccom-test -N 2 allr --hosts a"), False),
        (("source settings.sh", "nccom-test -r 64 -N 2 allr --hosts a b"), False),
        (("nccom-test -r 64 -N 2 allr --slurm-mode",), False),
        (("nccom-test -r 32 allr",), False),
        (("nccom-test -r 32 -N 1 allr --hosts a",), False),
        (("NEURON_PJRT_PROCESSES_NUM_DEVICES=32,32 srun python a.py",), True),
        (("NEURON_PJRT_PROCESSES_NUM_DEVICES=32 srun python a.py",), False),
        (("srun --container-image=i nccom-test -N 2 allr --hosts a b",), False),
        (("srun torchrun --nproc-per-node 32 --nnodes 2 a.py",), False),
    ],
)
def test_ranks_that_no_torchrun_starts_have_the_roots_address(tmp_path, lines, is_broken):
    text = script("#SBATCH -N 2", *lines)
    line = 2 + len(lines)
    assert found(tmp_path, text) == ([("root-address", line)] if is_broken else [])


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        ((TRN1, "#SBATCH -N 2", EFA, TORCHRUN), []),
        ((TRN1, "#SBATCH -N 2", f"{EFA} FI_PROVIDER=tcp", TORCHRUN), [("efa-variables", 4)]),
        (
            (TRN1, "#SBATCH -N 2", "export FI_PROVIDER=efa FI_EFA_USE_DEVICE_RDMA=0", TORCHRUN),
            [("efa-variables", 4)],
        ),
        ((TRN1, "#SBATCH -N 2", "export FI_PROVIDER=$P FI_EFA_USE_DEVICE_RDMA=1", TORCHRUN), []),
        ((TRN1, "#SBATCH -N 2", TORCHRUN), [("efa-variables-unset", 4)]),
        ((TRN1, "#SBATCH -N 2", "export FI_PROVIDER=efa", TORCHRUN), [("efa-variables-unset", 5)]),
        (("#SBATCH -N 2 --gres=neuron:16", TORCHRUN), [("efa-variables-unset", 3)]),
        ((TRN1, "#SBATCH -N 2", "source efa.sh", TORCHRUN), []),
        ((TRN1, "#SBATCH -N 2", f"x || {EFA}", TORCHRUN), []),
        ((TRN1, "#SBATCH -N 2", TORCHRUN.replace("srun", "srun --container-image=i")), []),
        ((TRN1, "#SBATCH -N 1", TORCHRUN), [("launcher-nodes", 4)]),
        ((TRN1, "#SBATCH -N 2", "srun ./train.sh"), []),
        (("#SBATCH -N 2 -C trn1.2xlarge", "srun torchrun --nproc-per-node 2 --nnodes=2 a"), []),
        (("#SBATCH -N 2 -C p5.48xlarge", "export FI_PROVIDER=tcp", TORCHRUN), []),
        (("#SBATCH -N 2", "export FI_PROVIDER=tcp", TORCHRUN), []),
    ],
)
def test_ranks_of_several_instances_exchange_over_efa(tmp_path, lines, broken):
    assert found(tmp_path, script(*lines)) == broken


def test_an_option_after_the_first_command_is_found(tmp_path):
    late = ("#SBATCH -N 1", "set -e", "#SBATCH --time=5", "srun a")
    assert found(tmp_path, script(*late)) == [("late-options", 4)]
    early = ("#SBATCH -N 1", "#SBATCH --time=5", "set -e", "##SBATCH --time=6", "srun a")
    assert found(tmp_path, script(*early)) == []


def test_a_cluster_has_no_findings_of_jobs(tmp_path):
    text = (
        "Scheduling:\n  SlurmQueues:\n  - Name: a\n    ComputeResources:\n"
        "    - {Name: b, InstanceType: trn1.32xlarge, MaxCount: 4}\n"
    )
    assert found(tmp_path, text) == []


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        (("if a; then", "  srun python b.py", "fi"), [("assumed-branch", 4)]),
        (("for n in 1 2; do", "  srun python b.py", "done"), [("assumed-branch", 4)]),
        (("if a; then x; fi", "srun python b.py"), []),
    ],
)
def test_a_command_within_a_block_is_said_to_be(tmp_path, lines, broken):
    assert found(tmp_path, script("#SBATCH -N 1", *lines)) == broken


CLUSTER = """\
Scheduling:
  Scheduler: slurm
  SlurmQueues:
  - Name: q
    ComputeResources:
    - Name: a
      InstanceType: trn1.32xlarge
      MinCount: {least}
      MaxCount: {most}
"""


@pytest.mark.parametrize(("least", "most", "is_legal"), [(8, 4, False), (4, 4, True), (0, 4, True)])
def test_a_role_grows(tmp_path, least, most, is_legal):
    expected = [] if is_legal else [("least-replicas", 8)]
    assert found(tmp_path, CLUSTER.format(least=least, most=most)) == expected
