"""The TPU's path through the trainer, tested without a TPU.

The host makes the next batches while the device takes many steps in one call. The tests of this run on two logical CPU
devices, or on the number in TEST_LOGICAL_CPUS. The programs of TPUStrategy are traced but not run, because only a TPU
executes them.
"""

import dataclasses
import functools
import re
import shutil
import socket
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import DeviceLost, UserError
from keras_bert_app.modeling.execution import STEP
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import checkpoints
from keras_bert_app.training import device_faults, forward, infeed, replicas, steps, strategies, tpu, tpu_wheels
from keras_bert_app.training.compilation import inference_execution
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from tests.training.conftest import CONFIG, RUN, WITH_DROPOUT, train, two_replicas
from tests.training.runs import weights_of


@functools.cache
def all_replicas():
    devices = tf.config.list_logical_devices("CPU")
    return two_replicas() if len(devices) == 2 else tf.distribute.MirroredStrategy([device.name for device in devices])


@pytest.fixture
def on_a_tpu(monkeypatch):
    """Makes the loop treat the CPUs as a TPU. A call may then have 100 steps.

    Returns a list of the numbers of batches that the loop asks for in advance, while the devices compute.
    """
    monkeypatch.setattr(strategies, "device_kind", lambda strategy: "TPU")
    counts = []
    real = infeed.Batches.begin
    monkeypatch.setattr(infeed.Batches, "begin", lambda self, count: counts.append(count) or real(self, count))
    return counts


def test_the_host_side_of_a_tpu_gives_the_losses_and_weights_of_one_device_and_resumes(
    on_a_tpu, plain_run, make_workdir, shards
):
    run = dataclasses.replace(RUN, iterations_per_loop=0, save_checkpoints_steps=12, precision="float32")
    workdir = make_workdir("host", run=run)
    figures, output = train(workdir, shards, all_replicas())
    assert on_a_tpu == [2, 8, 8, 0] and "advice" not in output
    assert abs(figures["eval_loss"] - plain_run[1]["eval_loss"]) < 1e-5
    ours, plain = weights_of(workdir), weights_of(plain_run[0])
    assert max(np.abs(ours[path] - plain[path]).max() for path in plain) < 1e-6
    # When the first checkpoint was saved, the loop had already taken the next batches from the data.
    shutil.rmtree(checkpoints.list_checkpoints(workdir)[-1])
    train(workdir, shards, all_replicas())
    resumed = weights_of(workdir)
    assert all(np.array_equal(ours[path], resumed[path]) for path in ours)


@pytest.mark.slow
def test_a_run_with_ramps_resumes_bit_for_bit(on_a_tpu, make_workdir, training_shards):
    # The first checkpoint comes after two steps. The next step is the first one with the third of three shapes, 8 rows
    # of 32 tokens instead of 4 rows of 16.
    run = dataclasses.replace(
        RUN,
        max_seq_length=32,
        num_train_steps=4,
        log_steps=1,
        save_checkpoints_steps=2,
        iterations_per_loop=0,
        precision="float32",
        length_ramp_steps=2,
        batch_ramp_steps=2,
    )
    workdir = make_workdir("ramp", CONFIG, run)
    train(workdir, training_shards)
    weights = weights_of(workdir)
    shutil.rmtree(checkpoints.list_checkpoints(workdir)[-1])
    train(workdir, training_shards)
    assert on_a_tpu
    assert all(np.array_equal(weights[path], resumed) for path, resumed in weights_of(workdir).items())


def test_bfloat16_is_the_default_on_a_tpu_and_not_on_a_cpu(monkeypatch):
    strategy = two_replicas()
    assert RUN.precision == "auto"
    assert strategies.with_precision(RUN, strategy).precision == "float32"
    monkeypatch.setattr(strategies, "device_kind", lambda strategy: "TPU")
    assert strategies.with_precision(RUN, strategy).precision == "bfloat16"
    assert strategies.with_precision(dataclasses.replace(RUN, precision="float32"), strategy).precision == "float32"


