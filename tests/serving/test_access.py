"""Requests that the server accepts or refuses by host name, by the site of the page, and by content type."""

import json

import pytest

from keras_bert_app.serving.access import is_loopback
from keras_bert_app.serving.model_configs import ModelConfig
from tests.serving.conftest import running

BODY = json.dumps({"instances": ["x"]})


def asked(client, method, path, headers):
    headers = {name: value.replace("PORT", str(client.port)) for name, value in headers.items()}
    return client.ask(method, path, BODY if method == "POST" else None, headers)


@pytest.mark.parametrize(
    "method, path, headers, status, expected",
    [
        ("GET", "/v1/models", {"Host": "evil.example:PORT"}, 403, "host 'evil.example:"),
        ("GET", "/healthz", {"Host": "localhost.evil.example"}, 403, "--allowed_hosts"),
        ("GET", "/metrics", {"Host": "127.0.0.1.evil.example"}, 403, "--allowed_hosts"),
        ("GET", "/", {"Host": "localhost@evil.example"}, 403, "--allowed_hosts"),
        ("GET", "/", {"Host": ""}, 403, "--allowed_hosts"),
        ("POST", "", {"Host": "evil.example:PORT"}, 403, "--allowed_hosts"),
        ("POST", "", {"Origin": "http://evil.example"}, 403, "origin 'http://evil.example'"),
        ("POST", "", {"Origin": "http://127.0.0.1:1"}, 403, "another page"),
        ("POST", "", {"Origin": "https://127.0.0.1"}, 403, "another page"),
        ("POST", "", {"Origin": "null"}, 403, "another page"),
        ("GET", "/v1/models", {"Origin": "http://localhost:PORT"}, 403, "another page"),
        ("GET", "/v1/models", {"Sec-Fetch-Site": "cross-site"}, 403, "another site"),
        (
            "GET",
            "/v1/models",
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            403,
            "another site",
        ),
        ("POST", "", {"Content-Type": "text/plain"}, 415, "Content-Type 'text/plain'; expected application/json"),
        ("POST", "", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "curl: -H"),
        ("POST", "", {"Content-Type": "text/plain; application/json"}, 415, "expected application/json"),
    ],
)
def test_requests_that_another_page_can_send_are_refused(client, method, path, headers, status, expected):
    actual, answer_headers, body = asked(client, method, path or "/v1/models/tiny:predict", headers)
    assert (actual, list(json.loads(body))) == (status, ["error"]) and expected in json.loads(body)["error"]
    assert "Access-Control-Allow-Origin" not in answer_headers


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost"},
        {"Host": "LOCALHOST.:PORT"},
        {"Host": "[::1]:PORT"},
        {"Host": "192.0.2.7"},
        {"Content-Type": "application/json; charset=utf-8"},
        {"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://localhost:PORT", "Host": "localhost:PORT"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_programs_and_the_page_of_the_server_get_answers(client, headers):
    assert asked(client, "POST", "/v1/models/tiny:predict", headers)[0] == 200


def test_a_link_on_another_site_opens_the_page_but_a_frame_does_not(client):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.ask("GET", "/", headers=link)[0] == 200
    assert client.ask("GET", "/", headers={**link, "Sec-Fetch-Dest": "iframe"})[0] == 403


def test_allowed_hosts_admit_the_name_of_a_proxy_and_a_star_admits_every_host(base_path):
    behind_proxy = {"Origin": "https://models.example", "Host": "127.0.0.1:8501"}
    with running(ModelConfig("tiny", str(base_path)), allowed_hosts=("Models.example",)) as client:
        assert client.ask("GET", "/v1/models", headers={"Host": "models.example"})[0] == 200
        assert asked(client, "POST", "/v1/models/tiny:predict", behind_proxy)[0] == 200
        assert client.ask("GET", "/v1/models", headers={"Host": "other.example"})[0] == 403
    with running(ModelConfig("tiny", str(base_path)), allowed_hosts=("*",)) as client:
        assert client.ask("GET", "/v1/models", headers={"Host": "other.example"})[0] == 200
        assert asked(client, "POST", "/v1/models/tiny:predict", behind_proxy)[0] == 403


def test_a_server_that_other_machines_reach_warns_in_one_line(base_path):
    for host, count in (("0.0.0.0", 1), ("127.0.0.1", 0)):
        log = []
        with running(ModelConfig("tiny", str(base_path)), log=log, host=host):
            pass
        warnings = [line for line in log if line.startswith("warning: ")]
        assert len(warnings) == count and all(f"{host} lets other machines in" in line for line in warnings)
    assert [is_loopback(host) for host in ("localhost", "127.3.4.5", "::1")] == [True] * 3
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.0.2.7", "example.org")] == [False] * 4


def test_a_body_without_a_content_type_is_refused(client):
    request = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    with client.send(request % (len(BODY), BODY.encode())) as connection:
        assert connection.recv(20).startswith(b"HTTP/1.1 415")


def test_a_health_check_of_http_1_0_needs_no_host(client):
    with client.send(b"GET /healthz HTTP/1.0\r\n\r\n") as connection:
        assert connection.recv(20).startswith(b"HTTP/1.0 200")
    with client.send(b"GET /healthz HTTP/1.0\r\nOrigin: http://evil.example\r\n\r\n") as connection:
        assert connection.recv(20).startswith(b"HTTP/1.0 403")
