"""The ops that a profile of training steps counts."""

import tensorflow as tf

from keras_bert_app.training import profiling


def test_a_profile_counts_the_ops_of_steps_and_no_op_between_them(tmp_path):
    lines = []
    profiler = profiling.Profiler(str(tmp_path / "lr[3]*"), 3, lines.append)
    values, other = tf.random.stateless_normal([70, 70], [1, 2]), tf.random.stateless_normal([70, 70], [1, 3])
    product = tf.function(lambda values: values @ other)
    kernel = tf.function(lambda values: tf.exp(values) / 3.0, jit_compile=True)
    for _ in range(4):  # the first call compiles; the profiler does not trace it
        with profiler.watch(1):
            kernel(product(values)).numpy()
        tf.linalg.inv(values).numpy()  # between two calls, as an evaluation would be
    times = profiling.op_times(profiler.directory)
    # The types of oneDNN's products begin with "_".
    products = {kind: count for kind, (count, _) in times.items() if kind.endswith("MatMul")}
    assert list(products.values()) == [3], times
    kernels = {kind: count for kind, (count, _) in times.items() if kind.startswith("XLA ")}
    assert kernels and all(count == 3 for count in kernels.values()), times
    assert "MatrixInverse" not in times
    assert "profile of 3 steps" in lines[0] and any("MatMul" in line for line in lines)
