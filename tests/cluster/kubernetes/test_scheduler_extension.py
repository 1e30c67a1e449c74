"""The extension against a fake API, and its placements against an oracle that reads pods alone."""

import threading
import time
from random import Random

import pytest
from fake_api import Objects
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.cluster.kubernetes import scheduler_extension
from trnsim.cluster.kubernetes.api import ApiDown, ApiRefused
from trnsim.cluster.kubernetes.scheduler_extension import NO_ROOM, SchedulerExtension
from trnsim.errors import BadInput


class Local:
    """An API without a network, for many steps."""

    def __init__(self, objects):
        self.objects, self.server, self.skew_s = objects, "local", 0.0

    def list(self, path, fieldSelector=""):
        if path.endswith("nodes"):
            return list(self.objects.nodes.values())
        node = fieldSelector.removeprefix("spec.nodeName").removeprefix("!=").removeprefix("=")
        pods = [pod for pod in self.objects.pods.values() if pod["spec"].get("nodeName")]
        return [pod for pod in pods if not node or pod["spec"]["nodeName"] == node]

    def get(self, path):
        kind, name = path.split("/")[-2:]
        objects = self.objects.nodes if kind == "nodes" else self.objects.pods
        try:
            return objects[name if kind == "nodes" else f"default/{name}"]
        except KeyError:
            raise ApiRefused("absent", 404) from None

    def post(self, path, body):
        pod = self.objects.pods[f"default/{path.split('/')[-2]}"]
        pod["spec"]["nodeName"] = body["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(
            body["metadata"].get("annotations", {})
        )


def names_call(pod, *nodes):
    return {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}


def bind_call(pod, node):
    metadata = pod["metadata"]
    return {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }


def held(pod):
    return [int(core) for core in pod["metadata"]["annotations"]["NEURON_CORES"].split(",")]


@pytest.fixture
def extension(cluster):
    objects, client = cluster
    objects.node("ring", "inf2.24xlarge", 6, 12)
    objects.node("torus", "trn1.32xlarge", 16, 32)
    lines = []
    own = SchedulerExtension(client, lines.append)
    own.rebuild()
    own.lines = lines
    return objects, own


