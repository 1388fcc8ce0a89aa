"""The options of batching: TensorFlow Serving's batching.config. This module does not load TensorFlow."""

import dataclasses

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.serving.model_configs import read_text_message
from pipelines.processors import num_cores

_FIELD = descriptor_pb2.FieldDescriptorProto
# BatchingParameters of tensorflow_serving/servables/tensorflow/session_bundle_config.proto: name -> (number, type).
# The package of TensorFlow Serving's messages does not contain this file.
_FIELDS = {
    "max_batch_size": (1, "Int64Value"),
    "batch_timeout_micros": (2, "Int64Value"),
    "max_enqueued_batches": (3, "Int64Value"),
    "num_batch_threads": (4, "Int64Value"),
    "thread_pool_name": (5, "StringValue"),
    "allowed_batch_sizes": (6, _FIELD.TYPE_INT64),
    "pad_variable_length_inputs": (7, _FIELD.TYPE_BOOL),
    "enable_large_batch_splitting": (8, "BoolValue"),
    "max_execution_batch_size": (9, "Int64Value"),
}


@dataclasses.dataclass(frozen=True)
class BatchingOptions:
    """Limits of a batch and of the queue.

    Args:
        max_batch_size: int. The most rows of one run. A larger request runs in parts.
        batch_timeout_micros: int. How long a request may wait for others while other batches run, in microseconds. On
            an idle server a request starts at once.
        max_enqueued_batches: int. This number times max_batch_size is the most rows of one request, and the most rows
            that may wait.
        num_batch_threads: int. How many batches run at the same time. The default is one for each processor, and at
            least two, so that a short request does not wait for a long one.
        max_request_tokens: int. The most tokens that the model may have to read for one request.
        is_enabled: bool. Whether the server merges requests.
    """

    max_batch_size: int = 64
    batch_timeout_micros: int = 1000
    max_enqueued_batches: int = 16
    num_batch_threads: int = dataclasses.field(default_factory=lambda: max(2, num_cores()))
    max_request_tokens: int = 1 << 23
    is_enabled: bool = True


def read(path: str) -> BatchingOptions:
    """Reads the options from a batching.config.

    Args:
        path: str. A file with BatchingParameters in text form. A missing option keeps its default.

    Returns:
        BatchingOptions.

    Raises:
        UserError: the file is not in this form, a number is too small, or an option exists only in TensorFlow Serving.
    """
    parsed = read_text_message(path, _message_class()())
    for name in (
        "allowed_batch_sizes",
        "pad_variable_length_inputs",
        "enable_large_batch_splitting",
        "max_execution_batch_size",
    ):
        if name in [field.name for field, _ in parsed.ListFields()]:
            raise UserError(f"{path}: {name} is an option that only TensorFlow Serving has; remove it")
    values = {
        field.name: getattr(parsed, field.name).value
        for field, _ in parsed.ListFields()
        if field.name != "thread_pool_name"
    }
    for name, value in values.items():
        least = 0 if name == "batch_timeout_micros" else 1
        if value < least:
            raise UserError(f"{path}: {name} is {value}; expected at least {least}")
    return BatchingOptions(**values)


def _message_class():
    file = descriptor_pb2.FileDescriptorProto(
        name="batching_parameters.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=["google/protobuf/wrappers.proto"],
    )
    message = file.message_type.add(name="BatchingParameters")
    for name, (number, kind) in _FIELDS.items():
        field = message.field.add(name=name, number=number, label=_FIELD.LABEL_OPTIONAL)
        if isinstance(kind, str):
            field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".google.protobuf.{kind}"
        else:
            field.type = kind
        if name == "allowed_batch_sizes":
            field.label = _FIELD.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.BatchingParameters"))
