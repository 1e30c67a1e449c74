import pytest

from trnsim.errors import BadInput
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, Role
from trnsim.jobs.rules import findings


def spec_of(tmp_path, *lines, head="#!/bin/bash", name="run.sh"):
    path = tmp_path / name
    path.write_text("\n".join([*([head] if head else []), *lines]) + "\n")
    (spec,) = read_specs(path)
    return spec


@pytest.mark.parametrize(
    ("command", "nodes", "each"),
    [
        ("torchrun --nproc_per_node=32 train.py", 1, 32),
        ("torchrun --nnodes=4 --nproc-per-node 8 train.py", 4, 8),
        ("torchrun --nproc-per-node=auto train.py", 1, None),
        ("torchrun train.py", 1, None),
        ("python3 -m torch.distributed.run --nproc-per-node 2 train.py", 1, 2),
        ("neuron_parallel_compile torchrun --nproc_per_node=2 train.py", 1, 2),
        ("torchrun $ARGS train.py --lr $LR", None, None),
        ("torchrun --nnodes $N --nproc_per_node=8 train.py", None, 8),
        ("mpirun -np 64 -N 32 ./all_reduce", 2, 32),
        ("mpirun -np 64 --host a:32,b:32 python train.py -np 3", 2, 32),
        ("mpirun --np 8 python train.py", 1, 8),
        ("mpirun -n 16 --map-by ppr:8:node ./a", 2, 8),
        ("mpirun -np 64 --hostfile hosts ./a", None, None),
        ("mpirun -np 7 -H a,b ./a", 2, None),
        ("mpiexec -n 1 ./a", 1, 1),
        ("srun -N 2 --ntasks-per-node=4 python train.py", 2, 4),
        ("srun -N 2 -n 8 python train.py", 2, 4),
        ("srun --nodes=2 torchrun --nproc_per_node=32 train.py", 2, 32),
        ("srun python train.py", 1, 1),
        ("accelerate launch --num_machines 2 --num_processes 16 train.py", 2, 8),
        ("deepspeed --num_nodes 2 --num_gpus 8 train.py", 2, 8),
        ("deepspeed --hostfile hosts train.py", None, None),
    ],
)
def test_the_launcher_states_nodes_and_ranks(tmp_path, command, nodes, each):
    spec = spec_of(tmp_path, "export FI_PROVIDER=efa", command)
    (role,) = spec.job.roles
    assert (spec.format, role.replicas, role.processes) == ("script", nodes, each)
    assert role.environment == (("FI_PROVIDER", "efa"),)
    assert spec.line_of("roles.0.processes").line == 3
    assert spec.is_template("roles.0.replicas") == (nodes is None)
    assert spec.job.kept_fields == ()


def test_options_of_srun_that_nothing_reads_are_kept(tmp_path):
    spec = spec_of(tmp_path, "srun -N 2 --cpu-bind=none python t.py")
    assert [kept.value for kept in spec.job.kept_fields] == ["-N", "2", "--cpu-bind=none"]


def test_a_range_of_nodes_has_its_fewest(tmp_path):
    (role,) = spec_of(tmp_path, "torchrun --nnodes=2:4 --nproc_per_node=8 t.py").job.roles
    assert (role.least_replicas, role.replicas) == (2, 4)


def test_rules_judge_a_script_on_the_instance_that_is_stated(tmp_path):
    spec = spec_of(tmp_path, "export NEURON_RT_NUM_CORES=32", "torchrun --nproc_per_node=64 t.py")
    found = findings(SpecAssumption(instance="trn1.32xlarge").complete_spec(spec))
    assert ("ranks-of-cores", 3) in [(row.rule, row.place.line) for row in found]
    legal = spec_of(tmp_path, "torchrun --nproc_per_node=32 t.py")
    assert findings(SpecAssumption(instance="trn1.32xlarge").complete_spec(legal)) == []


@pytest.mark.parametrize("head", ["#!/usr/bin/env bash", "#!/bin/sh", "# no first line", ""])
def test_a_file_that_is_named_sh_is_a_script(tmp_path, head):
    assert spec_of(tmp_path, "torchrun t.py", head=head).format == "script"


@pytest.mark.parametrize(
    "lines", ["pip install torch", "python setup.py", "echo torchrun", "srun", "python -m venv a"]
)
def test_a_script_that_starts_no_ranks_is_refused_by_name(tmp_path, lines):
    with pytest.raises(BadInput, match=r"run.sh:1: no spec of a job: a shell script") as error:
        spec_of(tmp_path, lines)
    assert "name the script that starts the ranks" in str(error.value)


def test_an_open_quote_is_refused_at_its_line(tmp_path):
    with pytest.raises(BadInput, match=r"run.sh:2: .*not closed"):
        spec_of(tmp_path, "torchrun 't.py")


def test_options_of_sbatch_need_a_first_line(tmp_path):
    with pytest.raises(BadInput, match=r"run.sh:1: sbatch takes no script whose first line"):
        spec_of(tmp_path, "#SBATCH --nodes=2", "srun t", head="")
    assert spec_of(tmp_path, "#SBATCH --nodes=2", "srun t").format == "sbatch"


def test_another_interpreter_is_no_shell(tmp_path):
    with pytest.raises(BadInput, match="no spec of a job; legal"):
        spec_of(tmp_path, "torchrun", head="#!/usr/bin/env python3")


def test_a_script_is_not_written():
    with pytest.raises(BadInput, match="--as script: a plain script states no nodes"):
        write_spec(Job(roles=(Role(),)), "script")
