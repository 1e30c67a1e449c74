import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.jobs.formats import read_specs, write_spec
from trnsim.jobs.job import Job, KeptField, Role

SPECS = Path(__file__).parent / "specs"
BASH = shutil.which("bash")


def spec_of(tmp_path, text):
    path = tmp_path / "a.sh"
    path.write_text(text, encoding="utf-8")
    (spec,) = read_specs(path)
    return spec


def script(*lines):
    return "\n".join(["#!/bin/bash", *lines, ""])


def test_a_script_is_a_job():
    (spec,) = read_specs(SPECS / "train.sbatch")
    job = spec.job
    (role,) = job.roles
    assert spec.format == "sbatch"
    assert (job.name, job.time_limit_s, job.copies) == ("pretrain", 95_400, 1)
    assert replace(role, environment=(), command=(), processes=None) == Role(
        replicas=4,
        instance="trn2.48xlarge",
        is_exclusive=True,
        devices=16,
        vcpus=96.0,
        memory_bytes=512 << 30,
        image="train.sqsh",
    )
    assert role.processes == 64
    assert role.environment == (
        ("NEURON_RT_VIRTUAL_CORE_SIZE", "2"),
        ("FI_PROVIDER", "efa"),
        ("FI_EFA_FORK_SAFE", "1"),
        ("MASTER_ADDR", "$HEAD"),
    )
    assert " ".join(role.command) == (
        "torchrun --nproc-per-node 64 --nnodes=4 --rdzv-backend c10d "
        "--rdzv-endpoint $MASTER_ADDR:29500 train.py --tensor-model-parallel-size 8 "
        r"--pipeline-model-parallel-size 4 --global-batch-size 256 --note it costs $5 or \$HOME"
    )


def test_fields_have_their_lines_and_templates_are_named():
    (spec,) = read_specs(SPECS / "train.sbatch")
    lines = {
        "name": 2,
        "time_limit_s": 3,
        "roles.0.devices": 4,
        "roles.0.memory_bytes": 5,
        "roles.0.instance": 6,
        "roles.0.environment.FI_PROVIDER": 15,
        "roles.0.command": 33,
        "roles.0.processes": 33,
        "roles.0.image": 33,
        "ignored.0": 38,
    }
    assert {path: spec.line_of(path).line for path in lines} == lines
    assert {(value.field, value.place.line) for value in spec.templates} == {
        ("roles.0.environment.MASTER_ADDR", 17),
        ("roles.0.environment.RESUME", 19),
        ("roles.0.command.7", 33),
        ("roles.0.command.16", 33),
    }


def test_what_the_model_has_no_place_for_is_kept():
    (spec,) = read_specs(SPECS / "train.sbatch")
    kept = {kept.name: kept.value for kept in spec.job.kept_fields}
    assert kept["#SBATCH.output"] == "logs/%x-%j.out"
    assert kept["script[0]"] == "set -euo pipefail"
    assert kept["script[1]"] == "RANKS=64"
    assert [kept[f"srun[0][{index}]"] for index in (0, 1)] == ["--label", "--cpu-bind=none"]
    assert kept["tail"] == "2>&1 | tee train.log"
    assert kept["ignored[0]"] == "#SBATCH --signal=USR1@90"


@pytest.mark.parametrize("name", ["train.sbatch", "components.sbatch"])
def test_a_written_script_is_the_same_job(tmp_path, name):
    (spec,) = read_specs(SPECS / name)
    assert spec_of(tmp_path, write_spec(spec.job, "sbatch")).job == spec.job