def test_a_pod_is_filtered_and_bound_with_its_devices(extension):
    objects, own = extension
    pod = objects.pod("a", (4,))
    assert own.filter(names_call(pod, "ring", "torus")) == {
        "NodeNames": ["ring", "torus"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
    }
    assert own.bind(bind_call(pod, "torus")) == {"Error": ""}
    written = objects.pods["default/a"]["metadata"]["annotations"]
    assert written["NEURON_CORES"] == "0,1,2,3,4,5,6,7"
    assert written["AWS_NEURON_IDS"] == "0,1,2,3"
    assert written["trnsim/neuron-sets"] == "c0=0,1,2,3,4,5,6,7"
    binding = objects.requests[-1]
    assert binding[:2] == ("POST", "/api/v1/namespaces/default/pods/a/binding")
    assert binding[3]["metadata"]["annotations"] == written  # one request: both or neither
    assert binding[3]["metadata"]["uid"] == pod["metadata"]["uid"]
    assert own.lines[0].startswith("state rebuilt from http")
    assert own.lines[-1] == "bind default/a to torus: trnsim/neuron-sets c0=0,1,2,3,4,5,6,7"


def test_nodes_may_come_as_objects_and_with_fields_in_lower_case(extension):
    objects, own = extension
    nodes = {"items": list(objects.nodes.values())}
    answer = own.filter({"pod": objects.pod("a", (5,)), "nodes": nodes})
    assert answer["Nodes"]["items"] == [objects.nodes["ring"]]
    assert list(answer["FailedNodes"]) == ["torus"]
    assert "NodeNames" not in answer


def test_a_number_that_aws_refuses_is_refused_in_its_words(extension):
    objects, own = extension
    answer = own.filter(names_call(objects.pod("a", (2,)), "torus", "ring"))
    reason = (
        "Instance type trn1.32xlarge does not support requests for device: 2. "
        "Please request a different number of devices."
    )
    assert answer["NodeNames"] == ["ring"]
    assert answer["FailedNodes"] == answer["FailedAndUnresolvableNodes"] == {"torus": reason}
    refused = own.bind(bind_call(objects.pods["default/a"], "torus"))
    assert refused["Error"] == f"{reason}; fix: request 1, 4, 8 or 16"


def test_a_full_node_is_named_and_free_again_after_a_deletion(extension):
    objects, own = extension
    for name, count in (("a", 4), ("b", 2)):
        assert own.bind(bind_call(objects.pod(name, (count,)), "ring")) == {"Error": ""}
    answer = own.filter(names_call(objects.pod("c", (1,)), "ring"))
    assert (answer["NodeNames"], answer["FailedNodes"]) == ([], {"ring": NO_ROOM})
    assert answer["FailedAndUnresolvableNodes"] == {}
    assert NO_ROOM in own.bind(bind_call(objects.pods["default/c"], "ring"))["Error"]
    del objects.pods["default/a"]
    assert own.filter(names_call(objects.pods["default/c"], "ring"))["NodeNames"] == ["ring"]
    objects.pods["default/b"]["status"]["phase"] = "Succeeded"
    assert own.bind(bind_call(objects.pod("d", (6,)), "ring")) == {"Error": ""}


def test_a_free_node_is_filtered_without_a_request(extension):
    objects, own = extension
    own.bind(bind_call(objects.pod("a", (1,)), "ring"))
    before = len(objects.requests)
    assert own.filter(names_call(objects.pod("b", (1,)), "ring"))["NodeNames"] == ["ring"]
    assert len(objects.requests) == before


def test_a_pod_without_devices_is_bound_as_it_is(extension):
    objects, own = extension
    pod = objects.pod("a", ())
    assert own.filter(names_call(pod, "ring", "x"))["NodeNames"] == ["ring", "x"]
    assert own.bind(bind_call(pod, "x")) == {"Error": ""}
    assert objects.pods["default/a"]["metadata"]["annotations"] == {}


def test_a_restart_loses_nothing(extension):
    objects, own = extension
    for name, count in (("a", 2), ("b", 3)):
        own.bind(bind_call(objects.pod(name, (count,)), "ring"))
    again = SchedulerExtension(own.api)
    again.rebuild()
    pod = objects.pod("c", (1,))
    assert again.filter(names_call(pod, "ring"))["NodeNames"] == ["ring"]
    again.bind(bind_call(pod, "ring"))
    cores = [core for each in "abc" for core in held(objects.pods[f"default/{each}"])]
    assert sorted(cores) == list(range(12))


def test_a_second_bind_of_a_pod_changes_nothing(extension):
    objects, own = extension
    pod = objects.pod("a", (2,))
    own.bind(bind_call(pod, "ring"))
    before = held(objects.pods["default/a"])
    assert own.bind(bind_call(pod, "ring")) == {"Error": ""}
    assert held(objects.pods["default/a"]) == before
    assert own.lines[-1] == "bind default/a to ring: bound before"
    assert own.bind(bind_call(pod, "torus"))["Error"].startswith(
        "pod default/a is bound to ring already; fix: give each pod one schedulerName"
    )
    objects.pods["default/a"]["metadata"]["annotations"].clear()
    assert "without devices, by another scheduler" in own.bind(bind_call(pod, "ring"))["Error"]


def test_two_binds_at_once_of_one_pod_and_of_two(extension):
    objects, own = extension
    first, second = objects.pod("a", (4,)), objects.pod("b", (4,))
    calls = [bind_call(first, "ring"), bind_call(first, "ring"), bind_call(second, "ring")]
    answers = []
    threads = [
        threading.Thread(target=lambda call=call: answers.append(own.bind(call)["Error"]))
        for call in calls
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bound = [pod for pod in objects.pods.values() if pod["spec"].get("nodeName")]
    assert len(bound) == 1
    assert sum(not answer for answer in answers) in (1, 2)
    assert all(not answer or NO_ROOM in answer for answer in answers)


def test_a_pod_that_is_deleted_between_filter_and_bind(extension):
    objects, own = extension
    pod = objects.pod("a", (6,))
    own.filter(names_call(pod, "ring"))
    del objects.pods["default/a"]
    assert own.bind(bind_call(pod, "ring"))["Error"] == (
        "pod default/a was deleted before it was bound"
    )
    again = objects.pod("a", (6,))
    assert "was deleted and created again" in own.bind(bind_call(pod, "ring"))["Error"]
    objects.before_binding = objects.pods.clear
    assert own.bind(bind_call(again, "ring"))["Error"].endswith("was deleted before it was bound")
    objects.before_binding = lambda: None
    assert own.bind(bind_call(objects.pod("b", (6,)), "ring")) == {"Error": ""}  # nothing is lost


def test_a_pod_that_another_scheduler_binds_meanwhile(extension):
    objects, own = extension
    pod = objects.pod("a", (1,))
    objects.before_binding = lambda: objects.pods["default/a"]["spec"].update(nodeName="torus")
    assert own.bind(bind_call(pod, "ring"))["Error"].startswith(
        "pod default/a was bound or deleted during this bind call: the API refuses POST"
    )


def test_an_unknown_node_is_named(extension):
    objects, own = extension
    pod = objects.pod("a", (1,))
    answer = own.filter(names_call(pod, "absent", "ring"))
    assert answer["FailedNodes"] == {"absent": "the API has no node absent"}
    assert answer["NodeNames"] == ["ring"]
    assert own.bind(bind_call(pod, "absent"))["Error"].startswith(
        "node absent of the bind call is unknown to the API"
    )
    objects.node("absent", "inf2.xlarge", 1)
    assert own.filter(names_call(pod, "absent"))["NodeNames"] == ["absent"]


def test_an_api_that_is_down_is_named_and_nothing_is_lent_twice(extension):
    objects, own = extension
    pod = objects.pod("a", (6,))
    objects.faults["all"] = "drop"
    assert "does not answer" in own.bind(bind_call(pod, "ring"))["Error"]
    assert "does not answer" in own.filter(names_call(pod, "unseen"))["Error"]
    with pytest.raises(ApiDown):
        own.rebuild()
    objects.faults.clear()
    assert own.bind(bind_call(pod, "ring")) == {"Error": ""}
    objects.faults["all"] = (500, "InternalError", "etcd")
    assert "refuses GET" in own.filter(names_call(objects.pod("b", (6,)), "ring"))["Error"]


def test_an_answer_that_is_lost_after_the_bind_lends_no_device_twice(extension):
    objects, own = extension
    pod = objects.pod("a", (4,))
    handlers = []

    def drop():
        raise ConnectionAbortedError

    objects.after_binding = drop
    assert "does not answer" in own.bind(bind_call(pod, "ring"))["Error"]
    objects.after_binding = lambda: handlers.append(1)
    assert objects.pods["default/a"]["spec"]["nodeName"] == "ring"
    other = objects.pod("b", (4,))
    assert own.filter(names_call(other, "ring"))["FailedNodes"] == {"ring": NO_ROOM}
    assert own.bind(bind_call(pod, "ring")) == {"Error": ""}  # kube-scheduler asks again


def test_a_filter_waits_for_the_bind_of_the_pod_before(extension):
    objects, own = extension
    first, second = objects.pod("a", (6,)), objects.pod("b", (1,))
    own.filter(names_call(first, "ring"))
    answers = []
    thread = threading.Thread(target=lambda: answers.append(own.filter(names_call(second, "ring"))))
    thread.start()
    time.sleep(0.05)
    assert answers == []
    own.bind(bind_call(first, "ring"))
    thread.join()
    assert answers[0]["NodeNames"] == []


def test_a_bind_that_never_comes_is_not_waited_for(extension, monkeypatch):
    monkeypatch.setattr(scheduler_extension, "_BIND_S", 0.02)
    objects, own = extension
    own.filter(names_call(objects.pod("a", (6,)), "ring"))
    assert own.filter(names_call(objects.pod("b", (1,)), "ring"))["NodeNames"] == ["ring"]


def test_the_same_pod_is_filtered_again_at_once(extension):
    objects, own = extension
    pod = objects.pod("a", (6,))
    start_s = time.monotonic()
    for _ in range(3):
        own.filter(names_call(pod, "ring"))
    assert time.monotonic() - start_s < 0.5


def test_clocks_that_differ_are_told_once_and_order_placements_by_the_api_s(extension):
    objects, own = extension
    objects.skew_s = 3600
    for _ in range(2):
        own.rebuild()
    told = [line for line in own.lines if "clock" in line]
    assert len(told) == 1
    assert " s behind the API's" in told[0]
    own.bind(bind_call(objects.pod("a", (1,)), "ring"))
    time_ns = int(objects.pods["default/a"]["metadata"]["annotations"]["NEURON_ALLOC_TIME"])
    assert abs(time_ns / 1e9 - time.time() - 3600) < 5
    assert held(objects.pods["default/a"]) == [0, 1]


def test_a_pod_that_was_placed_without_the_extension_makes_its_node_refuse(extension):
    objects, own = extension
    objects.pod("stray", (1,), spec={"nodeName": "ring"})
    own.rebuild()
    answer = own.filter(names_call(objects.pod("a", (1,)), "ring", "torus"))
    assert answer["NodeNames"] == ["torus"]
    assert "pod default/stray on node ring requests Neuron devices" in answer["FailedNodes"]["ring"]
    assert "stray" in own.bind(bind_call(objects.pods["default/a"], "ring"))["Error"]
    objects.pod("odd", (1,), spec={"nodeName": "torus"})
    containers = objects.pods["default/odd"]["spec"]["containers"]
    containers[0]["resources"] = {"limits": {"aws.amazon.com/neuron": "x"}}
    assert (
        "legal: a whole number" in own.bind(bind_call(objects.pods["default/a"], "torus"))["Error"]
    )


def test_broken_devices_are_not_lent(extension):
    objects, own = extension
    objects.nodes["torus"]["metadata"]["annotations"]["trnsim/unhealthy-devices"] = "5"
    own.rebuild()
    assert NO_ROOM in str(own.filter(names_call(objects.pod("a", (16,)), "torus")))
    own.bind(bind_call(objects.pod("b", (8,)), "torus"))
    assert held(objects.pods["default/b"]) == list(range(16, 32))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({}, "the filter call has no Pod"),
        ({"Pod": {}}, "the filter call has neither NodeNames nor Nodes"),
        ({"Pod": {}, "NodeNames": "n"}, "the filter call has neither NodeNames nor Nodes"),
        ({"Pod": []}, "the filter call has no Pod"),
        ({"Pod": {}, "Nodes": {"items": None}}, "the filter call has neither NodeNames nor Nodes"),
    ],
)
def test_a_filter_call_that_lacks_a_field_is_named(extension, call, reason):
    assert extension[1].filter(call)["Error"].startswith(reason)