def test_a_call_of_fewer_steps_is_not_traced_again():
    traces = []

    class Model:
        has_dropout = False

        def __call__(self, batch, dropout_seed=None, heads_only=False, execution=None):
            traces.append(1)
            return {"mlm_logits": variable * tf.ones([4, 3, 7]), "nsp_logits": variable * tf.ones([4, 2])}

    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    variable = tf.Variable(1.0)
    optimizer = choice.make_optimizer(RUN, {"masked_lm/kernel": variable}, 1)
    call = steps.make_train_call(strategy, Model(), optimizer, RUN, PretrainingObjective(), steps_per_call=5)
    for count in (5, 2):
        assert call(batches(count, 4, 9, 3), 0).shape == (count, len(steps.columns(PretrainingObjective())))
    assert len(traces) == 1


def batches(count, rows, length, predictions):
    ids, positions = tf.ones([count, rows, length], tf.int32), tf.ones([count, rows, predictions], tf.int32)
    return {
        "input_word_ids": ids,
        "input_mask": ids,
        "input_type_ids": 0 * ids,
        "masked_lm_positions": positions,
        "masked_lm_ids": positions,
        "masked_lm_weights": tf.cast(positions, tf.float32),
        "next_sentence_labels": tf.zeros([count, rows], tf.int32),
    }


@pytest.fixture(scope="module")
def stand_in():
    """A TPUStrategy that uses two CPUs as chips, with a model and an optimizer. The variables are on the CPUs."""
    from tensorflow.python.tpu.tpu_system_metadata import TPUSystemMetadata

    class Resolver(tf.distribute.cluster_resolver.TPUClusterResolver):
        def get_tpu_system_metadata(self):
            chips = [SimpleNamespace(name=f"/job:localhost/replica:0/task:0/device:TPU:{index}") for index in range(2)]
            return TPUSystemMetadata(num_cores=2, num_hosts=1, num_of_cores_per_host=2, topology=None, devices=chips)

    strategy = tf.distribute.TPUStrategy(Resolver(tpu="local"))
    strategy.extended._tpu_devices = np.array(
        [[device.name] for device in tf.config.list_logical_devices("CPU")[:2]], object
    )
    with strategy.scope():
        model = BertPretrainer(WITH_DROPOUT.replace(num_hidden_layers=1), seed=3)
        variables = {variable.path: variable.value for variable in model.trainable_variables}
        return SimpleNamespace(strategy=strategy, model=model, optimizer=choice.make_optimizer(RUN, variables, 1))


def nodes_for_the_chips(graph):
    """A list with the nodes of each function, or of the graph itself, that contains a program for the chips."""
    definition = graph.as_graph_def(add_shapes=True)
    programs = [function.node_def for function in definition.library.function] + [definition.node]
    return [nodes for nodes in programs if any(node.op == "TPUReplicateMetadata" for node in nodes)]


def train_graph(stand_in, optimizer, /, **changes):
    run = dataclasses.replace(RUN, jit_compile="step", **changes)
    function = steps.train_function(stand_in.strategy, stand_in.model, optimizer, run, PretrainingObjective())
    stacked = replicas.split_over_replicas(stand_in.strategy, batches(3, 8, 29, 5), row_axis=1)
    return function.get_concrete_function(stacked, tf.constant(3), tf.constant(0), None, tf.constant(0.0)).graph


def test_tpu_strategy_makes_one_program_of_a_step_and_passes_it_only_the_rows_of_that_step(stand_in):
    graph = train_graph(stand_in, stand_in.optimizer)
    (nodes,) = nodes_for_the_chips(graph)
    assert any(node.op in ("While", "StatelessWhile") for node in graph.as_graph_def().node)
    inputs = [node for node in nodes if node.op == "TPUReplicatedInput"]
    values = [node for node in inputs if node.attr["T"].type != tf.resource.as_datatype_enum]
    assert {tf.dtypes.as_dtype(node.attr["T"].type) for node in values} == {tf.int32, tf.float32}
    shapes = [tuple(size.size for size in node.attr["_output_shapes"].list.shape[0].dim) for node in values]
    assert sorted(filter(None, shapes)) == [(4,), *[(4, 5)] * 3, *[(4, 29)] * 3]
    inside = [node for node in nodes if "_tpu_replicate" in node.attr]
    assert any(node.op == "CrossReplicaSum" for node in inside)
    assert not any(value.type == tf.string.as_datatype_enum for node in inside for value in node.attr.values())


