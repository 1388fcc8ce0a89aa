"""Part R10 of serving_soak: requests of random bytes, ranks and types to a small served model."""

import asyncio
import base64
import collections
import contextlib
import json
import os
import random

import aiohttp

from benchmarks.serving import serving_models

_AT_ONCE = 16
_REPORTS = 20
_ALLOWED_GROWTH_MB = 20
_SIGNATURES = ["serving_default", "ids", "kinds", "work"]
_INPUTS = ["text", "input_word_ids", "ids", "numbers", "flag", "ticket"]
# Status codes of answers, refusals and a full queue. Any other status code or error is a failure.
_EXPECTED = {200, 400, 404, 405, 413, 501, 503}
_VALID = {"signature_name": "kinds", "inputs": {"ids": [[[1, 2]]], "numbers": [[1, 2, 3]], "flag": [True]}}


def _character(generator):
    return chr(generator.choice([generator.randrange(32, 127), generator.randrange(0x11000)]))


def _leaf(generator):
    return generator.choice(
        [
            lambda: generator.randrange(-2, 40),
            lambda: generator.choice([2**31, -(2**63), 2**64, 10**30]),
            lambda: generator.choice([0.5, -1e300, float("nan"), float("inf")]),
            lambda: generator.random() < 0.5,
            lambda: None,
            lambda: "".join(_character(generator) for _ in range(generator.randrange(9))),
            lambda: {"b64": base64.b64encode(generator.randbytes(generator.randrange(30))).decode()},
            lambda: {"b64": "?"},
            lambda: {generator.choice(_INPUTS): 1},
        ]
    )()


def _value(generator, depth):
    """Nested lists with leaves of one type or of several. Some lists are ragged."""
    if depth == 0:
        return _leaf(generator)
    size = generator.choice([0, 1, 1, 2, 3, 70 if depth == 1 else 2])
    if generator.random() < 0.7:
        return [_value(generator, depth - 1)] * size
    return [_value(generator, depth - (generator.random() < 0.9)) for _ in range(size)]


def _body(generator):
    kind = generator.randrange(4)
    if kind == 0:
        return generator.randbytes(generator.randrange(2000))
    if kind == 1:  # a valid request with a few wrong bytes
        body = bytearray(json.dumps(_VALID).encode())
        for _ in range(generator.randrange(4)):
            place = generator.randrange(len(body))
            body[place : place + generator.randrange(3)] = generator.randbytes(generator.randrange(3))
            body = body or bytearray(b"{")
        return bytes(body)
    request = {"signature_name": generator.choice([*_SIGNATURES, "other", 3])}
    if kind == 2:
        request["inputs"] = {
            name: _value(generator, generator.randrange(5)) for name in _INPUTS if generator.random() < 0.4
        }
    else:
        request[generator.choice(["instances", "instances", "inputs", "examples"])] = _value(
            generator, generator.randrange(5)
        )
    if generator.random() < 0.5:  # one input of the signature, with a value of any rank
        names = {"serving_default": "text", "ids": "input_word_ids", "work": "ticket"}
        name = names.get(request["signature_name"], "ids")
        request = {**request, "inputs": {name: _value(generator, generator.randrange(5))}}
        request.pop("instances", None)
    return json.dumps(request).encode("utf-8", errors="surrogatepass")


async def _ask(generator, session, server, outcomes):
    if generator.random() < 0.05:
        outcomes[await _raw(generator, server.port)] += 1
        return
    path = (
        "/v1/models/small:predict"
        if generator.random() < 0.95
        else "/v1/models/"
        + generator.choice(
            [
                "small/versions/1:predict",
                "%00:predict",
                "small/labels/x:predict",
                "small:classify",
                "../../etc",
                "x" * 300,
                "small",
            ]
        )
    )
    method = generator.choice(["POST"] * 30 + ["GET", "PUT", "DELETE"])
    try:
        headers = {"Content-Type": "application/json"}
        async with session.request(method, server.url + path, data=_body(generator), headers=headers) as response:
            text = await response.text()
            outcomes[response.status if response.status in _EXPECTED else f"{response.status} {text[:200]}"] += 1
    except (aiohttp.ClientError, TimeoutError) as error:
        outcomes[f"{type(error).__name__} {error}"] += 1


