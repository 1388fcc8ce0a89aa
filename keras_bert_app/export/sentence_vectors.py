"""Makes sentence vectors from raw text, with a SavedModel or with the same module in this process."""

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence

import tensorflow as tf

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.config.prompts import NO_PROMPTS, ROLES, Prompts
from keras_bert_app.errors import UserError
from keras_bert_app.export import litert_export, masked_lm_scoring, rows, saved_models
from keras_bert_app.export import pooling as poolings
from keras_bert_app.export.pretrained_export import TRAINING, facts, training_record, with_checkpoint
from keras_bert_app.export.specs import About, checked_ids, example_row, ids_specs, takes_rows, text_spec, variables
from keras_bert_app.interop import load, surgery
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.interop.huggingface import sentence_transformers_files
from keras_bert_app.interop.weights import check_finite
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.modeling.execution import PLAIN, Execution
from keras_bert_app.runs import seeds
from keras_bert_app.runs.shared_tokenizer import tokenizer_of
from keras_bert_app.tasks import similarity_runs
from pipelines.wordpiece.tokenizer import BertTokenizer

_EXAMPLE = "A cat sat on the mat."


@dataclasses.dataclass(frozen=True)
class Pooling:
    """The way to make a text's vector from its states.

    For a field that is None the model's own files decide. Without such files the default applies.

    Attributes:
        pooling: str. One of export.pooling.POOLINGS; by default "mean".
        layer: int. See export.pooling.layers_read.
        normalize: bool. Whether vectors have length 1. The product of two vectors is then their cosine.
        pool_special_tokens: bool. Whether to pool [CLS] and [SEP] too, as sentence-transformers does. The model attends
            to them in any case.
        max_seq_length: int. The most tokens of a row. Longer texts lose their end. 0 for all positions of the model.
        vector_size: int. Only the first so many numbers of a vector are kept. 0 for all.
        query_prompt: str. The text before each query. "" for none.
        document_prompt: str. The text before each text that queries look for. "" for none.
    """

    pooling: str | None = None
    layer: int | None = None
    normalize: bool | None = None
    pool_special_tokens: bool | None = None
    max_seq_length: int | None = None
    vector_size: int | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None


_DEFAULTS = Pooling("mean", None, False, False, max_seq_length=0, vector_size=0, query_prompt="", document_prompt="")


@dataclasses.dataclass(frozen=True)
class AboutEmbeddings(About):
    """The description of an export of embeddings.

    Attributes:
        how: Pooling.
        prompts: dict name -> prompt. It has the prompts of `how` and those of other names that the model's folder has.
        default_prompt_name: str or None. The name of the prompt that serving_default puts before each text.
    """

    how: Pooling = Pooling()
    prompts: dict = dataclasses.field(default_factory=dict)
    default_prompt_name: str | None = None


class EmbeddingModule(tf.Module):
    """Signatures that make vectors from raw texts or rows of ids, and that count tokens.

    serving_default puts the default prompt before a text. A module with prompts also has the signatures `query` and
    `document`, with the prompts of these roles. num_tokens and tokenize take a text as it is.

    Args:
        encoder: BertEncoder without the layers above the topmost pooled layer.
        tokenizer: BertTokenizer. The tokenizer of the model.
        how: Pooling with a resolved layer and max_seq_length.
        layers: tuple of int. The numbers of the pooled layers.
        execution: Execution. The way to trace the encoder. LiteRT needs a value other than the default.
        prompts: Prompts. The texts before a text.

    Attributes:
        rebuild: function of an Execution that makes an equal module with its own traces.
    """

    def __init__(
        self,
        encoder,
        tokenizer: BertTokenizer,
        how: Pooling,
        layers: Sequence[int],
        execution: Execution = PLAIN,
        prompts: Prompts = NO_PROMPTS,
    ):
        super().__init__(name="embeddings")
        self.rebuild = functools.partial(EmbeddingModule, encoder, tokenizer, how, layers, prompts=prompts)
        self.model_variables = variables(encoder)
        special_ids = () if how.pool_special_tokens else (tokenizer.cls_id, tokenizer.sep_id)
        tokenize = masked_lm_scoring.tokenize_function(tokenizer)

        def vectors(inputs):
            cls_positions = tf.zeros_like(inputs["input_mask"][:, :1]) if how.pooling == "cls" else None
            outputs = encoder(inputs, output_positions=cls_positions, execution=execution)
            states = [outputs["embedding_output"], *outputs["encoder_outputs"]]
            is_pooled = poolings.places_of_pieces(inputs["input_word_ids"], inputs["input_mask"], special_ids)
            pooled_states = poolings.pool([states[number] for number in layers], is_pooled, how.pooling)
            pooled_states = pooled_states[:, : how.vector_size or None]
            return tf.math.l2_normalize(pooled_states, axis=1) if how.normalize else pooled_states

        def embed_after(prompt):
            @tf.function(autograph=False, input_signature=[text_spec()])
            def embed(text):
                text = tf.strings.join([prompt.encode(), text]) if prompt else text
                inputs, truncated = masked_lm_scoring.single_rows(tokenizer, tokenize(text), how.max_seq_length)
                return {"embedding": vectors(inputs), "truncated": truncated}

            return embed

        @tf.function(autograph=False, input_signature=[text_spec()])
        def num_tokens(text):
            # With these numbers a caller can put texts of similar lengths into one batch.
            return {"num_tokens": rows.spans(tokenize(text))[1] + 2}

        @tf.function(autograph=False, input_signature=[text_spec()])
        def rows_of_ids(text):
            # A runtime such as LiteRT has only the encoder and needs the encoder's inputs.
            inputs, truncated = masked_lm_scoring.single_rows(tokenizer, tokenize(text), how.max_seq_length)
            return {**inputs, "truncated": truncated}

        @takes_rows(ids_specs(encoder.config))
        def ids(*inputs):
            return {"embedding": vectors(checked_ids(encoder.config, inputs, execution))}

        of_roles = {role: embed_after(prompts.of_role(role)) for role in (ROLES if prompts.named else ())}
        of_texts = {"serving_default": embed_after(prompts.default), **of_roles}
        of_texts |= {"num_tokens": num_tokens, "tokenize": rows_of_ids}
        self.exported = {**of_texts, "ids": ids}
        ids_row = example_row(encoder.config, [tokenizer.cls_id, tokenizer.unk_id, tokenizer.sep_id])
        self.about = _about(how, prompts, {**{name: {"text": [_EXAMPLE]} for name in of_texts}, "ids": ids_row})


