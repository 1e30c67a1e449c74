import json
from pathlib import Path

import pytest
from schema_checks import assert_both_ways, assert_legal
from typer.testing import CliRunner

from trnsim.cli import app

LAYOUT = {
    "tensor": 8,
    "pipeline": 1,
    "virtual": 1,
    "data": 4,
    "context": 1,
    "expert": 1,
    "zero": 1,
    "recompute": "none",
    "is_sequence": True,
    "micro_batch": 1,
    "global_batch": 64,
    "sequence": 2048,
    "dtype": "bf16",
    "schedule": "1f1b",
    "optimizer": "adamw",
}
PLAN = {
    "schema": "plan-train/1",
    "model": "llama-3.2-1b",
    "tokens": 1e9,
    "steps": 100.0,
    "instance": "trn1.32xlarge",
    "instances": 1,
    "layout": LAYOUT,
}


def run(*words, status=0):
    result = CliRunner().invoke(app, ["job", *map(str, words)])
    assert result.exit_code == status, result.output
    return result.stdout if "--json" in words else " ".join(result.output.split())


@pytest.fixture
def plan(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    return path


def test_a_checked_job_has_its_roles_and_no_finding(plan):
    text = run("check", plan)
    assert f"{plan}:1: stored plan of training 'train': 1 x trn1.32xlarge, 16 devices" in text
    assert text.endswith("1 job: no finding")
    (answer,) = json.loads(run("check", plan, "--json"))
    assert answer["schema"] == "job-check/1"
    assert answer["roles"][0]["devices"] == 16
    assert answer["parallelism"]["tensor"] == 8
    assert answer["findings"] == answer["templates"] == answer["not_understood"] == []


WITHOUT_INSTANCE = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec:
  restartPolicy: Never
  containers:
    - {name: main, image: me, resources: {limits: {aws.amazon.com/neuron: 17}}}
"""


@pytest.mark.parametrize(
    ("on", "status", "words"),
    [
        ((), 0, "1 job: no finding"),
        (("--on", "trn1.32xlarge"), 1, "17 Neuron devices; trn1.32xlarge has 16"),
        (("--on", "trn2"), 1, "17 Neuron devices; trn2.48xlarge has 16"),
        (("--on", "p5.48xlarge"), 1, "p5.48xlarge has none"),
    ],
)
def test_a_role_without_an_instance_type_is_checked_on_the_stated_one(tmp_path, on, status, words):
    path = tmp_path / "pod.yaml"
    path.write_text(WITHOUT_INSTANCE)
    assert words in run("check", path, *on, status=status)


def test_an_instance_type_that_no_role_lacks_is_said_to_have_no_effect(plan):
    words = "--on trn2.48xlarge has no effect: it is for roles that state no instance type, and "
    for command in ("check", "price"):
        assert f"note: {words}these state trn1.32xlarge" in run(command, plan, "--on", "trn2")
        assert "no effect" not in run(command, plan, "--on", "trn1")


def test_a_model_is_checked_in_the_memory_of_its_ranks(plan):
    plan.write_text(json.dumps(PLAN | {"model": ""}))
    assert "no finding" in run("check", plan, "--model", "llama-3.2-1b")
    assert "[memory-of-rank]" in run("check", plan, "--model", "llama-3.1-70b", status=1)


def test_a_priced_job_has_time_and_bill(plan):
    (answer,) = json.loads(run("price", plan, "--json"))
    assert answer["time_basis"] == "plan"
    assert answer["steps"] == 100
    assert answer["usd"]["p50"] == pytest.approx(
        answer["time_s"]["p50"] / 3600 * answer["usd_per_hour"]
    )
    text = run("price", plan)
    assert "100 steps of " in text
    assert "bill " in text


LOOP = """#!/bin/bash
#SBATCH --nodes=1 --exclusive --constraint=trn1.32xlarge --time=1:00:00
for rate in 0.1 0.2; do
  srun torchrun --nproc-per-node 32 train.py
done
"""


def test_a_price_says_that_a_loop_counts_once(tmp_path):
    spec = tmp_path / "loop.sbatch"
    spec.write_text(LOOP)
    caveat = "the command of line 4 stands in the loop `for` of line 3; it counts once"
    assert caveat in run("price", spec)
    (answer,) = json.loads(run("price", spec, "--json"))
    assert answer["caveats"] == [caveat]
    spec.write_text(LOOP.replace("for rate in 0.1 0.2; do\n", "").replace("done\n", ""))
    assert "counts once" not in run("price", spec)


def test_options_state_what_a_spec_does_not(plan):
    plan.write_text(json.dumps(PLAN | {"model": "", "steps": 0}))
    assert "no option names a model; --model NAME states it" in run("price", plan)
    assert "--run-steps or --run-tokens states it" in run("price", plan, "--model", "llama-3.2-1b")
    text = run("price", plan, "--model", "llama-3.2-1b", "--run-steps", "100")
    assert "100 steps of " in text


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("price", "--price", "spto"), "--price is 'spto'; legal: on_demand"),
        (("price", "--run-steps", "0"), "Invalid value for '--run-steps': '0' is below 1"),
        (("price", "--model", "nobody"), "nobody: no such file, and no model of this name"),
        (("check", "--model", "nobody"), "nobody: no such file, and no model of this name"),
        (("check", "--on", "trn9"), "'trn9' is no chip, family or instance type; legal: trn1"),
    ],
)
def test_an_illegal_option_is_refused(plan, words, why):
    result = CliRunner().invoke(app, ["job", words[0], str(plan), *words[1:]])
    assert result.exit_code
    assert why in f"{result.output}{result.exception}"


def test_two_versions_differ_in_time_and_bill(plan, tmp_path):
    after, page = tmp_path / "after.json", tmp_path / "change.md"
    after.write_text(json.dumps(PLAN | {"instances": 2, "layout": LAYOUT | {"data": 8}}))
    text = run("diff", plan, after, "--output", page)
    assert "roles.0.replicas" in text
    answer = json.loads(run("diff", plan, after, "--json"))
    assert answer["schema"] == "job-diff/1"
    assert {"field": "roles.0.replicas", "before": 1, "after": 2} in answer["changes"]
    hourly = [answer[side]["usd_per_hour"] for side in ("before", "after")]
    assert hourly[1] == pytest.approx(2 * hourly[0])
    assert "| USD/h |" in page.read_text()
    assert "+100.0%" in page.read_text()


def test_files_of_several_jobs_are_not_compared(plan, tmp_path):
    several = tmp_path / "several.json"
    several.write_text(json.dumps([PLAN, PLAN]))
    result = CliRunner().invoke(app, ["job", "diff", str(plan), str(several)])
    assert "holds 2 jobs, in lines 1, 1" in f"{result.output}{result.exception}"


def test_an_unknown_format_is_refused(plan):
    result = CliRunner().invoke(app, ["job", "write", str(plan), "--as", "word"])
    assert "--as is 'word'; legal: " in f"{result.output}{result.exception}"


EXAMPLES = Path(__file__).parents[2] / "examples" / "jobs"
EVERY_OPTION = """#!/bin/bash
#SBATCH --job-name=a --nodes=2 --gres=neuron:16 --constraint=trn1.32xlarge --time=1:00:00
#SBATCH --array=0-1
export NEURON_LOGICAL_NC_CONFIG=1
srun --ntasks-per-node=1 torchrun --nproc-per-node 32 train.py --tp 8 --pp 1 --cp 1 --ep 1 \\
  --virtual-pipeline-model-parallel-size 1 --data-parallel-size 8 --zero-stage 1 \\
  --context-parallel-size 1 --expert-parallel-size 1 --sequence-parallel \\
  --recompute-granularity full --micro-batch-size 1 --gradient-accumulation-steps 2 \\
  --global-batch-size 16 --seq-length 2048 --max-num-seqs 4 --max-steps 10 --save-steps 5 \\
  --logical-nc-config 1 --bf16 --optimizer adamw --model llama-3.2-1b
"""
POD = """apiVersion: v1
kind: Pod
metadata: {name: server, labels: {app: a}}
spec:
  containers:
  - name: main
    image: ${IMAGE}
    resources: {limits: {aws.amazon.com/neuroncore: 2, hugepages-2Mi: 2Mi, memory: 1Gi, cpu: 2}}
    volumeMounts: [{name: shm, mountPath: /dev/shm}]
  - name: side
    image: side
  volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]
