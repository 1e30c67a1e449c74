import re
from dataclasses import replace
from pathlib import Path

import pytest
from mixer_models import MAMBA_2

from trnsim.errors import BadInput, NotModelled, OutOfMemory
from trnsim.place.machine import machine
from trnsim.system.serve.engine import ReplicaRole
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import (
    check_length,
    deploy,
    fleet,
    sequence_candidates,
    served_model,
)
from trnsim.workload.config import from_config, read
from trnsim.workload.model_names import config_file

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
MIXTRAL = from_config(
    {
        "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
        "vocab_size": 32000, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "mixtral.json",
)  # fmt: skip


def options(**more):
    return ServerOptions(**({"tensor": 8, "max_num_seqs": 4, "max_model_len": 1000} | more))


def test_neuron_compiles_one_batch_and_buckets_and_vllm_neither():
    neuron = deploy(LLAMA, machine("trn2"), options()).engine
    assert neuron.is_compiled
    assert neuron.batches == (4,)
    assert neuron.buckets == (128, 256, 512, 1000)
    assert neuron.block_tokens == 32
    gpu = deploy(LLAMA, machine("p5en"), options()).engine
    assert not gpu.is_compiled
    assert gpu.block_tokens == 16
    assert gpu.max_num_batched_tokens == 8192


def test_a_port_has_one_bucket_takes_turns_and_times_of_its_own():
    tuned, ported = (
        deploy(MIXTRAL, machine("trn2"), options(port=port)) for port in ("tuned", "as-ported")
    )
    assert tuned.engine.prompts_at_once == 1  # as vLLM-Neuron's scheduler has it
    assert not tuned.engine.is_alternating
    assert ported.engine.is_alternating
    assert ported.engine.buckets == (1000,)
    chosen = deploy(MIXTRAL, machine("trn2"), options(port="as-ported", buckets=(500, 1000)))
    assert chosen.engine.buckets == (500, 1000)
    step, slower = (one.steps.decode(4, 1000) for one in (tuned, ported))
    assert slower.time_s > step.time_s + 32 * 200e-6
    assert slower.parts_s["host"] > step.parts_s["host"] == 0


def test_gpus_multiply_eight_bits_where_activations_have_as_few():
    def products_s(on, **more):
        steps = deploy(LLAMA, machine(on), options(max_model_len=4096, **more)).steps
        return steps.prefill(1, 4096, 0).parts_s["products"]

    assert products_s("p5en", quantization="fp8") < 0.7 * products_s("p5en")
    assert products_s("p5en", quantization="awq") == pytest.approx(products_s("p5en"))
    assert products_s("trn2", quantization="fp8") == pytest.approx(products_s("trn2"))


def test_heads_are_padded_to_a_multiple_of_the_ranks_on_neuron():
    config = {
        "model_type": "llama", "hidden_size": 5120, "intermediate_size": 8192,
        "vocab_size": 32000, "num_hidden_layers": 4, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128,
    }  # fmt: skip
    model = from_config(config, "forty.json")
    assert deploy(model, machine("trn2"), options(tensor=64)).ranks == 64


def test_blocks_are_what_weights_leave():
    big, small = (deploy(LLAMA, machine("p5en"), options(utilization=u)) for u in (0.9, 0.45))
    assert 0.4 < small.engine.blocks / big.engine.blocks < 0.5
    int8 = deploy(LLAMA, machine("p5en"), options(quantization="int8"))
    assert int8.engine.blocks > big.engine.blocks
    fp8 = deploy(LLAMA, machine("p5en"), options(kv_dtype="fp8"))
    assert fp8.engine.blocks == pytest.approx(2 * big.engine.blocks, rel=1e-3)


@pytest.mark.parametrize(
    ("more", "replicas", "instances"),
    [
        ({}, 8, 1),
        ({"instances": 3}, 24, 3),
        ({"replicas": 3}, 3, 1),
        ({"replicas": 9}, 9, 2),
        ({"tensor": 32, "pipeline": 4}, 1, 2),
        ({"tensor": 32, "pipeline": 4, "instances": 5}, 2, 5),
        ({"tensor": 32, "pipeline": 2, "instances": 2}, 2, 2),
    ],
)
def test_replicas_fill_instances(more, replicas, instances):
    assert fleet(machine("trn2"), options(**more)) == (replicas, instances)
    found = deploy(LLAMA, machine("trn2"), options(**more))
    assert found.ranks_used == replicas * found.ranks


def test_replicas_of_prefill_and_decode_have_their_roles():
    found = deploy(LLAMA, machine("trn2"), options(prefill_replicas=3))
    roles = [one.role for one in found.engines()]
    assert roles == [ReplicaRole.PREFILL] * 3 + [ReplicaRole.DECODE] * 5
    assert list(found.decode_replicas) == [3, 4, 5, 6, 7]


BAD = [
    ("trn2", {"tensor": 65}, r"--tensor-parallel-size of 65 on trn2.48xlarge, which has 64 ra"),
    ("trn2", {"tensor": 64}, r"--tensor-parallel-size of 64, and llama-3.1-8b has 32 heads; l"),
    ("trn2", {"tensor": 3}, r"--tensor-parallel-size of 3 on trn2, whose Neuron runtime sup"),
    ("trn1", {"tensor": 4}, r"--tensor-parallel-size of 4 on trn1, whose Neuron runtime sup"),
    ("p5en", {"tensor": 64}, r"--tensor-parallel-size of 64 on p5en.48xlarge, which has 8 ranks"),
    ("trn2", {"port": "as-ported"}, r"--port-state as-ported of llama-3.1-8b, which has no expert"),
    ("p5en", {"port": "as-ported"}, r"--port-state as-ported of p5en, a GPU; ports that are not"),
    ("p5en", {"tensor": 6}, r"--tensor-parallel-size of 6, and llama-3.1-8b has 32 heads; le"),
    ("trn2", {"pipeline": 33}, r"--pipeline-parallel-size of 33; llama-3.1-8b has 32 layers"),
    ("trn2", {"expert": 2}, r"--expert-parallel-size of 2; llama-3.1-8b has no experts; legal: 1"),
    ("trn2", {"replicas": 9, "instances": 1}, r"9 replicas of 8 ranks on 1 x trn2.48xlarge; 8 fit"),
    ("trn2", {"prefill_replicas": 8}, r"--prefill-replicas is 8 of 8 replicas; legal: 0 to 7"),
    ("inf2.xlarge", {"tensor": 2, "pipeline": 2}, r"a replica on several inf2.xlarge, which has n"),
    ("trn2", {"quantization": "foo"}, r"--quantization is 'foo' on trn2; legal: int8, fp8, mxfp8"),
    ("p5en", {"quantization": "mxfp8"}, r"--quantization is 'mxfp8' on p5en; legal: int8, fp8, mx"),
    ("trn2", {"kv_dtype": "int3"}, r"--kv-cache-dtype is 'int3'; legal: auto, fp8"),
    ("trn2", {"buckets": (128, 256)}, r"--buckets: the largest of 128,256 does not hold the"),
    ("p5en", {"buckets": (128, 1000)}, r"--buckets on p5en; vLLM on GPUs compiles no shapes"),
    ("p5en", {"batches": (4,)}, r"--num-seqs-buckets on p5en; vLLM on GPUs compiles no shapes"),
    ("p5en", {"prompts_at_once": 2}, r"--max-prefills on p5en; vLLM on GPUs compiles no shapes"),
    ("trn2", {"is_chunked": False}, r"--no-enable-chunked-prefill on trn2; prompts and decodes ne"),
    ("trn2", {"batches": (1, 2)}, r"--num-seqs-buckets: the largest of 1,2 does not hold a batch "),
    ("p5en", {"max_num_batched_tokens": 3}, r"--max-num-batched-tokens is 3; a step has to hold 4"),
    ("p5en", {"max_num_batched_tokens": 900, "is_chunked": False}, r"--max-num-batched-tokens is "),
]  # fmt: skip


def test_a_rank_too_many_says_what_is_legal():
    with pytest.raises(
        BadInput, match=r"64 ranks, each a logical NeuronCore \(LNC=2\); legal: 1 to 64"
    ):
        deploy(LLAMA, machine("trn2"), options(tensor=65))
    with pytest.raises(BadInput, match=r"legal on p5en: 1, 2, 4, 8\n"):
        deploy(LLAMA, machine("p5en"), options(tensor=6))


@pytest.mark.parametrize(("on", "more", "message"), BAD)
def test_what_cannot_be_deployed_names_the_option_and_what_is_legal(on, more, message):
    with pytest.raises(BadInput, match=f"^{message}"):
        deploy(LLAMA, machine(on), options(**more))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"max_num_seqs": 0}, "--max-num-seqs is 0; legal: whole numbers from 1 on"),
        ({"instances": -4}, "--instances is -4; legal: whole numbers from 1 on"),
        ({"draft_tokens": -1}, "--num-speculative-tokens is -1; legal: whole numbers from 0 on"),
        ({"utilization": 1.5}, "--gpu-memory-utilization is 1.5; legal: from 0 to 1"),
        ({"utilization": float("nan")}, "--gpu-memory-utilization is nan; legal: from 0 to 1"),
        ({"host_s": -1.0}, "--host-time is -1.0; legal: from 0 on"),
        ({"imbalance": 0.5}, "--expert-imbalance is 0.5; legal: from 1 on"),
        ({"port": "slow"}, "--port-state is 'slow'; legal: tuned or as-ported"),
        ({"acceptance": 2.0}, "--speculative-acceptance is 2.0; legal: from 0 to 1"),
        ({"draft_tokens": 2}, "2 speculative tokens, and no rate at which they are accepted"),
    ],
)
def test_numbers_out_of_range_name_the_option(more, message):
    with pytest.raises(BadInput, match=f"^{re.escape(message)}"):
        ServerOptions(**more)


