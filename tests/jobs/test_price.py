from dataclasses import replace

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput
from trnsim.jobs.assumption import SpecAssumption
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import Parallelism
from trnsim.jobs.plans import architecture_of, model_name, parallelism_of, starts_server
from trnsim.jobs.price import TimeBasis, price_job
from trnsim.jobs.role_price import role_prices
from trnsim.place.machine import machine
from trnsim.system.serve.demand import open_rate_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.system.train.estimate import estimate, layout_request
from trnsim.workload.config import read
from trnsim.workload.model_names import config_file

MODEL = "llama-3.2-1b"
FULL = Role(replicas=1, instance="trn1.32xlarge", devices=16, processes=32)
JOB = Job(
    model=MODEL,
    roles=(FULL,),
    parallelism=Parallelism(tensor=8, pipeline=1, global_batch=64, sequence=2048, micro_batch=1),
)


def test_time_and_bill_are_the_plans():
    price = price_job(JOB, SpecAssumption(steps=100))
    model = read(config_file(MODEL))
    where = machine("trn1.32xlarge")
    fields = {"tensor": 8, "pipeline": 1, "micro_batch": 1}
    request = layout_request(model, where, global_batch=64, sequence=2048, **fields)
    kind = price.roles[0].quote.kind
    tokens = 100.0 * 64 * 2048
    trained = estimate(model, "trn1.32xlarge", tokens, request=request, instances=1, kind=kind)
    assert price.basis is TimeBasis.PLAN
    assert price.time_s == trained.time_s
    assert price.usd.p50 == pytest.approx(trained.usd.p50, rel=1e-12)
    assert price.usd.p90 == pytest.approx(trained.usd.p90, rel=1e-12)
    assert price.training.steps == 100
    assert price.step_s == trained.step.step_s
    assert price.reasons == ()
    by_tokens = price_job(JOB, SpecAssumption(tokens=tokens))
    assert by_tokens.time_s == price.time_s
    copies = price_job(replace(JOB, copies=3), SpecAssumption(steps=100))
    assert copies.time_s == price.time_s
    assert copies.usd.p50 == pytest.approx(3 * price.usd.p50)


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (replace(JOB, model=""), "no option names a model; --model NAME states it"),
        (replace(JOB, model="/fsx/own"), "model '/fsx/own' is not known"),
        (JOB, "the length of the run is not stated; --run-steps or --run-tokens states it"),
        (replace(JOB, roles=(replace(FULL, replicas=None),)), "number of replicas is not stated"),
        (replace(JOB, roles=(replace(FULL, instance=""),)), "no instance type; --on INSTANCE"),
        (replace(JOB, roles=(replace(FULL, instance="trn9.big"),)), "trn9.big is not in the cata"),
        (
            replace(JOB, roles=(FULL, replace(FULL, instance="trn2.48xlarge"))),
            "a plan is of instances of one type; the roles have: trn1.32xlarge, trn2.48xlarge",
        ),
        (
            replace(JOB, roles=(replace(FULL, devices=4),)),
            "has 0.25 of an instance (trn1.32xlarge), and a plan is of wh",
        ),
        (replace(JOB, parallelism=Parallelism(tensor=7)), "no plan: "),
        (
            replace(JOB, roles=(replace(FULL, processes=8),)),
            "role main starts 8 ranks, and a plan of trn1.32xlarge has 32, one for each NeuronCore",
        ),
        (
            replace(JOB, roles=(replace(FULL, processes=64),)),
            "role main starts 64 ranks, and a plan of trn1.32xlarge has 32",
        ),
        (
            replace(
                JOB,
                roles=(
                    Role(
                        instance="trn2.48xlarge",
                        devices=16,
                        environment=(("NEURON_LOGICAL_NC_CONFIG", "1"),),
                    ),
                ),
            ),
            "role main sets LNC 1, and a plan of trn2.48xlarge has LNC 2",
        ),
        (replace(JOB, roles=()), "a plan is of instances of one type; the roles have: none"),
        (
            replace(JOB, roles=(replace(FULL, replicas=2_000_000_000),)),
            "no plan: --instances 2000000000; legal: from 1 to 1,000,000",
        ),
    ],
)
def test_a_job_without_a_plan_says_why(job, why):
    known = SpecAssumption(steps=10) if "length" not in why else SpecAssumption()
    price = price_job(job, known)
    assert price.training is None
    assert price.basis is TimeBasis.NONE
    assert any(why in reason for reason in price.reasons)