def test_components_are_roles():
    (spec,) = read_specs(SPECS / "components.sbatch")
    head, tail = spec.job.roles
    assert (head.name, head.replicas, head.devices, head.command) == (
        "main",
        2,
        16,
        ("bin/head", "--port", "1"),
    )
    assert (tail.name, tail.replicas, tail.gpus, tail.command) == ("hetjob 1", 1, 8, ("bin/tail",))
    assert head.environment == tail.environment == (("LEVEL", "info"),)
    assert spec.line_of("roles.1.replicas").line == 5
    assert ("#SBATCH hetjob 1.gpus-per-node", "h100:8") in {
        (kept.name, kept.value) for kept in spec.job.kept_fields
    }
    assert not [kept for kept in spec.unknown_fields if "gpus-per-node" in kept.keys]


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ("", {"replicas": 1}),
        ("-n 1", {"replicas": 1}),
        ("-n 8", {"replicas": None}),
        ("-N 2-4", {"least_replicas": 2, "replicas": 4}),
        ("--nodes={{ NODES }}", {"replicas": None}),
        ("--ntasks-per-node=8 -c 2", {"processes": 8, "vcpus": 16.0}),
        ("-c 4", {"processes": None, "vcpus": 4.0}),
        ("--ntasks-per-node={{ N }} -c 4", {"processes": None, "vcpus": None}),
        ("--exclusive=user", {"is_exclusive": False}),
        ("--gres=neuroncore:8", {"cores": 8, "devices": None}),
        ("--gres=gpu:4", {"gpus": 4}),
        ("--gres=gpu:a:2,gpu:b:1", {"gpus": 3}),
        ("--gres=gpu:a:2,neuron:4,gpu:b:1,gpu:a:5", {"gpus": 6, "devices": 4}),
        ("--gres=gpu:8 --gres=gpu:a:2,gpu:b:1", {"gpus": 3}),
        ("--gres=gpu:h100", {"gpus": 1}),
        ("--gres=gpu:a:{{ N }},gpu:b:1", {"gpus": None}),
        ("--gpus-per-node=4", {"gpus": 4}),
        ("--gpus-per-node=a100-80gb:4,b:1", {"gpus": 5}),
        ("--gpus-per-node=h100", {"gpus": 1}),
        ("--mem=0", {"memory_bytes": None}),
        ("-p trn1.32xlarge", {"instance": "trn1.32xlarge"}),
        ("-p trn1", {"instance": ""}),
        ("-C 'trn1.32xlarge&static'", {"instance": ""}),
    ],
)
def test_options_state_fields(tmp_path, options, fields):
    spec = spec_of(tmp_path, script(f"#SBATCH -J a {options}", "true"))
    (role,) = spec.job.roles
    assert {name: getattr(role, name) for name in fields} == fields


@pytest.mark.parametrize("count", ["4", "neuron:4"])
def test_gpus_are_those_of_the_line_that_states_them(tmp_path, count):
    lines = ("#SBATCH --nodes=2", "#SBATCH --gres=gpu:8", f"#SBATCH --gpus-per-node={count}")
    spec = spec_of(tmp_path, script(*lines, "srun a"))
    assert spec.job.roles[0].gpus == 4
    assert spec.line_of("roles.0.gpus").line == 4
    spec = spec_of(tmp_path, script(lines[0], lines[2], "srun a"))
    assert spec.line_of("roles.0.gpus").line == 3


@pytest.mark.parametrize("entries", ["gpu:a:2,gpu:b:1", "gpu:h100:1", "gpu:a:$N,gpu:b:1,nic:1"])
def test_types_of_a_resource_are_written_as_they_were_read(tmp_path, entries):
    text = script("#SBATCH --nodes=2", f"#SBATCH --gres={entries}", "srun a")
    assert f"#SBATCH --gres={entries}\n" in write_spec(spec_of(tmp_path, text).job, "sbatch")


def test_another_number_of_gpus_is_written_without_the_types(tmp_path):
    job = spec_of(tmp_path, script("#SBATCH -N 1 --gres=gpu:a:2,gpu:b:1", "srun a")).job
    other_job = replace(job, roles=(replace(job.roles[0], gpus=8),))
    assert "#SBATCH --gres=gpu:8\n" in write_spec(other_job, "sbatch")


def test_ranks_are_those_of_all_tasks(tmp_path):
    lines = ("#SBATCH -N 2 --ntasks-per-node=2", "srun torchrun --nproc-per-node {} a.py")
    spec = spec_of(tmp_path, script(*lines).format(16))
    assert spec.job.roles[0].processes == 32
    spec = spec_of(tmp_path, script("#SBATCH -N 2", lines[1]).format(16))
    assert spec.job.roles[0].processes == 16
    assert spec.line_of("roles.0.processes").line == 3
    spec = spec_of(tmp_path, script(*lines).format("$N"))
    assert spec.job.roles[0].processes is None
    assert spec.job.kept_fields[0].name == "#SBATCH.ntasks-per-node"


