"""A device plugin of kubelet for the emulated instance, version v1beta1 of its interface.

Each resource has a socket of its own, with mode 0600, in kubelet's folder of device plugins. A
kubelet that starts removes all sockets there, so the plugin looks for its own and for kubelet's
twice a second, and registers again. It stores no allocation: kubelet does, in its checkpoint, so
nothing is lost where either is killed.

Source: Kubernetes documentation, Device Plugins; the interface's own comments (see `messages`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trnsim.cluster.kubernetes.messages import DEVICE_PLUGIN, grpc, message, message_bytes
from trnsim.cluster.kubernetes.node_devices import ContainerHolding, NodeDevices
from trnsim.cluster.kubernetes.pod_resources import local_channel
from trnsim.cluster.kubernetes.reservations import Reservation, first_reserved
from trnsim.errors import BadInput
from trnsim.instance.state.containers import FOLDER as CONTAINERS
from trnsim.instance.state.folder import LISTENING, STATE_VARIABLE, listen
from trnsim.instance.state.hardware import FOLDER as FAULTS
from trnsim.instance.state.hardware import injected_faults

FOLDER: Final = Path("/var/lib/kubelet/device-plugins")
STATE_IN_CONTAINER: Final = "/run/trnsim/state"
_KUBELET: Final = "kubelet.sock"
_VERSION: Final = "v1beta1"
_POLL_S: Final = 0.5
"""Time between two looks at kubelet's folder and at the devices."""
_REGISTER_TIMEOUT_S: Final = 5.0
_THREADS: Final = 8
_OWNER_UMASK: Final = 0o177
"""The umask under which a socket has the mode 0600."""
_PERMISSIONS: Final = "rw"
_HEALTH: Final = {True: "Healthy", False: "Unhealthy"}
"""Kubelet's words; source: deviceplugin/v1beta1/constants.go."""


@dataclass(frozen=True)
class PluginSettings:
    """The devices of a plugin, and its folders.

    Attributes:
        resources: names of the resources that the plugin offers.
        folder: kubelet's folder of device plugins.
        state: the folder of the instance's state, whose faults make devices unhealthy.
        files: whether containers get the files /dev/neuron*, which must exist on this machine.
        holdings: returns the devices that all containers hold now, from kubelet.
        reserved: function from these holdings to the sets of devices that a scheduler extension
            has chosen and no container holds yet.
        say: prints a line.
    """

    devices: NodeDevices
    resources: tuple[str, ...]
    folder: Path
    state: Path
    files: bool
    holdings: Callable[[], Sequence[ContainerHolding]]
    reserved: Callable[[Sequence[ContainerHolding]], Sequence[Reservation]]
    say: Callable[[str], None]


