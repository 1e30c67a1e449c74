import socket

from trnsim.device.loopback import LOOPBACK, free_port


def test_a_free_port_can_be_listened_on():
    with socket.create_server((LOOPBACK, free_port())) as server:
        host, port = server.getsockname()
        assert host == "127.0.0.1"
        assert free_port() != port
