import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from trnsim.launch.supervisor import variables

AGENTS = {
    "RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "MASTER_ADDR": "127.0.0.1",
    "TRNSIM_LAUNCH": "{}", "AUTOLOAD": "0", "OTHER": "0",
}  # fmt: skip


def test_a_rank_gets_awss_variables_beside_the_agents():
    launch = {
        "first_core": 8,
        "rank_cores": 1,
        "coordinator_port": 99,
        "restored": {"AUTOLOAD": None, "OTHER": "x"},
    }
    found = variables(AGENTS, launch)
    expected = {
        "NEURON_RT_VISIBLE_CORES": "9",
        "NEURON_RT_NUM_CORES": "1",
        "NEURON_PJRT_PROCESS_INDEX": "5",
        "NEURON_PJRT_PROCESSES_NUM_DEVICES": "1,1,1,1,1,1,1,1",
        "NEURON_RT_ROOT_COMM_ID": "127.0.0.1:99",
        "JAX_COORDINATOR_ADDRESS": "127.0.0.1:99",
        "OTHER": "x",
        "RANK": "5",
    }
    assert expected.items() <= found.items()
    assert not {"TRNSIM_LAUNCH", "AUTOLOAD"} & found.keys()


def test_a_rank_of_several_cores_sees_all_of_them():
    launch = {"first_core": 8, "rank_cores": 4, "coordinator_port": 99, "restored": {}}
    found = variables(AGENTS, launch)
    assert found["NEURON_RT_VISIBLE_CORES"] == "12-15"
    assert found["NEURON_RT_NUM_CORES"] == "4"
    assert found["NEURON_PJRT_PROCESSES_NUM_DEVICES"] == "4,4,4,4,4,4,4,4"


INTERRUPTED = """
import os, signal
from trnsim.launch import supervisor

handle = signal.signal

def handle_late(number, handler):
    os.kill(os.getpid(), signal.SIGTERM)  # the program runs, and its signals have no handler yet
    return handle(number, handler)

signal.signal = handle_late
raise SystemExit(supervisor.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="launches need signals")
def test_a_signal_before_it_can_be_passed_on_reaches_the_program(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        launch = {
            "host": "127.0.0.1", "port": server.getsockname()[1], "token": "", "restart": 0,
            "logs": str(tmp_path), "shown": 0, "first_core": 0, "rank_cores": 1,
            "coordinator_port": 1, "restored": {},
        }  # fmt: skip
        names = ("RANK", "LOCAL_RANK", "GROUP_RANK")
        environment = dict.fromkeys(names, "0") | {"WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        ended = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, "sleep", "30"],
            env=os.environ | environment | {"TRNSIM_LAUNCH": json.dumps(launch)},
            check=False,
            timeout=20,
        )
        connection, _ = server.accept()
        with connection, connection.makefile() as messages:
            *_, last = map(json.loads, messages)
    assert (ended.returncode, last["status"]) == (128 + 15, -15)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has none to delete")
def test_its_module_can_be_imported_where_there_is_no_hangup():
    code = "import signal; del signal.SIGHUP; from trnsim.launch.supervisor import variables"
    subprocess.run([sys.executable, "-c", code], check=True)
