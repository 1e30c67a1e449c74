from dataclasses import fields

import pytest

from trnsim.jobs.parallelism import (
    OPTIONS,
    Parallelism,
    has_launcher,
    option_index,
    options_of,
    parallelism_in,
    started_ranks,
    whole_number,
)
from trnsim.system.train.optimizers import OPTIMIZERS


def test_options_are_read_in_both_forms_and_the_last_counts():
    words = ["train.py", "--tp_size", "4", "--bf16", "--lr=1e-4", "--pp-size=2", "positional"]
    words += ["--tp_size", "8", "--flag"]
    assert options_of(words) == {
        "tp-size": "8",
        "bf16": "",
        "lr": "1e-4",
        "pp-size": "2",
        "flag": "",
    }
    assert options_of(["--", "x", "--a=b=c"]) == {"a": "b=c"}


def test_short_options_of_a_server_are_read_by_their_long_names():
    words = ["vllm", "serve", "-tp", "8", "--flag", "-pp=2", "-x", "-dp", "4"]
    names = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    assert options_of(words) == {"flag": "", **dict(zip(names, ("8", "2", "4"), strict=True))}
    assert [option_index(words, {name}) for name in names] == [2, 5, 7]


def test_every_option_names_a_field():
    names = {field.name for field in fields(Parallelism)} | {""}
    assert set(OPTIONS.values()) <= names
    assert all("_" not in option for option in OPTIONS)


def test_parallelism_of_options():
    options = {
        "tensor-model-parallel-size": "8",
        "pp": "4",
        "seq-len": "8192",
        "zero-stage": "1",
        "bf16": "",
        "sequence-parallel-enabled": "0",
        "use-zero-1": "1",
        "max-steps": "$N",
        "recompute-granularity": "full",
    }
    assert parallelism_in(options).stated_fields == {
        "tensor": 8,
        "pipeline": 4,
        "sequence": 8192,
        "zero": 1,
        "dtype": "bf16",
        "recompute": "full",
    }


def test_ranks_that_a_launcher_starts():
    assert started_ranks(("torchrun", "--nproc_per_node=32", "t.py")) == 32
    assert started_ranks(("torchrun", "--nproc-per-node", "$N", "t.py")) is None
    assert started_ranks(("torchrun", "--nproc-per-node", "0")) is None
    assert started_ranks(()) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("adamw", "adamw"),
        ("ADAMW", "adamw"),
        ("Adam", "adamw"),
        ("adamw_torch_fused", "adamw"),
        ("adamw-torch", "adamw"),
        ("FusedAdam", "adamw"),
        ("adamw_fp32OptState", "adamw"),
        ("AdamW-BF16", "adamw-bf16"),
        ("LAMB", "lamb"),
        ("SGD", "sgd"),
        ("Adafactor", "adafactor"),
        ("lion", "lion"),
        ("adamw_bnb_8bit", "adamw_bnb_8bit"),
        ("", ""),
    ],
)
def test_an_optimizer_is_read_as_training_programs_spell_it(text, name):
    for option in ("optimizer", "optim"):
        assert parallelism_in({option: text}).stated_fields == {"optimizer": name}
    assert name in OPTIMIZERS or name == text


def test_zero_and_text_are_no_degree():
    assert parallelism_in({"tp": "0", "pp": "-1", "dp": "x"}).stated_fields == {}


def test_stated_fields_stand_over_others():
    both = Parallelism(tensor=4).with_defaults(Parallelism(tensor=2, pipeline=8))
    assert both.stated_fields == {"tensor": 4, "pipeline": 8}


@pytest.mark.parametrize(
    ("words", "tasks", "is_one"),
    [
        ("torchrun --nproc-per-node 2 a.py", 8, True),
        ("trnsim slurm launch -- python a.py", 1, True),
        ("trnsim slurm launch -- python a.py", 2, False),
        ("python launch", 1, False),
        ("python a.py", 1, False),
    ],
)
def test_a_launcher_starts_ranks_by_itself(words, tasks, is_one):
    assert has_launcher(words.split(), tasks) is is_one


def test_no_zero_is_stated_by_its_stage():
    assert parallelism_in({"zero-stage": "0", "tp": "0"}) == Parallelism(zero=0)


@pytest.mark.parametrize("text", ["1" * 16, "1" * 5000, "\u0663", "", "-1", "1.0"])
def test_a_number_is_up_to_15_digits(text):
    assert whole_number(text) is None
    assert parallelism_in({"tensor-parallel-size": text}).tensor is None
    assert started_ranks(["torchrun", "--nproc-per-node", text]) is None


def test_a_number_of_15_digits_is_read():
    assert whole_number("9" * 15) == 10**15 - 1
    assert whole_number(None) is None