def test_over_hbm_is_told_by_what():
    with pytest.raises(
        OutOfMemory, match=r"weights 15 GiB, keys and values of 4 x 1000 tokens 0.4"
    ):
        deploy(LLAMA, machine("trn1"), options(tensor=1))
    with pytest.raises(OutOfMemory, match=r"a NeuronCore needs .* weights 3.74 GiB.*it has 2 GiB"):
        deploy(LLAMA, machine("inf1.xlarge"), options(tensor=4))


def test_a_compiled_server_needs_room_for_every_sequence_and_a_dynamic_one_for_one():
    many = options(tensor=1, max_num_seqs=64, max_model_len=32768, max_num_batched_tokens=4096)
    with pytest.raises(OutOfMemory, match=r"keys and values of 64 x 32768 tokens 256 GiB"):
        deploy(LLAMA, machine("trn2"), many)
    assert deploy(LLAMA, machine("p5en"), many).engine.blocks > 32768 // 16


def test_a_dynamic_server_needs_room_for_the_states_of_every_sequence():
    long = {"tensor": 1, "max_model_len": 2**17, "max_num_batched_tokens": 4096}
    state_bytes = 64 * (4 * 80 * 64 * 128 + 2 * 3 * (80 * 64 + 2 * 128))
    found = deploy(MAMBA_2, machine("p5en"), options(max_num_seqs=700, **long))
    assert found.memory.state_bytes == found.memory.sequence_bytes == state_bytes
    assert found.engine.blocks == 700 * 2**17 // 16
    with pytest.raises(OutOfMemory, match=r"states of 1024 sequences 162 GiB"):
        deploy(MAMBA_2, machine("p5en"), options(max_num_seqs=1024, **long))


