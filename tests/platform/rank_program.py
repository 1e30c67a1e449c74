"""A rank that holds tensors on its device; prints its memory as JSON, and waits.

torchrun --nproc-per-node 8 rank_program.py FOLDER: each writes FOLDER/RANK.json, and ends when
FOLDER/end exists.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch


def main(folder):
    rank = int(os.environ["RANK"])
    device = torch.device("neuron", torch.neuron.current_device())
    # Each rank holds another number of bytes.
    held = torch.ones((rank + 1) * 1024, device=device) + 1
    found = {"pid": os.getpid(), "stats": torch.neuron.memory_stats()}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    while not (folder / "end").exists():
        time.sleep(0.1)
    assert held.sum().item() == 2 * held.numel()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
