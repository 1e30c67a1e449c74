import pytest

from trnsim.cluster.kubernetes import api
from trnsim.cluster.kubernetes.api import (
    PODS,
    ApiAccess,
    ApiDown,
    ApiRefused,
    KubernetesApi,
    access,
    node_path,
    pod_path,
)
from trnsim.errors import BadInput

KIB, MIB = 1 << 10, 1 << 20


def test_an_object_is_read_patched_and_bound(cluster):
    objects, client = cluster
    objects.pod("a", (1,))
    path = pod_path("default", "a")
    assert client.get(path)["metadata"]["name"] == "a"
    client.patch(path, {"metadata": {"annotations": {"k": "v", "gone": None}}})
    assert objects.pods["default/a"]["metadata"]["annotations"] == {"k": "v"}
    method, _, _, body = objects.requests[-1]
    assert (method, body) == ("PATCH", {"metadata": {"annotations": {"k": "v", "gone": None}}})
    client.post(f"{path}/binding", {"target": {"name": "n"}, "metadata": {}})
    assert objects.pods["default/a"]["spec"]["nodeName"] == "n"
    with pytest.raises(ApiRefused, match="404 NotFound") as caught:
        client.get(pod_path("default", "absent"))
    assert caught.value.status == 404


def test_names_are_parts_of_a_path_and_no_more():
    assert pod_path("a/../b", "x?y=#z") == "/api/v1/namespaces/a%2F..%2Fb/pods/x%3Fy%3D%23z"
    assert node_path("../pods") == "/api/v1/nodes/..%2Fpods"
    assert node_path() == "/api/v1/nodes"


@pytest.mark.parametrize("prefix", ["/k8s/clusters/c-1", "/k8s/clusters/c-1/", "/"])
def test_the_path_of_a_server_comes_before_the_paths_of_objects(cluster, prefix):
    objects, client = cluster
    behind_proxy = KubernetesApi(ApiAccess(client.server + prefix, client._access.token_file))
    objects.faults["all"] = (418, "Teapot")
    with pytest.raises(ApiRefused):
        behind_proxy.get(node_path("n"))
    assert objects.requests[-1][1] == f"{prefix.rstrip('/')}/api/v1/nodes/n"


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1001])
def test_a_list_has_every_page(cluster, count):
    objects, client = cluster
    for number in range(count):
        objects.pod(f"p{number}")
    listed = client.list(PODS)
    assert [pod["metadata"]["name"] for pod in listed] == [f"p{n}" for n in range(count)]
    assert len(objects.requests) == max(1, -(-count // 500))


def test_a_list_whose_token_has_expired_is_begun_anew(cluster):
    objects, client = cluster
    for number in range(1001):
        objects.pod(f"p{number}")
    objects.expiries = 2
    listed = client.list(PODS, labelSelector="a")
    assert len(objects.requests) == 2 + 2 + 3
    assert all(query["labelSelector"] == "a" for _, _, query, _ in objects.requests)
    assert "continue" not in objects.requests[2][2]
    assert [pod["metadata"]["name"] for pod in listed] == [f"p{n}" for n in range(1001)]
    objects.expiries = 3
    with pytest.raises(ApiRefused, match="410 Expired") as caught:
        client.list(PODS)
    assert caught.value.status == 410


def test_a_list_that_is_gone_at_once_is_refused(cluster):
    objects, client = cluster
    objects.faults["all"] = (410, "Gone")
    with pytest.raises(ApiRefused, match="410 Gone"):
        client.list(PODS)
    assert len(objects.requests) == 1


def test_a_page_above_4_mib_is_read_in_smaller_ones(cluster, monkeypatch):
    objects, client = cluster
    monkeypatch.setattr(api, "MOST_BYTES", 4 * KIB)
    for number in range(5):
        objects.pod(f"p{number}")
    objects.pad = KIB
    assert len(client.list(PODS)) == 5
    assert [int(query["limit"]) for _, _, query, _ in objects.requests][-2:] == [3, 3]
    objects.pad = 5 * KIB
    with pytest.raises(ApiDown, match=r"answers GET /api/v1/pods.*more than 4 MiB"):
        client.list(PODS)


def test_a_body_of_4_mib_is_read_and_a_byte_more_is_not(cluster):
    objects, client = cluster
    for length, is_read in ((4 * MIB, True), (4 * MIB + 1, False)):
        objects.faults["all"] = b'{"a":"' + b"x" * (length - 8) + b'"}'
        if is_read:
            assert len(client.get("/api/v1/x")["a"]) == length - 8
        else:
            with pytest.raises(ApiDown, match="more than 4 MiB"):
                client.get("/api/v1/x")


def test_an_api_that_is_down_is_named(cluster):
    objects, client = cluster
    objects.faults["all"] = "drop"
    with pytest.raises(
        ApiDown, match=r"the Kubernetes API at http://127.0.0.1:\d+ does not answer"
    ):
        client.get(node_path("n"))
    refused = KubernetesApi(ApiAccess("http://127.0.0.1:1"))
    with pytest.raises(ApiDown, match=r"does not answer: .*refused") as caught:
        refused.list(PODS)
    assert "--server" in caught.value.fix
    encrypted = KubernetesApi(ApiAccess(client.server.replace("http:", "https:")))
    with pytest.raises(ApiDown, match=r"does not answer: .*SSL"):
        encrypted.get(PODS)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"<html>", "with no JSON"),
        (b"[" * 100_000, "with no JSON"),
        (b"[1]", "with no object"),
        (b"", "with no JSON"),
    ],
)
def test_an_answer_that_is_no_object_is_named(cluster, sent, message):
    objects, client = cluster
    objects.faults["all"] = sent
    with pytest.raises(ApiDown, match=message):
        client.get(PODS)