"""


@pytest.fixture
def specs(tmp_path):
    (tmp_path / "every.sbatch").write_text(EVERY_OPTION)
    (tmp_path / "open.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=$NODES\nsrun train.py\n")
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    requests = [EXAMPLES / "submit.json"]
    return [*sorted(tmp_path.iterdir()), *sorted(set(EXAMPLES.iterdir()) - set(requests))]


def test_checked_specs_are_those_that_the_schema_describes(specs):
    result = CliRunner().invoke(app, ["job", "check", *map(str, specs), "--json"])
    assert result.exit_code == 1  # an example has errors
    assert_both_ways(json.loads(result.output), "job-check/1")


SERVER = """apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
spec:
  replicas: 1
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      nodeSelector: {node.kubernetes.io/instance-type: inf2.48xlarge}
      containers:
      - name: main
        image: image
        command: [vllm, serve, llama-3.2-1b, --tensor-parallel-size, "24", --max-num-seqs, "1"]
        args: [--max-model-len, "4096"]
        resources: {limits: {aws.amazon.com/neuron: 12}}
"""
SAGEMAKER = {
    "TrainingJobName": "a",
    "ResourceConfig": {"InstanceType": "ml.trn1.32xlarge", "InstanceCount": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
}


@pytest.mark.slow
def test_prices_and_differences_are_those_that_the_schemas_describe(specs, tmp_path):
    (tmp_path / "server.yaml").write_text(SERVER)
    (tmp_path / "sagemaker.json").write_text(json.dumps(SAGEMAKER))
    (tmp_path / "unpriced.json").write_text(json.dumps(PLAN | {"instance": "trn2u.48xlarge"}))
    prices = []
    for spec in [
        *specs,
        *(tmp_path / n for n in ("server.yaml", "sagemaker.json", "unpriced.json")),
    ]:
        prices += json.loads(run("price", spec, "--on", "trn1.32xlarge", "--json"))
    assert_both_ways(prices, "job-price/1")
    differences = [
        json.loads(run("diff", before, after, "--json"))
        for before, after in (
            (EXAMPLES / "train.sbatch", EXAMPLES / "mended.sbatch"),
            (EXAMPLES / "mended.sbatch", EXAMPLES / "train.sbatch"),
        )
    ]
    for difference in differences:
        assert_legal(difference, "job-diff/1")
    assert differences[0]["gone_findings"] == differences[1]["new_findings"] != []


def test_a_request_of_batch_states_the_array(tmp_path):
    definition, request = tmp_path / "a.json", tmp_path / "b.json"
    fields = {"command": ["python", "a.py"], "image": "i", "vcpus": 4, "memory": 2048}
    definition.write_text(
        json.dumps({"jobDefinitionName": "a", "type": "container", "containerProperties": fields})
    )
    named = {"jobDefinition": "a", "jobName": "a-1", "jobQueue": "trn1"}
    request.write_text(json.dumps({**named, "arrayProperties": {"size": 7}}))
    (answer,) = json.loads(run("check", definition, "--submit", request, "--json"))
    assert answer["copies"] == 7
    text = run("write", definition, "--as", "sbatch", "--submit", request)
    assert "--array=0-6" in text
    (priced,) = json.loads(run("price", definition, "--submit", request, "--json"))
    assert priced["copies"] == 7
    assert "New findings none" in run("diff", definition, definition, "--submit", request)


def test_a_launch_stands_beside_its_price(plan, tmp_path):
    world = tmp_path / "world.json"
    rank = {"steps": 3, "device_time_s": 0.5, "step_s": 0.75}
    content = {"schema": "launch/1", "instance": "trn1.32xlarge", "nodes": 1, "ranks_per_node": 32}
    world.write_text(json.dumps(content | {"ranks": [rank]}))
    answer = json.loads(run("launched", plan, world, "--json"))
    assert_both_ways([answer, answer | {"usd": None, "launched_usd": None}], "job-launched/1")
    assert answer["launched_s"] == 75.0
    assert answer["launched_steps"] == 3
    (priced,) = json.loads(run("price", plan, "--json"))
    assert answer["priced_s"] == pytest.approx(priced["time_s"]["p50"])
    assert answer["usd"] == pytest.approx(priced["usd"]["p50"])
    text = run("launched", plan, world)
    assert "part of the run priced launched difference computing" in text
    assert "100 steps, of which the launch ran 3: they differ in" in text
    step_s = priced["time_s"]["p50"] / 100
    host_s = answer["terms"][2]["priced_s"] / 100
    equal = rank | {"device_time_s": step_s - host_s, "step_s": step_s}
    world.write_text(json.dumps(content | {"ranks": [equal]}))
    assert "the launch ran 3: equal to 1 %" in run("launched", plan, world)
