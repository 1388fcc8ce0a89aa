"""Export of a pre-trained model: answers about raw text, the encoder over ids, and the way from text to ids."""

import json
import os

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, saved_models
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.preprocessor import SEQ_LENGTH, PreprocessorModule
from keras_bert_app.export.signatures import TOP_K, FillMaskModule
from keras_bert_app.export.specs import shape_text
from keras_bert_app.interop import load, own_layout
from keras_bert_app.runs import checkpoints, work_directory
from keras_bert_app.training import evaluation, reporting
from pipelines.wordpiece.tokenizer import BertTokenizer

TRAINING = "training.json"


def export_pretrained(path, export_dir, top_k=TOP_K, log=lambda line: None, has_litert=False):
    """Writes EXPORT_DIR/VERSION, EXPORT_DIR_ids/VERSION and EXPORT_DIR_preprocess/VERSION from a model.

    Args:
        path: a work directory (its newest checkpoint is taken), one checkpoint's directory, or a model in any layout
            that interop.load reads. export_dir: the next version that is free in all of them is taken. top_k: how many
            pieces each [MASK] gets. log: called with the lines of the report of what was loaded. has_litert: whether a
            LiteRT model is laid beside the ids export.

    Returns:
        (directory of the raw-text export, or None for a model without a masked-LM head; directory of the ids export;
        directory of the preprocessor, or None for a model that came without a vocabulary).

    Raises:
        UserError: there is nothing to export.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_bert")
    path = with_checkpoint(path)
    weights, lines = load.load_weights(path, allow_missing=PARTS[1:])
    for line in lines:
        log(line)
    has_head = "masked_lm" in weights.parts()
    if weights.vocabulary is None and has_head:
        raise UserError(f"{weights.origin}: has no vocab.txt; lay the model's vocabulary beside it")
    if has_head and not 1 <= top_k <= weights.config.vocab_size:
        raise UserError(
            f"--top_k={top_k}: {weights.origin} has {weights.config.vocab_size:,} pieces; give a number from 1 to that"
        )
    model = load.build_model(weights)
    config = model.config
    files = {
        "config.json": (json.dumps(config.to_dict(), indent=2) + "\n").encode(),
        TRAINING: training_record(path, weights.origin),
    }
    if weights.vocabulary is not None:
        files["vocab.txt"] = weights.vocabulary
    places = export_dir, f"{export_dir}_ids", f"{export_dir}_preprocess"
    version, told = saved_models.next_version(*places), facts(path, weights)

    def write(module, place, more=None):
        return saved_models.write_saved_model(module, place, version, {**files, **(more or {})}, told)

    def write_ids(*example):
        module = EncoderModule(model.encoder, *example)
        return write(
            module, places[1], litert_export.files(lambda: EncoderModule(model.encoder, *example)) if has_litert else {}
        )

    if weights.vocabulary is None:
        return None, write_ids(), None
    tokenizer = BertTokenizer(weights.vocabulary, config.do_lower_case)
    ids_export = write_ids([tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id])
    preprocessor = write(PreprocessorModule(tokenizer, min(SEQ_LENGTH, config.max_position_embeddings)), places[2])
    if not has_head:
        return None, ids_export, preprocessor
    # The raw-text export comes last: once it is there, all are.
    return write(FillMaskModule(model, tokenizer, top_k), places[0]), ids_export, preprocessor


def with_checkpoint(path):
    """The checkpoint that a run has now, since it may save another while it is exported; other paths as they are."""
    return path if "://" in str(path) or not own_layout.recognizes(path) else checkpoints.find(path)[1]


def is_exported(run, export_dir):
    """Whether the newest version below EXPORT_DIR was made from the newest checkpoint of a run."""
    found = saved_models.versions(export_dir)
    if not found:
        return False
    return saved_models.read_file(export_dir, found[-1], TRAINING) == training_record(run)


def training_record(path, origin=""):
    """What the weights are: of a run the step and the sha256 of every file of its checkpoint, else their origin."""
    if "://" in str(path) or not own_layout.recognizes(path):
        return (json.dumps({"origin": origin}, indent=1) + "\n").encode()
    manifest = checkpoints.read_manifest(checkpoints.find(path)[1])
    hashes = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    return (json.dumps({"step": manifest["step"], "checkpoint_sha256": hashes}, indent=1) + "\n").encode()


def facts(path, weights):
    """What a model card tells of a pre-trained model, dict heading -> lines."""
    config = weights.config
    shape = shape_text(config)
    limits = [
        f"rows of {config.max_position_embeddings} tokens; an answer says when the end of a text was not read "
        "(truncated)",
        "it knows the language and the subjects of the texts that it was trained on, and repeats their errors",
    ]
    run_directory, step, run = _pretraining_run(path)
    if not run:
        source_format, _, place = weights.origin.partition(" ")
        # Its name without the directories, which are nobody's business where a card is read.
        source = f"see {os.path.basename(place.rstrip('/'))}, the model ({source_format}) whose weights these are"
        return {"Trained on": [source, shape], "Limits": limits}
    if run.sentence_objective == "sop":
        limits.append("next sentence: it was trained to tell two texts in their order from the same two swapped")
    trained = [
        f"{step:,} steps of {run.global_batch_size} rows of {run.max_seq_length} tokens, masked LM (masking "
        f"{run.masking}), sentence objective {run.sentence_objective}, learning rate {run.learning_rate:g}, seed "
        f"{run.seed}",
        shape,
    ]
    scores = _last_evaluation(run_directory, step)
    told = {"Scores": evaluation.summary(scores, run.sentence_objective)} if scores else {}
    return {"Trained on": trained, **told, "Limits": limits}


def _pretraining_run(path):
    """(its directory, step of the checkpoint, PretrainingConfig) of a run; the last is None for weights of others."""
    if "://" in str(path) or not own_layout.recognizes(path):
        return "", 0, None
    run_directory, checkpoint = checkpoints.find(path)
    try:
        _, run, _ = work_directory.read_config(run_directory)
    except UserError:  # fine-tuned, or converted from another layout
        return "", 0, None
    return run_directory, checkpoints.read_manifest(checkpoint)["step"], run


def _last_evaluation(run_directory, step):
    """The newest held-out figures that are not newer than a step, or {}."""
    rows = [
        row for row in reporting.read_metrics(run_directory) if "eval_masked_lm_accuracy" in row and row["step"] <= step
    ]
    return rows[-1] if rows else {}
