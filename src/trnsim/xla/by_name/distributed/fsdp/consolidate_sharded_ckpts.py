"""`torch_xla.distributed.fsdp.consolidate_sharded_ckpts`: one file of the files of all ranks.

`python -m torch_xla.distributed.fsdp.consolidate_sharded_ckpts --ckpt_prefix PATH` runs it.

Source: torch_xla 2.9.0, distributed/fsdp/consolidate_sharded_ckpts.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from trnsim.xla.by_name.distributed.fsdp.state_dict_utils import (
    consolidate_sharded_model_checkpoints,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write one file of the shares in the files that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ckpt_prefix", required=True, help="path before the ranks' parts")
    parser.add_argument("--ckpt_suffix", default="*.pth", help="pattern of the ranks' parts")
    parser.add_argument("--save_path", default="", help="file to write")
    options = parser.parse_args(arguments)
    _, path = consolidate_sharded_model_checkpoints(
        options.ckpt_prefix, options.ckpt_suffix, options.save_path
    )
    sys.stdout.write(f"saved consolidated model to {path}\n")


if __name__ == "__main__":
    main()
