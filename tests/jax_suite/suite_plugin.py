"""A pytest plugin for JAX's own tests: which case is running, and whether JAX's tests see a CPU.

usage: pytest -p suite_plugin -p ledger --ledger=FILE [--as-cpu] ...

A case that ends the process leaves its name in the ledger. With `--as-cpu` the function by which
JAX's tests ask for their platform answers "cpu": they then skip what they skip there, and no more.
"""

import json
from pathlib import Path


def pytest_addoption(parser):
    parser.addoption("--as-cpu", action="store_true", help="JAX's tests take the platform for cpu")


def pytest_configure(config):
    if config.getoption("--as-cpu"):
        from jax._src import test_util  # noqa: PLC0415  only where it is replaced

        test_util.device_under_test = lambda: "cpu"
    config.pluginmanager.register(Started(config.getoption("--ledger")))


class Started:
    """The plugin, which writes each case's name before it runs."""

    def __init__(self, path):
        self.path = Path(path)

    def pytest_runtest_logstart(self, nodeid):
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"started": nodeid}) + "\n")
