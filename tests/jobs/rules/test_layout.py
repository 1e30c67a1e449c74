import pytest

from trnsim.jobs.formats import read_specs
from trnsim.jobs.rules import findings
from trnsim.jobs.rules.layout import RULES

NXDT = """\
trainer:
  num_nodes: {nodes}
  devices: 32
distributed_strategy:
  tensor_model_parallel_size: {tensor}
  pipeline_model_parallel_size: {pipeline}
data:
  micro_batch_size: 2
  global_batch_size: {batch}
model:
  num_layers: {layers}
  num_attention_heads: {heads}
"""
NEMO = """\
trainer:
  num_nodes: {nodes}
  devices: 32
model:
  micro_batch_size: 2
  global_batch_size: {batch}
  tensor_model_parallel_size: {tensor}
  pipeline_model_parallel_size: {pipeline}
  num_layers: {layers}
  num_attention_heads: {heads}
"""
SBATCH = """\
#!/bin/bash
#SBATCH --nodes={nodes}
srun torchrun --nproc-per-node 32 train.py --tensor-model-parallel-size {tensor} \\
  --pipeline-model-parallel-size {pipeline} --num-layers {layers} \\
  --num-attention-heads {heads} --micro-batch-size 2 --global-batch-size {batch}
"""
LEGAL = {"nodes": 2, "tensor": 8, "pipeline": 4, "batch": 64, "layers": 32, "heads": 32}
CHANGES = {
    "layout-ranks": {"tensor": 32, "pipeline": 4},
    "layout-heads": {"heads": 20},
    "layout-layers": {"layers": 2},
    "layout-batch": {"batch": 66},
}
LINES = {
    "layout-ranks": (5, 7),
    "layout-heads": (5, 7),
    "layout-layers": (6, 8),
    "layout-batch": (9, 6),
}


def found(tmp_path, text):
    path = tmp_path / "job"
    path.write_text(text)
    (spec,) = read_specs(path)
    return [(finding.rule, finding.place.line) for finding in findings(spec, RULES)]


@pytest.mark.parametrize("text", [NXDT, NEMO, SBATCH])
def test_a_legal_layout_has_no_findings(tmp_path, text):
    assert found(tmp_path, text.format(**LEGAL)) == []


@pytest.mark.parametrize("rule", CHANGES)
def test_a_layout_that_does_not_divide_is_found_at_its_line(tmp_path, rule):
    values = LEGAL | CHANGES[rule]
    assert found(tmp_path, NXDT.format(**values)) == [(rule, LINES[rule][0])]
    assert found(tmp_path, NEMO.format(**values)) == [(rule, LINES[rule][1])]
    assert found(tmp_path, SBATCH.format(**values)) == [(rule, 3)]


@pytest.mark.parametrize("rule", CHANGES)
def test_what_a_template_states_has_no_finding(tmp_path, rule):
    for name in CHANGES[rule]:
        values = LEGAL | CHANGES[rule] | {name: "${X}"}
        for text in (NXDT, NEMO, SBATCH):
            assert rule not in [name for name, _ in found(tmp_path, text.format(**values))]


def test_layers_are_shared_evenly_in_megatron_alone(tmp_path):
    values = LEGAL | {"layers": 30}
    assert found(tmp_path, NXDT.format(**values)) == []
    assert found(tmp_path, NEMO.format(**values)) == [("layout-layers", 8)]
    uneven = SBATCH.format(**values)
    assert found(tmp_path, uneven) == [("layout-layers", 3)]
    assert found(tmp_path, uneven.rstrip() + " --decoder-first-pipeline-num-layers 6\n") == []
    text = NEMO.format(**values) + "  account_for_embedding_in_pipeline_split: true\n"
    assert found(tmp_path, text) == []


def test_the_data_ranks_are_the_rest(tmp_path):
    text = SBATCH.format(**LEGAL).rstrip()
    assert found(tmp_path, text + " --data-parallel-size 2\n") == []
    assert found(tmp_path, text + " --data-parallel-size 4\n") == [("layout-ranks", 3)]


def test_ranks_that_are_not_stated_have_no_finding(tmp_path):
    values = LEGAL | CHANGES["layout-ranks"]
    text = SBATCH.format(**values)
    assert found(tmp_path, text.replace("--nproc-per-node 32", "--nproc-per-node $N")) == []
    assert found(tmp_path, text.replace("--nodes=2", "--ntasks=2")) == []


def test_a_server_has_no_layout_of_ranks(tmp_path):
    lines = ("#!/bin/bash", "#SBATCH --nodes=1 --ntasks-per-node=1")
    text = "\n".join([*lines, "srun vllm serve a --tensor-parallel-size 8", ""])
    assert found(tmp_path, text) == []


TRN = """\
#!/bin/bash
#SBATCH --nodes={nodes} --constraint={instance}
srun torchrun --nproc-per-node {ranks} train.py --model {model} --max-steps {steps} \\
  --tensor-model-parallel-size {tensor} --seq-length 4096 --micro-batch-size 1 \\
  --global-batch-size {batch} --save-interval {interval}
"""
FITS = {"nodes": 1, "instance": "trn2.48xlarge", "ranks": 64, "model": "llama-3.1-8b"}
FITS |= {"tensor": 8, "batch": 64, "steps": 100, "interval": 50}


def test_a_model_over_hbm_is_found(tmp_path):
    quiet = TRN.replace(" --save-interval {interval}", "")
    assert found(tmp_path, quiet.format(**FITS)) == []
    large = FITS | {"model": "llama-3.1-405b", "tensor": 8}
    assert found(tmp_path, quiet.format(**large)) == [("memory-of-rank", 3)]
    gpu = large | {"instance": "p5.48xlarge", "ranks": 8}
    assert found(tmp_path, quiet.format(**gpu)) == []
    unknown = large | {"model": "a-model-of-ours"}
    assert found(tmp_path, quiet.format(**unknown)) == []


def test_heads_of_a_named_model_are_known(tmp_path):
    text = TRN.format(**FITS | {"tensor": 64, "batch": 1})
    assert ("layout-heads", 3) in found(tmp_path, text)


@pytest.mark.slow
def test_an_interval_of_checkpoints_that_loses_much_is_found(tmp_path):
    many = FITS | {"nodes": 256, "ranks": 64, "batch": 4096, "steps": 1_000_000}
    assert found(tmp_path, TRN.format(**many | {"interval": 100_000})) == [
        ("checkpoint-interval", 3)
    ]
    assert found(tmp_path, TRN.format(**many | {"interval": 200})) == []
    assert found(tmp_path, TRN.format(**FITS | {"interval": 100_000})) == []


@pytest.mark.parametrize(("change", "rule"), [({"heads": 10**14}, "layout-heads")])
def test_a_size_beyond_any_model_is_judged_at_once(tmp_path, change, rule):
    values = LEGAL | {"tensor": 7, "pipeline": 1} | change
    assert rule in [name for name, _ in found(tmp_path, NEMO.format(**values))]
