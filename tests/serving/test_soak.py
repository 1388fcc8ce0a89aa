"""Short forms of the load and fuzz tests of benchmarks/serving/serving_soak.py, with a server in this process."""

import asyncio
import os
import types

import pytest

from benchmarks.serving import serving_fuzz, serving_load, serving_models
from keras_bert_app.serving.model_configs import ModelConfig
from tests.serving.conftest import running


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Directories of the small model with the numbers 0 and 1. The model does little work."""
    directories = [str(tmp_path_factory.mktemp("small") / str(number)) for number in (0, 1)]
    for number, directory in enumerate(directories):
        serving_models.write(directory, number, rounds=100)
    return directories


def served(originals, tmp_path, **options):
    base_path = str(tmp_path / "small")
    os.makedirs(base_path)
    serving_models.put(originals[1], base_path, 1)
    return base_path, running(ModelConfig("small", base_path), **options)


def test_random_requests_get_an_answer_or_a_refusal(originals, tmp_path):
    _, server = served(originals, tmp_path)
    with server as client:
        process, options = types.SimpleNamespace(pid=os.getpid()), types.SimpleNamespace(seed=3, requests=600)
        outcomes, memory = asyncio.run(
            serving_fuzz.drive(serving_models.Server(process, client.port), options, lambda line: None)
        )
    assert serving_fuzz.unexpected_outcomes(outcomes) == {}
    assert sum(outcomes.values()) == 600 and outcomes[200] > 20 and outcomes[400] > 200 and len(memory) == 20


def test_under_overload_and_swaps_no_accepted_request_fails(originals, tmp_path):
    base_path, server = served(originals, tmp_path, max_queued_requests=4)
    options = types.SimpleNamespace(clients=24, swaps=3, load_seconds=1.5, capacity_seconds=0.5)
    with server as client:
        num_swaps, outcomes, seconds, most_under_way, _ = asyncio.run(
            serving_load.drive(
                serving_models.Server(None, client.port), base_path, originals, 4, options, lambda line: None
            )
        )
    answered = {outcome for outcome in outcomes if outcome.startswith("version ")}
    assert num_swaps == 3 and most_under_way <= 4 and answered == {"version 0", "version 1"}
    assert set(outcomes) == answered | {"503"} and len(seconds) == sum(outcomes[outcome] for outcome in answered)