def _about(how, prompts, examples):
    return AboutEmbeddings(
        "embeddings",
        examples,
        max_seq_length=how.max_seq_length,
        how=how,
        prompts=dict(prompts.texts),
        default_prompt_name=prompts.default_name,
    )


def embedding_module(path: str, how: Pooling = Pooling(), log: Callable[[str], None] = lambda line: None) -> tuple:
    """Builds an EmbeddingModule from a model in any layout.

    Args:
        path: str. See interop.load.load_weights.
        how: Pooling. The way to make the vectors.
        log: function of one line of the loading report.

    Returns:
        (EmbeddingModule, Weights with the layers that the module computes).

    Raises:
        UserError: the path holds no model, or the model cannot be pooled in this way.
    """
    own = similarity_runs.own_steps(path)
    weights, lines = load.load_weights(
        os.path.join(path, own.folder) if own and own.folder else path, allow_missing=PARTS[1:]
    )
    for line in lines:
        log(line)
    check_finite(weights.tensors, weights.origin)
    if weights.vocabulary is None:
        raise UserError(f"{weights.origin}: has no vocab.txt; put the model's vocab.txt there")
    if own:
        sentence_transformers_files.check_case(own, weights.config.do_lower_case, weights.origin)
    num_layers, positions = weights.config.num_hidden_layers, weights.config.max_position_embeddings
    given, prompts = how, (own.prompts if own else NO_PROMPTS).changed(how.query_prompt, how.document_prompt)
    how = _settled(how, own, positions, prompts)
    if given.vector_size is None and how.vector_size >= _full_size(how, weights):
        how = dataclasses.replace(how, vector_size=0)  # a truncate_dim that cuts nothing off
    _check_sizes(how, weights)
    layers, architecture = poolings.layers_read(how.pooling, how.layer, num_layers), weights.config.architecture
    if architecture != "bert" and "cls" in how.pooling.split("_"):
        does_not_see = "sees no text" if weights.config.is_causal else "does not see the text from left to right"
        raise UserError(
            f"--pooling={how.pooling}: in a {architecture} [CLS] {does_not_see}; give --pooling=mean or max"
        )
    if not weights.config.has_equal_layers and len(layers) > 1:
        raise UserError(
            f"--pooling={how.pooling}: the layers of this LSTM have different widths; give --pooling=mean or max"
        )
    # A GPT keeps its highest layers, because its last LayerNorm belongs to the highest one. The layers of an LSTM
    # without projections have different widths.
    if layers[-1] < num_layers and architecture != "gpt" and weights.config.has_equal_layers:
        weights, line = surgery.lowest_layers(weights, layers[-1])
        log(line)
    model = make_pretrainer(weights.config, parts=PARTS[:1])
    load.assign(model, weights)
    tokenizer = tokenizer_of(weights.vocabulary, weights.config)
    how = dataclasses.replace(how, layer=layers[-1], max_seq_length=how.max_seq_length or positions)
    _check_room(tokenizer, prompts, how.max_seq_length)
    log(_choice_line(how, given, own, num_layers, prompts))
    return EmbeddingModule(model.encoder, tokenizer, how, layers, prompts=prompts), weights


def _full_size(how, weights):
    return (2 if how.pooling in ("mean_max", "cls_mean") else 1) * weights.config.hidden_size


