import os
import subprocess
import sys
import time

import pytest

from trnsim.instance.model import instance_model
from trnsim.instance.state import free_cores as free
from trnsim.instance.state.record import ProcessRecord

MODEL = instance_model("trn2.3xlarge", 1)  # 8 cores


def used(*cores, instance="trn2.3xlarge", lnc=1):
    return ProcessRecord(7, "1", "a.py", "torch", "7", instance, lnc, cores, 0.0)


@pytest.mark.parametrize(
    ("records", "number", "expected"),
    [
        ([], 1, (0,)),
        ([], 8, tuple(range(8))),
        ([], 9, None),
        ([used(0, 1, 2)], 3, (3, 4, 5)),
        ([used(0, 1, 2), used(3, 4, 5)], 3, None),
        ([used(0, 1, 2), used(3, 4, 5)], 2, (6, 7)),
        ([used(1), used(4)], 2, (2, 3)),
        ([used(0, instance="trn2.48xlarge"), used(0, lnc=2)], 1, (0,)),
    ],
)
def test_the_first_cores_in_a_row_that_nobody_uses(records, number, expected):
    assert free.free_cores(records, number, MODEL) == expected


@pytest.mark.skipif(sys.platform == "win32", reason="no flock(2)")
def test_others_wait_until_one_has_chosen(tmp_path):
    program = (
        "import sys, time; from pathlib import Path\n"
        "from trnsim.instance.state.free_cores import core_choice\n"
        "with core_choice(Path(sys.argv[1])):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(0.3)\n"
        "    print('done', flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "begun\n"
        with free.core_choice(tmp_path):
            os.set_blocking(other.stdout.fileno(), False)
            assert other.stdout.readline() == "done\n"
    with free.core_choice(tmp_path):  # nothing stays locked
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no flock(2)")
def test_one_that_is_stopped_while_it_chooses_stops_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(free, "_LONGEST_WAIT_S", 0.1)
    with free.core_choice(tmp_path):
        began_s = time.monotonic()
        with free.core_choice(tmp_path):
            assert time.monotonic() - began_s >= 0.1
