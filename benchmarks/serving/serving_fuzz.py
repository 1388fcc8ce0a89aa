"""R10 of benchmarks/serving/serving_soak.py: requests of random bytes, ranks and types to a served small model."""

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
# What a right answer, a refusal and a full queue look like; anything else is a failure.
_EXPECTED = {200, 400, 404, 405, 413, 501, 503}
_VALID = {"signature_name": "kinds", "inputs": {"ids": [[[1, 2]]], "numbers": [[1, 2, 3]], "flag": [True]}}


def _character(chance):
    return chr(chance.choice([chance.randrange(32, 127), chance.randrange(0x11000)]))


def _leaf(chance):
    return chance.choice(
        [
            lambda: chance.randrange(-2, 40),
            lambda: chance.choice([2**31, -(2**63), 2**64, 10**30]),
            lambda: chance.choice([0.5, -1e300, float("nan"), float("inf")]),
            lambda: chance.random() < 0.5,
            lambda: None,
            lambda: "".join(_character(chance) for _ in range(chance.randrange(9))),
            lambda: {"b64": base64.b64encode(chance.randbytes(chance.randrange(30))).decode()},
            lambda: {"b64": "?"},
            lambda: {chance.choice(_INPUTS): 1},
        ]
    )()


def _value(chance, depth):
    """Nested lists, ragged every now and then, with leaves of one type or of several."""
    if depth == 0:
        return _leaf(chance)
    size = chance.choice([0, 1, 1, 2, 3, 70 if depth == 1 else 2])
    if chance.random() < 0.7:
        return [_value(chance, depth - 1)] * size
    return [_value(chance, depth - (chance.random() < 0.9)) for _ in range(size)]


def _body(chance):
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.randrange(2000))
    if kind == 1:  # a right request with a few wrong bytes
        body = bytearray(json.dumps(_VALID).encode())
        for _ in range(chance.randrange(4)):
            place = chance.randrange(len(body))
            body[place : place + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
            body = body or bytearray(b"{")
        return bytes(body)
    request = {"signature_name": chance.choice([*_SIGNATURES, "other", 3])}
    if kind == 2:
        request["inputs"] = {name: _value(chance, chance.randrange(5)) for name in _INPUTS if chance.random() < 0.4}
    else:
        request[chance.choice(["instances", "instances", "inputs", "examples"])] = _value(chance, chance.randrange(5))
    if chance.random() < 0.5:  # the one input that the signature has, of any rank
        names = {"serving_default": "text", "ids": "input_word_ids", "work": "ticket"}
        name = names.get(request["signature_name"], "ids")
        request = {**request, "inputs": {name: _value(chance, chance.randrange(5))}}
        request.pop("instances", None)
    return json.dumps(request).encode("utf-8", errors="surrogatepass")


async def _ask(chance, session, server, outcomes):
    if chance.random() < 0.05:
        outcomes[await _raw(chance, server.port)] += 1
        return
    path = (
        "/v1/models/small:predict"
        if chance.random() < 0.95
        else "/v1/models/"
        + chance.choice(
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
    method = chance.choice(["POST"] * 30 + ["GET", "PUT", "DELETE"])
    try:
        async with session.request(method, server.url + path, data=_body(chance)) as response:
            text = await response.text()
            outcomes[response.status if response.status in _EXPECTED else f"{response.status} {text[:200]}"] += 1
    except (aiohttp.ClientError, TimeoutError) as error:
        outcomes[f"{type(error).__name__} {error}"] += 1


async def _raw(chance, port):
    """Bytes that are no HTTP, or a request that breaks off."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        if chance.random() < 0.5:
            writer.write(chance.randbytes(chance.randrange(1, 300)) + b"\r\n\r\n")
            await writer.drain()
            await asyncio.wait_for(reader.read(10), 0.2)
        else:
            body = _body(chance)
            writer.write(
                b"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1)
                + body
            )
            await writer.drain()
    writer.close()
    return "broken off"


async def _still_answers(session, server):
    async with session.post(f"{server.url}/v1/models/small:predict", json=_VALID) as response:
        answer = await response.json()
    return answer == {"outputs": {"total": [3], "numbers": [[1.0, 2.0, 3.0]], "flag": [True]}}


async def drive(server, options, say):
    """The requests to a running server: (Counter of outcomes, resident MB after each twentieth)."""
    chance, outcomes, memory = random.Random(options.seed), collections.Counter(), []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        for report in range(1, _REPORTS + 1):
            left = iter(range(options.requests // _REPORTS))

            async def client():
                for _ in left:
                    await _ask(chance, session, server, outcomes)

            await asyncio.gather(*(client() for _ in range(_AT_ONCE)))
            memory.append(server.resident_mb())
            say(f"{report * (options.requests // _REPORTS):,} requests, {memory[-1]:.1f} MB resident")
            if not await _still_answers(session, server):
                outcomes["a right request got a wrong answer"] += 1
    return outcomes, memory


def unexpected_outcomes(outcomes):
    """Those that are neither an answer, nor a refusal, nor broken off by the client."""
    return {outcome: count for outcome, count in outcomes.items() if outcome not in {*_EXPECTED, "broken off"}}


def fuzz(directory, options, say):
    """Whether the server lived, answered in its own forms alone and kept its memory; and a line of figures."""
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