def test_experts_share_the_ranks_of_a_replica():
    found = deploy(MIXTRAL, machine("trn2"), options(tensor=4, expert=4))
    assert found.ranks == 16
    assert found.replicas == 4


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"tensor": 4, "expert": 3}, "3; mixtral has 8 experts; legal: 1, 2, 4, 8"),
        ({"expert": 128}, "128; mixtral has 8 experts; legal: 1, 2, 4, 8"),
        (
            {"tensor": 16, "expert": 8},
            (
                "8 times --tensor-parallel-size of 16 on trn2.48xlarge, which has 64 ranks, "
                "each a logical NeuronCore (LNC=2); legal: 1, 2, 4"
            ),
        ),
    ],
)
def test_expert_ranks_that_share_out_no_experts_are_refused_with_the_legal_counts(given, reason):
    with pytest.raises(BadInput, match=f"^--expert-parallel-size of {re.escape(reason)}\n"):
        deploy(MIXTRAL, machine("trn2"), options(**given))


def test_bits_are_those_of_the_options():
    asked = options(quantization="mxfp4", kv_dtype="fp8")
    found = served_model(LLAMA, asked, machine("trn2"))
    assert (found.weight_bits, found.kv_bits, found.other_bits) == (4, 8, 16)


def test_a_model_that_makes_no_tokens_is_not_served():
    encoder = replace(LLAMA, towers=(replace(LLAMA.towers[0], outputs=0),))
    with pytest.raises(
        NotModelled, match=r"makes no tokens one after another\n  fix: trnsim plan i"
    ):
        served_model(encoder, ServerOptions(), machine("trn2"))


def test_learned_positions_end_and_rotary_ones_go_on():
    check_length(LLAMA, 10**7)
    gpt = read(config_file("gpt2"))
    check_length(gpt, 1024)
    message = (
        r"^--max-model-len of 1,025 tokens; gpt2 has a table of 1,024 positions \(n_positions\)"
    )
    with pytest.raises(BadInput, match=message):
        check_length(gpt, 1025)


def test_a_search_tries_powers_of_two_of_sequences_and_the_most():
    assert list(sequence_candidates(machine("trn2"), 6)) == [1, 2, 4, 6]


def test_what_is_not_set_cannot_be_deployed():
    with pytest.raises(BadInput, match=r"^tensor ranks, sequences and length of a deployment have"):
        deploy(LLAMA, machine("trn2"), ServerOptions())
