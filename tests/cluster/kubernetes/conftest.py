"""Tests of the rooms of Kubernetes, which share an API in this process (`fake_api`)."""

import fake_api
import pytest

from trnsim.cluster.kubernetes.api import ApiAccess, KubernetesApi


@pytest.fixture
def cluster(tmp_path):
    """The objects of a fake API, and a client of it."""
    token = tmp_path / "token"
    token.write_text(f"{fake_api.TOKEN}\n", encoding="utf-8")
    with fake_api.served() as (objects, url):
        client = KubernetesApi(ApiAccess(url, token), timeout_s=2.0)
        yield objects, client
        client.close()