async def _raw(generator, port):
    """Sends bytes that are not HTTP, or closes the connection before the end of a request. Returns the outcome."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        if generator.random() < 0.5:
            writer.write(generator.randbytes(generator.randrange(1, 300)) + b"\r\n\r\n")
            await writer.drain()
            await asyncio.wait_for(reader.read(10), 0.2)
        else:
            body = _body(generator)
            writer.write(
                b"POST /v1/models/small:predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body
            )
            await writer.drain()
    writer.close()
    return "broken off"


async def _still_answers(session, server):
    async with session.post(f"{server.url}/v1/models/small:predict", json=_VALID) as response:
        answer = await response.json()
    return answer == {"outputs": {"total": [3], "numbers": [[1.0, 2.0, 3.0]], "flag": [True]}}


async def drive(server, options, say) -> tuple[collections.Counter, list[float]]:
    """Sends the requests to a running server.

    Args:
        server: serving_models.Server.
        options: object with seed and requests.
        say: function that is called with each line of progress.

    Returns:
        (Counter of outcomes, resident MB after each twentieth of the requests).
    """
    generator, outcomes, memory = random.Random(options.seed), collections.Counter(), []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        for report in range(1, _REPORTS + 1):
            remaining = iter(range(options.requests // _REPORTS))  # all clients take from it

            async def client(remaining=remaining):
                for _ in remaining:
                    await _ask(generator, session, server, outcomes)

            await asyncio.gather(*(client() for _ in range(_AT_ONCE)))
            memory.append(server.resident_mb())
            say(f"{report * (options.requests // _REPORTS):,} requests, {memory[-1]:.1f} MB resident")
            if not await _still_answers(session, server):
                outcomes["a valid request got a wrong answer"] += 1
    return outcomes, memory


def unexpected_outcomes(outcomes: collections.Counter) -> dict:
    """The outcomes that are neither an answer, nor a refusal, nor broken off by the client.

    Args:
        outcomes: Counter. Result of drive.
    """
    return {outcome: count for outcome, count in outcomes.items() if outcome not in {*_EXPECTED, "broken off"}}


def fuzz(directory: str, options, say) -> tuple[bool, str]:
    """R10: sends random requests to a server of a small model.

    The server must not crash and must answer with known status codes. Its memory must grow by less than 20 MB over the
    last 90 % of the requests.

    Args:
        directory: str. Where the model and the log go.
        options: absl's FLAGS.
        say: function that is called with each line of progress.

    Returns:
        (whether the part passed, line of figures).
    """
    base_path = os.path.join(directory, "fuzzed", "small")
    serving_models.write(os.path.join(base_path, "1"), 1)
    with serving_models.running(base_path, os.path.join(directory, "fuzz.log")) as server:
        outcomes, memory = asyncio.run(drive(server, options, say))
    growth = memory[-1] - memory[_REPORTS // 10 - 1]
    unexpected = unexpected_outcomes(outcomes)
    faults = [f"{count} x {outcome}" for outcome, count in unexpected.items()]
    faults += [f"memory grew by more than {_ALLOWED_GROWTH_MB} MB"] * (growth >= _ALLOWED_GROWTH_MB)
    counted = ", ".join(f"{outcome}: {count:,}" for outcome, count in sorted(outcomes.items(), key=str))
    return not faults, (
        f"{sum(outcomes.values()):,} requests ({counted}); no crash; memory grew by {growth:.1f} MB "
        "over the last 90 %" + "".join(f"; {fault}" for fault in faults)
    )
