import socket

import pytest

from lorikeet.serve.errors import StartError
from lorikeet.serve.listen import Address, bind, read_address


@pytest.mark.parametrize(
    ("argv", "address"),
    [
        ([], Address(None, 8000)),
        (["model", "--port", "9000", "--host=::1"], Address("::1", 9000)),
        (["--max-model-len", "100", "m", "--port=1"], Address(None, 1)),
        (["--ssl_certfile", "c", "--ssl-keyfile", "k"], Address(None, 8000, "c", "k")),
        (["--port-of-call", "3", "--portable"], Address(None, 8000)),
    ],
    ids=str,
)
def test_the_address_is_read_from_vllms_arguments(argv, address):
    assert read_address(argv) == address


def test_a_config_file_is_read_and_the_command_line_wins(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("port: 9100\nhost: 127.0.0.1\nmax-model-len: 5\n")
    assert read_address(["--config", str(file)]) == Address("127.0.0.1", 9100)
    assert read_address(["--config", str(file), "--port", "9200"]).port == 9200


@pytest.mark.parametrize("port", ["0", "65536", "http", "-3"])
def test_a_bad_port_is_refused(port):
    with pytest.raises(StartError, match="must be a number from 1 to 65535"):
        read_address([f"--port={port}"])


def test_a_config_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(StartError, match=r"nothing\.yaml"):
        read_address(["--config", str(tmp_path / "nothing.yaml")])


def test_a_bound_socket_listens_at_once():
    with bind(Address("127.0.0.1", _free_port())) as sock, socket.create_connection(sock.getsockname(), 1):
        assert not sock.get_inheritable()


def test_a_port_in_use_is_refused_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError, match=rf"127\.0\.0\.1:{port}: address already in use; .*--port"):
            bind(Address("127.0.0.1", port))


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (Address(), "http://0.0.0.0:8000"),
        (Address("::1", 1), "http://[::1]:1"),
        (Address("h", 2, "cert", "key"), "https://h:2"),
    ],
    ids=["default", "ipv6", "tls"],
)
def test_an_address_prints_as_a_url(address, text):
    assert str(address) == text


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