def test_a_time_limit_is_a_bound():
    price = price_job(replace(JOB, model="", time_limit_s=7200.0))
    assert price.basis is TimeBasis.LIMIT
    assert price.time_s.p10 == price.time_s.p90 == 7200
    assert price.usd.p50 == pytest.approx(2 * price.usd_per_hour)


@pytest.mark.parametrize(
    ("role", "instances"),
    [
        (Role(replicas=5, instance="trn1.32xlarge", devices=4), 2),
        (Role(replicas=5, instance="trn1.32xlarge", devices=4, is_exclusive=True), 5),
        (Role(replicas=5, instance="trn1.32xlarge", cores=8), 2),
        (Role(replicas=5, instance="trn1.32xlarge", device_indexes=(0, 1, 2, 3)), 2),
        (Role(replicas=3, instance="trn1.32xlarge", devices=32), 3),
        (Role(replicas=3, instance="p5.48xlarge", gpus=4), 2),
        (Role(replicas=0, instance="trn1.32xlarge", devices=16), 0),
        (Role(replicas=3, instance="ml.trn1.32xlarge"), 3),
    ],
)
def test_replicas_share_instances(role, instances):
    (price,) = price_job(Job(roles=(role,))).roles
    assert price.instances == instances


def test_replicas_of_an_odd_share_fill_an_instance():
    """1 / (1 / 93) is below 93 in floating point."""
    rows = catalogue()
    instance = replace(rows.instances["trn1.32xlarge"], count=93)
    rows = replace(rows, instances={**rows.instances, instance.name: instance})
    job = Job(roles=(Role(replicas=93, instance=instance.name, devices=1),))
    ((price,), _) = role_prices(job, SpecAssumption(rows=rows))
    assert price.instances == 1


def test_a_role_that_grows_has_its_fewest_instances():
    role = Role(replicas=8, least_replicas=2, instance="trn1.32xlarge")
    (price,) = price_job(Job(kind=JobKind.CLUSTER, roles=(role,))).roles
    assert (price.least_instances, price.instances) == (2, 8)


def test_an_instance_is_assumed_where_none_is_stated():
    job = Job(roles=(replace(FULL, instance=""), replace(FULL, name="other")))
    price = price_job(job, SpecAssumption(instance="trn2"))
    assert [role.instance.name for role in price.roles] == ["trn2.48xlarge", "trn1.32xlarge"]


def test_an_unknown_name_of_the_user_is_refused():
    with pytest.raises(BadInput, match="nobody"):
        price_job(JOB, SpecAssumption(model="nobody", steps=1))
    with pytest.raises(BadInput, match="trn9"):
        price_job(
            replace(JOB, roles=(replace(FULL, instance=""),)), SpecAssumption(instance="trn9")
        )


def test_a_kind_of_purchase_without_a_price_has_no_bill():
    price = price_job(replace(JOB, purchase="private"), SpecAssumption(steps=10))
    assert price.usd_per_hour is None
    assert price.usd is None
    assert price.time_s is not None


@pytest.mark.slow
def test_a_server_has_the_load_of_its_plan_and_no_end():
    command = ("vllm", "serve", MODEL, "--tensor-parallel-size", "8", "--max-num-seqs", "2")
    command += ("--max-model-len", "4096")
    role = replace(FULL, instance="trn1.32xlarge", command=command)
    price = price_job(Job(kind=JobKind.SERVING, roles=(role,), time_limit_s=60.0))
    options = ServerOptions(tensor=8, instances=1, max_num_seqs=2, max_model_len=4096)
    planned = plan(
        read(config_file(MODEL)), machine("trn1.32xlarge"), options, open_rate_demand(2048, 256)
    )
    assert price.serving.most_per_s == planned.most_per_s > 0
    assert price.serving.usd_per_million_tokens == planned.usd_per_million_tokens
    assert (price.basis, price.time_s, price.usd) == (TimeBasis.NONE, None, None)
    assert price.usd_per_hour == planned.usd_per_hour


