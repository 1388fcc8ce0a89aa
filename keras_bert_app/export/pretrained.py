"""Export of a pre-training run: fill-mask from raw text, and the encoder over ids."""

import json

import tensorflow as tf

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.signatures import EncoderModule, FillMaskModule
from keras_bert_app.training import checkpoints
from keras_bert_app.training import workdir as workdirs
from pipelines.wordpiece import BertTokenizer


def export_pretrained(workdir, export_dir):
    """Writes EXPORT_DIR/VERSION and EXPORT_DIR_ids/VERSION from the newest checkpoint of a run.

    Args:
        workdir: a work directory or one checkpoint's directory. export_dir: the next free version is taken in both.

    Returns:
        (directory of the raw-text export, directory of the ids export).

    Raises:
        UserError: there is nothing to export.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_bert")
    run_directory, _ = checkpoints.find(workdir)
    model = checkpoints.load_pretrained(workdir)
    vocab_file = workdirs.path_in(run_directory, "vocab.txt")
    tokenizer = BertTokenizer(vocab_file, model.config.do_lower_case, special_tokens_in_text=True)
    with tf.io.gfile.GFile(vocab_file, "rb") as file:
        files = {"config.json": (json.dumps(model.config.to_dict(), indent=2) + "\n").encode(),
                 "vocab.txt": file.read()}
    ids_dir = f"{export_dir}_ids"
    version = max([0, *saved_models.versions(export_dir), *saved_models.versions(ids_dir)]) + 1
    ids_export = saved_models.write_saved_model(EncoderModule(model.encoder), ids_dir, version, files)
    # The raw-text export comes last: once it is there, both are.
    return saved_models.write_saved_model(FillMaskModule(model, tokenizer), export_dir, version, files), ids_export