def test_a_refusal_has_its_status_and_a_fix(cluster):
    objects, client = cluster
    objects.faults["all"] = (403, "Forbidden", "pods is forbidden")
    with pytest.raises(ApiRefused, match=r"GET /api/v1/pods with 403 Forbidden: pods is") as caught:
        client.get(PODS)
    assert "--token-file" in caught.value.fix
    objects.faults["all"] = (500, "", "x" * 1000)
    with pytest.raises(ApiRefused) as caught:
        client.get(PODS)
    assert len(caught.value.reason) < 400


def test_a_token_is_read_anew_for_every_request(cluster, tmp_path):
    objects, client = cluster
    client.get("/api/v1/nodes")
    file = tmp_path / "token"
    file.write_text("wrong", encoding="utf-8")
    with pytest.raises(ApiRefused, match="401 Unauthorized"):
        client.get("/api/v1/nodes")
    file.write_text("a b", encoding="utf-8")
    with pytest.raises(BadInput, match="has 2 words; legal: a token"):
        client.get("/api/v1/nodes")
    file.unlink()
    with pytest.raises(BadInput, match="cannot read"):
        client.get("/api/v1/nodes")
    assert len(objects.requests) == 2


@pytest.mark.parametrize("skew_s", [0, 3600, -3600])
def test_the_skew_of_clocks_is_known(cluster, skew_s):
    objects, client = cluster
    objects.skew_s = skew_s
    client.get("/api/v1/nodes")
    assert abs(client.skew_s - skew_s) <= 1


@pytest.mark.parametrize(
    "server", ["", "10.0.0.1:6443", "ftp://h", "http://", "https://h:99999", "https://[::1"]
)
def test_an_address_that_is_none_is_refused(server):
    with pytest.raises(BadInput, match="is no address of an API; legal: https://HOST:PORT"):
        ApiAccess(server)


def test_a_token_is_not_sent_unencrypted_to_another_machine(tmp_path):
    for host in ("127.0.0.1", "[::1]", "localhost"):
        ApiAccess(f"http://{host}:8080", tmp_path / "token")
    ApiAccess("http://10.0.0.1:8080")
    with pytest.raises(BadInput, match="would carry the token unencrypted to another machine"):
        ApiAccess("http://10.0.0.1:8080", tmp_path / "token")


def test_a_file_of_authorities_is_checked(tmp_path):
    file = tmp_path / "ca.crt"
    for text in ("", "no certificate"):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(BadInput, match=r"--ca-file .* has no certificate"):
            KubernetesApi(ApiAccess("https://h", None, file))
    with pytest.raises(BadInput, match="cannot read"):
        KubernetesApi(ApiAccess("https://h", None, tmp_path / "absent"))


def test_a_pod_knows_its_own_api(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(api, "_ACCOUNT", tmp_path)
    own = access(None, None, None)
    assert own == ApiAccess("https://[fd00::1]:443", tmp_path / "token", tmp_path / "ca.crt")
    assert access("https://h", None, None) == ApiAccess("https://h")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(BadInput, match="no API of Kubernetes is named"):
        access(None, None, None)


def test_connections_are_kept_for_reading_and_one_that_broke_is_replaced(cluster):
    objects, client = cluster
    objects.pod("a", (1,))
    for _ in range(3):
        client.get(PODS)
    assert len(objects.ports) == 1
    client.patch(pod_path("default", "a"), {"metadata": {}})
    assert len(objects.ports) == 2
    objects.faults["all"] = "drop"
    with pytest.raises(ApiDown):
        client.get(PODS)
    objects.faults.clear()
    client.get(PODS)
    with pytest.raises(ApiRefused):
        client.get(pod_path("default", "absent"))
    assert client.get(PODS)["items"]


def test_a_change_is_sent_once(cluster):
    objects, client = cluster
    objects.pod("a", (1,))
    client.get(PODS)
    objects.faults["all"] = "drop"
    with pytest.raises(ApiDown):
        client.post(f"{pod_path('default', 'a')}/binding", {})
    assert [method for method, *_ in objects.requests] == ["GET", "POST"]


def test_a_kept_connection_that_hangs_is_an_api_that_is_down(cluster, monkeypatch):
    def hang(*_):
        raise TimeoutError

    _, client = cluster
    client.list(PODS)
    (kept,) = client._idle_connections
    monkeypatch.setattr(kept, "request", hang)
    with pytest.raises(ApiDown, match="no answer in time"):
        client.list(PODS)
