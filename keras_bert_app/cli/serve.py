"""Serves exported models over HTTP with TensorFlow Serving's REST interface, and a web page to try them.

python -m keras_bert_app.cli.serve --model_base_path=saved_models/mine --model_name=mine
python -m keras_bert_app.cli.serve --model_config_file=saved_models/models.config

Flags with the name of a TensorFlow Serving flag have the same meaning. There are two differences: port 0 takes a free
port, and --model_name, --enable_batching and --model_config_file_poll_wait_seconds have other defaults.
"""

import dataclasses
import os

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("model_base_path", "", "Directory of a model's versions, such as saved_models/NAME.")
flags.DEFINE_string("model_name", "", "Name of the model in URLs; default: the last part of --model_base_path.")
flags.DEFINE_string(
    "model_config_file",
    "",
    "ModelServerConfig in text form: several models, versions and labels; instead of --model_base_path.",
)
flags.DEFINE_integer("rest_api_port", 8501, "Port of the REST interface and the page; 0 takes a free one.", 0, 65535)
flags.DEFINE_string("rest_api_host", "127.0.0.1", "Address to listen on; 0.0.0.0 lets other machines in, unprotected.")
flags.DEFINE_list(
    "allowed_hosts",
    [],
    "Names of the server in URLs beside localhost and IP addresses, such as the name of a proxy; '*' allows all.",
)
flags.DEFINE_integer(
    "rest_api_timeout_in_ms",
    30_000,
    "Longest time from a request's headers to its outputs. Then a client may take the same time to read its answer.",
    1,
)
flags.DEFINE_float("grace_seconds", 30, "Longest time from SIGTERM to the end; then open requests are cut off.", 1)
flags.DEFINE_bool("enable_batching", True, "Merge requests that wait at the same time into one batch.")
flags.DEFINE_string("batching_parameters_file", "", "BatchingParameters in text form.")
flags.DEFINE_float(
    "file_system_poll_wait_seconds", 1, "Seconds between looks for new versions; 0: only one look, at the start.", 0
)
flags.DEFINE_float(
    "model_config_file_poll_wait_seconds",
    1,
    "Seconds between looks into --model_config_file for new, changed and removed models; 0: only one look.",
    0,
)
flags.DEFINE_integer(
    "max_connections",
    1024,
    "Most connections at the same time, fewer if `ulimit -n` is low. When all are taken, a silent one is closed.",
    1,
)
flags.DEFINE_integer("max_request_bytes", 16 << 20, "Largest body of a request; beyond it the answer is 413.", 1)
flags.DEFINE_integer("max_queued_requests", 512, "Most requests under way; beyond it the answer is 503.", 1)
flags.DEFINE_integer(
    "max_request_tokens",
    1 << 23,
    "Largest work of a request, in tokens that the model reads for it; beyond it the answer is 400.",
    1,
)
flags.DEFINE_integer(
    "max_answer_values", 1 << 25, "Largest answer, in numbers and strings; beyond it the answer is 400.", 1
)
flags.DEFINE_bool(
    "allow_unverified",
    False,
    "Serve also a SavedModel without the manifest.json that `export` writes. "
    "A model is a program, so serve only a model that you trust.",
)
flags.DEFINE_bool("log_requests", False, "Print a line for each request.")


def main(arguments: list[str]) -> None:
    configs, batching = _configs(), _batching()
    with app.quiet_start():
        from keras_bert_app.serving import connections, server
    options = server.ServerOptions(
        host=flags.FLAGS.rest_api_host,
        port=flags.FLAGS.rest_api_port,
        allowed_hosts=tuple(flags.FLAGS.allowed_hosts),
        timeout_ms=flags.FLAGS.rest_api_timeout_in_ms,
        grace_seconds=flags.FLAGS.grace_seconds,
        max_request_bytes=flags.FLAGS.max_request_bytes,
        max_queued_requests=flags.FLAGS.max_queued_requests,
        max_answer_values=flags.FLAGS.max_answer_values,
        connections=connections.ConnectionLimits(flags.FLAGS.max_connections),
        poll_seconds=flags.FLAGS.file_system_poll_wait_seconds,
        config_file=flags.FLAGS.model_config_file,
        config_poll_seconds=flags.FLAGS.model_config_file_poll_wait_seconds,
        allow_unverified=flags.FLAGS.allow_unverified,
        log_requests=flags.FLAGS.log_requests,
    )
    server.run(configs, batching, options, log=lambda line: print(line, flush=True))


def _configs() -> list:
    from keras_bert_app.serving import model_configs

    if flags.FLAGS.model_config_file:
        if flags.FLAGS.model_base_path or flags.FLAGS.model_name:
            raise UserError("--model_config_file names the models; leave out --model_base_path and --model_name")
        return model_configs.read(flags.FLAGS.model_config_file)
    if not flags.FLAGS.model_base_path:
        raise UserError(
            "--model_base_path is missing; give the directory of an exported model, such as "
            "saved_models/NAME, or --model_config_file"
        )
    base_path = flags.FLAGS.model_base_path.rstrip("/") or "/"
    return [model_configs.ModelConfig(flags.FLAGS.model_name or os.path.basename(base_path), base_path)]


def _batching():
    from keras_bert_app.serving import batching_options

    options = batching_options.BatchingOptions()
    if flags.FLAGS.batching_parameters_file:
        options = batching_options.read(flags.FLAGS.batching_parameters_file)
    return dataclasses.replace(
        options, is_enabled=flags.FLAGS.enable_batching, max_request_tokens=flags.FLAGS.max_request_tokens
    )


if __name__ == "__main__":
    app.run(main, __doc__)