def test_a_bind_call_that_lacks_a_field_is_named(extension):
    for call in ({}, {"PodName": "a", "PodNamespace": "default"}, {"PodName": "a", "Node": "n"}):
        assert extension[1].bind(call)["Error"] == (
            "the bind call lacks PodName, PodNamespace or Node"
        )


def test_a_pod_that_requests_two_resources_is_named(extension):
    objects, own = extension
    pod = objects.pod("a", (1,))
    pod["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuroncore"] = "1"
    assert "legal: one of them" in own.filter(names_call(pod, "ring"))["Error"]


SETS = {
    "inf1.6xlarge": [set(range(a, b)) for a in range(4) for b in range(a + 1, 5)],
    "trn2.48xlarge": [set(range(a, a + n)) for n in (1, 4, 8, 16) for a in range(0, 16, n)],
}
"""Sets of devices, typed from AWS's figures."""


@settings(max_examples=2, deadline=None)
@given(st.sampled_from(sorted(SETS)), st.integers(0, 2**32 - 1))
def test_forty_pods_in_random_order_with_deletions(instance, seed):
    check_forty_pods(instance, seed)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(SETS)), st.integers(0, 2**32 - 1))
def test_many_times_forty_pods(instance, seed):
    check_forty_pods(instance, seed)


