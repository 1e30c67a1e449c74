"""A kubelet as device plugins see it, as a program: one command of JSON a line, one answer a line.

Its messages are read and written by the numbers of their fields, as the interface's .proto files
have them, and share no code with trnsim.

usage: fake_kubelet.py FOLDER POD_RESOURCES_SOCKET
"""

import json
import sys
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

WAIT_S = 10.0


def encoded(*fields):
    """The message with `(number, value)`: texts, whole numbers, and messages as bytes."""
    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            content = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(content)) + content)
    return b"".join(parts)


def varint(value):
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def decoded(content):
    """The values of each field number."""
    values, at = defaultdict(list), 0
    while at < len(content):
        key, at = read_varint(content, at)
        value, at = read_varint(content, at)
        if key & 7 == 2:
            value, at = content[at : at + value], at + value
        values[key >> 3].append(value)
    return values


def read_varint(content, at):
    value = shift = 0
    while True:
        value |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not content[at - 1] & 0x80:
            return value, at


def texts(values):
    return [value.decode() for value in values]


class Kubelet:
    def __init__(self, folder, pod_resources):
        self.folder, self.pod_resources = Path(folder), Path(pod_resources)
        self.registered, self.health, self.channels = {}, {}, {}
        self.held, self.refusal, self.servers = [], "", []
        self.changed = threading.Condition()

    def start(self, refusal=""):
        """Start as kubelet does: all but its checkpoint is removed from the folder."""
        self.refusal = refusal
        for path in self.folder.iterdir():
            if path.name != "kubelet_internal_checkpoint":
                path.unlink()
        self.pod_resources.unlink(missing_ok=True)
        methods = (
            (self.folder / "kubelet.sock", "v1beta1.Registration", "Register", self.register),
            (self.pod_resources, "v1.PodResourcesLister", "List", self.list_pods),
        )
        for path, service, name, method in methods:
            server = grpc.server(ThreadPoolExecutor(4))
            handler = grpc.unary_unary_rpc_method_handler(method)
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, {name: handler}),)
            )
            server.add_insecure_port(f"unix:{path}")
            server.start()
            self.servers.append(server)
        return sorted(path.name for path in self.folder.iterdir())

    def stop(self):
        """End without a word to plugins; sockets stay, as those of a killed process."""
        for channel in self.channels.values():
            channel.close()
        for server in self.servers:
            server.stop(None).wait()
        self.registered, self.health, self.channels, self.servers = {}, {}, {}, []

    def register(self, request, context):
        if self.refusal:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refusal)
        fields = decoded(request)
        version, endpoint, resource = (texts(fields[number])[0] for number in (1, 2, 3))
        options = dict(decoded(fields[4][0])) if fields[4] else {}
        channel = grpc.insecure_channel(f"unix:{self.folder / endpoint}")
        self.channels[resource] = channel
        threading.Thread(target=self.follow, args=(resource, channel), daemon=True).start()
        with self.changed:
            self.registered[resource] = {
                "version": version, "endpoint": endpoint, "options": options,
            }  # fmt: skip
            self.changed.notify_all()
        return b""

    def follow(self, resource, channel):
        try:
            for answer in channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b""):
                devices = [decoded(device) for device in decoded(answer)[1]]
                with self.changed:
                    self.health[resource] = {
                        texts(device[1])[0]: texts(device[2])[0] for device in devices
                    }
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):
            with self.changed:
                self.health[resource] = {}
                self.changed.notify_all()

    def list_pods(self, _, __):
        return b"".join(
            encoded((1, encoded((1, pod), (2, namespace), (3, encoded(
                (1, container), (2, encoded((1, resource), *((2, name) for name in ids))),
                (9, "of a later version"),
            )))))
            for namespace, pod, container, resource, ids in self.held
        )  # fmt: skip

    def hold(self, held):
        self.held = held

    def wait(self, resources):
        """What is registered, as soon as these resources are and their devices are listed."""
        with self.changed:
            self.changed.wait_for(
                lambda: all(self.health.get(resource) for resource in resources), WAIT_S
            )
            return self.registered

    def wait_health(self, resource, unhealthy):
        """Seconds until exactly these devices of a resource are unhealthy, and their words."""
        began_s = time.monotonic()

        def is_so():
            health = self.health.get(resource, {})
            return health and {name for name in health if health[name] != "Healthy"} == {*unhealthy}

        with self.changed:
            self.changed.wait_for(is_so, WAIT_S)
            return time.monotonic() - began_s, self.health.get(resource)

    def options(self, resource):
        answer = self.channels[resource].unary_unary("/v1beta1.DevicePlugin/GetDevicePluginOptions")
        return dict(decoded(answer(b"")))

    def preferred(self, resource, available, needed, count):
        request = encoded(*((1, name) for name in available), *((2, name) for name in needed),
                          (3, count))  # fmt: skip
        answer = self.call(resource, "GetPreferredAllocation", encoded((1, request)))
        return answer if isinstance(answer, str) else texts(decoded(answer[1][0])[1])

    def allocate(self, resource, ids):
        request = encoded((1, encoded(*((1, name) for name in ids))))
        answer = self.call(resource, "Allocate", request)
        if isinstance(answer, str):
            return answer
        fields = decoded(answer[1][0])
        pairs = [decoded(pair) for pair in fields[1]]
        return {
            "envs": {texts(pair[1])[0]: texts(pair[2])[0] for pair in pairs},
            "mounts": [
                [*texts(mount[1] + mount[2]), bool(mount[3])] for mount in map(decoded, fields[2])
            ],
            "devices": [
                texts(device[1] + device[2] + device[3]) for device in map(decoded, fields[3])
            ],
        }

    def call(self, resource, name, request):
        method = self.channels[resource].unary_unary(f"/v1beta1.DevicePlugin/{name}")
        try:
            return decoded(method(request, timeout=WAIT_S))
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"


def main():
    kubelet = Kubelet(*sys.argv[1:])
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(kubelet, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