@pytest.mark.parametrize(
    "changes",
    [{"optimizer": "muon", "gradient_accumulation_steps": 2}, {"optimizer": "lamb"}, {"optimizer": "adafactor"}],
)
def test_tpu_strategy_makes_one_program_with_other_optimizers_and_with_gradient_accumulation(stand_in, changes):
    with stand_in.strategy.scope():
        variables = {variable.path: variable.value for variable in stand_in.model.trainable_variables}
        optimizer = choice.make_optimizer(dataclasses.replace(RUN, **changes), variables, 1)
    (nodes,) = nodes_for_the_chips(train_graph(stand_in, optimizer, **changes))
    assert any(node.op == "CrossReplicaSum" for node in nodes)


def test_tpu_strategy_makes_one_program_of_evaluation_prediction_and_norms_and_restores_a_checkpoint(
    stand_in, tmp_path
):
    batch = {name: values[0] for name, values in batches(1, 8, 29, 5).items()}
    rows = replicas.split_over_replicas(stand_in.strategy, batch, row_axis=0)
    execution = inference_execution(RUN, stand_in.strategy, is_worth=False)
    assert execution == STEP
    for function, arguments in (
        (forward.evaluation_function(stand_in.strategy, stand_in.model, PretrainingObjective(), execution), [rows]),
        (
            forward.prediction_function(
                stand_in.strategy,
                lambda batch, execution: {"logits": stand_in.model(batch, execution=execution)["nsp_logits"]},
                execution,
            ),
            [rows],
        ),
        (choice.norms_function(stand_in.strategy, stand_in.optimizer), [tf.constant(1e-3), tf.constant(3)]),
    ):
        assert len(nodes_for_the_chips(function.get_concrete_function(*arguments).graph)) == 1
    directory = checkpoints.save(str(tmp_path), stand_in.model, stand_in.optimizer, 3, (0, 0, 0), keep=1)
    assert checkpoints.restore(directory, stand_in.model, stand_in.optimizer)["step"] == 3


# TensorFlow's messages. On a machine without a TPU, 2.20's TPU wheel gives the first and 2.21's plain wheel the second.
# The third comes if TPU_NAME holds a name outside of Google Cloud. The next two are from TensorFlow's issue 35700 and
# sources, and the last one is invented.
@pytest.mark.parametrize(
    "error, part",
    [
        (
            tf.errors.NotFoundError(
                None,
                None,
                "TPUs not found in the cluster. Failed in initialization: No matching devices found for "
                "'/device:TPU_SYSTEM:0' [Op:__inference__tpu_init_fn_4]",
            ),
            "finds no TPU on this machine",
        ),
        (
            tf.errors.NotFoundError(
                None,
                None,
                "TPUs not found in the cluster. Failed in initialization: No OpKernel was registered to "
                "support Op 'ConfigureDistributedTPU'\nRegistered devices: [CPU]",
            ),
            "finds no TPU on this machine",
        ),
        (OSError("<urlopen error [Errno -2] Name or service not known>"), "Google Cloud did not give the address"),
        (
            tf.errors.NotFoundError(
                None,
                None,
                "'__inference__tpu_init_fn_4' is neither a type of a primitive operation nor a name of a "
                "function registered in binary running on n-80f5d4ef-w-0.",
            ),
            "another version of TensorFlow",
        ),
        (
            RuntimeError(
                "Missing runtime dependency on the Google API client. Run `pip install cloud-tpu-client` to fix."
            ),
            "pip install google-api-python-client",
        ),
        (RuntimeError("something\nelse"), "did not start (something)"),
    ],
)
def test_a_tpu_that_does_not_start_is_refused_in_one_line_with_the_reason(monkeypatch, error, part):
    def resolver(tpu):
        raise error

    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", resolver)
    with pytest.raises(UserError) as refused:
        tpu.make_strategy({"TPU_NAME": "my-tpu"})
    assert part in str(refused.value) and "\n" not in str(refused.value)


def test_a_start_without_the_tpu_wheel_or_without_a_server_at_the_address_is_refused_without_waiting():
    with pytest.raises(UserError, match="built without TPUs, and the environment names none"):
        tpu.make_strategy({})
    with pytest.raises(
        UserError, match="TPU_ACCELERATOR_TYPE=v5e-1 says that there is one; install requirements-tpu.txt"
    ):
        tpu.make_strategy({"TPU_ACCELERATOR_TYPE": "v5e-1"})
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"grpc://127.0.0.1:{port}", "grpc://", "grpc://127.0.0.1:x"):
        with pytest.raises(UserError, match="nothing answers at grpc://"):
            tpu.make_strategy({"TPU_NAME": address})


