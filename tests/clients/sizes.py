"""A configuration of transformers cut down to a tiny one, by rules over the names in it.

A rung is one way to do so: `in place`, attribute by attribute, or `remade`, where the class of the
configuration is called anew with smaller arguments and derives from them what it derives.
"""

import dataclasses
import re
from dataclasses import dataclass

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

WORDS, IMAGE, PATCH = 128, 32, 8
SMALLEST_WORD, LARGEST_WORD = 5, 60  # no special token is met by chance

# The first pattern that matches an attribute's whole name says what becomes of it. A number is
# the most that stays of an integer, alone or in a list.
SIZES = (
    (r".*vocab_size(_.*)?|.*_group_vocab|vocabulary_size|num_embeddings", WORDS),
    (r"image_size|img_size|input_size|height|width|.*_resolution|spatial_size", IMAGE),
    (r".*patch_size|spatial_patch_size", PATCH),
    (r"num_frames|frames_per_clip", 2),
    (r".*max_position_embeddings|max_target_positions|n_positions|n_ctx|max_seq_len.*", 256),
    (r".*(num|n)_(key_value|kv)_heads|.*kv_heads", 2),
    (r".*attention_heads|n_heads?|num_heads|.*_n_heads?|.*_num_heads|.*heads", 4),
    (r".*(num|n)_(hidden_|encoder_|decoder_)?(layers|layer|blocks)|n_layers?|.*_layers", 2),
    (r"depths?|.*_depths?|.*num_blocks|layers|.*layer_num|num_repeats|blocks_per_stage", 2),
    (r".*experts_per_tok(en)?|.*top_?k(_experts)?|n_shared_experts|topk_group|n_group", 2),
    (r".*(num|n)_(local_|routed_|total_)?experts|.*num_experts|moe_num_experts", 4),
    (r"(v_|qk_)?head_dim|.*_head_dim|d_kv|attention_head_size|head_size|.*_head_size", 16),
    (r"(q|kv)_lora_rank|.*_lora_rank|lora_r|dt_rank|time_step_rank|.*_rank", 16),
    (r"rotary_dim", 16),
    (r".*(intermediate|inner|ffn|feedforward|mlp|expert).*(size|dim|width)?", 64),
    (r"d_ff|n_inner|ffn_dim|.*_ffn_dim|dim_feedforward", 64),
    (r"conv_dim|tdnn_dim|.*_channels|.*channels_list|stem_.*channels|embedding_dim", 32),
    (r"(.*_)?(hidden_size|d_model|n_embd|embed_dim|dim|width|hidden_dim|embedding_size)", 64),
    (r".*(hidden_sizes|embed_dims|hidden_dims|dims|widths|channels)", 64),
    (r"moe_k", 2),
    (r"num_queries|num_.*_queries|.*query_num|num_latents", 8),
    (r"state_size|ssm_state_size|mamba_d_state", 16),
    (r"num_codebooks", 2),
    (r"(mamba_)?n_groups", 2),
    (r"upsample_groups", 64),
    (r"num_windows", 4),
)
# Color channels, and widths that other attributes must equal, stay.
KEPT = re.compile(
    r"(num|in|out|input)_channels|model_in_dim|spec_size|.*num_labels|backbone_.*|.*kernel.*|.*stride.*"
)
LAYERS = tuple(rule for rule in SIZES if "layers" in rule[0] or "depths" in rule[0])
# Some kinds of layer come only every eighth time.
FEW, MANY = 2, 8
DEEP = tuple((pattern, MANY if (pattern, most) in LAYERS else most) for pattern, most in SIZES)
WORDS_ONLY = SIZES[:1]
SPECIAL = re.compile(r".*(token|_id|index)(_id|_index|s)?")

