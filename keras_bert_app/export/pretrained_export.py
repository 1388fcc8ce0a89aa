"""Exports a pre-trained model as SavedModels: for raw text, the encoder for ids, and the preprocessor.

For raw text, a BERT fills masks, and a GPT continues texts.
"""

import json
import os
from collections.abc import Callable

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, saved_models
from keras_bert_app.export.encoder_signatures import EncoderModule
from keras_bert_app.export.fill_mask_signatures import TOP_K, FillMaskModule
from keras_bert_app.export.generation_signatures import GenerationModule
from keras_bert_app.export.preprocessor import SEQ_LENGTH, PreprocessorModule
from keras_bert_app.export.specs import shape_text
from keras_bert_app.interop import load, own_layout
from keras_bert_app.interop.weights import check_finite
from keras_bert_app.modeling.execution import PLAIN
from keras_bert_app.runs import checkpoints
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import evaluation, reporting
from pipelines import storage

TRAINING = "training.json"
_FILL_MASK, _GENERATION = "fill_mask", "generation"


def export_pretrained(
    path: str,
    export_dir: str,
    top_k: int = TOP_K,
    log: Callable[[str], None] = lambda line: None,
    has_litert: bool = False,
) -> tuple[str | None, str, str | None]:
    """Exports a pre-trained model in up to three directories.

    EXPORT_DIR/VERSION reads raw text, EXPORT_DIR_ids/VERSION reads ids, and EXPORT_DIR_preprocess/VERSION makes ids
    from text.

    Args:
        path: str. A work directory, a checkpoint, or any model that interop.load reads. For a work directory,
            checkpoints.find chooses the checkpoint.
        export_dir: str. EXPORT_DIR. VERSION is the next number that is free in all three directories.
        top_k: int. The number of most probable pieces that an answer gives for each [MASK].
        log: function that takes one line of the report on loading.
        has_litert: bool. Whether to write a LiteRT model into the ids export.

    Returns:
        (directory of the raw-text export, or None if the model has no head for it; directory of the ids export;
        directory of the preprocessor, or None if the model has no vocabulary).

    Raises:
        UserError: the path has no model or no vocabulary, a flag has a wrong value, or one of the directories has
            versions of another kind.
    """
    export_dir = str(export_dir).rstrip("/")
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_bert")
    path = with_checkpoint(path)
    weights = _load(path, top_k, log)
    places = export_dir, f"{export_dir}_ids", f"{export_dir}_preprocess"
    if kind := _kind(weights):
        saved_models.refuse_another_kind(places[0], kind)
    saved_models.refuse_another_kind(places[1], "encoder")
    model = load.build_model(weights)
    config = model.config
    files = {
        "config.json": (json.dumps(config.to_dict(), indent=2) + "\n").encode(),
        TRAINING: training_record(path, weights.origin),
    }
    if weights.vocabulary is not None:
        files["vocab.txt"] = weights.vocabulary
    version, card_facts = saved_models.next_version(*places), facts(path, weights)
    exports = _exports(model, weights, places, top_k, has_litert)
    written = saved_models.write_together(
        places,
        version,
        (saved_models.Export(module, place, {**files, **more}, card_facts) for module, place, more in exports),
    )
    by_place = {os.path.dirname(directory): directory for directory in written}
    return by_place.get(places[0]), by_place[places[1]], by_place.get(places[2])


def _exports(model, weights, places, top_k, has_litert):
    """Makes the modules of the exports one by one. Yields (module, directory of its versions, further files)."""
    tokenizer, example = None, []
    if weights.vocabulary is not None:
        tokenizer = tokenizer_of(weights.vocabulary, model.config)
        example = [[tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id]]

    def make_encoder(execution=PLAIN):
        return EncoderModule(model.encoder, *example, execution=execution)

    yield make_encoder(), places[1], litert_export.files(make_encoder) if has_litert else {}
    if tokenizer is None:
        return
    yield PreprocessorModule(tokenizer, min(SEQ_LENGTH, model.config.max_position_embeddings)), places[2], {}
    # Write the raw-text export last, so that its existence proves that all exports exist.
    if kind := _kind(weights):
        module = FillMaskModule(model, tokenizer, top_k) if kind == _FILL_MASK else GenerationModule(model, tokenizer)
        yield module, places[0], {}


def _kind(weights):
    """The kind of the raw-text export; "" for a model without a head."""
    if weights.config.language_model == "bidirectional":
        return ""  # it neither continues texts nor fills in masks
    kinds = {"masked_lm": _FILL_MASK, "language_model": _GENERATION}
    return next((kind for part, kind in kinds.items() if part in weights.parts()), "")


def _load(path, top_k, log):
    """Loads the weights to export and checks that they fit the flags."""
    weights, lines = load.load_weights(path, allow_missing=PARTS[1:])
    for line in lines:
        log(line)
    check_finite(weights.tensors, weights.origin)
    kind = _kind(weights)
    if weights.vocabulary is None and kind:
        raise UserError(
            f"{weights.origin}: has no vocab.txt, which the export for raw text needs; put the model's vocab.txt there"
        )
    if kind == _FILL_MASK and not 1 <= top_k <= weights.config.vocab_size:
        raise UserError(
            f"--top_k={top_k}: expected a number from 1 to {weights.config.vocab_size:,}, the size of the "
            f"vocabulary of {weights.origin}"
        )
    return weights


