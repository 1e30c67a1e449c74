"""docs/images: the pages that tutorials show, from runs of their commands, in Chromium.

python docs/makers/screenshots.py [NAME...] makes them anew; it needs chromium on PATH.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = ROOT / "docs" / "images"
BYTES_MAX: Final = 100_000
_BROWSER: Final = "chromium"


@dataclass(frozen=True)
class Screenshot:
    """A page as it first opens.

    Attributes:
        command: words of trnsim that write it, in a folder with the examples.
        page: the file that they write.
        height: pixels of the window.
        width: likewise.
    """

    command: str
    page: str
    height: int = 900
    width: int = 1200


SCREENSHOTS: Final = {
    "kernel": Screenshot("run examples/matmul_steps.py --report shot 1", "shot/step1.html"),
    "model": Screenshot("compile examples/encoder.py --report shot.html", "shot.html"),
    "training-step": Screenshot("run examples/train_loop.py --report shot", "shot/step.html"),
    "jax-step": Screenshot("run examples/train_jax.py --report shot", "shot/step.html"),
    "plan": Screenshot(
        "plan train llama-3.1-8b --on trn2,p5en --tokens 10B --budget 4 --report shot",
        "shot/page.html",
    ),
    "job": Screenshot("job check examples/jobs/train.sbatch --report shot", "shot/page.html", 700),
}


def taken(shot: Screenshot, image: Path) -> None:
    """Run a command and write what its page looks like to `image`."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")
        words = [sys.executable, "-m", "trnsim", *shot.command.split()]
        # A finding is an answer with a status of its own.
        ended = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)  # noqa: S603  a line of the table
        page = Path(folder) / shot.page
        if not page.exists():
            raise RuntimeError(f"trnsim {shot.command}: no {shot.page}\n{ended.stderr}")
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        window = (f"--window-size={shot.width},{shot.height}", "--virtual-time-budget=8000")
        profile = f"--user-data-dir={folder}/user"
        command = [_BROWSER, *options, *window, profile, f"--screenshot={image}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603  likewise


def main(names: list[str]) -> None:
    """Make the images of these names, or all."""
    IMAGES.mkdir(exist_ok=True)
    for name in names or SCREENSHOTS:
        image = IMAGES / f"{name}.webp"
        taken(SCREENSHOTS[name], image)
        sys.stdout.write(f"{image.relative_to(ROOT)} {image.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
