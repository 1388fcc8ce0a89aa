"""Export of a pre-training run: fill-mask from raw text, and the encoder over ids."""

import json

from keras_bert_app.errors import UserError
from keras_bert_app.export import saved_models
from keras_bert_app.export.signatures import EncoderModule, FillMaskModule
from keras_bert_app.interop import load, workdir
from keras_bert_app.modeling.parts import PARTS
from keras_bert_app.runs import checkpoints
from pipelines.wordpiece import BertTokenizer

TRAINING = "training.json"


def export_pretrained(path, export_dir, log=lambda line: None):
    """Writes EXPORT_DIR/VERSION and EXPORT_DIR_ids/VERSION from a model.

    Args:
        path: a work directory (its newest checkpoint is taken), one checkpoint's directory, or a model in any layout that
            interop.load reads. export_dir: the next free version is taken in both. log: called with the
            lines of the report of what was loaded.

    Returns:
        (directory of the raw-text export, or None for a model without a masked-LM head; directory of the ids export).

    Raises:
        UserError: there is nothing to export.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_bert")
    weights, lines = load.load_weights(path, allow_missing=PARTS[1:])
    for line in lines:
        log(line)
    if weights.vocabulary is None and "masked_lm" in weights.parts():
        raise UserError(f"{weights.origin}: has no vocab.txt; lay the model's vocabulary beside it")
    model = load.build_model(weights)
    files = {"config.json": (json.dumps(model.config.to_dict(), indent=2) + "\n").encode(),
             TRAINING: _training_record(path, weights.origin)}
    if weights.vocabulary is not None:
        files["vocab.txt"] = weights.vocabulary
    ids_dir = f"{export_dir}_ids"
    version = max([0, *saved_models.versions(export_dir), *saved_models.versions(ids_dir)]) + 1
    ids_export = saved_models.write_saved_model(EncoderModule(model.encoder), ids_dir, version, files)
    if "masked_lm" not in model.parts:
        return None, ids_export
    tokenizer = BertTokenizer(weights.vocabulary, model.config.do_lower_case, special_tokens_in_text=True)
    # The raw-text export comes last: once it is there, both are.
    return saved_models.write_saved_model(FillMaskModule(model, tokenizer), export_dir, version, files), ids_export


def is_exported(run, export_dir):
    """Whether the newest version below EXPORT_DIR was made from the newest checkpoint of a run."""
    found = saved_models.versions(export_dir)
    if not found:
        return False
    return saved_models.read_file(export_dir, found[-1], TRAINING) == _training_record(run)


def _training_record(path, origin=""):
    """What the weights are: of a run the step and the sha256 of every file of the checkpoint, else where they came from."""
    if "://" in str(path) or not workdir.recognizes(path):
        return (json.dumps({"origin": origin}, indent=1) + "\n").encode()
    manifest = checkpoints.read_manifest(checkpoints.find(path)[1])
    hashes = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    return (json.dumps({"step": manifest["step"], "checkpoint_sha256": hashes}, indent=1) + "\n").encode()
