"""The refusal of channels that a group of ranks does not have, for implicit permutes."""

from __future__ import annotations

from collections.abc import Sequence

from trnsim.fabric.exchange import rings
from trnsim.isa.collectives.setting import Setting
from trnsim.isa.language.instruction import Instruction


def check_channels(
    instruction: Instruction, setting: Setting, group: Sequence[int], channels: Sequence[int]
) -> None:
    """Refuse a channel for which a group's devices form no ring.

    Args:
        instruction: the instruction, for the error.
        setting: the ranks and their network.
        group: ranks of the replica group.
        channels: numbers of the channels; each uses a ring of its own.
    """
    count = len(rings(setting.fabric, tuple(group)))
    if any(not 0 <= channel < count for channel in channels):
        channel_text = ", ".join(map(str, channels))
        instruction.refuse(
            f"channel {channel_text} of a group of {len(group)} ranks, which has {count} channels; "
            f"legal: 0 to {count - 1}",
            "use fewer channels: a group with all devices of a node has 4, any other 2",
        )
