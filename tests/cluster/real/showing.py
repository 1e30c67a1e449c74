"""What a run shows, line by line, and the logs that it keeps where something fails."""

import shutil
import sys
import tempfile
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

from daemons import ROOT

KEPT = ROOT / "build" / "cluster"


class Report:
    """Lines of a run, each with the seconds since its start."""

    def __init__(self, part):
        self.part, self.began_s = part, time.monotonic()
        print(f"{part}:", flush=True)

    def show(self, text):
        print(f"  {time.monotonic() - self.began_s:6.1f} s  {text}", flush=True)


@contextmanager
def kept_logs(part):
    """A folder for a part, which is removed unless the part fails: then its logs are kept."""
    folder = Path(tempfile.mkdtemp(prefix="trnsim-"))
    try:
        yield folder
    except BaseException:  # noqa: BLE001  also a stop by Ctrl-C keeps the logs
        traceback.print_exc()
        kept = KEPT / part
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder / "logs", kept)
        print(f"  the logs of every daemon: {kept}", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