@pytest.mark.parametrize(
    ("text", "copies", "is_kept"),
    [
        ("0-7", 8, False),
        ("1-8", 8, True),
        ("0-7%2", 8, True),
        ("1,3,5-9:2", 5, True),
        ("4", 1, True),
    ],
)
def test_tasks_of_an_array_are_copies(tmp_path, text, copies, is_kept):
    spec = spec_of(tmp_path, script(f"#SBATCH --array={text}", "srun a"))
    assert spec.job.copies == copies
    assert any(kept.name == "#SBATCH.array" for kept in spec.job.kept_fields) is is_kept
    assert spec_of(tmp_path, write_spec(spec.job, "sbatch")).job == spec.job


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--nodes=four", "2: #SBATCH.nodes is 'four'; legal: a number of nodes, or LEAST-MOST"),
        ("--nodes=4-2", "2: #SBATCH.nodes is '4-2'; legal"),
        ("--nodes=0", "2: #SBATCH.nodes is '0'; legal"),
        ("--time=soon", "2: #SBATCH.time is 'soon'; legal: minutes, hours:minutes:seconds or"),
        ("--mem=lots", "2: #SBATCH.mem is 'lots'; legal: a size as 64G; units K, M, G, T"),
        ("--array=9-1", "2: #SBATCH.array is '9-1'; legal: indexes as 0-9, 1,3,5 or 0-15%4"),
        ("--array=x", "2: #SBATCH.array is 'x'; legal"),
        ("--array=0-4:0", "2: #SBATCH.array is '0-4:0'; legal"),
        ("--gres=neuron:4x", "2: #SBATCH.gres.neuron is '4x'; legal: a whole number"),
        ("--gres=gpu:a:2,gpu:b:2K", "2: #SBATCH.gres.gpu is '2K'; legal: a whole number"),
        ("--gres=gpu:2,gpu:a:1", "2: --gres=gpu:2,gpu:a:1: gpu: it is stated with and without a"),
        ("--gpus-per-node=2,a:1", "2: #SBATCH.gpus-per-node is '2,a:1': it is stated with and"),
        ("--ntasks-per-node=0", "2: #SBATCH.ntasks-per-node is '0'; legal: a whole number from 1"),
        ("--cpus-per-task=1.5", "2: #SBATCH.cpus-per-task is '1.5'; legal"),
        ("--gpus-per-node=9999999999999999", "2: #SBATCH.gpus-per-node is .*; legal"),
        ("--nodes='4", '2: a quote in "--nodes=\'4" is not closed'),
    ],
)
def test_a_value_that_is_not_legal_is_refused_at_its_line(tmp_path, line, why):
    with pytest.raises(BadInput, match=why):
        spec_of(tmp_path, script(f"#SBATCH {line}", "srun a"))


def test_a_quote_that_is_not_closed_is_refused_at_its_line(tmp_path):
    with pytest.raises(BadInput, match=r"a\.sh:3: a quote ' that is not closed"):
        spec_of(tmp_path, script("#SBATCH -N 1", "echo 'a"))


@pytest.mark.parametrize("text", ["#!/bin/bash\necho #SBATCH\n", "#!/bin/sh\n# SBATCH -N 1\n"])
def test_another_script_is_no_job(tmp_path, text):
    with pytest.raises(BadInput, match="no spec of a job"):
        spec_of(tmp_path, text)


WORD = st.text(st.sampled_from(list("ab1 \"'\\$*;&|#~=\né-,{}")), max_size=6).filter(
    lambda text: "${" not in text
)
NAME = st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("MASTER", "X")
)
"""Names of variables: a command's ${X} stays a template where the script does not set X."""
TEXT = st.from_regex(r"[a-z][a-z0-9.-]{0,8}", fullmatch=True)
COUNT = st.none() | st.integers(0, 2) | st.integers(0, 10**6)


@st.composite
def roles(draw, name, environment):
    words = draw(st.lists(WORD, min_size=1, max_size=4))
    command = [draw(st.sampled_from(["train", "./a b.sh", "${X}", "bash"])), *words]
    ranks = draw(st.sampled_from([None, 1, 8]))
    tasks = draw(st.none() | st.integers(1, 200))
    if ranks and tasks:
        command = ["torchrun", "--nproc-per-node", str(ranks), *command]
    processes = tasks and tasks * (ranks or 1)
    replicas = draw(st.integers(1, 10**6))
    return Role(
        name=name,
        replicas=replicas,
        least_replicas=draw(st.none() | st.integers(1, replicas)),
        instance=draw(st.sampled_from(["", "trn1.2xlarge", "trn2.48xlarge", "m5.metal"])),
        is_exclusive=draw(st.booleans()),
        processes=processes,
        devices=draw(COUNT),
        cores=draw(COUNT),
        gpus=draw(COUNT),
        vcpus=draw(st.none() | st.integers(1, 200).map(lambda count: float(count * (tasks or 1)))),
        memory_bytes=draw(st.none() | st.integers(1, 10**12 - 1).map(lambda count: count << 10)),
        image=draw(st.sampled_from(["", "a.sqsh", "r/i:1", "$IMAGE"])),
        environment=environment,
        command=tuple(command),
    )