def serving_price(*options):
    command = ("vllm", "serve", MODEL, "-tp=8", "--max-num-seqs", "2", *options)
    role = replace(FULL, instance="trn1.32xlarge", command=command)
    return price_job(Job(kind=JobKind.SERVING, roles=(role,)))


def test_a_server_of_short_sequences_is_planned_for_requests_that_it_has_room_for():
    price = serving_price("--max-model-len", "2K")
    assert price.reasons == ()
    request = price.serving.load[0]
    assert (request.input_tokens, request.output_tokens) == (2048 - 256, 256)


@pytest.mark.parametrize(
    "command",
    [
        ("vllm", "serve", MODEL),
        ("srun", "/opt/bin/vllm", "serve", MODEL),
        ("python", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL),
    ],
)
def test_a_batch_job_that_starts_a_server_is_priced_as_one(command):
    words = (
        *command,
        "--tensor-parallel-size",
        "8",
        "--max-model-len",
        "2048",
        "--block-size",
        "32",
        "--quantization",
        "w4a8",
    )
    role = replace(FULL, instance="trn1.32xlarge", command=words)
    price = price_job(Job(roles=(role,), time_limit_s=60.0))
    (reason,) = price.reasons
    assert reason.startswith("no plan: --quantization is 'w4a8'")
    assert (price.basis, price.time_s.p90) == (TimeBasis.LIMIT, 60.0)


def test_a_training_that_names_a_server_starts_none():
    words = ("srun", "train.py", "--eval-server", "vllm.entrypoints.openai", "--do", "serve")
    assert not starts_server(Job(roles=(replace(FULL, command=words),)))


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--quantization", "w4a8", "--quantization is 'w4a8' on trn1"),
        ("--kv-cache-dtype", "int3", "--kv-cache-dtype is 'int3'"),
        ("--expert-parallel-size", "2", "--expert-parallel-size of 2; llama-3.2-1b has no experts"),
        ("--expert-parallel-size", "0", "--expert-parallel-size is '0'; legal: whole numbers from"),
        ("--tensor-parallel-size", "x", "--tensor-parallel-size is 'x'; legal: whole numbers from"),
        ("-tp", "0", "--tensor-parallel-size is '0'; legal: whole numbers from 1 on"),
        ("-tp", "65", "--tensor-parallel-size of 65 on trn1.32xlarge"),
        ("--max-model-len", "0", "--max-model-len is '0'; legal: whole numbers from 1 on, 8k"),
        ("--max-model-len", "1.5K", "--max-model-len is '1.5K'; legal: whole numbers from 1 on"),
        ("--max-num-batched-tokens", "--x", "--max-num-batched-tokens has no value; legal: whole"),
        ("--quantization", "--x", "--quantization has no value; legal: a name"),
    ],
)
def test_a_server_has_the_options_of_its_command(option, value, reason):
    command = ("vllm", "serve", MODEL, "--tensor-parallel-size", "8", option, value)
    role = replace(FULL, instance="trn1.32xlarge", command=command)
    (said,) = price_job(Job(kind=JobKind.SERVING, roles=(role,))).reasons
    assert said.startswith(f"no plan: {reason}")


@pytest.mark.parametrize(("length", "tokens"), [("2k", 2000), ("2K", 2048), ("2.2k", 2200)])
def test_lengths_of_a_server_have_the_suffixes_of_vllm(monkeypatch, length, tokens):
    def refuse(_model, _machine, options, *_demand, **_prices):
        raise BadInput(f"a sequence has {options.max_model_len} tokens")

    monkeypatch.setattr("trnsim.jobs.plans.plan_of_server", refuse)
    (reason,) = serving_price("--max-model-len", length).reasons
    assert reason == f"no plan: a sequence has {tokens} tokens"


@pytest.mark.parametrize("length", ["auto", "-1", "$LENGTH"])
def test_a_length_that_is_left_to_the_server_is_none(length):
    command = ("vllm", "serve", MODEL, "--max-model-len", length, "--quantization", "w4a8")
    role = replace(FULL, instance="trn1.32xlarge", command=command)
    (said,) = price_job(Job(kind=JobKind.SERVING, roles=(role,))).reasons
    assert said.startswith("no plan: --quantization is 'w4a8'")