class DevicePlugin:
    """The plugin of a node."""

    def __init__(self, settings: PluginSettings) -> None:
        self._settings = settings
        self._end = threading.Event()
        self._servers: list[_ResourceServer] = []
        self._registered_with: tuple[int, ...] | None = None
        self._is_waiting = False

    def stop(self) -> None:
        """Make `run` return; its devices leave the node."""
        self._end.set()

    def run(self) -> None:
        """Offer the devices until `stop`, to every kubelet that starts.

        Raises:
            BadInput: a device file is missing, the folder cannot be used or has another plugin, or
                kubelet refuses a resource.
        """
        self._check_files()
        while not self._settings.folder.is_dir() and not self._end.is_set():
            self._say_waiting()
            self._end.wait(_POLL_S)
        if self._end.is_set():
            return
        with _only_plugin(self._settings.folder):
            try:
                while not self._end.is_set():
                    self._look()
                    self._end.wait(_POLL_S)
            finally:
                self._stop_servers()

    def _check_files(self) -> None:
        if not self._settings.files:
            return
        for device in self._settings.devices.instance.devices:
            path = Path(f"/dev/neuron{device.index}")
            if not path.is_char_device():
                raise BadInput(
                    f"there is no device {path} for containers",
                    fix="start kubelet, its container runtime and this command in `trnsim shell`, "
                    "or give containers cores without files: --no-device-files",
                )

    def _look(self) -> None:
        """Register where kubelet is new, or where the sockets are gone."""
        kubelet = _identity(self._settings.folder / _KUBELET)
        if kubelet is None:
            self._registered_with = None
            self._say_waiting()
            return
        has_sockets = bool(self._servers) and all(server.has_socket() for server in self._servers)
        if has_sockets and kubelet == self._registered_with:
            return
        self._stop_servers()
        self._servers = [_ResourceServer(name, self._settings) for name in self._settings.resources]
        if all(self._register(server) for server in self._servers):
            self._registered_with, self._is_waiting = kubelet, False
            names = ", ".join(self._settings.resources)
            self._settings.say(f"registered {names} of {self._settings.devices.instance.name}")

    def _say_waiting(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._settings.say(f"waiting for kubelet at {self._settings.folder / _KUBELET}")

    def _register(self, server: _ResourceServer) -> bool:
        """True if kubelet took a resource; False if it does not answer yet.

        Raises:
            BadInput: kubelet refuses the resource.
        """
        library = grpc()
        request = message(DEVICE_PLUGIN, "RegisterRequest")(
            version=_VERSION,
            endpoint=server.path.name,
            resource_name=server.resource,
            options={"get_preferred_allocation_available": True},
        )
        with local_channel(self._settings.folder / _KUBELET) as channel:
            method = channel.unary_unary(
                DEVICE_PLUGIN.method("Registration", "Register"),
                request_serializer=message_bytes,
                response_deserializer=message(DEVICE_PLUGIN, "Empty").FromString,
            )
            try:
                method(request, timeout=_REGISTER_TIMEOUT_S)
            except library.RpcError as error:
                codes = library.StatusCode
                if error.code() in (codes.UNAVAILABLE, codes.DEADLINE_EXCEEDED):
                    return False
                raise BadInput(
                    f"kubelet refuses {server.resource}: {error.details()}",
                    fix="kubelet must know version v1beta1 of device plugins (Kubernetes 1.20 on)",
                ) from error
        return True

    def _stop_servers(self) -> None:
        for server in self._servers:
            server.stop()
        self._servers = []


class _ResourceServer:
    """The server of one resource.

    Attributes:
        resource: its name.
        path: its socket.
    """

    def __init__(self, resource: str, settings: PluginSettings) -> None:
        self.resource = resource
        self.path = settings.folder / f"trnsim-{resource.rpartition('/')[2]}.sock"
        self._settings = settings
        self._end = threading.Event()
        library = grpc()
        self._server = library.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="trnsim-plugin"),
            options=[("grpc.so_reuseport", 0)],
        )
        self._server.add_generic_rpc_handlers((self._handlers(library),))
        self._listen()
        self._identity = _identity(self.path)

    def _handlers(self, library: Any) -> Any:
        """The methods of the service, with the types of their requests."""
        unary = library.unary_unary_rpc_method_handler
        stream = library.unary_stream_rpc_method_handler
        methods = {
            "GetDevicePluginOptions": (unary, self._options, "Empty"),
            "ListAndWatch": (stream, self._list_and_watch, "Empty"),
            "GetPreferredAllocation": (unary, self._preferred_answer, "PreferredAllocationRequest"),
            "Allocate": (unary, self._allocate, "AllocateRequest"),
            "PreStartContainer": (unary, self._pre_start, "PreStartContainerRequest"),
        }
        return library.method_handlers_generic_handler(
            f"{DEVICE_PLUGIN.package}.DevicePlugin",
            {
                name: handler(
                    method,
                    request_deserializer=message(DEVICE_PLUGIN, request).FromString,
                    response_serializer=message_bytes,
                )
                for name, (handler, method, request) in methods.items()
            },
        )

    def _listen(self) -> None:
        """Begin to serve on a socket that no other user can open.

        Raises:
            BadInput: the socket cannot be made.
        """
        umask = os.umask(_OWNER_UMASK)
        try:
            self.path.unlink(missing_ok=True)
            self._server.add_insecure_port(f"unix:{self.path.absolute()}")
        except (OSError, RuntimeError) as error:
            raise BadInput(
                f"cannot listen at {self.path}: {error}",
                fix="name kubelet's folder of device plugins with --plugins; its path and"
                " the name of a socket must fit into 107 bytes",
            ) from error
        finally:
            os.umask(umask)
        self._server.start()

    def has_socket(self) -> bool:
        """True if the socket on which the server listens still lies at its path."""
        return _identity(self.path) == self._identity

    def stop(self) -> None:
        """End its streams, and remove its socket."""
        self._end.set()
        is_own = self.has_socket()
        self._server.stop(grace=None).wait()
        if is_own:
            self.path.unlink(missing_ok=True)

    def _options(self, _: Any, __: Any) -> Any:
        return message(DEVICE_PLUGIN, "DevicePluginOptions")(
            get_preferred_allocation_available=True
        )

    def _list_and_watch(self, _: Any, context: Any) -> Iterator[Any]:
        """All ids with their health, at once and whenever the health of an id changes."""
        last_health: dict[str, bool] = {}
        while context.is_active() and not self._end.is_set():
            healthy = self._settings.devices.healthy(
                self.resource, injected_faults(self._settings.state)
            )
            if healthy != last_health:
                for name, is_healthy in healthy.items():
                    if is_healthy != last_health.get(name, True):
                        self._settings.say(
                            f"{self.resource} {name} is {_HEALTH[is_healthy].lower()}"
                        )
                last_health = healthy
                yield message(DEVICE_PLUGIN, "ListAndWatchResponse")(
                    devices=[
                        {"ID": name, "health": _HEALTH[is_healthy]}
                        for name, is_healthy in last_health.items()
                    ]
                )
            self._end.wait(_POLL_S)

    def _preferred_answer(self, request: Any, context: Any) -> Any:
        with _answer_errors(context):
            holdings = self._settings.holdings()
            reserved = self._settings.reserved(holdings)
            answers = [
                {"deviceIDs": self._preferred_ids(container_request, holdings, reserved)}
                for container_request in request.container_requests
            ]
            return message(DEVICE_PLUGIN, "PreferredAllocationResponse")(
                container_responses=answers
            )

    def _preferred_ids(
        self, request: Any, holdings: Sequence[ContainerHolding], reserved: Sequence[Reservation]
    ) -> list[str]:
        """The ids that a scheduler extension has chosen, or else a legal set."""
        devices, count = self._settings.devices, request.allocation_size
        available = set(request.available_deviceIDs)
        required_ids = set(request.must_include_deviceIDs)
        per_device = devices.instance.devices[0].cores
        reserved_ids = first_reserved(reserved, self.resource, count, per_device)
        if (
            reserved_ids is not None
            and required_ids <= set(reserved_ids) <= available | required_ids
        ):
            return reserved_ids
        return devices.preferred(self.resource, available, sorted(required_ids), count, holdings)

    def _allocate(self, request: Any, context: Any) -> Any:
        with _answer_errors(context):
            holdings = self._settings.holdings()
            answers = [
                self._allocation(list(container_request.devicesIDs), holdings)
                for container_request in request.container_requests
            ]
            return message(DEVICE_PLUGIN, "AllocateResponse")(container_responses=answers)

    def _allocation(self, names: list[str], holdings: Sequence[ContainerHolding]) -> dict[str, Any]:
        """Files, variables and mounts of a container.

        Raises:
            BadInput: an id is not known, or its hardware is held as another resource.
        """
        devices = self._settings.devices
        holder = devices.conflict(self.resource, names, holdings)
        if holder is not None:
            raise BadInput(
                f"{self.resource} {', '.join(names)} is hardware that {holder.namespace}/"
                f"{holder.pod} holds as {holder.resource} {', '.join(holder.ids)}",
                fix="request the same resource in all pods of a node, or run "
                "`trnsim k8s scheduler-extension`, which counts them together",
            )
        numbers = devices.devices(self.resource, names) if self._settings.files else ()
        # The container's own state has the name of its first id, which no other container has.
        own_name = f"{self.resource.rpartition('/')[2]}-{min(names, key=int)}"
        own_folder = self._settings.state / CONTAINERS / own_name
        _make_empty(own_folder)
        return {
            "envs": {
                **devices.variables(self.resource, names),
                STATE_VARIABLE: STATE_IN_CONTAINER,
            },
            "devices": [
                {
                    "container_path": f"/dev/neuron{number}",
                    "host_path": f"/dev/neuron{number}",
                    "permissions": _PERMISSIONS,
                }
                for number in numbers
            ],
            "mounts": self._mounts(own_folder),
        }

    def _mounts(self, own_folder: Path) -> list[dict[str, Any]]:
        """Mounts of a container: its own state, and read-only in it files of the instance's state.

        So the instance's faults strike programs in the container, and the time of the file
        LISTENING tells these programs whether a monitor reads.
        """
        state = self._settings.state
        listen(state, 0.0)
        (state / FAULTS).mkdir(exist_ok=True)
        shared_folders = [
            {
                "container_path": f"{STATE_IN_CONTAINER}/{name}",
                "host_path": str(state / name),
                "read_only": True,
            }
            for name in (FAULTS, LISTENING)
        ]
        return [
            {"container_path": STATE_IN_CONTAINER, "host_path": str(own_folder)},
            *shared_folders,
        ]

    def _pre_start(self, _: Any, __: Any) -> Any:
        return message(DEVICE_PLUGIN, "PreStartContainerResponse")()


