"""Names of variables of the environment."""


def test_each_name_is_the_variables_own_but_for_three():
    import torch_xla.core.xla_env_vars as xenv

    names = {name: value for name, value in vars(xenv).items() if name.isupper()}
    assert {name: value for name, value in names.items() if name != value} == {
        "HOST_WORLD_SIZE": "XRT_HOST_WORLD_SIZE",
        "TPU_MESH_CTLER_ADDR": "TPU_MESH_CONTROLLER_ADDRESS",
        "TPU_MESH_CTLER_PORT": "TPU_MESH_CONTROLLER_PORT",
    }
    assert {"PJRT_DEVICE", "WORLD_SIZE", "TPU_NUM_DEVICES"} <= names.keys()