def continues_texts(path: str) -> bool:
    """Returns whether a model is a GPT, whose export continues texts.

    Args:
        path: str. A run, a checkpoint, or another model.
    """
    return _kind(load.load_weights(path, allow_missing=PARTS[1:])[0]) == _GENERATION


def with_checkpoint(path: str) -> str:
    """Returns the checkpoint that the export reads.

    The export must read one checkpoint throughout, but the run may save a newer checkpoint at the same time.

    Args:
        path: str. A run, or any other model.

    Returns:
        str. For a run, the checkpoint that checkpoints.find chooses. Otherwise the unchanged path.
    """
    return checkpoints.find(path)[1] if _is_own(path) else path


def _is_own(path):
    """Returns whether a path is a local run or checkpoint of this package."""
    return not storage.is_remote(path) and own_layout.recognizes(path)


def is_exported(run: str, export_dir: str) -> bool:
    """Returns whether the newest version in EXPORT_DIR has the weights of a run's checkpoint.

    The checkpoint is the one that checkpoints.find chooses.

    Args:
        run: str. The work directory of the run.
        export_dir: str. The directory of the versions.

    Returns:
        bool. False if there is no version.
    """
    versions = saved_models.versions(export_dir)
    if not versions:
        return False
    return saved_models.read_file(export_dir, versions[-1], TRAINING) == training_record(run)


def training_record(path: str, origin: str = "") -> bytes:
    """Records the origin of the weights.

    Args:
        path: str. A run, a checkpoint, or another model.
        origin: str. The origin to record if `path` is neither a run nor a checkpoint of this package.

    Returns:
        bytes: JSON. For a run, the step and the sha256 of every file of its checkpoint. For other models, the origin.
    """
    if not _is_own(path):
        return (json.dumps({"origin": origin}, indent=1) + "\n").encode()
    manifest = checkpoints.read_manifest(checkpoints.find(path)[1])
    hashes = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    return (json.dumps({"step": manifest["step"], "checkpoint_sha256": hashes}, indent=1) + "\n").encode()


def facts(path: str, weights) -> dict[str, list[str]]:
    """Collects the facts about a pre-trained model for its model card.

    Args:
        path: str. A run, a checkpoint, or another model.
        weights: Weights. The exported weights.

    Returns:
        dict from the headings of the card to the lines below them.
    """
    config = weights.config
    shape = shape_text(config)
    part = "beginning" if config.language_model == "causal" else "end"
    limits = [
        f"the model reads at most {config.max_position_embeddings} tokens of a text; for raw text, the output "
        f"`truncated` says whether the {part} of the text was not read",
        "the model knows only the language and the subjects of its training texts, and repeats their errors",
    ]
    run_directory, step, run = _pretraining_run(path)
    if not run:
        source_format, _, place = weights.origin.partition(" ")
        # The card shows only the name, because directories are private and of no use to a reader of the card.
        name = os.path.basename(place.rstrip("/"))
        source = f"see the documentation of the model {name} (layout {source_format}); this export has its weights"
        return {"Trained on": [source, shape], "Limits": limits}
    if run.sentence_objective == "sop":
        limits.append(
            "next sentence: the model was trained to tell two texts in their original order from the same two "
            "texts in swapped order"
        )
    learned = (
        f"masked LM (masking {run.masking}), sentence objective {run.sentence_objective}"
        if run.language_model == "masked"
        else f"{run.language_model} LM"
    )
    trained = [
        f"{step:,} steps of {run.global_batch_size} rows of {run.max_seq_length} tokens, {learned}, learning rate "
        f"{run.learning_rate:g}, seed {run.seed}",
        shape,
    ]
    score_lines = _score_lines(run_directory, step, run)
    return {"Trained on": trained, **score_lines, "Limits": limits}


def _pretraining_run(path):
    """Returns (directory, step of the checkpoint, PretrainingConfig) of a pre-training run, else ("", 0, None)."""
    if not _is_own(path):
        return "", 0, None
    run_directory, checkpoint = checkpoints.find(path)
    try:
        _, run = ExistingRun.read(run_directory).config()
    except UserError:  # The path is a fine-tuned run, or a model converted from another layout.
        return "", 0, None
    return run_directory, checkpoints.read_manifest(checkpoint)["step"], run


def _score_lines(run_directory, step, run):
    """Returns {"Scores": lines about the newest held-out results up to a step}, or {}."""
    try:
        scores = _last_evaluation(run_directory, step)
        return {"Scores": evaluation.summary(scores, run.sentence_objective)} if scores else {}
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        path = os.path.join(run_directory, "metrics.jsonl")
        raise UserError(
            f"{path}: does not have the form that pretrain writes ({type(error).__name__}: {str(error)[:80]}); put "
            "back the run's own file, or delete the file to export without scores"
        ) from None


def _last_evaluation(run_directory, step):
    """Reads the newest held-out results up to a step. Returns {} if there are none."""
    rows = [row for row in reporting.read_metrics(run_directory) if "eval_loss" in row and row["step"] <= step]
    return rows[-1] if rows else {}