def _check_sizes(how, weights):
    """Raises UserError if the model has no rows or no vectors of these sizes."""
    positions = weights.config.max_position_embeddings
    if how.max_seq_length and not 3 <= how.max_seq_length <= positions:
        raise UserError(
            f"--max_seq_length={how.max_seq_length}: {weights.origin} has {positions} positions; give 3 to "
            f"{positions}, or 0 for all of them"
        )
    size = _full_size(how, weights)
    if not 0 <= how.vector_size <= size:
        raise UserError(
            f"--vector_size={how.vector_size}: the vectors of {weights.origin} have {size} numbers; give 1 to "
            f"{size}, or 0 for all of them"
        )


def _check_room(tokenizer, prompts, max_seq_length):
    """Raises UserError if a prompt leaves no room for a text."""
    for name, prompt in prompts.named.items():
        count = len(tokenizer.tokenize([prompt])[0])
        if count > max_seq_length - 3:
            raise UserError(
                f"the prompt {name[:40]!r} has {count:,} tokens, which leaves no room for a text in rows of "
                f"{max_seq_length}; give a shorter prompt, or longer rows by --max_seq_length"
            )


def _settled(how, own, positions, prompts):
    """Fills the fields that are None from the model's folder, or else from the defaults. The layer may stay None."""
    base = _DEFAULTS
    if own:
        length = min(own.max_seq_length, positions)
        base = Pooling(own.pooling, -1, own.normalize, True, length, vector_size=own.truncate_dim or 0)
    values = {
        name: value if value is not None else getattr(base, name) for name, value in dataclasses.asdict(how).items()
    }
    values |= {f"{role}_prompt": prompts.of_role(role) for role in ROLES}
    if values["pooling"] == "first_last":
        values["layer"] = how.layer  # This pooling does not read the folder's layer.
    return Pooling(**values)


def _choice_line(how, given, own, num_layers, prompts):
    """Writes the line about the way to make vectors, and about the alternatives."""
    line = f"vectors: {', '.join(_pooling_lines(how))}, of {num_layers} layers; rows of {how.max_seq_length} tokens"
    line += f"; {prompts.words()}" if prompts.named else ""
    if own:
        changed = [name for name, value in dataclasses.asdict(given).items() if value is not None]
        line += f"; as {', '.join(own.files)} say" + (
            f", but for {', '.join(f'--{name}' for name in changed)}" if changed else ""
        )
        return "; ".join([line, *own.remarks])
    if given == Pooling():
        line += (
            "; if the model was made for vectors (sentence-transformers), give --layer=-1 --pool_special_tokens "
            "--normalize, and the --pooling that its makers name"
        )
    return line


def export_embeddings(
    path: str,
    export_dir: str,
    how: Pooling = Pooling(),
    log: Callable[[str], None] = lambda line: None,
    has_litert: bool = False,
) -> str:
    """Exports a model as EXPORT_DIR/VERSION. VERSION is the next free number.

    Args:
        path: str. See embedding_module.
        export_dir: str. The directory of the versions.
        how: Pooling. The way to make the vectors.
        log: function of one line of the loading report.
        has_litert: bool. Whether to write the signature from ids to vectors as LiteRT too. `embed` and `search` run the
            LiteRT model if the export has one.

    Returns:
        str: the directory of the version.

    Raises:
        UserError: see embedding_module.
    """
    export_dir, path = str(export_dir).rstrip("/"), path if is_handle(path) else with_checkpoint(seeds.best(path))
    if not export_dir:
        raise UserError("--export_dir is empty; name a directory such as saved_models/my_vectors")
    module, weights = embedding_module(path, how, log)
    files = {
        "config.json": (json.dumps(weights.config.to_dict(), indent=2) + "\n").encode(),
        "vocab.txt": weights.vocabulary,
        TRAINING: training_record(path, weights.origin),
    }
    if has_litert:
        files |= litert_export.files(module.rebuild, "ids")
    version = saved_models.next_version(export_dir)
    about = module.about
    prompts = Prompts(about.prompts, about.default_prompt_name).words()
    lines = [*_pooling_lines(about.how), *filter(None, [prompts])]
    return saved_models.write_saved_model(
        module, export_dir, version, files, {"Vectors": lines, **facts(path, weights)}
    )


def _pooling_lines(how):
    """Writes the lines of a model card about the vectors. The layer of the Pooling must be resolved."""
    layers = f"layers 1 and {how.layer}" if how.pooling == "first_last" else f"layer {how.layer}"
    lines = [f"{how.pooling} of {layers}", "of length 1" if how.normalize else "of any length"]
    if how.vector_size:
        lines.append(f"the first {how.vector_size} numbers")
    if how.pooling != "cls":
        lines.insert(
            1,
            "[CLS] and [SEP] are pooled too"
            if how.pool_special_tokens
            else "[CLS] and [SEP] are not pooled, unless a text has nothing else",
        )
    return lines
