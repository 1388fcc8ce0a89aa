"""Lowers a tf.function to StableHLO for a TPU compiler, by TensorFlow's own passes and TPU kernels, without a TPU.

experimental_get_compiler_ir of tf.function refuses functions that read variables if there is no device. This module
therefore turns the variables into arguments and results, with the passes of TensorFlow's TPU bridge. Each result is
aliased to its argument. The function itself is the one that the trainer calls, without changes.
"""

import re

import tensorflow as tf

_PASSES = (
    # Variables become typed arguments of the function. Fused updates of variables become plain ops.
    "tf-promote-var-handles-to-args",
    "tf-guarantee-all-funcs-one-use",
    "tf-shape-inference",
    "func.func(tf-device-decompose-resource-ops)",
    "canonicalize",
    # Loops and conditions carry the variables. Then values replace the variables inside.
    "tf-functional-control-flow-to-regions",
    "inline",
    "symbol-dce",
    "canonicalize",
    "tf-resource-op-lifting-for-main-function",
    "tf-promote-resources-to-args",
    "canonicalize",
    # The rows of a TensorArray become one array.
    "tf-tensor-list-ops-decomposition",
    "canonicalize",
    "tf-shape-inference",
)
# Each op becomes the instructions of its TPU kernel. An op without a kernel stays.
_LEGALIZATION = (
    "xla-legalize-tf{legalize-chlo=true use-tf2xla-fallback=true device-type=XLA_TPU_JIT}",
    "symbol-dce",
    "canonicalize",
    "hlo-legalize-to-stablehlo",
    "canonicalize",
)


class NotLowered(Exception):
    """A pass of TensorFlow refused the program. The message is the first line of the pass's error."""


def lower(function, arguments) -> tuple[str, str]:
    """Lowers a function.

    Args:
        function: tf.function.
        arguments: tf.TensorSpecs in any structure, or None. The positional arguments of the function.

    Returns:
        (module in TensorFlow's ops without variables, the same module in StableHLO), both as text. Ops without a TPU
        kernel stay in the text.

    Raises:
        NotLowered: a pass refuses the function.
    """
    module = re.sub(
        r"@__inference_wrapped_function_\d+",
        "@main",
        tf.mlir.experimental.convert_function(_self_contained(function.get_concrete_function(*arguments))),
    )
    try:
        tensorflow_text = tf.mlir.experimental.run_pass_pipeline(module, ",".join(_PASSES))
        return tensorflow_text, tf.mlir.experimental.run_pass_pipeline(tensorflow_text, ",".join(_LEGALIZATION))
    except tf.errors.OpError as error:
        # Example: "-:1199:11: error: 'tf.TensorListReserve' op unknown tensor list element shape", then the place.
        match = re.search(r"error: (.*)", str(error))
        raise NotLowered(match[1] if match else str(error).splitlines()[0]) from None


def _self_contained(concrete):
    """The concrete function with ops that make its variables, and constants for its captured tensors."""
    graph_def = concrete.graph.as_graph_def()
    nodes = {node.name: node for node in graph_def.node}
    captured = {placeholder.op.name for _, placeholder in concrete.graph.captures}
    for tensor, placeholder in concrete.graph.captures:
        node = nodes[placeholder.op.name]
        node.attr.clear()
        if tensor.dtype == tf.resource:
            # No other attribute has the type and shape of the variable.
            shape_and_type = tensor._handle_data.shape_and_type[0]
            node.op = "VarHandleOp"
            node.attr["dtype"].type = shape_and_type.dtype
            node.attr["shape"].shape.CopyFrom(shape_and_type.shape)
            node.attr["shared_name"].s = node.name.encode()
        else:
            node.op = "Const"
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(tensor))
    inputs = [tensor for tensor in concrete.inputs if tensor.op.name not in captured]
    outputs = [tensor.name for tensor in concrete.outputs]

    def imported(*tensors):
        return tf.graph_util.import_graph_def(
            graph_def,
            input_map={given.name: tensor for given, tensor in zip(inputs, tensors, strict=True)},
            return_elements=outputs,
            name="",
        )

    return tf.compat.v1.wrap_function(imported, [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs])
