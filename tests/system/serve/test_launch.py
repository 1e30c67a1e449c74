import json
import shlex
from pathlib import Path

import pytest

from trnsim.errors import NotModelled
from trnsim.place.machine import machine
from trnsim.system.serve.launch import vllm
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def command(on="trn2", **more):
    options = ServerOptions(**({"tensor": 8, "max_num_seqs": 4, "max_model_len": 2304} | more))
    return vllm(deploy(LLAMA, machine(on), options), "llama")


def words(text):
    return shlex.split(text[text.index("vllm serve") :].replace("\\\n", ""))


def test_neuron_gets_the_programs_that_are_compiled():
    text = command(has_prefix_cache=True)
    assert text.startswith("export NEURON_LOGICAL_NC_CONFIG=2\nvllm serve llama \\\n    --tensor-p")
    found = words(text)
    assert found[:8] == [
        *("vllm", "serve", "llama", "--tensor-parallel-size", "8", "--data-parallel-size", "8"),
        "--max-model-len",
    ]
    assert "--enable-prefix-caching" in found
    neuron = json.loads(found[found.index("--additional-config") + 1])["neuron_config"]
    assert neuron == {
        "num_batched_tokens_buckets": [128, 256, 512, 1024, 2048, 2304],
        "num_seqs_buckets": [4],
        "decode_context_length_buckets": [128, 256, 512, 1024, 2048],
        "on_device_sampling_config": {"all_greedy": True},
    }
    assert found[found.index("--max-num-batched-tokens") + 1] == "2304"


def test_what_neuron_documents_is_held():
    """The largest token bucket equals the tokens of a step; lengths are multiples of 128."""
    found = words(command(max_num_batched_tokens=1000, buckets=(100, 640, 2304)))
    neuron = json.loads(found[found.index("--additional-config") + 1])["neuron_config"]
    assert neuron["num_batched_tokens_buckets"] == [100, 640, 1000]
    assert neuron["decode_context_length_buckets"] == [640]


def test_gpus_get_vllms_own_options():
    found = words(command("p5en", is_chunked=False, quantization="fp8", kv_dtype="fp8"))
    assert "--no-enable-chunked-prefill" in found
    assert "--no-enable-prefix-caching" in found
    assert found[found.index("--quantization") + 1] == "fp8"
    assert found[found.index("--kv-cache-dtype") + 1] == "fp8"
    assert "--additional-config" not in found
    assert "NEURON" not in command("p5en")


def test_weights_of_neuron_are_those_of_the_checkpoint_or_of_its_own_configuration():
    assert "# FP8 weights are those of a checkpoint" in command(quantization="fp8")
    found = words(command(quantization="mxfp4"))
    assert json.loads(found[found.index("--additional-config") + 1])["neuron_config"][
        "quantization"
    ] == ("mxfp4")


def test_vllm_has_no_option_of_int8_weights():
    """They are those of a checkpoint (vLLM's documentation, INT8 W8A8); fp8 ones may be made."""
    text = command("p5en", quantization="int8")
    assert text.startswith("# INT8 weights are those of a checkpoint")
    assert "--quantization" not in words(text)
    assert "# FP8" not in command("p5en", quantization="fp8")


def test_vllm_is_allowed_lengths_beyond_the_positions_of_training():
    assert "VLLM_ALLOW" not in command(max_model_len=131_072, max_num_seqs=1)
    text = command(max_model_len=131_200, max_num_seqs=1)
    assert "export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 # beyond the 131,072 positions" in text


def test_prefill_and_decode_are_two_commands():
    text = command(prefill_replicas=2)
    one, two = text.split("\n\n")
    assert one.startswith("# 2 for prompts\n")
    assert two.startswith("# 6 that decode\n")
    for part, role in ((one, "kv_producer"), (two, "kv_consumer")):
        found = words(part)
        given = json.loads(found[found.index("--kv-transfer-config") + 1])
        assert given == {"kv_connector": "NeuronNixlConnector", "kv_role": role}


def test_speculation_is_named():
    found = words(command(draft_tokens=3, acceptance=0.7))
    given = json.loads(found[found.index("--speculative-config") + 1])
    assert given["num_speculative_tokens"] == 3
    assert given["method"] == "eagle3"
    found = words(command(draft_tokens=3, acceptance=0.7, draft=LLAMA))
    assert json.loads(found[found.index("--speculative-config") + 1])["model"] == "llama-3.1-8b"


def test_a_pipeline_is_vllms_alone():
    assert "--pipeline-parallel-size" in words(command("p5en", pipeline=2, tensor=4))
    with pytest.raises(
        NotModelled, match=r"^vLLM-Neuron documents no option for 2 pipeline stages"
    ):
        command(pipeline=2)


def test_several_instances_are_said():
    assert "# on 2 x trn2.48xlarge" in command(instances=2)