# What a divided configuration divides: one number for all keeps every sum and every ratio.
WIDTH = re.compile(
    r".*(hidden|channels?|channel_list|width|d_model|embd|filters|latents|feats|(?<!num_)features|_ff\b|ffn)(_.*)?"
    r"|(?!.*(vocab|kernel|patch|image|img|window|pool|shuffle|stack|chunk|stride|dilation)).*(_|\b)(size|sizes)"
    r"|.*(dim|dims|rank|dim_per_stage|lora_r|d_state|d_ssm|d_kv|d_head|inner)|intermediate.*"
)
UNDIVIDED = re.compile(
    r"model_in_dim|spec_size|(num_)?(hidden|encoder|decoder)_layers|num_.*(layers|heads|latents)|.*_act"
)
HEADS = re.compile(r".*heads(_per_stage)?|n_head")
LEAST_WIDTH = 4  # the colors of an image and its mask are no width
DIVISOR = 8
FEATURE_SIZES = re.compile(r".*feature_sizes?")
COEFFICIENTS = re.compile(r"(width|depth)_coefficient")
MULTIPLES = re.compile(r".*intermediate.*")  # grouped products want rows of whole 16 bytes
SHARES = re.compile(r".*shared_layers|first_k_dense_replace|merge_index")  # of the layers
PLACES = re.compile(r".*(layer|hook|index|indices|indexes|attn|attention|blocks).*")


@dataclass(frozen=True)
class Rung:
    """How a configuration is cut down.

    Attributes:
        sizes: the most that stays of each attribute.
        is_remade: whether its class is called anew, and not each attribute changed in place.
        divisor: of every width, instead of a most.
        is_filled: whether attributes that are None, which a user has to give, are given.
    """

    sizes: tuple
    is_remade: bool = False
    divisor: int = 1
    is_filled: bool = False


RUNGS = (
    Rung(SIZES),
    Rung(DEEP),
    Rung(SIZES, is_remade=True),
    Rung(DEEP, is_remade=True),
    Rung(SIZES, is_remade=True, divisor=DIVISOR),
    Rung(SIZES, is_remade=True, is_filled=True),
    Rung(DEEP, is_remade=True, is_filled=True),
    Rung(SIZES, is_remade=True, divisor=DIVISOR, is_filled=True),
    Rung(DEEP, is_remade=True, divisor=DIVISOR, is_filled=True),
    Rung(LAYERS),
    Rung(WORDS_ONLY),
)

