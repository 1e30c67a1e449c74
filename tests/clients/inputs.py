"""Random inputs that a model of transformers might take, by the names that it asks for."""

import inspect
import itertools
import re
from dataclasses import dataclass, field

import torch
from sizes import LARGEST_WORD, SMALLEST_WORD, attribute

BATCH, LENGTH = 2, 12
LARGEST_IMAGE = 1024  # words
GRID = 4  # patches along each side of an image that is given as a list of patches
WAVE, LONG_WAVE = 4000, 15360  # samples; the second a multiple of every codec's frame
TIMES = 96  # of a spectrogram: a multiple of every stack of frames


@dataclass(frozen=True)
class Draw:
    """Random words and numbers, the same each time."""

    largest: int = LARGEST_WORD
    own: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(1))

    def words(self, *shape):
        least = min(SMALLEST_WORD, self.largest - 1)
        return torch.randint(least, self.largest, shape, generator=self.own)

    def noise(self, *shape):
        return torch.randn(shape, generator=self.own)


def candidates(model, config):
    """Inputs that the model might take, the likeliest first."""
    accepted = inspect.signature(model.forward).parameters
    draw = Draw(min(LARGEST_WORD, attribute(config, "vocab_size", default=LARGEST_WORD)))
    text = {"input_ids": draw.words(BATCH, LENGTH)}
    if "decoder_input_ids" in accepted:
        text["decoder_input_ids"] = draw.words(BATCH, LENGTH // 2)
    if "qformer_input_ids" in accepted:
        text["qformer_input_ids"] = draw.words(BATCH, LENGTH // 2)
    if "bbox" in accepted:
        text["bbox"] = draw.words(BATCH, LENGTH, 4).sort(-1).values
    spoken = {name: value for name, value in text.items() if name == "decoder_input_ids"}
    images = [{"pixel_values": value} for value in _images(config, draw.noise)]
    sounds = [{"input_values": value} for value in _waves(config, draw.noise)]
    sounds += [{"input_features": value} for value in _features(config, draw.noise)]
    whole = [text | image for image in images]
    single = [spoken | value for value in images + sounds]
    read = "input_ids" in accepted and getattr(model, "main_input_name", "") == "input_ids"
    ordered = [*whole, text, *single] if read else [*single, *whole, text]
    plain = [*ordered, *_series(config, draw.noise), *_patches(config, accepted, draw.noise)]
    for inputs in plain:
        if all(name in accepted for name in inputs):
            yield inputs
    yield from _together(config, accepted, text, Draw(draw.largest))


def _series(config, noise):
    """The past of several variables."""
    length = attribute(config, "context_length", default=32)
    past = noise(BATCH, length, attribute(config, "num_input_channels", "input_size", default=1))
    yield {"past_values": past}
    yield {"past_values": past, "past_observed_mask": torch.ones_like(past)}
    yield {"past_values": noise(BATCH, length)}


def _patches(config, accepted, noise):
    """One image of four by four patches, each laid out as one row."""
    first = next(iter(accepted))
    rows = noise(GRID * GRID, _row(config))
    yield {first: rows, "grid_thw": torch.tensor([[1, GRID, GRID]])}
    yield {"hidden_states": noise(BATCH, LENGTH, attribute(config, "hidden_size", default=64))}
    yield {"inputs_embeds": noise(BATCH, LENGTH, attribute(config, "hidden_size", default=64))}


def _side(config):
    side = attribute(config, "patch_size", default=8)
    return side[0] if isinstance(side, list | tuple) else side


def _colors(config):
    return attribute(config, "num_channels", "in_channels", default=3)


def _row(config):
    """The numbers of one patch."""
    depth = attribute(config, "temporal_patch_size", "patch_temporal", default=1)
    return _colors(config) * depth * _side(config) ** 2


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
    yield noise(BATCH, WAVE)
    yield noise(BATCH, 1, WAVE)
    yield noise(BATCH, frames, bins)


def _bins(config):
    return attribute(
        config, "num_mel_bins", "feature_size", "input_feat_per_channel", "feature_dim", default=80
    )


def _features(config, noise):
    bins = _bins(config)
    frames = 2 * attribute(config, "max_source_positions", default=50)
    yield noise(BATCH, bins, frames)
    yield noise(BATCH, 100, bins)
    yield noise(BATCH, bins, 100)


def _together(config, accepted, text, draw):
    """Inputs of several sorts, with what goes along with them where the model asks for it."""
    needed = {
        name
        for name, parameter in accepted.items()
        if parameter.default is parameter.empty
        and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }
    sights = list(_sights(config, draw))
    sounds = list(_sounds(config, draw))
    both = [a | b for a, b in itertools.product(_waved(sounds), _heard(sounds))]
    moving = [sight for sight in sights if "pixel_values_videos" in sight]
    both += [a | b for a, b in itertools.product(_waved(sounds), moving)]
    alone = [*sights, *sounds, *both, *_pasts(config, draw)]
    extras = {name: v for name, v in _beside(config, draw).items() if name in accepted}
    required = {name: value for name, value in extras.items() if name in needed | DRAWN}
    seen = set()
    for beside in (required, extras):
        for one in [*alone, *(text | part for part in [*alone, {}]), {}]:
            inputs = {name: value for name, value in (one | beside).items() if name in accepted}
            form = tuple(sorted((name, tuple(value.shape)) for name, value in inputs.items()))
            if inputs and needed <= inputs.keys() and form not in seen:
                seen.add(form)
                yield inputs


def _waved(sounds):
    return [sound for sound in sounds if "input_values" in sound]


def _heard(sounds):
    return [sound for sound in sounds if "input_features" in sound]


def _sights(config, draw):
    """Images and videos in the forms that models read, with what says how they are laid out."""
    side, colors, row, number = _side(config), _colors(config), _row(config), GRID * GRID
    grid = torch.tensor([[1, GRID, GRID]])
    where = {"grid_thw": grid, "image_grid_thw": grid, "merge_sizes": torch.tensor([1])}
    where["image_grid_hw"] = grid[:, 1:]
    yield where | {"pixel_values": draw.noise(number, row)}
    yield where | {"pixel_values": draw.noise(number, colors, side, side)}
    merged = attribute(config, "spatial_merge_size", default=1)
    yield where | {"pixel_values": draw.noise(number, side * merged, side * merged, colors)}
    places = torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID))
    shapes = torch.full((BATCH, 2), GRID)
    of_each = {
        "spatial_shapes": shapes,
        "target_sizes": shapes,
        "pixel_attention_mask": torch.ones(BATCH, number, dtype=torch.long),
        "pixel_position_ids": places.expand(BATCH, -1, -1),
    }
    yield of_each | {"pixel_values": draw.noise(BATCH, number, colors * side * side)}
    yield of_each | {"pixel_values": draw.noise(BATCH, colors, side, side * number)}
    yield of_each | {"pixel_values": draw.noise(1, colors, side, side * number * BATCH)}
    rows = draw.noise(BATCH, number, colors * side * side)
    yield {"flattened_patches": torch.cat((places.expand(BATCH, -1, -1), rows), -1)}
    frames = attribute(config, "num_frames", "frames_per_clip", default=2)
    for image in _images(config, draw.noise):
        if image.dim() == 4:
            yield {"pixel_values": image, "prompt_pixel_values": image, "prompt_masks": image}
            yield {"pixel_values_videos": torch.stack([image] * frames, 1)}
    largest = attribute(config, "max_img_size", default=0)
    if largest:
        yield {"pixel_values": draw.noise(BATCH, 2, colors, largest, largest)}
    yield {
        "pixel_values": draw.noise(BATCH, 1, colors, *_images_size(config)),
        "pixel_attention_mask": torch.ones(BATCH, 1, dtype=torch.bool),
    }