def check_forty_pods(instance, seed):
    """No overlap, legal sets alone, and no pod waits while one is free; restarts in between."""
    random = Random(seed)  # noqa: S311  a sequence of tests
    objects, total = Objects(), max(map(max, SETS[instance])) + 1
    nodes = [f"n{number}" for number in range(2)]
    for name in nodes:
        objects.node(name, instance, total, total * 2)
    own = SchedulerExtension(Local(objects))
    waiting = [
        objects.pod(f"p{number}", (random.choice([len(each) for each in SETS[instance]]),))
        for number in range(40)
    ]
    for step in range(120):
        if step in (40, 80):
            own = SchedulerExtension(Local(objects))  # as after kill -9
        bound = [pod for pod in objects.pods.values() if pod["spec"].get("nodeName")]
        free = {name: set(range(total)) for name in nodes}
        for pod in bound:
            devices = {core // 2 for core in held(pod)}
            assert devices in SETS[instance]
            assert devices <= free[pod["spec"]["nodeName"]]
            free[pod["spec"]["nodeName"]] -= devices
        if not waiting or (bound and random.random() < 0.4):
            if not bound:
                break
            del objects.pods[f"default/{random.choice(bound)['metadata']['name']}"]
            continue
        pod = random.choice(waiting)
        count = int(pod["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"])
        fitting = own.filter(names_call(pod, *nodes))["NodeNames"]
        assert fitting == [
            name
            for name in nodes
            if any(len(each) == count and each <= free[name] for each in SETS[instance])
        ]
        if fitting:
            assert own.bind(bind_call(pod, random.choice(fitting))) == {"Error": ""}
            waiting.remove(pod)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("a1,", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "metadata",
                        "spec",
                        "status",
                        "items",
                        "containers",
                        "initContainers",
                        "name",
                    ),
                    *("resources", "limits", "labels", "annotations", "capacity", "uid"),
                    *("aws.amazon.com/neuron", "node.kubernetes.io/instance-type"),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=10, deadline=None)
@given(JSON, JSON, JSON)
def test_a_call_of_any_form_is_answered(pod, nodes, names):
    check_answer(pod, nodes, names)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(JSON, JSON, JSON)
def test_many_calls_of_any_form_are_answered(pod, nodes, names):
    check_answer(pod, nodes, names)


def check_answer(pod, nodes, names):
    own = SchedulerExtension(Local(Objects()))
    answer = own.filter({"Pod": pod, "Nodes": nodes, "NodeNames": names})
    assert "Error" in answer or "FailedNodes" in answer
    assert own.bind({"PodName": pod, "PodNamespace": "x", "Node": nodes, "PodUID": names})["Error"]


def test_an_error_that_is_none_of_ours_is_not_hidden(extension):
    objects, own = extension
    own.api = None
    with pytest.raises(AttributeError):
        own.bind(bind_call(objects.pod("a", (1,)), "ring"))
    assert issubclass(ApiDown, BadInput)