def test_the_environment_says_whether_a_tpu_is_meant_and_at_which_address():
    assert not tpu.is_meant({})
    assert tpu.is_meant({"TPU_NAME": "local"}) and tpu.is_meant({"TPU_ACCELERATOR_TYPE": "v5e-1"})
    assert tpu.address({}) == tpu.address({"TPU_NAME": "local"}) == "local"
    assert tpu.address({"TPU_NAME": "pod", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS": "grpc://a:1"}) == "grpc://a:1"


def test_chips_of_this_machine_come_before_tpu_name_but_one_machine_of_a_pod_is_refused(monkeypatch):
    monkeypatch.setattr(tpu_wheels, "installed", lambda: "2.20.0")
    monkeypatch.setattr(tpu_wheels, "chips", lambda: ["/dev/vfio/0"])
    assert tpu.address({"TPU_NAME": "t1v-n-0"}) == "local"
    assert tpu.address({"TPU_NAME": "my-pod", "TPU_LOAD_LIBRARY": "0"}) == "my-pod"
    with pytest.raises(UserError, match="one of the 4 machines of a pod.*set TPU_NAME to the pod's name"):
        tpu.make_strategy({"TPU_WORKER_HOSTNAMES": "a,b,c,d"})


def test_a_full_or_lost_tpu_gets_an_error_of_its_own_and_other_devices_keep_their_errors(stand_in):
    full = tf.errors.ResourceExhaustedError(
        None,
        None,
        "XLA:TPU compile permanent error.\nRan out of memory in memory space hbm. Used 20.10G of 15.75G hbm.",
    )
    gone = tf.errors.UnavailableError(None, None, "Socket closed")
    for error, kind, part in (
        (full, UserError, "4 rows a core do not fit"),
        (gone, DeviceLost, "went away (Socket closed)"),
    ):
        with pytest.raises(kind, match=re.escape(part)) as named, device_faults.named(stand_in.strategy, RUN):
            raise error
        assert "\n" not in str(named.value)
        with pytest.raises(type(error)), device_faults.named(two_replicas(), RUN):
            raise error


def test_advice_names_a_batch_of_eight_rows_a_core_and_the_flag_for_rows_of_one_length(stand_in):
    assert tpu.advice(stand_in.strategy, dataclasses.replace(RUN, global_batch_size=16)) == []
    (line,) = tpu.advice(stand_in.strategy, dataclasses.replace(RUN, global_batch_size=12))
    assert "6 rows" in line and "--global_batch_size=16" in line
    assert tpu.advice(two_replicas(), dataclasses.replace(RUN, global_batch_size=12)) == []
    (line,) = tpu.advice(stand_in.strategy, FinetuningConfig(global_batch_size=16))
    assert "--nolength_buckets" in line


@pytest.mark.parametrize(
    "batch_size, kind, beginning",
    [
        (256, "v5litepod-8", "up to about 539 rows fit into the 16 GB of a core of v5e"),
        (2000, "v5e-1", "advice: 1,000 rows a core, of which about 539 fit into the 16 GB of a core of v5e"),
        (2000, "v6e-1", "up to about 1,137 rows fit into the 32 GB of a core of v6e"),
    ],
)
def test_the_advice_says_how_many_rows_fit_if_the_chip_is_known(stand_in, batch_size, kind, beginning):
    run = PretrainingConfig(global_batch_size=batch_size, precision="bfloat16").resolved()
    arguments = stand_in.strategy, run, BertConfig.of_size("base")
    (line,) = tpu.advice(*arguments, {"TPU_ACCELERATOR_TYPE": kind})
    assert (
        line.startswith(beginning)
        and tpu.advice(*arguments, {}) == tpu.advice(*arguments, {"TPU_ACCELERATOR_TYPE": "v99-1"}) == []
    )


@pytest.mark.parametrize(
    "versions, part",
    [
        ({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.51"}, "pip install libtpu==0.0.14"),
        ({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.14", "tensorflow": "2.20.0"}, "installed over tensorflow-tpu"),
        ({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.14"}, ""),
        ({"tensorflow": "2.21.0", "libtpu": "0.0.51"}, ""),
    ],
)
def test_wheels_that_would_abort_tensorflow_are_refused_before_it_is_imported(monkeypatch, versions, part):
    monkeypatch.setattr(tpu_wheels, "_version", versions.get)
    if part:
        with pytest.raises(UserError, match=part):
            tpu_wheels.check()
    else:
        tpu_wheels.check()