def _images_size(config):
    size = attribute(config, "image_size", "img_size", "input_size", default=32)
    return size if isinstance(size, list | tuple) else (size, size)


def _sounds(config, draw):
    """Waves and spectrograms."""
    yield {"input_values": draw.noise(BATCH, 1, LONG_WAVE)}
    yield {"input_values": draw.noise(BATCH, LONG_WAVE)}
    yield {"hidden_states": draw.noise(BATCH, 1, LONG_WAVE)}
    window = 2 * attribute(config, "n_window", default=TIMES // 2)
    forms = [(_bins(config), times) for times in (TIMES, window, TIMES // 2)]
    for bins, times in dict.fromkeys([*forms, (128, TIMES)]):
        whole = torch.ones(BATCH, times, dtype=torch.bool)
        asked = {"input_features_mask": whole, "audio_mel_mask": ~whole}
        yield asked | {"input_features": draw.noise(BATCH, times, bins)}
        yield asked | {"input_features": draw.noise(BATCH, bins, times)}
        yield asked | {"audio_mel": draw.noise(BATCH, times, bins)}
    most = attribute(config, "max_source_positions", default=0)
    if most:
        whole = torch.ones(BATCH, 2 * most, dtype=torch.bool)
        yield {
            "input_features": draw.noise(BATCH, _bins(config), 2 * most),
            "input_features_mask": whole,
        }
    yield {"input_features": draw.noise(BATCH, 1, 10 * TIMES, _bins(config))}


def _pasts(config, draw):
    """The past of one variable with the time of each value, and the times to come."""
    lags = attribute(config, "lags_sequence", default=[0])
    length = attribute(config, "context_length", default=8) + max(lags)
    ahead = attribute(config, "prediction_length", default=8)
    times = attribute(config, "num_time_features", default=0)
    yield {
        "past_values": draw.noise(BATCH, length),
        "past_time_features": draw.noise(BATCH, length, times),
        "past_observed_mask": torch.ones(BATCH, length),
        "future_values": draw.noise(BATCH, ahead),
        "future_time_features": draw.noise(BATCH, ahead, times),
    }


# What a model draws itself where it is not given: here by the CPU, there by the device.
DRAWN = {"noise", "timestep"}


def _beside(config, draw):
    """What goes along with text, images or sounds, by the argument's name."""

    def numbers(*shape, of, default=64):
        return draw.noise(BATCH, *shape, attribute(config, *of, default=default))

    def ones(*shape):
        return torch.ones(*shape, dtype=torch.long)

    channels = getattr(getattr(config, "decoder_config", None), "num_channels", None)
    chunk = attribute(config, "chunk_size", default=LENGTH)
    seen = torch.arange(LENGTH) < attribute(config, "latent_query_num", default=1)
    return {
        "decoder_input_ids": draw.words(BATCH, LENGTH, *([channels] if channels else [])),
        "qformer_input_ids": draw.words(BATCH, LENGTH),
        "task_inputs": draw.words(BATCH, attribute(config, "task_seq_len", default=LENGTH)),
        "visual_feats": numbers(5, of=("visual_feat_dim",)),
        "visual_pos": numbers(5, of=("visual_pos_dim",)),
        "image_embeds_position_mask": seen.expand(BATCH, -1),
        "image_attention_mask": torch.ones(BATCH, LENGTH, 1),
        "is_longer": torch.zeros(BATCH, 1, dtype=torch.bool),
        "states": numbers(LENGTH, of=("state_dim",)),
        "actions": numbers(chunk, of=("act_dim", "max_action_dim")),
        "rewards": draw.noise(BATCH, LENGTH, 1),
        "returns_to_go": draw.noise(BATCH, LENGTH, 1),
        "timesteps": torch.arange(LENGTH).expand(BATCH, -1),
        "state": numbers(of=("max_state_dim",)),
        "noise": numbers(chunk, of=("max_action_dim",)),
        "timestep": draw.noise(BATCH).sigmoid(),
        "query_embeds": numbers(8, of=("hidden_size",)),
        "encoder_hidden_states": numbers(8, of=("encoder_hidden_size", "hidden_size")),
        "noise_embeds": numbers(LENGTH, of=("hidden_size",)),
        "context_hidden_states": numbers(LENGTH, of=("hidden_size",)),
        "inputs": draw.words(BATCH, LENGTH),
        "latents": numbers(LENGTH, of=("hidden_size",)),
        "mm_token_type_ids": torch.zeros(BATCH, LENGTH, dtype=torch.long),
        "classes_input_ids": draw.words(2 * BATCH, LENGTH),
        "classes_attention_mask": ones(2 * BATCH, LENGTH),
        "classes_structure": torch.tensor([2] * BATCH),
        "tasks_input_ids": draw.words(BATCH, LENGTH),
        "tasks_attention_mask": ones(BATCH, LENGTH),
        "marks": torch.tensor([[2, 4]]),
        "num_options": torch.tensor([[2, 2]]),
        "question_type_ids": torch.tensor([[0, 0]]),
    }


def repaired(config, inputs, said):
    """The inputs with what the model said that they lack, if it did."""
    return with_words(config, inputs, said) or _with_width(inputs, said)


def with_words(config, inputs, said):
    """As many words for the image, the video or the sound as the model said that it needs."""
    wanted = re.search(r"(\w+)?[^,:]*tokens: \d+, features:? (\d+)", said)
    sort = (wanted[1] or "image").lower() if wanted else "image"
    names = [f"{sort}_token_id", f"{sort}_token_index", "image_token_id", "image_token_index"]
    word = attribute(config, *names, default=None)
    if not wanted or word is None or "input_ids" not in inputs:
        return None
    each = int(wanted[2]) // BATCH
    # Some models count numbers, not rows of them.
    each = each if each <= LARGEST_IMAGE else each // attribute(config, "hidden_size", default=64)
    filled = torch.full((BATCH, each), word)
    return inputs | {"input_ids": torch.cat((filled, inputs["input_ids"]), 1)}


WIDTHS = (
    r"cannot be multiplied \(\d+x(\d+) and (\d+)x",
    r"normalized_shape=\[()(\d+)\]",
    r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension 2",
)
NUMBERS = (
    "input_features",
    "context_hidden_states",
    "flattened_patches",
    "hidden_states",
    "latents",
)
CHANNELS = r"to have (\d+) channels, but got (\d+) channels"


def _with_width(inputs, said):
    """Numbers as wide as the first product, normalization or convolution wants them."""
    wanted = next((m for m in (re.search(pattern, said) for pattern in WIDTHS) if m), None)
    for name in NUMBERS:
        value = inputs.get(name)
        if value is None or value.dim() != 3:
            continue
        channels = re.search(CHANNELS, said)
        if channels and value.shape[1] == int(channels[2]):
            return inputs | {name: Draw().noise(BATCH, int(channels[1]), value.shape[2])}
        if wanted and name == "flattened_patches":
            rows = Draw().noise(*value.shape[:2], int(wanted[2]))
            return inputs | {name: torch.cat((value[..., :2], rows), -1)}
        if wanted:
            return inputs | {name: Draw().noise(BATCH, value.shape[1], int(wanted[2]))}
    return None