@st.composite
def jobs(draw):
    environment = tuple(draw(st.lists(st.tuples(NAME, WORD), max_size=4)))
    count = draw(st.integers(1, 3))
    names = ["main", *(f"hetjob {index}" for index in range(1, count))]
    options = draw(st.dictionaries(st.sampled_from(["output", "account"]), TEXT))
    steps = draw(st.lists(st.sampled_from(["-l", "--mpi=none", "--cpu-bind=none"]), max_size=2))
    kept = [KeptField(("#SBATCH", name), value) for name, value in options.items()]
    kept += [KeptField(("srun", 0, index), word) for index, word in enumerate(steps)]
    job = Job(
        name=draw(st.sampled_from(["", "a", "a b", "it's #1", '"x"', "\\"])),
        roles=tuple(draw(roles(name, environment)) for name in names),
        region=draw(st.sampled_from(["", "us-east-2"])),
        purchase=draw(st.sampled_from(["", "spot"])),
        model=draw(st.sampled_from(["", "llama-3.1-8b", "/a/config.json"])),
        time_limit_s=draw(st.none() | st.integers(1, 10**7).map(float)),
        copies=draw(st.integers(1, 1000)),
    )
    return replace(job, kept_fields=tuple(kept))


def is_read_as_it_was(folder, job):
    return spec_of(folder, write_spec(job, "sbatch")).job == job


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("scripts")


@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_a_written_job_is_read_as_it_was(folder, job):
    assert is_read_as_it_was(folder, job)


@pytest.mark.slow
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(jobs())
def test_200_written_jobs_are_read_as_they_were(folder, job):
    assert is_read_as_it_was(folder, job)


@pytest.mark.parametrize(
    "lines",
    [
        ("#SBATCH", "srun a"),
        ("#SBATCH -N 1", "if a; then", "#SBATCH -N 2", "fi", "srun a"),
        ("#SBATCH -N 1", "srun --mpi=none"),
        ("#SBATCH -N 1", "a ;", "b  # c", ": ", "srun d &"),
        ("#SBATCH -N 1", "cat <<E", "#SBATCH -N 3", "E", "srun a"),
    ],
)
def test_odd_scripts_are_written_as_they_were(tmp_path, lines):
    job = spec_of(tmp_path, script(*lines)).job
    assert spec_of(tmp_path, write_spec(job, "sbatch")).job == job


@pytest.mark.parametrize(
    "lines",
    [
        ("if [ -n $A ]; then", "  B=1 srun -l python a.py", "  date", "else", "  x", "fi", "wait"),
        ("for n in 1 2; do srun -N $n python a.py & done", "wait"),
        ("case $A in", "  b) srun python a.py > out;;", "  *) x;;", "esac"),
        ("f() {", "  cd x && srun python a.py || exit", "}", "f"),
        ("(srun python a.py)",),
        ("while a; do", "  if b; then srun \\", "    python a.py; fi", "done"),
    ],
)
def test_a_command_within_a_block_is_written_back_into_it(tmp_path, lines):
    spec = spec_of(tmp_path, script("#SBATCH --nodes=2", "export C=1", *lines))
    assert spec.job.roles[0].command == ("python", "a.py")
    assert list(spec.branches) == ["roles.0.command"]
    text = write_spec(spec.job, "sbatch")
    again = spec_of(tmp_path, text)
    assert again.job == spec.job
    assert again.branches.keys() == spec.branches.keys()
    if BASH is not None:
        subprocess.run([BASH, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("tasks", "launch", "ranks"),
    [
        (1, "trnsim slurm launch -- python a.py", None),
        (1, "trnsim slurm launch --ranks-per-node 16 -- python a.py", 16),
        (1, "python -m trnsim slurm launch -- a.py", None),
        (4, "trnsim slurm launch -- python a.py", 4),
        (2, "torchrun --nproc-per-node $N a.py", None),
        (1, "python launch.py", 1),
    ],
)
def test_a_launcher_starts_the_ranks_of_its_task(tmp_path, tasks, launch, ranks):
    spec = spec_of(tmp_path, script(f"#SBATCH --ntasks-per-node={tasks}", f"srun {launch}"))
    assert spec.job.roles[0].processes == ranks
    again = spec_of(tmp_path, write_spec(spec.job, "sbatch"))
    assert again.job == spec.job


def test_what_a_template_fills_in_is_named_once(tmp_path):
    lines = ("#!/bin/bash", "#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=$N", "srun bin/x")
    spec = spec_of(tmp_path, "\n".join(lines))
    assert [value.text for value in spec.templates] == ["$N"]
    assert [kept.value for kept in spec.job.kept_fields] == ["$N"]
    assert spec.unknown_fields == ()
