"""What a transformer computes by its configuration alone, without its graph.

Two operations for each weight of a matrix and each token that passes it, and attention's two
products: a third opinion beside the graph's operations and the bound.
"""

WORDS = {
    "hidden": ("hidden_size", "dim", "d_model"),
    "inner": ("intermediate_size", "hidden_dim", "d_ff"),
    "layers": ("num_hidden_layers", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_heads", "num_heads"),
}
"""What configurations call a size."""
GATED = ("llama", "mistral")
ENCODERS = ("albert", "bert", "distilbert", "electra", "roberta", "xlm-roberta")
DECODERS = (*GATED, "starcoder2")


def closed_flop(config, spec):
    """Multiplications and additions of one rank's graph of a spec; None for other models."""
    kind = config.get("model_type")
    if "texts" in spec or spec.get("phase", "train") == "train":
        return None
    if kind in ENCODERS:
        return encoder(config, spec, spec["batch"], spec["sequence"])
    if kind == "vit":
        return images(config, spec)
    return decoder(config, spec) if kind in DECODERS else None


def size(config, word):
    """A size, by whichever name a configuration has for it."""
    return next(config[name] for name in WORDS[word] if name in config)


def encoder(config, _, batch, tokens):
    """Layers of all tokens; of each text a pooled token, or scores of all words."""
    hidden, inner, layers = (size(config, word) for word in ("hidden", "inner", "layers"))
    rows = batch * tokens
    weights = layers * (4 * hidden**2 + 2 * hidden * inner)
    wide = config.get("embedding_size", hidden)
    if wide != hidden:
        weights += wide * hidden
    found = 2 * rows * weights + 4 * layers * rows * tokens * hidden
    named = config["architectures"][0]
    if named.endswith("ForMaskedLM"):
        return found + 2 * rows * (hidden**2 + hidden * config["vocab_size"])
    is_pooled = config["model_type"] in ("albert", "bert", "roberta", "xlm-roberta")
    return found + (2 * batch * hidden**2 if is_pooled else 0)


def images(config, spec):
    """A vision transformer: patches behind a token, and the classes of that token."""
    batch, hidden = spec["batch"], config["hidden_size"]
    patches = (config["image_size"] // config["patch_size"]) ** 2
    cut = 2 * batch * patches * 3 * config["patch_size"] ** 2 * hidden
    body = encoder({**config, "architectures": [""]}, spec, batch, patches + 1)
    return cut + body + 2 * batch * hidden * config["num_labels"]


def decoder(config, spec):
    """One rank's part of new tokens beside those of the cache; scores of each text's last token.

    Heads that ranks do not divide are made up, as are columns.
    """
    ranks, batch = spec.get("ranks", 1), spec["batch"]
    hidden, inner, layers = (size(config, word) for word in ("hidden", "inner", "layers"))
    heads = -(-config["num_attention_heads"] // ranks)
    kept = -(-config.get("num_key_value_heads", config["num_attention_heads"]) // ranks)
    wide = config.get("head_dim") or hidden // config["num_attention_heads"]
    new = spec["sequence"] if spec["phase"] == "prefill" else 1
    seen = new * (new + 1) // 2 + new * spec.get("past", 0)
    products = 3 if config["model_type"] in GATED else 2
    layer = hidden * (wide * (2 * heads + 2 * kept) + products * -(-inner // ranks))
    scores = 2 * batch * hidden * -(-config["vocab_size"] // ranks)
    return layers * (2 * batch * new * layer + 4 * batch * seen * heads * wide) + scores
