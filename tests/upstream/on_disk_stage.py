"""Weights and data of ours for the programs of on_disk.py, in the present folder.

usage: python on_disk_stage.py KIND WORDS...

Weights are random, of small models; data are synthetic. The kinds are the functions below.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np

SEED = 7
TEXT = """the company hugging ##face is based in new york city apples are especially bad for your
health headquarters situated manhattan a an of to and it was not good movie film great dull
, . ' s"""
WORDS = TEXT.split()
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def mnist(root, train, test):
    """MNIST's four files: a fixed pattern for each digit, with noise."""
    random = np.random.default_rng(SEED)
    patterns = random.integers(0, 2, (10, 28, 28)) * 160
    folder = Path(root) / "MNIST" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", int(train)), ("t10k", int(test))):
        labels = random.integers(0, 10, count).astype(np.uint8)
        noise = random.integers(0, 96, (count, 28, 28))
        images = (patterns[labels] + noise).astype(np.uint8)
        head = struct.pack(">HBB3I", 0, 8, 3, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(head + images.tobytes())
        head = struct.pack(">HBBI", 0, 8, 1, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())


def bert_vocabulary(folder):
    """A vocabulary of letters and a few words, as vocab.txt."""
    letters = [chr(code) for code in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters]
    pieces += [f"##{letter}" for letter in letters]
    pieces = list(dict.fromkeys(pieces))
    Path(folder, "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return len(pieces)


def bert(folder, architecture="BertForSequenceClassification"):
    """A small BERT of an architecture, with its tokenizer."""
    import torch
    import transformers

    Path(folder).mkdir(parents=True, exist_ok=True)
    size = bert_vocabulary(folder)
    torch.manual_seed(SEED)
    config = transformers.BertConfig(vocab_size=size, **SIZES)
    model = getattr(transformers, architecture)(config)
    model.save_pretrained(folder)
    torch.save(model.state_dict(), Path(folder, "pytorch_model.bin"))  # programs ask for either
    tokenizer = transformers.BertTokenizer(str(Path(folder) / "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(folder)


def gpt2(folder, architecture="GPT2LMHeadModel", *settings):
    """A small GPT-2, with a tokenizer of single bytes; settings such as n_layer=2."""
    import torch
    import transformers
    from transformers.models.gpt2 import tokenization_gpt2

    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        letters = list(tokenization_gpt2.bytes_to_unicode().values())
    except AttributeError:
        from tokenizers import pre_tokenizers

        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate([*letters, "<|endoftext|>"])}
    Path(folder, "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    Path(folder, "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    options = {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 256}
    options |= {name: int(value) for name, _, value in (each.partition("=") for each in settings)}
    torch.manual_seed(SEED)
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), bos_token_id=256, eos_token_id=256, **options
    )
    getattr(transformers, architecture)(config).save_pretrained(folder)
    transformers.GPT2Tokenizer(
        str(Path(folder, "vocab.json")), str(Path(folder, "merges.txt"))
    ).save_pretrained(folder)


def glue(folder, train, validation):
    """Sentences with a label, as train.csv and validation.csv: good words are 1, bad ones 0."""
    random = np.random.default_rng(SEED)
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, count in (("train", int(train)), ("validation", int(validation))):
        lines = ["sentence,label"]
        for label in random.integers(0, 2, count):
            words = list(random.choice(["the", "a", "movie", "film", "it", "was", "city"], 6))
            words[random.integers(0, 6)] = ("dull", "great")[label]
            lines.append(f"{' '.join(words)},{label}")
        Path(folder, f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


ACCURACY = '''"""The share of equal numbers."""

import datasets
import evaluate


class Accuracy(evaluate.Metric):
    """Accuracy, as the hub's metric of that name."""

    def _info(self):
        numbers = datasets.Value("int32")
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="",
            features=datasets.Features({"predictions": numbers, "references": numbers}),
        )

    def _compute(self, predictions, references):
        equal = sum(int(a == b) for a, b in zip(predictions, references))
        return {"accuracy": equal / len(references)}
'''


def accuracy(folder):
    """The metric "accuracy" as a file, for `evaluate` without the hub."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, "accuracy.py").write_text(ACCURACY, encoding="utf-8")


def mlp(path, root):
    """A model of the sample mnist_mlp, trained for an epoch on the CPU, as train.py saves it."""
    import torch
    from model import MLP

    raw = Path(root) / "MNIST" / "raw"
    images = np.frombuffer((raw / "train-images-idx3-ubyte").read_bytes()[16:], np.uint8)
    labels = np.frombuffer((raw / "train-labels-idx1-ubyte").read_bytes()[8:], np.uint8)
    inputs = torch.tensor(images.reshape(-1, 28 * 28) / 255, dtype=torch.float32)
    targets = torch.tensor(labels.astype(np.int64))
    torch.manual_seed(SEED)
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.arange(len(targets)).split(32):
        optimizer.zero_grad()
        torch.nn.functional.nll_loss(model(inputs[batch]), targets[batch]).backward()
        optimizer.step()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    torch.save({"state_dict": model.state_dict()}, path)


def llama_config(folder):
    """The configuration of a small Llama."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    sizes = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 256, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5, "hidden_act": "silu", "initializer_range": 0.02,
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
        "rope_theta": 10000.0, "torch_dtype": "bfloat16", "use_cache": True,
    }  # fmt: skip
    Path(folder, "config.json").write_text(json.dumps(sizes, indent=1), encoding="utf-8")


def hdf5(folder, files, samples, length):
    """Samples of BERT's pretraining in NVIDIA's layout."""
    import h5py

    random = np.random.default_rng(SEED)
    Path(folder).mkdir(parents=True, exist_ok=True)
    count, tokens, masked = int(samples), int(length), 20
    for number in range(int(files)):
        with h5py.File(Path(folder) / f"shard_training_{number}.hdf5", "w") as file:
            ids = random.integers(5, 200, (count, tokens)).astype(np.int32)
            places = np.sort(random.permuted(
                np.tile(np.arange(1, tokens), (count, 1)), axis=1)[:, :masked])  # fmt: skip
            file["input_ids"] = ids
            file["input_mask"] = np.ones((count, tokens), np.int8)
            file["segment_ids"] = np.zeros((count, tokens), np.int8)
            file["masked_lm_positions"] = places.astype(np.int32)
            file["masked_lm_ids"] = np.take_along_axis(ids, places, axis=1)
            file["next_sentence_labels"] = random.integers(0, 2, count).astype(np.int8)


def lines(path, count):
    """A text of so many lines."""
    random = np.random.default_rng(SEED)
    text = [" ".join(random.choice(WORDS[:30], 12)) for _ in range(int(count))]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(text) + "\n", encoding="utf-8")


def copy(source, target):
    """A file or folder of the program under another name."""
    import shutil

    Path(target).parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, target)


def tokens(folder, samples, length, vocabulary):
    """A tokenised set, as `datasets` stores it."""
    import datasets

    random = np.random.default_rng(SEED)
    ids = random.integers(3, int(vocabulary), (int(samples), int(length)))
    ones = np.ones_like(ids)
    columns = {"input_ids": ids.tolist(), "attention_mask": ones.tolist(), "labels": ids.tolist()}
    datasets.Dataset.from_dict(columns).save_to_disk(folder)


KINDS = (mnist, mlp, bert, gpt2, glue, accuracy, hdf5, lines, copy, tokens, llama_config)

if __name__ == "__main__":
    sys.path.append(".")  # the program's own modules
    {kind.__name__: kind for kind in KINDS}[sys.argv[1]](*sys.argv[2:])
