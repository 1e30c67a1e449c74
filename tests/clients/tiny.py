"""A tiny, randomly initialised model of any architecture of transformers, and inputs for it.

Sizes and inputs come from rules over names, not from a list of models. Where the rules make a
model that PyTorch's CPU cannot run, milder rules are tried, then the architecture's plainer class.
"""

import copy
import inspect
import re
from dataclasses import dataclass

import torch
from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

MOST_PARAMETERS = 50_000_000
WORDS, BATCH, LENGTH = 128, 2, 12
LARGEST_IMAGE = 1024  # words
SMALLEST_WORD, LARGEST_WORD = 5, 60  # no special token is met by chance

# The class that a user would take first stands first.
CLASSES = (
    "CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "SPEECH_SEQ_2_SEQ",
    "CTC",
    "IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "AUDIO_CLASSIFICATION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "TIME_SERIES_PREDICTION",
    "ZERO_SHOT_IMAGE_CLASSIFICATION",
)

# The first pattern that matches an attribute's whole name says what becomes of it. A number is
# the most that stays of an integer, alone or in a list.
SIZES = (
    (r".*vocab_size(_.*)?|vocabulary_size|num_embeddings", WORDS),
    (r"image_size|img_size|input_size|height|width|.*_resolution|spatial_size", 32),
    (r".*patch_size|spatial_patch_size", 8),
    (r"num_frames|frames_per_clip", 2),
    (r".*max_position_embeddings|max_target_positions|n_positions|n_ctx|max_seq_len.*", 256),
    (r".*(num|n)_(key_value|kv)_heads|.*kv_heads", 2),
    (r".*attention_heads|n_heads?|num_heads|.*_n_heads?|.*_num_heads|.*heads", 4),
    (r".*(num|n)_(hidden_|encoder_|decoder_)?(layers|layer|blocks)|n_layers?|.*_layers", 2),
    (r"depths?|.*_depths?|.*num_blocks|layers|.*layer_num|num_repeats", 2),
    (r".*experts_per_tok(en)?|.*top_?k(_experts)?|n_shared_experts|topk_group|n_group", 2),
    (r".*(num|n)_(local_|routed_|total_)?experts|.*num_experts|moe_num_experts", 4),
    (r"(v_|qk_)?head_dim|.*_head_dim|d_kv|attention_head_size|head_size|.*_head_size", 16),
    (r"(q|kv)_lora_rank|.*_lora_rank|lora_r|dt_rank|time_step_rank|.*_rank", 16),
    (r".*(intermediate|inner|ffn|feedforward|mlp|expert).*(size|dim|width)?", 64),
    (r"d_ff|n_inner|ffn_dim|.*_ffn_dim|dim_feedforward", 64),
    (r"conv_dim|tdnn_dim|.*_channels|.*channels_list|stem_.*channels|embedding_dim", 32),
    (r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|dim|width|hidden_dim|embedding_size)", 64),
    (r".*(hidden_sizes|embed_dims|hidden_dims|dims|widths|channels)", 64),
    (r"rotary_dim", 16),
    (r"moe_k", 2),
    (r"num_queries|num_.*_queries|.*query_num|num_latents", 8),
    (r"state_size|ssm_state_size|mamba_d_state", 16),
    (r"num_codebooks", 2),
)
# Color channels, and widths that other attributes must equal, stay.
KEPT = re.compile(r"(num|in|out|input)_channels|.*num_labels|backbone_.*|.*kernel.*|.*stride.*")
LAYERS = tuple(rule for rule in SIZES if "layers" in rule[0] or "depths" in rule[0])
# Some kinds of layer come only every eighth time.
DEEP = tuple((pattern, 8 if (pattern, most) in LAYERS else most) for pattern, most in SIZES)
WORDS_ONLY = SIZES[:1]
RUNGS = (SIZES, DEEP, LAYERS, WORDS_ONLY)
SPECIAL = re.compile(r".*(token|_id|index)(_id|_index|s)?")


class CannotBuild(Exception):
    """No rule makes a model of this architecture that runs on the CPU."""


@dataclass(frozen=True)
class Built:
    """A tiny model, with inputs that it takes."""

    model: torch.nn.Module
    inputs: dict

    def forward(self, device):
        """Every floating-point output by its place, on `device`."""
        torch.manual_seed(3)
        inputs = {name: value.to(device) for name, value in self.inputs.items()}
        return dict(_tensors("", self.model(**inputs)))


def _tensors(path, value):
    if isinstance(value, torch.Tensor):
        if value.is_floating_point() and value.numel():
            yield path, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from _tensors(f"{path}.{name}", part)
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _tensors(f"{path}.{place}", part)


