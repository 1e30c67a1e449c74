"""Released torchtitan finds the device, its chip and its memory, and trains its debug model."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("torchtitan", reason="make clients installs torchtitan")

from launched import torchrun

pytestmark = pytest.mark.filterwarnings("ignore")

CORE_PEAK_FLOPS = 79e12 * 2  # torchtitan's own figure for a logical core of trn2


def module(name):
    return importlib.import_module(f"torchtitan.{name}")


def test_the_device_is_detected():
    utils = module("tools.utils")
    assert utils.device_type == "neuron"
    assert utils.device_module is torch.neuron


def test_the_peak_is_that_of_the_chip():
    utils = module("tools.utils")
    name = utils.device_module.get_device_name()
    assert utils.get_peak_flops(name) == CORE_PEAK_FLOPS


def test_the_memory_monitor_reads_the_devices_memory():
    monitor = module("components.metrics").build_device_memory_monitor()
    held = torch.ones(1 << 20, device="neuron")
    stats = monitor.get_peak_stats()
    assert monitor.device_capacity == torch.neuron.get_device_properties(0).total_memory
    assert stats.max_active_gib >= held.nbytes / 1024**3


PROGRAM = Path(__file__).parent / "torchtitan_program.py"
LOSS = re.compile(r"step: *(\d+) .*?loss: *([0-9.]+)")
COLOURS = re.compile("\x1b\\[[0-9;]*m")
# Its other ways to spread a model need a PyTorch after 2.13: `spmd_types`, the default, gives FSDP
# plain tensors of a mesh, and pipelines call `step(arg_mbs=...)`.
OPTIONS = [
    "--module", "llama3", "--config", "llama3_debugmodel",
    "--parallelism.spmd_backend", "partial_dtensor",
    "--training.seq_len", "64", "--training.local_batch_size", "2", "--training.steps", "4",
    "--checkpoint.enable", "--checkpoint.interval", "2",
]  # fmt: skip
WORDS = 2000


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A folder with the tokenizer, the texts and the first weights that its debug model reads."""
    tokenizers = importlib.import_module("tokenizers")
    folder = tmp_path_factory.mktemp("torchtitan")
    assets, texts = folder / "tests/assets/tokenizer", folder / "tests/assets/c4_test"
    assets.mkdir(parents=True)
    texts.mkdir()
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<unk>"]
    words = {word: place for place, word in enumerate([*special, *map(str, range(WORDS))])}
    whole = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "<unk>"))
    whole.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    whole.add_special_tokens(special)
    whole.save(str(assets / "tokenizer.json"))
    names = {"bos_token": special[0], "eos_token": special[1]}
    (assets / "tokenizer_config.json").write_text(json.dumps(names))
    own = torch.Generator().manual_seed(0)
    rows = (torch.rand(200, 100, generator=own).pow(4) * WORDS).long().tolist()
    lines = (json.dumps({"text": " ".join(map(str, row))}) for row in rows)
    (texts / "data.json").write_text("\n".join(lines))
    train(folder, 1, "seed", "--checkpoint.create_seed_checkpoint")
    return folder


def train(folder, processes, name, *options):
    """The losses of the first process, by step."""
    said = torchrun(
        processes, PROGRAM, *OPTIONS, "--dump_folder", name, *options,
        folder=folder, HF_HUB_OFFLINE="1",
    )  # fmt: skip
    return {int(step): float(loss) for step, loss in LOSS.findall(COLOURS.sub("", said))}


def from_seed(folder, processes, name, *options):
    seed = str(folder / "seed/checkpoint/step-0")
    return train(folder, processes, name, "--checkpoint.initial_load_path", seed, *options)


TENSOR_PARALLEL = ["--parallelism.tensor_parallel_degree", "2"]


@pytest.mark.skipif(sys.platform != "linux", reason="torchtitan imports triton, for Linux alone")
def test_one_model_trains_the_same_on_one_two_and_four_processes(checkout):
    """Data are shared out over processes that hold other data, so those are compared."""
    alone = from_seed(checkout, 1, "alone")
    assert set(alone) == {1, 2, 3, 4}
    assert alone[4] < alone[1]
    assert from_seed(checkout, 2, "tensor", *TENSOR_PARALLEL) == pytest.approx(alone, rel=1e-2)
    sharded = from_seed(checkout, 2, "sharded")
    assert sharded[4] < sharded[1]
    both = from_seed(checkout, 4, "both", *TENSOR_PARALLEL)
    assert both == pytest.approx(sharded, rel=1e-2)
    # From its own checkpoint after two steps it goes on as it went.
    resumed = train(checkout, 2, "sharded", "--checkpoint.load_step", "2")
    assert resumed == {step: sharded[step] for step in (3, 4)}
