"""An API of Kubernetes in this process: pods, nodes and bindings, with the faults of networks.

It stores a binding as Kubernetes 1.20.2 does (pkg/registry/core/pod/storage/storage.go): node and
annotations at once, refused with 409 for a pod that is bound.
"""

import json
import threading
import time
from contextlib import contextmanager
from copy import deepcopy
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "sesame"  # noqa: S105  of no cluster


class Objects:
    """Objects of a cluster, and the switches of its faults."""

    def __init__(self):
        self.pods, self.nodes, self.requests = {}, {}, []
        self.version, self.skew_s, self.pad = 10, 0, 0
        self.faults = {}
        self.expiries = 0
        self.before_binding = lambda: None
        self.after_binding = lambda: None
        self.ports = set()
        self.created_events = {}
        self.lock = threading.RLock()

    def node(self, name, instance, devices, cores=0, **annotations):
        capacity = {"aws.amazon.com/neuron": str(devices)}
        if cores:
            capacity["aws.amazon.com/neuroncore"] = str(cores)
        self.nodes[name] = {
            "metadata": {
                "name": name,
                "labels": {"node.kubernetes.io/instance-type": instance},
                "annotations": annotations,
            },
            "status": {"capacity": capacity},
        }
        return self.nodes[name]

    def pod(self, name, *demands, initial=(), **fields):
        """A pod whose containers each request (count, resource)."""
        self.version += 1
        pod = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{self.version}"},
            "spec": {
                "containers": [container(f"c{at}", *each) for at, each in enumerate(demands)],
                "initContainers": [container(f"i{at}", *each) for at, each in enumerate(initial)],
            },
            "status": {"phase": "Pending"},
        }
        for key, value in fields.items():
            pod[key].update(value)
        self.pods[f"default/{name}"] = pod
        return pod


def container(name, count=0, resource="neuron"):
    quantity = {f"aws.amazon.com/{resource}": str(count)} if count else {}
    return {"name": name, "resources": {"limits": quantity, "requests": quantity}}


class Handler(BaseHTTPRequestHandler):
    objects: Objects
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):  # noqa: ARG002  the library's name
        return formatdate(time.time() + self.objects.skew_s, usegmt=True)

    def answer(self, value, status=200):
        sent = json.dumps(value).encode() if not isinstance(value, bytes) else value
        self.send_response(status)
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def refuse(self, status, reason, message=""):
        self.answer(
            {"kind": "Status", "code": status, "reason": reason, "message": message}, status
        )

    def handle_any(self):
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        parts = [unquote(part) for part in url.path.split("/")[3:]]
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.objects.requests.append((self.command, url.path, query, body))
        self.objects.ports.add(self.client_address[1])
        fault = self.objects.faults.get((self.command, parts[-1])) or self.objects.faults.get("all")
        if fault == "drop":
            self.close_connection = True
            return
        if isinstance(fault, bytes):
            self.answer(fault)
            return
        if fault:
            self.refuse(*fault)
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.refuse(401, "Unauthorized")
            return
        with self.objects.lock:
            self.serve(parts, query, body)

    do_GET = do_POST = do_PATCH = handle_any  # noqa: N815  the library's names

    def serve(self, parts, query, body):
        here = self.objects
        if parts == ["nodes"]:
            self.listed(list(here.nodes.values()), query)
        elif parts[0] == "nodes":
            if self.headers.get("Content-Type", "").startswith("application/strategic"):
                body = by_type(here.nodes.get(parts[1]), body)
            self.one(here.nodes, parts[1], body)
        elif parts[-1] == "events":
            if body["metadata"]["name"] in here.created_events:
                self.refuse(409, "AlreadyExists")
            else:
                here.created_events[body["metadata"]["name"]] = body
                self.answer(body, 201)
        elif parts == ["pods"]:
            self.listed([pod for pod in here.pods.values() if selected(pod, query)], query)
        elif parts[-1] == "binding":
            self.bind(f"{parts[1]}/{parts[3]}", body)
        else:
            self.one(here.pods, f"{parts[1]}/{parts[3]}", body)

    def one(self, objects, name, body):
        if name not in objects:
            self.refuse(404, "NotFound", f'"{name}" not found')
        else:
            merge(objects[name], body or {})
            self.answer(objects[name])

    def listed(self, objects, query):
        start, limit = int(query.get("continue", 0)), int(query.get("limit", 500))
        if start and self.objects.expiries:
            self.objects.expiries -= 1
            self.refuse(410, "Expired", "The provided continue parameter is too old")
            return
        page = deepcopy(objects[start : start + limit])
        for each in page:
            each["pad"] = "x" * self.objects.pad
        more = str(start + limit) if start + limit < len(objects) else ""
        metadata = {"resourceVersion": str(self.objects.version), "continue": more}
        self.answer({"items": page, "metadata": metadata})

    def bind(self, name, body):
        self.objects.before_binding()
        pod = self.objects.pods.get(name)
        if pod is None:
            self.refuse(404, "NotFound", f'pods "{name}" not found')
        elif pod["spec"].get("nodeName"):
            self.refuse(409, "Conflict", "already assigned to node")
        else:
            pod["spec"]["nodeName"] = body["target"]["name"]
            written = body["metadata"].get("annotations") or {}
            pod["metadata"].setdefault("annotations", {}).update(written)
            self.objects.after_binding()
            if not self.wfile.closed:
                self.answer({"kind": "Status", "status": "Success"}, 201)


def selected(pod, query):
    selector = query.get("fieldSelector", "")
    node = pod["spec"].get("nodeName", "")
    if selector == "spec.nodeName!=":
        return bool(node)
    return not selector or selector == f"spec.nodeName={node}"


def merge(target, patch):
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def by_type(node, patch):
    """A patch of conditions, with the node's own of other types."""
    conditions = patch["status"]["conditions"]
    types = {each["type"] for each in conditions}
    before = ((node or {}).get("status") or {}).get("conditions") or []
    return {"status": {"conditions": [*(c for c in before if c["type"] not in types), *conditions]}}


@contextmanager
def served():
    objects = Objects()
    handler = type("Bound", (Handler,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield objects, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