def classes_of(kind):
    """The model classes of an architecture, the one to be tried first in front."""
    tables = [getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES") for name in CLASSES]
    others = [
        table
        for name, table in vars(modeling_auto).items()
        if re.fullmatch(r"MODEL_FOR_.*_MAPPING_NAMES", name) and table not in tables
    ]
    found = {}
    for table in [*tables, modeling_auto.MODEL_MAPPING_NAMES, *others]:
        names = table.get(kind, ())
        found.update(dict.fromkeys([names] if isinstance(names, str) else names))
    return list(found)


def shrink(config, rules, share=None):
    """`config` with its sizes cut down in place, and so those of its parts."""
    ids = share if share is not None else iter(range(WORDS - 1, LARGEST_WORD, -1))
    own = config.__dict__
    heads, groups = own.get("num_attention_heads"), own.get("num_key_value_heads")
    seen, kinds = {}, own.get("layer_types")
    for name, value in list(own.items()):
        if isinstance(value, PreTrainedConfig):
            small = tiny_backbone(value) if value.model_type.startswith("timm") else value
            setattr(config, name, shrink(small, rules, ids))
        elif not name.startswith("_"):
            smaller = shrunk(name, value, rules, ids, seen)
            if smaller is not value:
                setattr(config, name, smaller)
    if isinstance(kinds, list) and rules is not WORDS_ONLY:
        few = kinds[:8] if rules is DEEP else list(dict.fromkeys(kinds))
        config.layer_types, config.num_hidden_layers = few, len(few)
    if rules in (SIZES, DEEP):
        fit_together(config, is_grouped=heads != groups)
    return config


def fit_together(config, *, is_grouped):
    """Make sizes agree that other sizes follow from."""
    own = config.__dict__
    if own.get("num_key_value_heads") and not is_grouped:
        config.num_key_value_heads = config.num_attention_heads
    if "rope_type" in (own.get("rope_parameters") or {}):
        config.rope_parameters = _sections(config)
    if own.get("expand") and own.get("head_dim") and own.get("num_heads"):
        config.num_heads = config.hidden_size * config.expand // config.head_dim
    if own.get("use_timm_backbone"):
        config.use_timm_backbone = False


def tiny_backbone(config):
    """A ResNet of transformers' own for one of the package timm, with as many outputs."""
    number = len(getattr(config, "out_indices", None) or (4,))
    stages = [f"stage{place}" for place in range(5 - min(number, 4), 5)]
    return CONFIG_MAPPING["resnet"](out_features=stages, layer_type="basic")


def shrunk(name, value, rules, ids, seen):
    """What becomes of one attribute."""
    if value is None and name == "vocab_size":
        return WORDS
    if isinstance(value, bool) or value is None or KEPT.fullmatch(name):
        return value
    if isinstance(value, int) and value >= WORDS and SPECIAL.fullmatch(name):
        return seen[value] if value in seen else seen.setdefault(value, next(ids))
    for pattern, most in rules:
        if re.fullmatch(pattern, name):
            return _at_most(value, most, name)
    return value


def _at_most(value, most, name):
    if isinstance(value, int):
        return min(value, most)
    if isinstance(value, list | tuple) and value and all(type(v) is int for v in value):
        if "kernel" in name or "stride" in name:
            return value
        return type(value)(min(part, most) for part in value)
    return value


def _sections(config):
    """The rotary parameters, with sections for time, height and width that fill half of a head."""
    parameters = config.rope_parameters
    if any(isinstance(value, dict) for value in parameters.values()):
        return parameters
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    half = int(width * parameters.get("partial_rotary_factor", 1)) // 2
    return parameters | {"mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}


def build(kind):
    """The first model of architecture `kind` that its rules make and the CPU runs.

    Raises:
        CannotBuild: with what the CPU said to the last attempt with the first class.
    """
    said = None
    names = classes_of(kind)
    if not names:
        raise CannotBuild("no model class of its own: a part of other models")
    for name in names[:3]:
        for rules in RUNGS:
            try:
                return name, _built(kind, name, rules)
            except Exception as error:  # noqa: BLE001  any error means: try what comes next
                said = said or error
    raise CannotBuild(f"{type(said).__name__}: {said}")


def _built(kind, name, rules):
    import transformers  # noqa: PLC0415  a lazy module: each name is an import of its own

    model_class = getattr(transformers, name)
    config = shrink(CONFIG_MAPPING[kind](), rules)
    try:
        with torch.device("meta"):
            number = sum(parameter.numel() for parameter in model_class(config).parameters())
    except (RuntimeError, TypeError, NotImplementedError):  # it reads values while it is made
        number = 0
    if number > MOST_PARAMETERS:
        raise CannotBuild(f"{number / 1e6:.0f} million parameters are left")
    torch.manual_seed(0)
    model = model_class(config).eval().float()
    said = None
    for inputs in candidates(model, config):
        try:
            return _checked(model, inputs)
        except Exception as error:  # noqa: BLE001  other inputs may be what it takes
            said = said or error
            spoken = with_image_words(config, inputs, str(error))
        if spoken:
            try:
                return _checked(model, spoken)
            except Exception as error:  # noqa: BLE001  likewise
                said = error
    raise said or CannotBuild("no inputs are known for it")


def _checked(model, inputs):
    """The model with inputs that the CPU takes."""
    # Some models keep what a forward pass computed, on the device where it ran.
    with torch.no_grad():
        if not Built(copy.deepcopy(model), inputs).forward("cpu"):
            raise CannotBuild("no output is a floating-point tensor")
    return Built(model, inputs)


def with_image_words(config, inputs, said):
    """The inputs with as many words for the image as the model said that it needs, if it did."""
    word = attribute(config, "image_token_id", "image_token_index", default=None)
    wanted = re.search(r"tokens: \d+, features:? (\d+)", said)
    if not wanted or word is None or "pixel_values" not in inputs:
        return None
    each = int(wanted[1]) // BATCH
    # Some models count numbers, not rows of them.
    each = each if each <= LARGEST_IMAGE else each // attribute(config, "hidden_size", default=64)
    filled = torch.full((BATCH, each), word)
    return inputs | {"input_ids": torch.cat((filled, inputs["input_ids"]), 1)}


def attribute(config, *names, default):
    """The first of the attributes that the configuration or a part of it has."""
    parts = [config, *(v for v in vars(config).values() if isinstance(v, PreTrainedConfig))]
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def candidates(model, config):
    """Inputs that the model might take, the likeliest first."""
    accepted = inspect.signature(model.forward).parameters
    own = torch.Generator().manual_seed(1)

    def words(*shape):
        return torch.randint(SMALLEST_WORD, LARGEST_WORD, shape, generator=own)

    def noise(*shape):
        return torch.randn(shape, generator=own)

    text = {"input_ids": words(BATCH, LENGTH)}
    if "decoder_input_ids" in accepted:
        text["decoder_input_ids"] = words(BATCH, LENGTH // 2)
    if "qformer_input_ids" in accepted:
        text["qformer_input_ids"] = words(BATCH, LENGTH // 2)
    if "bbox" in accepted:
        text["bbox"] = words(BATCH, LENGTH, 4).sort(-1).values
    spoken = {name: value for name, value in text.items() if name == "decoder_input_ids"}
    images = [{"pixel_values": value} for value in _images(config, noise)]
    sounds = [{"input_values": value} for value in _waves(config, noise)]
    sounds += [{"input_features": value} for value in _features(config, noise)]
    whole = [text | image for image in images]
    single = [spoken | value for value in images + sounds]
    read = "input_ids" in accepted and getattr(model, "main_input_name", "") == "input_ids"
    ordered = [*whole, text, *single] if read else [*single, *whole, text]
    for inputs in [*ordered, *_series(config, noise), *_patches(config, accepted, noise)]:
        if all(name in accepted for name in inputs):
            yield inputs


def _series(config, noise):
    """The past of several variables."""
    length = attribute(config, "context_length", default=32)
    past = noise(BATCH, length, attribute(config, "num_input_channels", "input_size", default=1))
    yield {"past_values": past}
    yield {"past_values": past, "past_observed_mask": torch.ones_like(past)}
    yield {"past_values": noise(BATCH, length)}


def _patches(config, accepted, noise):
    """One image of four by four patches, each laid out as one row."""
    side = attribute(config, "patch_size", default=8)
    side = side[0] if isinstance(side, list | tuple) else side
    depth = attribute(config, "temporal_patch_size", default=1)
    row = attribute(config, "num_channels", "in_channels", default=3) * depth * side * side
    first = next(iter(accepted))
    yield {first: noise(16, row), "grid_thw": torch.tensor([[1, 4, 4]])}
    yield {"hidden_states": noise(BATCH, LENGTH, attribute(config, "hidden_size", default=64))}
    yield {"inputs_embeds": noise(BATCH, LENGTH, attribute(config, "hidden_size", default=64))}


def _images(config, noise):
    size = attribute(config, "image_size", "img_size", "input_size", default=32)
    high, wide = size if isinstance(size, list | tuple) else (size, size)
    channels = attribute(config, "num_channels", "in_channels", "in_chans", default=3)
    frames = attribute(config, "num_frames", "frames_per_clip", default=2)
    yield noise(BATCH, channels, high, wide)
    yield noise(BATCH, frames, channels, high, wide)
    yield noise(BATCH, channels, 64, 64)
    yield noise(BATCH, channels, 224, 224)


def _waves(config, noise):
    bins = attribute(config, "num_mel_bins", default=80)
    frames = attribute(config, "max_length", default=100)
    yield noise(BATCH, 4000)
    yield noise(BATCH, 1, 4000)
    yield noise(BATCH, frames, bins)


def _features(config, noise):
    bins = attribute(
        config, "num_mel_bins", "feature_size", "input_feat_per_channel", "feature_dim", default=80
    )
    frames = 2 * attribute(config, "max_source_positions", default=50)
    yield noise(BATCH, bins, frames)
    yield noise(BATCH, 100, bins)
    yield noise(BATCH, bins, 100)
