"""Export of a pre-training run: fill-mask from raw text, and the encoder over ids."""

import json

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.signatures import EncoderModule, FillMaskModule
from keras_bert_app.training import checkpoints
from keras_bert_app.training import workdir as workdirs
from pipelines.wordpiece import BertTokenizer

TRAINING = "training.json"


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
    run_directory, checkpoint = checkpoints.find(workdir)
    model = checkpoints.load_pretrained(checkpoint)
    vocabulary_bytes = workdirs.read_vocabulary(run_directory)
    tokenizer = BertTokenizer(workdirs.path_in(run_directory, "vocab.txt"), model.config.do_lower_case,
                              special_tokens_in_text=True)
    files = {"config.json": (json.dumps(model.config.to_dict(), indent=2) + "\n").encode(),
             "vocab.txt": vocabulary_bytes, TRAINING: _training_record(checkpoint)}
    ids_dir = f"{export_dir}_ids"
    version = max([0, *saved_models.versions(export_dir), *saved_models.versions(ids_dir)]) + 1
    ids_export = saved_models.write_saved_model(EncoderModule(model.encoder), ids_dir, version, files)
    # The raw-text export comes last: once it is there, both are.
    return saved_models.write_saved_model(FillMaskModule(model, tokenizer), export_dir, version, files), ids_export


def is_exported(workdir, export_dir):
    """Whether the newest version below EXPORT_DIR was made from the newest checkpoint of a run."""
    found = saved_models.versions(export_dir)
    if not found:
        return False
    _, checkpoint = checkpoints.find(workdir)
    return saved_models.read_file(export_dir, found[-1], TRAINING) == _training_record(checkpoint)


def _training_record(checkpoint):
    """What the weights are: the step, and the sha256 of every file of the checkpoint."""
    manifest = checkpoints.read_manifest(checkpoint)
    hashes = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    return (json.dumps({"step": manifest["step"], "checkpoint_sha256": hashes}, indent=1) + "\n").encode()
