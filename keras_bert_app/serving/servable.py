"""One version of a model in memory: files verified, graph and variables in a session, caches warm."""

import contextlib
import os
from collections.abc import Callable

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops, which raw-text models need
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_log_pb2

from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.serving import saved_model_files
from keras_bert_app.serving.request_errors import short
from keras_bert_app.serving.served_signatures import Signature, can_be_served
from pipelines import storage

DESCRIPTION = "export.json"
WARM_UP = os.path.join("assets.extra", "tf_serving_warmup_requests")
_MOST_LEVELS = 64  # nested lists and objects in export.json
# TensorFlow Serving's limit for the records of a warm-up file.
_MOST_WARM_UPS = 1000


class Servable:
    """A version in memory.

    TensorFlow Serving runs models in a session too, so a model that works here also works in TensorFlow Serving. In
    contrast to tf.saved_model.load, a session can stop a run at its time limit and frees its memory when it closes. A
    call also costs less.

    Args:
        directory: str. The directory of the version.
        allow_unverified: bool. Whether to serve a version without a manifest.json.
        log: function that takes one line of text.

    Attributes:
        signatures: dict from name to Signature.
        metadata: dict. The SignatureDefs as JSON values.
        description: dict. The content of export.json.

    Raises:
        UserError: a file differs from the manifest, export.json has values that no answer can hold, or the warm-up
            requests do not fit the model.
        tf.errors.OpError, OSError, ValueError: TensorFlow cannot load the SavedModel.
    """

    def __init__(self, directory: str, allow_unverified: bool = False, log: Callable[[str], None] = print):
        self.directory = directory
        if allow_unverified and not tf.io.gfile.exists(os.path.join(directory, saved_model_files.MANIFEST)):
            saved_model_files.check_plain(directory)
            log(f"{directory}: has no {saved_model_files.MANIFEST}; served unverified")
        else:
            saved_model_files.check_manifest(directory)
        self.description = _read_description(directory)
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph)
        try:
            with graph.as_default(), contextlib.ExitStack() as links:
                path = saved_model_files.literal(directory, links)
                meta_graph = tf.compat.v1.saved_model.load(self._session, [tf.saved_model.SERVING], path)
            definitions = meta_graph.signature_def
            self.signatures = {
                name: Signature(self._session, name, definition)
                for name, definition in definitions.items()
                if can_be_served(definition)
            }
            self.metadata = _metadata(definitions)
            self._warm_up(os.path.join(directory, WARM_UP))
        except BaseException:
            self._session.close()
            raise

    def close(self) -> None:
        """Frees the graph and the variables. No run may be under way or follow."""
        self._session.close()

    def _warm_up(self, path):
        if not tf.io.gfile.exists(path):
            return
        for number, record in enumerate(tf.data.TFRecordDataset(path).as_numpy_iterator()):
            request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
            signature = self.signatures.get(request.model_spec.signature_name or "serving_default")
            names = signature and {spec.name for spec in signature.inputs}
            if number == _MOST_WARM_UPS or names != set(request.inputs):
                raise UserError(
                    f"{path}: record {number} is not a predict request to one of this model's signatures, or "
                    f"the file has more than {_MOST_WARM_UPS:,} records; export again, or remove the file"
                )
            signature.run([tf.make_ndarray(request.inputs[spec.name]) for spec in signature.inputs])


def _metadata(definitions):
    message = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in definitions.items():
        message.signature_def[name].CopyFrom(definition)
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _read_description(directory):
    path = os.path.join(directory, DESCRIPTION)
    description = read_json(path) if storage.exists(path) else {}
    # The answer to GET /v1/models holds the description and must not fail. A recursive check could reach Python's
    # recursion limit.
    level, depth = [description], 1
    while level:
        if depth > _MOST_LEVELS:
            raise UserError(f"{path}: is nested deeper than {_MOST_LEVELS} levels; export again")
        values = [value for part in level for value in (part.values() if isinstance(part, dict) else part)]
        for value in values:
            if isinstance(value, (int, float)) and not (-(2**63) <= value < 2**63):  # never true of NaN
                raise UserError(f"{path}: has the number {short(value)}; expected numbers of 64 bits; export again")
        level, depth = [value for value in values if isinstance(value, (dict, list))], depth + 1
    return description