def _make_empty(folder: Path) -> None:
    """Make a folder that only this user can use, without files of a former container.

    Raises:
        BadInput: the folder cannot be made.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        folder.mkdir(mode=0o700)
        (folder / FAULTS).mkdir()
        (folder / LISTENING).touch(mode=0o600)
    except OSError as error:
        raise BadInput(f"cannot make {folder}: {error.strerror}") from error


@contextmanager
def _answer_errors(context: Any) -> Generator[None]:
    """A context whose errors are answers to kubelet, which writes them into events of the pod."""
    try:
        yield
    except BadInput as error:
        advice = f"; fix: {error.fix}" if error.fix else ""
        context.abort(grpc().StatusCode.FAILED_PRECONDITION, f"{error.reason}{advice}")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Numbers that differ for a later file at the same path; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


@contextmanager
def _only_plugin(folder: Path) -> Generator[None]:
    """A context that only one process at a time enters for a folder.

    Raises:
        BadInput: another process is in the context, or there is no such folder.
    """
    from fcntl import LOCK_EX, LOCK_NB, flock  # noqa: PLC0415  not on Windows

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BadInput(
            f"cannot use {folder}: {error.strerror}",
            fix="name kubelet's folder of device plugins with --plugins, and run as its owner",
        ) from error
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise BadInput(
            f"another device plugin of trnsim serves {folder}", fix="end it, or leave it to it"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)
