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
