"""Images in tiles, each of which an image encoder reads by itself: LLaVA-NeXT, InternVL, Idefics3.

The plan's image is a square, cut into squares of the size that the encoder reads; the whole image,
made as small as a tile, is one more. Beside tokens of tiles, a prompt has some that end rows of an
image or mark its tiles. A configuration states no size of images, so ``image_size`` beside
``vision_config`` does; without it, the image is the largest that is not made smaller.

Source: modeling_*.py, processing_*.py and image_processing_*.py of transformers 5.23.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from trnsim.workload.architecture import Projection, Tower
from trnsim.workload.families import intern_chats
from trnsim.workload.families.keys import ConfigKeys

_GRID: Final = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
"""Default heights and widths of LLaVA-NeXT's images."""


@dataclass(frozen=True)
class Tiling:
    """A family's tiles.

    Attributes:
        marks: tokens of a prompt beside those of tiles, by tiles along a side and rows of each.
        encoder: ``model_type`` of the image encoder; "" for several.
    """

    marks: Callable[[int, int], int]
    encoder: str = ""


def _marks_of_idefics(side: int, _rows: int) -> int:
    """Delimiters of the whole image, a mark and a name for each tile, a newline behind each row."""
    return 3 + (side * (2 * side + 1) if side > 1 else 0)


ROWS: Final = {
    # The tiles together have one vector more at the end of each of their rows.
    "llava_next": Tiling(lambda side, rows: side * rows),
    "idefics3": Tiling(_marks_of_idefics, "idefics3_vision"),
    "smolvlm": Tiling(_marks_of_idefics, "smolvlm_vision"),
    **dict.fromkeys(
        ("internvl", intern_chats.NAME), Tiling(lambda _side, _rows: 2, "internvl_vision")
    ),
}
"""Tilings by ``model_type``."""
ENCODERS: Final = {name: tiling.encoder for name, tiling in ROWS.items() if tiling.encoder}
"""``model_type`` of the encoder by that of its family, if the family has its own encoder."""
_INTERN: Final = ("internvl", intern_chats.NAME)
_USUAL_SIDE: Final = 4
"""Tiles along a side of Idefics3's images, which are enlarged to it: ``size`` of its processor."""
_MOST_PIXELS: Final = 4096
"""Most pixels of Idefics3's images along a side: MAX_IMAGE_SIZE of its processor."""
_MOST_TILES: Final = 12
"""Most tiles of InternVL's images: ``max_patches`` of its processor."""


def cut(keys: ConfigKeys, model_type: str, tower: Tower) -> Tower:
    """The image encoder of a tile, applied to an image of several tiles.

    `tower.output_projections` has its projections.

    Raises:
        BadInput: the family's processor cuts no image of this size into tiles.
    """
    legal, default_size = _sizes(keys, model_type, tower.image)
    size = keys.whole("image_size", default=default_size)
    if size not in legal:
        sizes_text = ", ".join(map(str, legal))
        raise keys.refuse("image_size", size, sizes_text, "tiles fill a square image")
    side = size // tower.image
    # LLaVA-NeXT has the small whole beside a single tile, too, and a vector that ends rows.
    is_next = model_type == "llava_next"
    has_whole = model_type != intern_chats.NAME or intern_chats.has_whole(keys)
    tiles = side**2 + ((side > 1 and has_whole) or is_next)
    tile_tokens = round(tower.tokens * tower.output_projections[-1].rows)
    marks = ROWS[model_type].marks(side, math.isqrt(tile_tokens))
    return replace(
        tower,
        tiles=tiles,
        image=size,
        prompt_tokens=tiles * tile_tokens + marks,
        head_parameters=tower.head_parameters + is_next * tower.output_projections[-1].outputs,
    )


def _sizes(keys: ConfigKeys, model_type: str, tile: int) -> tuple[list[int], int]:
    """Legal pixels of an image along a side, and those of the plan's image by default."""
    if model_type == "llava_next":
        legal = _squares(keys, tile)
        return legal, max(legal)
    is_intern = model_type in _INTERN
    longest_side = math.isqrt(_MOST_TILES) if is_intern else max(1, _MOST_PIXELS // tile)
    if model_type == intern_chats.NAME:
        longest_side = intern_chats.longest_side(keys)
    default_side = longest_side if is_intern else min(longest_side, _USUAL_SIDE)
    return [tile * side for side in range(1, longest_side + 1)], tile * default_side


def _squares(keys: ConfigKeys, tile: int) -> list[int]:
    """Sides of the squares among the sizes to which LLaVA-NeXT enlarges an image."""
    name, squares = "image_grid_pinpoints", []
    for size in keys.items(name, list, "[height, width]") or _GRID:
        match size:
            case [int() as height, int() as width]:
                if min(height, width) < 1 or height % tile or width % tile:
                    raise keys.refuse(name, size, f"multiples of {tile}", "tiles fill an image")
                squares += [height] if height == width else []
            case _:
                raise keys.refuse(name, size, "[height, width]", "sizes of images are pixels")
    if not squares:
        sizes = keys.config.get(name)
        raise keys.unknown(name, sizes, "a list with a square", "the plan's image is a square")
    return squares


def projections(
    keys: ConfigKeys, model_type: str, tower: Tower, hidden: int
) -> tuple[Projection, ...]:
    """Projections of InternVL and Idefics3: squares of neighbouring tokens are joined to one.

    Raises:
        BadInput: such squares do not fill a tile.
    """
    is_intern = model_type in _INTERN
    side = _joined_side(keys, math.isqrt(tower.tokens), is_intern=is_intern)
    width = tower.hidden * side**2
    has_class = is_intern and keys.text("vision_feature_select_strategy", "default") == "default"
    share = (tower.tokens - has_class) / tower.tokens / side**2
    if not is_intern:
        return (Projection("projection", width, hidden, rows=share),)
    # A norm of `width` elements, with biases, is before them.
    return (
        Projection("first projection", width, hidden, 2 * width + hidden, rows=share),
        Projection("second projection", hidden, hidden, hidden, rows=share),
    )


def _joined_side(keys: ConfigKeys, rows: int, *, is_intern: bool) -> int:
    """Tokens along a side of a square that becomes one, of `rows` rows of tokens."""
    if not is_intern:
        name, side = "scale_factor", keys.whole("scale_factor", default=2)
    else:
        name, ratio = "downsample_ratio", keys.config.get("downsample_ratio", 0.5)
        if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
            raise keys.refuse(name, ratio, "above 0, up to 1", "it joins tokens")
        side = int(1 / ratio)
    if rows % side:
        sides = [number for number in range(1, rows + 1) if rows % number == 0]
        legal = ", ".join(f"1/{number}" if is_intern else str(number) for number in sides)
        why = f"it joins squares of {rows} x {rows} tokens"
        raise keys.refuse(name, keys.config.get(name), legal, why)
    return side
