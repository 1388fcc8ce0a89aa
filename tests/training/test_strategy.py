"""The choice of a run's devices."""

import json

import pytest

from keras_bert_app.errors import UserError
from keras_bert_app.training import strategies

CLUSTER = {"worker": ["a:1", "b:2"]}


@pytest.mark.parametrize("name", ["auto", "multi_worker"])
@pytest.mark.parametrize(
    "task", [None, {"type": "worker"}, {"type": "worker", "index": 2}, {"type": "chief", "index": 0}, "worker 0"]
)
def test_a_tf_config_whose_task_is_not_in_the_cluster_is_refused_with_an_example(name, task, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, **({"task": task} if task else {})}))
    with pytest.raises(UserError, match="TF_CONFIG has the task .*; expected the type and index of this") as error:
        strategies.make_strategy(name)
    assert str(error.value).endswith('such as {"type": "worker", "index": 0}')