def test_models_and_layouts_are_read_from_commands():
    command = ("srun", "train.py", "--model_name_or_path", "meta-llama/Llama-3.1-8B", "--tp_size=4")
    job = Job(roles=(Role(command=command),), parallelism=Parallelism(pipeline=2))
    assert model_name(job) == "meta-llama/Llama-3.1-8B"
    assert parallelism_of(job).stated_fields == {"tensor": 4, "pipeline": 2}
    assert model_name(replace(job, model="own")) == "own"
    assert model_name(Job(roles=(Role(),))) == ""
    assert model_name(Job(roles=(Role(command=("vllm", "serve", "m")),))) == "m"
    assert model_name(Job(roles=(Role(command=("vllm", "serve")),))) == ""


def test_a_batch_is_counted_from_its_parts():
    parts = Parallelism(tensor=8, micro_batch=2, accumulation=4, sequence=2048)
    price = price_job(replace(JOB, parallelism=parts), SpecAssumption(steps=10))
    assert price.training.step.layout.global_batch == 2 * 4 * 4


def test_sizes_that_a_spec_states_are_its_model():
    sizes = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 128}
    job = Job(config=tuple(sizes.items()))
    with pytest.raises(BadInput, match="vocab_size"):
        architecture_of(job)
    architecture = architecture_of(Job(config=(*job.config, ("vocab_size", 100))))
    assert architecture.decoder.depth == 2
    role = Role(instance="trn1.32xlarge")
    (reason,) = price_job(replace(job, roles=(role,))).reasons
    assert reason.startswith("the model: ")
    assert "--model NAME states it" in reason


def test_a_price_of_ec2_for_sagemaker_says_so():
    role = replace(FULL, instance="ml.trn1.32xlarge")
    (caveat,) = price_job(replace(JOB, roles=(role,)), SpecAssumption(steps=10)).caveats
    assert caveat.startswith("the price is EC2's; SageMaker bills its own")
    assert price_job(JOB, SpecAssumption(steps=10)).caveats == ()
    server = Job(kind=JobKind.SERVING, roles=(replace(role, instance="ml.inf2.xlarge"),))
    price = price_job(server)
    assert bool(price.caveats) == (price.roles[0].quote.kind != "sagemaker_hosting")


def test_a_longest_run_is_counted_in_15_digits():
    command = ("train.py", "--max-steps", "9" * 400)
    price = price_job(replace(JOB, roles=(replace(FULL, command=command),)))
    assert price.training is None
    assert "length of the run" in price.reasons[0]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("region", "${AWS_REGION}", "the code of an AWS region"),
        ("region", "narnia", "the code of an AWS region"),
        ("purchase", "stolen", "legal: on_demand"),
    ],
)
def test_a_region_or_purchase_that_is_not_legal_is_a_caveat(field, value, words):
    price = price_job(replace(JOB, **{field: value}), SpecAssumption(steps=10))
    plain = price_job(JOB, SpecAssumption(steps=10))
    (caveat,) = price.caveats
    assert repr(value) in caveat
    assert words in caveat
    assert price.usd_per_hour == plain.usd_per_hour


def test_jobs_of_sagemaker_have_its_price_or_say_that_they_do_not():
    training = price_job(replace(JOB, model=""), is_of_sagemaker=True)
    assert training.caveats[0].startswith("the price is EC2's")
    server = Job(kind=JobKind.SERVING, roles=(Role(instance="p5en.48xlarge", is_exclusive=True),))
    (hosted,) = price_job(server, is_of_sagemaker=True).roles
    assert hosted.quote.kind == "sagemaker_hosting"
    assert float(hosted.quote.usd_per_hour) == 72.795
    (own,) = price_job(server).roles
    assert own.quote.kind != "sagemaker_hosting"


def test_an_option_after_serve_is_no_model():
    words = ("vllm", "serve", "--port", "8000", "--model", MODEL)
    job = Job(kind=JobKind.SERVING, roles=(Role(command=words),))
    assert model_name(job) == MODEL
    assert not model_name(Job(roles=(Role(command=words[:4]),)))
