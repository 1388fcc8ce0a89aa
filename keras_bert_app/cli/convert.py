"""Converts a BERT with all its heads between layouts, and changes the model on request.

python -m keras_bert_app.cli.convert --input=hf://google-bert/bert-base-uncased --to=workdir --output=runs/base
python -m keras_bert_app.cli.convert --input=runs/mine --to=huggingface --output=mine_hf
python -m keras_bert_app.cli.convert --input=runs/mine --to=workdir --output=runs/medical --vocab_file=extended.txt

--input is a directory in one of the layouts, a .zip or .tar.gz of a directory, the prefix of a checkpoint, or a handle:
hf://OWNER/NAME or the name of a KerasHub preset. The command reads the written files back and compares them bit for
bit. --check compares all outputs with those of the source's own implementation. This implementation must be installed
here or in --reference_python; otherwise the command reads parity.npz next to the source. The exit code is 1 if an
output differs.
"""

import os
import sys
from collections.abc import Callable, Iterator

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.errors import UserError
from pipelines.wordpiece.vocabulary import read_bytes

_FORMATS = ("workdir", "huggingface", "google_tf1", "keras_hub", "model_garden", "gpt2")

_OF_VECTORS = "sentence_transformers"
_FROM = flags.DEFINE_enum("from", "auto", ("auto", *_FORMATS), "Layout of --input.")
flags.DEFINE_string("input", "", "The model to read.")
_TO = flags.DEFINE_enum(
    "to",
    None,
    (*_FORMATS, _OF_VECTORS),
    "Layout to write. sentence_transformers: huggingface, and how a text gets its vector.",
)
_OUTPUT = flags.DEFINE_string("output", "", "Directory to write, a new one.")
_ALLOW_MISSING = flags.DEFINE_list("allow_missing", [], f"Parts that --input need not have: {', '.join(PARTS[1:])}.")
_ALLOW_UNEXPECTED = flags.DEFINE_bool("allow_unexpected", False, "Leave out tensors that have no place in this model.")
_CHECK = flags.DEFINE_bool("check", False, "Compare all outputs with those of the source's own implementation.")
_REFERENCE = flags.DEFINE_string(
    "reference_python", "", "Python interpreter that has the source's own implementation, for --check."
)
_PARITY = flags.DEFINE_bool(
    "write_parity", False, "Write inputs and outputs beside the weights, for --check on another machine."
)
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file", "", "Give the model this vocabulary, longer or shorter than its own; extend_vocab makes one."
)
_POSITIONS = flags.DEFINE_integer(
    "max_position_embeddings", None, "Number of positions of the new model.", lower_bound=1
)
_LAYERS = flags.DEFINE_list("keep_layers", [], "Keep only these layers, counted from 0, such as 0,2,4 of six.")
_HEADS = flags.DEFINE_string(
    "prune_heads",
    "",
    "Remove attention heads: LAYER:HEAD,HEAD;LAYER:HEAD, counted from 0, such as 0:1,3;2:5; "
    "analyze --what=pruning prints them. With --to=workdir, a fine-tuned run stays a fine-tuned run.",
)
_TIE = flags.DEFINE_bool(
    "tie_word_embeddings", None, "Tie the masked-LM head to the word embeddings, or give it its own table."
)
_TABLE = flags.DEFINE_enum(
    "keep_table",
    "",
    ("", "word_embeddings", "output_embeddings"),
    "The table that stays when --tie_word_embeddings=true ties two different tables.",
)
_DROP = flags.DEFINE_list("drop_parts", [], "Leave out: pooler, masked_lm, next_sentence, classifier.")


