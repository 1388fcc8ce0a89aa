"""Request bodies: limits of size and of compression ratio, and no decompression if the answer needs no body."""

import asyncio
import gzip
import json
import zlib

import pytest

from keras_bert_app.serving.bodies import Bodies
from keras_bert_app.serving.model_configs import ModelConfig
from keras_bert_app.serving.request_errors import RequestError
from tests.serving.conftest import running

PATH = "/v1/models/tiny:predict"
BODY = json.dumps({"instances": ["x" * 500]}).encode()
ZEROS = json.dumps({"signature_name": "total", "instances": [[0] * 50_000] * 4}).encode()


def raw_deflate(body):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


@pytest.mark.parametrize(
    "encoding, compress",
    [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
def test_compressed_requests_are_answered(client, encoding, compress):
    for body in (BODY, ZEROS):
        status, _, answer = client.ask("POST", PATH, compress(body), {"Content-Encoding": encoding})
        assert status == 200 and len(json.loads(answer)["predictions"]) in (1, 4)


@pytest.mark.parametrize(
    "encoding, body, status, expected",
    [
        ("gzip", gzip.compress(b" " * (8 << 20)), 413, "the decompressed body has more than 1,048,576 bytes"),
        ("deflate", zlib.compress(b" " * (8 << 20)), 413, "the decompressed body has"),
        ("gzip", BODY, 400, "the body cannot be read"),
        ("gzip", gzip.compress(BODY)[:-9], 400, "data is cut"),
        ("gzip", gzip.compress(BODY) + b"more", 400, "other bytes follow"),
        ("gzip", b"", 400, "data is cut"),
        ("br", BODY, 415, "Content-Encoding 'br' is not known; expected gzip"),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY)), 415, "is not known"),
    ],
    # gzip writes the time into its output. Without these names, each test worker would make different test names.
    ids=("large gzip", "large deflate", "no gzip", "cut", "more behind", "empty", "br", "twice"),
)
def test_a_compressed_body_that_is_too_large_damaged_or_of_an_unknown_encoding_is_refused(
    client, encoding, body, status, expected
):
    actual, _, answer = client.ask("POST", PATH, body, {"Content-Encoding": encoding})
    assert actual == status and expected in json.loads(answer)["error"]


@pytest.mark.parametrize("path", ["/nothing", "/healthz", "/v1/models/other:predict", "/v1/models/tiny:classify"])
def test_a_body_that_no_answer_needs_is_not_decompressed_and_ends_the_connection(client, path, monkeypatch):
    monkeypatch.setattr("zlib.decompressobj", lambda *arguments, **options: pytest.fail("the body was decompressed"))
    bomb = gzip.compress(b" " * (8 << 20))
    request = (
        b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        b"Content-Length: %d\r\n\r\n"
    )
    with client.send(request % (path.encode(), len(bomb)) + bomb) as connection:
        received = b""
        while part := connection.recv(1 << 16):
            received += part
    assert b"Connection: close" in received and received[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 5")


class Request:
    """A request whose body comes in parts. Its end comes only when `end` is set."""

    def __init__(self, parts, headers=None):
        self.headers, self.content_length, self.content = headers or {}, None, self
        self.parts, self.end = parts, asyncio.Event()

    async def iter_any(self):
        for part in self.parts:
            yield part
        await self.end.wait()


def test_the_bodies_of_all_requests_share_a_limit_until_each_is_decoded():
    async def case():
        bodies, decoded = Bodies(max_bytes=10), asyncio.Event()

        async def read(request):
            async with bodies.read(request) as body:
                await decoded.wait()
                return body

        arriving = [Request([b"12345", b"12345"]) for _ in range(15)]
        arrived = Request([b"12345", b"12345"])
        arrived.end.set()
        reading = [asyncio.ensure_future(read(request)) for request in (*arriving, arrived)]
        await asyncio.sleep(0)
        for last in (Request([b"1"]), Request([b"1"])):
            last.end.set()
            if not decoded.is_set():
                with pytest.raises(RequestError, match="take all memory") as raised:
                    await read(last)
                assert raised.value.status == 503
                decoded.set()
                assert await reading[-1] == (b"1234512345", None)
        assert await read(last) == (b"1", None)
        for task in reading[:-1]:
            task.cancel()

    asyncio.run(case())


def test_max_request_bytes_limits_the_decompressed_body(base_path):
    body = gzip.compress(json.dumps({"instances": ["x" * 2000]}).encode())
    with running(ModelConfig("tiny", str(base_path)), max_request_bytes=1000) as client:
        status, _, answer = client.ask("POST", PATH, body, {"Content-Encoding": "gzip"})
        assert status == 413 and "more than 1,000 bytes" in json.loads(answer)["error"]