# What a user has to give where the configuration's own default is None, the first that matches.
UNSET = (
    (r"vocab_size", WORDS),
    (r"head_dim", lambda config: config.hidden_size // config.num_attention_heads),
    (r"num_key_value_heads", lambda config: config.num_attention_heads),
    (r"n_routed_experts|num_experts|num_local_experts", 4),
    (r"num_experts_per_tok|top_k_experts", 2),
    (r"n_group|topk_group", 1),
    (r"moe_intermediate_size|shared_expert_intermediate_size", 64),
    (r"mlp_layer_types", lambda config: ["dense", *["sparse"] * (config.num_hidden_layers - 1)]),
    (r"attn_layer_indices", [1]),
    (r"prediction_length", 8),
    (r"sliding_window", 8),
    (r"image_token_(id|index)|video_token_(id|index)", LARGEST_WORD + 1),
    (r"pad_token_id", 0),
    (r"layer_types", lambda config: alternating(config, "conv", "full_attention")),
    (r"n_shared_experts", 1),
    (r"clip_qkv", 8.0),
    (r"projector_scale_factors", [1.0]),
    (r"class_order", lambda config: list(range(config.num_labels))),
    (r"video_temporal_patch_size", 2),
    (r"class_thresholds", lambda config: [0.5] * config.num_labels),
    (r"indexer_n_heads", 4),
    (r"indexer_kv_heads", 1),
    (r"indexer_head_dim", 64),
    (r"vocabulary_map", {"<image>": LARGEST_WORD + 1}),
    (r"indexer_budget", 8),
    (r"indexer_compress_ratio", 4),
    (r"downsample_rate", "1/2"),
    (r"deepstack_layer_map", [(0, 0), (1, 1)]),
    (r"default_language", lambda config: config.languages[0]),
)


# What a configuration's class does not have at all, and its model reads.
LACKING = {
    "rope_theta": 10000.0,
    "dropout_rate": 0.0,
    "num_key_value_heads": lambda config: config.num_attention_heads,
    "shared_expert_intermediate_size": 64,
}


# A model that draws on the CPU and on its device too draws other numbers on each.
NOISES = {"noise_scale", "noise_scale_duration"}


def alternating(config, *kinds):
    """A kind for each layer, in turn."""
    return [kinds[place % len(kinds)] for place in range(config.num_hidden_layers)]


def completed(config, said):
    """Whether something that the model read in vain is now in the configuration."""
    wanted = re.search(r"'(\w+)' object has no attribute '(\w+)'", said)
    found = False
    for part in parts_of(config):
        if wanted and type(part).__name__ == wanted[1] and wanted[2] in LACKING:
            value = LACKING[wanted[2]]
            setattr(part, wanted[2], value(part) if callable(value) else value)
            found = True
        kinds = part.__dict__.get("layer_types") or ()
        if said.strip("'") in kinds and said.strip("'") not in (part.rope_parameters or {}):
            ordinary = {"rope_type": "default", "rope_theta": 10000.0}
            part.rope_parameters = dict.fromkeys(kinds, ordinary)
            found = True
    return found


def parts_of(config):
    """The configuration and its parts, and theirs."""
    yield config
    for value in vars(config).values():
        if isinstance(value, PreTrainedConfig):
            yield from parts_of(value)


def tiny_config(kind, rung):
    """The default configuration of an architecture, cut down."""
    config = CONFIG_MAPPING[kind]()
    ids = iter(range(WORDS - 1, LARGEST_WORD, -1))
    made = remade(config, rung, ids) if rung.is_remade else shrink(config, rung.sizes, ids)
    for part in parts_of(made):
        for name in vars(part).keys() & NOISES:
            setattr(part, name, 0.0)
    return made


def shrink(config, rules, ids):
    """`config` with its sizes cut down in place, and so those of its parts."""
    own = config.__dict__
    heads, groups = own.get("num_attention_heads"), own.get("num_key_value_heads")
    seen, kinds = {}, own.get("layer_types")
    for name, value in list(own.items()):
        if isinstance(value, PreTrainedConfig):
            setattr(config, name, shrink(without_timm(value), rules, ids))
        elif not name.startswith("_"):
            smaller = shrunk(name, value, rules, ids, seen)
            if smaller is not value:
                setattr(config, name, smaller)
    if isinstance(kinds, list) and rules is not WORDS_ONLY:
        few = kinds[:MANY] if rules is DEEP else list(dict.fromkeys(kinds))
        config.layer_types, config.num_hidden_layers = few, len(few)
    if rules in (SIZES, DEEP):
        fit_together(config, is_grouped=heads != groups)
    return config


def remade(config, rung, ids):
    """A configuration of the same class, from its arguments cut down.

    An argument whose default is None was derived from others, and is so again; where that gives
    the number that it gave before, it is a constant of the class, and is cut down too.
    """
    own, seen = config.__dict__, {}
    arguments, derived = {}, {}
    for field in dataclasses.fields(config):
        name, value = field.name, own.get(field.name)
        if isinstance(value, PreTrainedConfig):
            arguments[name] = remade(without_timm(value), rung, ids)
        elif name in own and not name.startswith("_"):
            into = derived if field.default is None and value is not None else arguments
            into[name] = (value, argument(config, name, rung, ids, seen))
    given = {n: v if isinstance(v, PreTrainedConfig) else v[1] for n, v in arguments.items()}
    given |= beyond(config)
    try:
        made = type(config)(**given)
        same = [name for name, (old, _) in derived.items() if getattr(made, name, None) == old]
    except Exception:  # noqa: BLE001  constants of the class that do not go with smaller arguments
        same = list(derived)
    if same:
        given |= {name: derived[name][1] for name in same}
        made = type(config)(**given)
    if rung.is_filled:
        made = type(config)(**(given | unset(made)))
    keep_outputs(made, config)
    heads, groups = own.get("num_attention_heads"), own.get("num_key_value_heads")
    return fit_together(made, is_grouped=heads != groups)


def beyond(config):
    """What whoever made the configuration gave beyond its class's arguments."""
    known = vars(type(config)()).keys() | {field.name for field in dataclasses.fields(config)}
    return {name: value for name, value in vars(config).items() if name not in known}


def argument(config, name, rung, ids, seen):
    """An argument of the configuration's class, cut down."""
    value = config.__dict__[name]
    of_layers = by_depth(config, name, MANY if rung.sizes is DEEP else FEW)
    if of_layers is not None:
        smaller = of_layers
    elif COEFFICIENTS.fullmatch(name):
        smaller = min(value, 1.0)
    elif name == "hidden_dim" and hasattr(config, "width_coefficient"):
        smaller = int(value / max(config.width_coefficient, 1.0))
    elif FEATURE_SIZES.fullmatch(name):
        smaller = divided(value, shrinkage(config))
    elif rung.divisor > 1 and WIDTH.fullmatch(name) and not UNDIVIDED.fullmatch(name):
        smaller = divided(value, rung.divisor, 4 if MULTIPLES.fullmatch(name) else 1)
    elif HEADS.fullmatch(name):
        is_grouped = value != config.__dict__.get("num_attention_heads")
        like = name if is_grouped else "num_attention_heads"
        smaller = value if rung.divisor > 1 else power_of_two(value, dict(rung.sizes), like)
    else:
        smaller = shrunk(name, value, rung.sizes, ids, seen)
    return smaller


def by_depth(config, name, few):
    """What becomes of an argument that counts layers, or names some of them; else None."""
    value, layers = config.__dict__[name], config.__dict__.get("num_hidden_layers")
    if not isinstance(layers, int):
        return None
    if name == "num_hidden_layers":
        return min(value, max(few, len(getattr(config, "_out_indices", None) or ())))
    few = min(few, layers)
    if SHARES.fullmatch(name) and isinstance(value, int):
        return value * few // layers
    if isinstance(value, list | tuple) and value:
        if len(value) == layers > few:
            return value[:few]
        if PLACES.fullmatch(name) and all(_is_place(part, layers) for part in value):
            return type(value)(part if part < 0 else part * few // layers for part in value)
    return None


def shrinkage(config):
    """How many times fewer patches there are along a side of the image."""
    image = attribute(config, "image_size", default=IMAGE)
    image = image[0] if isinstance(image, list | tuple) else image
    patch = attribute(config, "patch_size", default=0)
    # Without patches an encoder's stride is twice our patch: it wants the next larger image.
    times = image // patch // (IMAGE // PATCH) if patch > PATCH else image // (2 * IMAGE)
    return max(times, 1)


def _is_place(value, layers):
    return type(value) is int and -layers <= value <= layers


def divided(value, divisor, multiple=1):
    """Every integer in it by the divisor, but for those that are no widths."""
    if type(value) is int and value > LEAST_WIDTH:
        return max(value // divisor // multiple * multiple, 1)
    if isinstance(value, list | tuple):
        return type(value)(divided(part, divisor, multiple) for part in value)
    return value


def power_of_two(value, sizes, name):
    """The most heads that divide a width which is a power of two."""
    if isinstance(value, list | tuple):
        return type(value)(power_of_two(part, sizes, name) for part in value)
    if type(value) is not int or value < 1:
        return value
    most = next((most for pattern, most in sizes.items() if re.fullmatch(pattern, name)), value)
    return 1 << (min(value, most).bit_length() - 1)


def unset(config):
    """What a user has to give, of the class's arguments that are still None."""
    found = {}
    for field in dataclasses.fields(config):
        if config.__dict__.get(field.name) in (None, ()):
            values = [value for pattern, value in UNSET if re.fullmatch(pattern, field.name)]
            for value in values[:1]:
                found[field.name] = value(config) if callable(value) else value
    return found


def keep_outputs(made, config):
    """A backbone gives as many outputs as before, from the last of its layers."""
    before, stages = getattr(config, "_out_indices", None), getattr(made, "stage_names", None)
    if before and stages:
        is_as_deep = len(stages) == len(config.stage_names)
        made.out_indices = list(before) if is_as_deep else list(range(len(stages)))[-len(before) :]


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
    return config


def without_timm(config):
    """A ResNet of transformers' own for one of the package timm, with as many outputs."""
    if not config.model_type.startswith("timm"):
        return config
    number = len(getattr(config, "out_indices", None) or (4,))
    stages = [f"stage{place}" for place in range(5 - min(number, 4), 5)]
    return CONFIG_MAPPING["resnet"](out_features=stages, layer_type="basic")


def has_timm(config):
    """Whether a part of the configuration is for a model of the package timm."""
    parts = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    return config.model_type.startswith("timm") or any(has_timm(part) for part in parts)


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
    width = getattr(config, "head_dim", None)
    if not width and hasattr(config, "hidden_size"):
        width = config.hidden_size // config.num_attention_heads
    if not width:
        return parameters
    half = int(width * parameters.get("partial_rotary_factor", 1)) // 2
    third = (half + 1) // 3
    return parameters | {"mrope_section": [third, third, half - 2 * third]}


def attribute(config, *names, default):
    """The first of the attributes that the configuration or a part of it has."""
    parts = [config, *(v for v in vars(config).values() if isinstance(v, PreTrainedConfig))]
    for name in names:
        for part in parts:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default
