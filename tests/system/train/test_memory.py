"""Memory beside published formulas and measured peaks."""

from dataclasses import replace

import pytest

from trnsim.errors import OutOfMemory
from trnsim.place.machine import machine
from trnsim.system.train import memory
from trnsim.system.train.layout import Layout
from trnsim.workload.architecture import PLAIN_MATRICES, Architecture, Attention, Layer, Mlp, Tower
from trnsim.workload.resident import parameters

GIB = 2**30

# Peaks that SimuMax 1.2 measured on 8 x B200 for 12 layers of Llama-3-70B (its
# docs/b200/b200_release_v1.2_summary.md): sequences of 4096, micro batches of 1.
B200 = [((1, 2, 4), 66.55), ((2, 1, 4), 60.68), ((4, 1, 2), 39.07), ((8, 1, 1), 28.29)]


@pytest.mark.parametrize(("axes", "peak_gib"), B200)
def test_measured_peaks_are_met_within_five_per_cent(axes, peak_gib, make_llama):
    model = make_llama(
        hidden_size=8192,
        num_hidden_layers=12,
        num_attention_heads=64,
        intermediate_size=28672,
    )
    tensor, pipeline, data = axes
    layout = Layout(
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        recompute="none",
        is_sequence=True,
        global_batch=8 * data,
    )
    most = max(one.total for one in memory.stages(model, layout))
    assert most / GIB == pytest.approx(peak_gib, rel=0.05)


def gpt(hidden=6144, heads=64, layers=48, words=51200):
    attention = Attention(heads, heads, hidden // heads, hidden // heads, biases=4 * hidden)
    layer = Layer(
        layers, (attention,), Mlp(4 * hidden, PLAIN_MATRICES, 5 * hidden), norms=4 * hidden
    )
    tower = Tower("decoder", hidden, (layer,), table_rows=words, outputs=words, is_tied=True)
    return Architecture("gpt", "gpt2", (tower,))


def test_activations_of_an_image_are_those_of_its_tiles():
    model = gpt()
    (tower,) = model.towers
    image = replace(tower, name="images", table_rows=0, outputs=0, is_tied=False, tokens=512)
    largest = []
    for tiles in (0, 1, 4):
        seeing = replace(model, towers=(replace(image, tiles=tiles), tower))
        (stage,) = memory.stages(seeing, Layout(recompute="full"))
        largest.append(stage.activations)
    whole, first, four = largest
    assert first == whole < four


@pytest.mark.parametrize(
    ("is_sequence", "recompute", "bytes_per_element"),
    [(False, "selective", 10 + 24 / 8), (True, "selective", 34 / 8), (True, "full", 2 / 8)],
)
def test_a_layer_keeps_what_the_paper_says(is_sequence, recompute, bytes_per_element):
    """Korthikanti et al. 2022, table 2."""
    layout = Layout(
        tensor=8,
        is_sequence=is_sequence,
        recompute=recompute,
        micro_batch=4,
        global_batch=4,
        sequence=2048,
    )
    (found,) = memory.stages(gpt(), layout)
    working = 34 / 8 if recompute == "full" else 0
    expected = 4 * 2048 * 6144 * (48 * bytes_per_element + working)
    assert found.activations == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("zero", "bytes_per_parameter"),
    [(0, 2 + 4 + 12), (1, 2 + 4 + 12 / 8), (2, 2 + 4 / 8 + 12 / 8), (3, (2 + 4 + 12) / 8)],
)
def test_zero_divides_what_its_stage_says(zero, bytes_per_parameter, llama):
    (found,) = memory.stages(llama, Layout(data=8, global_batch=8, zero=zero))
    state = found.weights + found.gradients + found.optimizer
    assert state == pytest.approx(bytes_per_parameter * parameters(llama))


def test_experts_are_shared_among_the_data_ranks_that_have_the_same(mixtral):
    made = [
        memory.stages(mixtral, Layout(data=8, expert=ep, global_batch=8, zero=1))[0]
        for ep in (1, 8)
    ]
    assert made[0].weights > 4 * made[1].weights
    assert made[0].optimizer == pytest.approx(made[1].optimizer)


def test_fp32_keeps_no_second_copy(llama):
    found = {
        dtype: memory.stages(llama, Layout(dtype=dtype, zero=0))[0] for dtype in ("fp32", "bf16")
    }
    assert found["fp32"].weights == 2 * found["bf16"].weights
    assert found["fp32"].optimizer == pytest.approx(8 / 12 * found["bf16"].optimizer)


def test_first_stages_keep_more_micro_batches_than_last_ones(llama):
    found = memory.stages(llama, Layout(pipeline=4, global_batch=16))
    assert [one.activations for one in found] == pytest.approx(
        [n * found[-1].activations for n in (4, 3, 2, 1)]
    )
    assert [one.logits > 0 for one in found] == [False, False, False, True]


@pytest.mark.parametrize(
    "changed",
    [
        {"tensor": 2},
        {"context": 2},
        {"recompute": "full"},
        {"zero": 2},
        {"micro_batch": 2},
        {"sequence": 8192},
        {"optimizer": "sgd"},
        {"schedule": "zb-h2"},
        {"pipeline": 8},
        {"virtual": 2},
    ],
)
def test_every_axis_moves_the_memory(changed, llama):
    one = Layout(pipeline=4, data=4, global_batch=64)
    before, after = (
        max(stage.total for stage in memory.stages(llama, layout))
        for layout in (one, replace(one, **changed))
    )
    assert before != after


def test_too_little_memory_names_the_stage_and_what_fills_it(llama):
    layout = Layout(tensor=2, pipeline=2, zero=0, global_batch=16)
    where = machine("trn1")
    with pytest.raises(OutOfMemory) as caught:
        memory.check(memory.stages(llama, layout), layout, where)
    said = str(caught.value)
    assert "stage 0 of 2 needs 4" in said
    assert "GiB a rank (optimizer 2" in said
    assert "a NeuronCore of trn1.32xlarge has 16.0 GiB, 14.7 less 8% for the runtime" in said
    assert "fix: use --zero 1, or more --tp or --pp" in said


@pytest.mark.parametrize(
    ("axes", "advice"),
    [
        ({"micro_batch": 16, "global_batch": 64, "tensor": 8, "data": 4}, "use --recompute full"),
        ({"data": 32, "global_batch": 32}, "use more --tp or --pp, or --zero 3"),
        ({"pipeline": 2, "zero": 3, "recompute": "full"}, "use more --tp, --cp or --pp, or more"),
    ],
)
def test_advice_is_of_what_is_largest(axes, advice, llama):
    layout = Layout(**axes)
    with pytest.raises(OutOfMemory, match=advice):
        memory.check(memory.stages(llama, layout), layout, machine("trn1"))
