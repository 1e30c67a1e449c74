"""The plugin of pytest: the fixture `trn`, the mark `trn`, and the file of baselines.

    @pytest.mark.trn(max_us=60, on="trn2")
    def test_softmax(trn):
        run = trn(softmax, x)
        np.testing.assert_allclose(run.outputs, expected, rtol=1e-2)

The fixture runs the kernel on each chip, and fails the test for a race, a time beyond `max_us`, a
kernel without a baseline, and one slower than that. With pytest-xdist the workers send what they
found to the process that started them, which alone writes the file.

pytest imports this file in every project, so it imports trnsim only for tests that use `trn`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from trnsim.gate.session import GateSession
    from trnsim.runs import Run

_MARK: Final = "trn"
_OPTION: Final = "--trn-update"
_INI: Final = "trn_baselines"
_FILE: Final = "trn-baselines.toml"
_WORKER_INPUT: Final = "workerinput"
_WORKER_OUTPUT: Final = "workeroutput"
_RESULT: Final = "trnsim"
"""The key of a worker's result in its output."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --trn-update and the setting of the file of baselines."""
    parser.getgroup("trnsim").addoption(
        _OPTION,
        action="store_true",
        help="Accept the times of kernels: write them to the file of baselines.",
    )
    parser.addini(_INI, "The file of kernels' times, from the root of the project.", default=_FILE)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and keep the state of this session."""
    config.addinivalue_line(
        "markers",
        "trn(max_us, on, baseline): the longest time that passes, the chips, and whether the time "
        "is compared with a baseline, for the fixture trn",
    )
    config.pluginmanager.register(_Plugin(config), "trnsim-session")


@pytest.fixture
def trn(request: pytest.FixtureRequest) -> Callable[..., Run]:
    """A function that runs a kernel on the chips of the mark, checks it, and returns its run."""
    plugin: _Plugin | None = request.config.pluginmanager.get_plugin("trnsim-session")
    if plugin is None:
        raise pytest.UsageError("the plugin of trnsim is not configured")
    return plugin.session.fixture(request.node)


class _Plugin:
    """The plugin in one process of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session: GateSession | None = None
        self._collected_tests: set[str] = set()
        self._uses: set[str] = set()

    @property
    def session(self) -> GateSession:
        """The state of kernels' checks; made at first use."""
        if self._session is None:
            from trnsim.gate.session import GateSession  # noqa: PLC0415  the module says why

            config = self._config
            is_updating = bool(config.getoption(_OPTION))
            self._session = GateSession(self._path, is_updating=is_updating)
        return self._session

    @property
    def _path(self) -> Path:
        return Path(self._config.rootpath, str(self._config.getini(_INI)))

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, _WORKER_INPUT)

    @pytest.hookimpl
    def pytest_sessionstart(self) -> None:
        """Refuse a file of baselines that cannot be read or written, before any test runs.

        Raises:
            pytest.UsageError: it is not legal, or --trn-update cannot write it.
        """
        is_updating = bool(self._config.getoption(_OPTION))
        if self._is_worker or not (is_updating or self._path.exists()):
            return
        from trnsim.errors import BadInput  # noqa: PLC0415  the module says why

        try:
            baselines = self.session.read()
            if is_updating:
                baselines.check_writable()
        except BadInput as error:
            raise pytest.UsageError(str(error)) from None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note all tests of the collected files, before some are deselected."""
        self._collected_tests |= {item.nodeid for item in items}
        self._uses |= {item.nodeid for item in items if _MARK in getattr(item, "fixturenames", ())}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Note a test that passed: a baseline of it that it did not use is stale."""
        yield
        if item.nodeid in self._uses:
            self.session.note_passed(item.nodeid)

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        """Send a worker's result, or write the file."""
        if self._is_worker:
            getattr(self._config, _WORKER_OUTPUT)[_RESULT] = {
                "session": self._session.as_dict() if self._session is not None else {},
                "collected": sorted(self._collected_tests),
            }
        elif self._session is not None:
            self._session.conclude(self._collected_tests, self._narrowed_files())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the result of a worker of pytest-xdist."""
        result = getattr(node, _WORKER_OUTPUT, {}).get(_RESULT, {})
        self._collected_tests |= set(result.get("collected", ()))
        if result.get("session"):
            self.session.take(result["session"])

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which times moved without failing a test, and which baselines have no kernel."""
        lines = self._session.summary() if self._session is not None else []
        if lines:
            terminalreporter.section("trnsim")
            for line in lines:
                terminalreporter.write_line(line)

    def _narrowed_files(self) -> set[str]:
        """Files of which the command line names single tests."""
        arguments: Iterable[str] = map(str, self._config.args)
        narrowed_files = (text.partition("::")[0] for text in arguments if "::" in text)
        return {Path(name).name for name in narrowed_files}
