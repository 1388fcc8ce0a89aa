"""Connections that send nothing, connections that do not read, and too many connections."""

import contextlib
import json
import socket
import threading
import time

import pytest

from keras_bert_app.serving import connections, server
from keras_bert_app.serving.connections import ConnectionLimits
from keras_bert_app.serving.model_configs import ModelConfig
from tests.serving.conftest import VOCABULARY, running, wait_for

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def closed_within(connection, seconds):
    """Reads until the server closes a connection. Returns the seconds that this took and the received bytes."""
    connection.settimeout(seconds)
    start, received = time.monotonic(), b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            received += part
    return time.monotonic() - start, received


def with_body(request):
    body = json.dumps(request).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_silent_connections_make_room_for_those_that_ask_and_cost_one_line(base_path):
    log, limits = [], ConnectionLimits(most=10)
    with running(ModelConfig("tiny", str(base_path)), log=log, connections=limits) as client:
        silent = [client.send(b"") for _ in range(8)] + [client.send(GET[:-9]) for _ in range(8)]
        for _ in range(3):
            assert client.predict(instances=["x"])[0] == 200
        lines = [line for line in log if "--max_connections" in line]
        assert lines == [
            "all 10 connections are in use (--max_connections, ulimit -n); the server closes silent connections first"
        ]
        for connection in silent:
            connection.close()


def test_bodies_that_never_end_do_not_lock_others_out(base_path):
    limits = ConnectionLimits(most=8)
    with running(ModelConfig("tiny", str(base_path)), connections=limits) as client:
        unfinished = [client.send(POST + b"Content-Length: 99\r\n\r\n{") for _ in range(12)]
        assert client.predict(instances=["x"])[0] == 200
        for connection in unfinished:
            connection.close()


def test_slow_bodies_do_not_keep_the_queue_full(base_path, monkeypatch):
    monkeypatch.setattr(connections, "_SLOW_BODY_SECONDS", 0.3)
    with running(ModelConfig("tiny", str(base_path)), max_queued_requests=3) as client:
        finish = [client.begin(instances=["x"]) for _ in range(3)]
        assert client.predict(instances=["x"])[0] == 503
        time.sleep(0.4)
        assert client.predict(instances=["x"])[0] == 200
        with pytest.raises(OSError):
            finish[0]()
        assert finish[2]()[0] == 200
        finish[1].leave()


def test_headers_have_a_time_limit_even_when_they_trickle(base_path):
    limits = ConnectionLimits(header_seconds=0.4, idle_seconds=60)
    with running(ModelConfig("tiny", str(base_path)), connections=limits) as client:
        with client.send(b"") as silent, client.send(GET[:10]) as trickling:
            end = time.monotonic() + 3
            with contextlib.suppress(OSError):
                while time.monotonic() < end:
                    trickling.sendall(b"x")
                    time.sleep(0.05)
            assert time.monotonic() < end
            assert closed_within(silent, 3)[1] == b""
        with client.send(GET[:10]) as half:
            assert closed_within(half, 3)[1].startswith(b"HTTP/1.1 408")


def test_an_idle_connection_is_closed_and_a_working_one_is_not(base_path):
    limits = ConnectionLimits(header_seconds=60, idle_seconds=0.4)
    with running(ModelConfig("tiny", str(base_path)), connections=limits) as client:
        with client.send(GET + b"\r\n") as idle:
            seconds, received = closed_within(idle, 3)
            assert received.startswith(b"HTTP/1.1 200") and 0.3 < seconds
        finish = client.begin(signature_name="half", instances=[1])
        time.sleep(0.8)
        assert finish()[0] == 200


def test_the_limit_of_connections_stays_below_the_limit_of_open_files(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda which: (256, 256))
    assert ConnectionLimits().within_open_files().most == 160
    assert ConnectionLimits(most=5).within_open_files().most == 5


def test_a_process_without_free_file_descriptors_says_so_once_and_continues(base_path, monkeypatch):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log) as client:
        accept, failures = socket.socket.accept, iter(range(3))

        def failing_accept(self):
            if next(failures, None) is not None:
                raise OSError(24, "Too many open files")
            return accept(self)

        monkeypatch.setattr(socket.socket, "accept", failing_accept)
        assert client.predict(instances=["x"])[0] == 200
    lines = [line for line in log if "Too many open files" in line]
    assert lines == ["no connection can be accepted: Too many open files; the server closes silent connections first"]


WIDE = {
    "signature_name": "masked_lm",
    "instances": [{"input_word_ids": [0] * 40, "masked_lm_positions": [0] * 40}] * 20,
}


def test_an_answer_that_nobody_reads_counts_as_a_request_until_its_time_limit(base_path):
    with running(ModelConfig("tiny", str(base_path)), timeout_ms=1500, max_queued_requests=2) as client:
        readers = [client.send(with_body(WIDE), receive_buffer=4096) for _ in range(2)]
        wait_for(lambda: client.metric("serving_batch_rows_count") == 2)
        assert client.predict(instances=["x"])[0] == 503
        wait_for(lambda: client.metric("serving_requests_under_way") == 0)
        assert client.predict(instances=["x"])[0] == 200
        for connection in readers:
            _, received = closed_within(connection, 5)
            assert not received.endswith(b"\r\n0\r\n\r\n")
            connection.close()


def test_unread_answers_have_a_memory_limit_and_small_requests_are_still_answered(base_path):
    values = 20 * 40 * VOCABULARY
    with running(ModelConfig("tiny", str(base_path)), max_answer_values=values) as client:
        readers = [client.send(with_body(WIDE), receive_buffer=4096) for _ in range(2)]
        wait_for(lambda: client.metric("serving_batch_rows_count") == 2)
        time.sleep(0.2)
        status, answer = client.predict(**WIDE)
        assert status == 503 and "take all memory for answers" in answer["error"]
        assert client.predict(instances=["x"])[0] == 200
        for connection in readers:
            connection.close()
        wait_for(lambda: client.metric("serving_requests_under_way") == 0)
        assert client.predict(**WIDE)[0] == 200


@pytest.mark.parametrize("request_", [POST + b"Content-Length: 99\r\n\r\n{", with_body(WIDE)], ids=["body", "reader"])
def test_stopping_ends_within_the_grace_time(base_path, request_):
    log = []
    with running(ModelConfig("tiny", str(base_path)), log=log, grace_seconds=2) as client:
        with client.send(request_, receive_buffer=4096):
            wait_for(lambda: client.metric("serving_requests_under_way") == 1)
            start = time.monotonic()
            client.stop()
            client.thread.join(10)
            assert time.monotonic() - start < 2 and "1 requests are cut off (--grace_seconds=2)" in log


def test_stopping_ends_a_run_that_takes_too_long(base_path):
    with running(ModelConfig("tiny", str(base_path)), grace_seconds=2) as client:
        with client.send(with_body({"signature_name": "slow", "instances": [10**8]})):
            wait_for(lambda: client.metric("serving_batch_rows_count") == 1)
            start = time.monotonic()
            client.stop()
            client.thread.join(10)
            assert time.monotonic() - start < 2


def test_a_process_that_does_not_end_in_time_is_forced_to_exit(monkeypatch):
    codes, log, is_ended = [], [], threading.Event()
    monkeypatch.setattr("os._exit", lambda code: codes.append(code) or is_ended.set())
    server._end_process_after(0.01, log.append)
    assert is_ended.wait(5) and codes == [1] and log == ["stopped before everything ended (--grace_seconds)"]