def main(arguments: list[str]) -> None:
    (source,) = app.required("input")
    if bool(_TO.value) != bool(_OUTPUT.value):
        raise UserError(
            f"--to={_TO.value} and --output={_OUTPUT.value!r} belong together; give both, or neither to only "
            "read --input"
        )
    if not all(index.isdecimal() for index in _LAYERS.value):
        raise UserError(f"--keep_layers={','.join(_LAYERS.value)}: expected numbers of layers, from 0, comma-separated")
    pruned = _heads_of(_HEADS.value)
    for name, needed, by in (
        ("write_parity", _OUTPUT.value, "--output"),
        ("reference_python", _CHECK.value, "--check"),
        ("keep_table", _TIE.value, "--tie_word_embeddings=true"),
    ):
        if flags.FLAGS[name].value and not needed:
            raise UserError(f"--{name} does nothing without {by}; give {by}, or leave out --{name}")
    vocabulary_bytes = read_bytes(_VOCAB_FILE.value) if _VOCAB_FILE.value else None
    with app.quiet_start():
        from keras_bert_app.interop import load
        from keras_bert_app.interop.huggingface import sentence_transformers_files
    steps = _steps(source) if _TO.value == _OF_VECTORS else None
    left_out = _words_of_steps(source) if _TO.value and _TO.value != _OF_VECTORS and _has_modules(source) else ""
    if pruned and _TO.value == "workdir":
        from keras_bert_app.export import finetuned_export

        if finetuned_export.is_finetuned(source):
            _write_pruned_run(source, pruned)
            return
    folder, source = source, _place_of_model(source)
    # No vector of sentence-transformers reads the pooler, and a run of --task=similarity has none.
    missing = (*_ALLOW_MISSING.value, *(["pooler"] if _has_modules(folder) else []))
    weights, lines = load.load_weights(source, _FROM.value, missing, _ALLOW_UNEXPECTED.value, allow_absent=True)
    print("\n".join(lines), flush=True)
    if steps:
        sentence_transformers_files.check_case(steps, weights.config.do_lower_case, folder)
    outputs_agree = _check(weights, source, folder) if _CHECK.value else True
    if weights.vocabulary is None and vocabulary_bytes is not None:
        weights, vocabulary_bytes = load.with_vocabulary(weights, vocabulary_bytes), None
        print(f"{source} has no vocabulary, so --vocab_file becomes its vocabulary", flush=True)
    for operation in _operations(vocabulary_bytes, pruned):
        weights, line = operation(weights)
        print(line, flush=True)
    if _OUTPUT.value:
        _write(weights, steps)
    if left_out:
        print(f"left out: how a text gets its vector ({left_out}); --to={_OF_VECTORS} keeps it", flush=True)
    if not outputs_agree:
        sys.exit(1)


def _write(weights, steps):
    """Writes the layout of --to, and prints what it could not store."""
    from keras_bert_app.interop import load, parity
    from keras_bert_app.interop.huggingface import sentence_transformers_files

    layout = "huggingface" if _TO.value == _OF_VECTORS else _TO.value
    for line in load.write_weights(weights, layout, _OUTPUT.value):
        print(line, flush=True)
    if steps:
        config = weights.config
        sentence_transformers_files.write(_OUTPUT.value, steps, config.hidden_size, config.max_position_embeddings)
        print(f"modules.json: {_in_words(steps)}")
    if _PARITY.value:
        parity.write_golden(load.format_module(layout).read(_OUTPUT.value), _OUTPUT.value)


def _check(weights, source, folder):
    """Compares all outputs with those of the source's own implementation, and prints the report."""
    from keras_bert_app.interop import load, parity

    with load.located(source, _FROM.value) as (path, source_format):
        lines, agree = parity.check(weights, source_format, path, _REFERENCE.value)
        print("\n".join(lines), flush=True)
        return _vectors_agree(path if folder == source else folder) and agree


def _steps(source):
    """How the source makes the vector of a text."""
    from keras_bert_app.tasks.similarity_runs import own_steps

    steps = own_steps(source)
    if steps is None:
        raise UserError(
            f"--to={_OF_VECTORS}: {source} does not say how a text gets its vector; give a run of finetune "
            "--task=similarity, or a folder with modules.json; or write --to=huggingface"
        )
    return steps


