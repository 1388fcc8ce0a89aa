"""From a tf.function to the StableHLO that a TPU compiler takes: TensorFlow's own passes and TPU kernels, but no TPU.

tf.function's own experimental_get_compiler_ir refuses a function that touches variables where there is no device. So
the variables are made arguments and results here, each result aliased to its argument, by the passes that TensorFlow's
TPU bridge has for it. What is lowered is the function that the trainer calls, as it stands.
"""

import re

import tensorflow as tf

_PASSES = (
    # Variables become arguments of the function, typed throughout; fused updates of variables become plain ops.
    "tf-promote-var-handles-to-args",
    "tf-guarantee-all-funcs-one-use",
    "tf-shape-inference",
    "func.func(tf-device-decompose-resource-ops)",
    "canonicalize",
    # Loops and conditions carry them; after that none is left within, and values take their places.
    "tf-functional-control-flow-to-regions",
    "inline",
    "symbol-dce",
    "canonicalize",
    "tf-resource-op-lifting-for-main-function",
    "tf-promote-resources-to-args",
    "canonicalize",
    # Rows of a TensorArray become one array.
    "tf-tensor-list-ops-decomposition",
    "canonicalize",
    "tf-shape-inference",
)
# Every op becomes what its TPU kernel makes of it. An op without one stays.
_LEGALIZATION = (
    "xla-legalize-tf{legalize-chlo=true use-tf2xla-fallback=true device-type=XLA_TPU_JIT}",
    "symbol-dce",
    "canonicalize",
    "hlo-legalize-to-stablehlo",
    "canonicalize",
)


class NotLowered(Exception):
    """A pass of TensorFlow refused the program; the message is its own first line."""


def lower(function, arguments):
    """(a module without variables but of TensorFlow's ops, the same in StableHLO), as text.

    Args:
        function: tf.function. arguments: its positional arguments, tf.TensorSpecs in any structure, or None.

    Raises:
        NotLowered: a pass refuses it. Ops that have no TPU kernel do not raise: they are left in the text.
    """
    module = re.sub(
        r"@__inference_wrapped_function_\d+",
        "@main",
        tf.mlir.experimental.convert_function(_self_contained(function.get_concrete_function(*arguments))),
    )
    try:
        of_ops = tf.mlir.experimental.run_pass_pipeline(module, ",".join(_PASSES))
        return of_ops, tf.mlir.experimental.run_pass_pipeline(of_ops, ",".join(_LEGALIZATION))
    except tf.errors.OpError as error:
        # "-:1199:11: error: 'tf.TensorListReserve' op unknown tensor list element shape", then where it stands.
        match = re.search(r"error: (.*)", str(error))
        raise NotLowered(match[1] if match else str(error).splitlines()[0]) from None


def _self_contained(concrete):
    """The concrete function with its variables made by ops within it, and constants in place of captured tensors."""
    graph_def = concrete.graph.as_graph_def()
    nodes = {node.name: node for node in graph_def.node}
    captured = {placeholder.op.name for _, placeholder in concrete.graph.captures}
    for tensor, placeholder in concrete.graph.captures:
        node = nodes[placeholder.op.name]
        node.attr.clear()
        if tensor.dtype == tf.resource:
            # The one place where a handle says what it is a handle of.
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
            input_map={given.name: tensor for given, tensor in zip(inputs, tensors)},
            return_elements=outputs,
            name="",
        )

    return tf.compat.v1.wrap_function(imported, [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs])