def _words_of_steps(source):
    """The steps of a folder with modules.json, in words."""
    from keras_bert_app.interop.huggingface import sentence_transformers_files

    try:
        return _in_words(sentence_transformers_files.read(source))
    except UserError as error:  # steps that nothing here computes
        return str(error)


def _in_words(steps):
    prompts = f"; {steps.prompts.words()}" if steps.prompts.named else ""
    return f"{steps.pooling} of the last layer{', of length 1' * steps.normalize}{prompts}"


def _place_of_model(source):
    """The subfolder with the model, if a local folder with modules.json has its model there; else the source."""
    from keras_bert_app.interop.huggingface import huggingface_layout, sentence_transformers_files

    if not _has_modules(source) or huggingface_layout.recognizes(source):
        return source
    steps = sentence_transformers_files.read(source)
    return os.path.join(source, steps.folder)


def _has_modules(source):
    return os.path.isfile(os.path.join(source, "modules.json"))


def _vectors_agree(path):
    """Compares the sentence vectors of a folder with modules.json, and prints the report."""
    from keras_bert_app.export import vector_parity
    from keras_bert_app.interop.huggingface import sentence_transformers_files

    try:
        if sentence_transformers_files.read(path) is None:
            return True
    except UserError as error:
        print(f"sentence vectors: not compared ({error})", flush=True)
        return True
    lines, agree = vector_parity.check(path, _REFERENCE.value)
    print("\n".join(lines), flush=True)
    return agree


def _write_pruned_run(source, pruned):
    """Writes a fine-tuned run without some heads. Other changes are not possible for such a run."""
    from keras_bert_app.tasks import pruned_runs

    for flag in (
        _ALLOW_MISSING,
        _ALLOW_UNEXPECTED,
        _CHECK,
        _REFERENCE,
        _PARITY,
        _VOCAB_FILE,
        _POSITIONS,
        _LAYERS,
        _TIE,
        _TABLE,
        _DROP,
    ):
        if flag.present:
            raise UserError(
                f"--{flag.name}: does not go together with --prune_heads, because {source} is a fine-tuned run; leave "
                f"out --{flag.name}"
            )
    print("\n".join(pruned_runs.write(source, pruned, _OUTPUT.value)))


def _heads_of(text: str) -> dict[int, list[int]]:
    """Reads "0:1,3;2:5" as a dict layer -> list of heads."""
    heads_by_layer = {}
    for entry in filter(None, text.split(";")):
        layer, _, heads = entry.partition(":")
        if not all(number.isdecimal() for number in (layer, *heads.split(","))):
            raise UserError(f"--prune_heads={text}: {entry!r} is not LAYER:HEAD,HEAD; count from 0, as in 0:1,3;2:5")
        heads_by_layer.setdefault(int(layer), []).extend(map(int, heads.split(",")))
    return heads_by_layer


def _operations(vocabulary_bytes: bytes | None, pruned: dict[int, list[int]]) -> Iterator[Callable]:
    """Yields the requested changes. Each is a function of Weights that returns (Weights, a line to print)."""
    from keras_bert_app.interop import surgery, vocabulary_surgery

    if _DROP.value:
        yield lambda weights: surgery.drop_parts(weights, _DROP.value)
    if vocabulary_bytes is not None:
        yield lambda weights: vocabulary_surgery.replace_vocabulary(weights, vocabulary_bytes)
    if _POSITIONS.value:
        yield lambda weights: surgery.grow_positions(weights, _POSITIONS.value)
    if pruned:
        yield lambda weights: surgery.prune_heads(weights, pruned)
    if _LAYERS.value:
        yield lambda weights: surgery.keep_layers(weights, [int(index) for index in _LAYERS.value])
    if _TIE.value is not None:
        yield lambda weights: surgery.tie(weights, _TABLE.value) if _TIE.value else surgery.untie(weights)


if __name__ == "__main__":
    app.run(main, __doc__, writes={"output": ""})
