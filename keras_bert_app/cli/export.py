"""Exports a model as SavedModels that take raw text, and as SavedModels that take ids.

python -m keras_bert_app.cli.export --workdir=runs/mine --export_dir=saved_models/mine
python -m keras_bert_app.cli.export --workdir=runs/sst-2 --export_dir=saved_models/sst-2
python -m keras_bert_app.cli.export --workdir=runs/mine --kind=embeddings --export_dir=saved_models/vectors

An exported BERT fills in [MASK]s, and an exported GPT continues texts. An exported fine-tuned run answers its task.
"""

from absl import flags

from keras_bert_app.cli.common import app, pooling_flags, written_places
from keras_bert_app.errors import UserError

flags.DEFINE_string(
    "workdir", "", "Work directory of a run, one of its checkpoints, or a model in any layout that convert reads."
)
flags.DEFINE_string("export_dir", "", "Directory for the versions, such as saved_models/NAME.")
_KIND = flags.DEFINE_enum(
    "kind",
    "auto",
    ["auto", "embeddings"],
    "auto: what the model was trained for, over raw text, and an export over ids; embeddings: vectors of texts. A run "
    "of --task=similarity gives vectors in any case.",
)
_TOP_K = flags.DEFINE_integer("top_k", None, "Pieces for each [MASK]; 5 by default.", lower_bound=1)
_MAX_WINDOWS = flags.DEFINE_integer(
    "max_windows",
    None,
    "Most windows of a long text in tagging and question answering; 64 by default.",
    lower_bound=1,
)
_LITERT = flags.DEFINE_bool(
    "litert",
    False,
    "Also write model.tflite, a LiteRT (TensorFlow Lite) model over ids, into the export. "
    "`embed` and `search` are faster with this file.",
)
_POOLING_FLAGS = pooling_flags.define()


def main(arguments: list[str]) -> None:
    workdir, export_dir = app.required("workdir", "export_dir")
    with app.quiet_start():
        from keras_bert_app.export import finetuned_export, pretrained_export
        from keras_bert_app.tasks import similarity_runs
    is_of_vectors = _KIND.value == "embeddings" or similarity_runs.is_similarity_run(workdir)
    if not is_of_vectors:
        _refuse(*_POOLING_FLAGS, kind="--kind=auto; it is for --kind=embeddings")
    if is_of_vectors:
        written = _vectors(workdir, export_dir)
    elif finetuned_export.is_finetuned(workdir):
        _refuse(_TOP_K, kind="a fine-tuned run; leave it out")
        written = finetuned_export.export_finetuned(
            workdir, export_dir, _MAX_WINDOWS.value or finetuned_export.MAX_WINDOWS, _LITERT.value
        )
    else:
        finetuned_export.refuse_single_checkpoint(workdir)
        _refuse(_MAX_WINDOWS, kind="a pre-trained model; leave it out")
        if _TOP_K.present and pretrained_export.continues_texts(workdir):
            _refuse(_TOP_K, kind="a GPT, which continues texts; leave it out")
        written = pretrained_export.export_pretrained(
            workdir, export_dir, _TOP_K.value or pretrained_export.TOP_K, print, _LITERT.value
        )
        if not written[0]:
            print(f"{workdir}: has no head that answers raw texts, so that {export_dir} was not written")
    for directory in filter(None, written):
        print(f"exported {directory}")


def _vectors(workdir, export_dir):
    """Exports the vectors of texts. Returns [the directory of the version]."""
    from keras_bert_app.export import sentence_vectors

    _refuse(_TOP_K, _MAX_WINDOWS, kind="vectors of texts; leave it out")
    how = pooling_flags.pooling(_POOLING_FLAGS)
    return [sentence_vectors.export_embeddings(workdir, export_dir, how, print, _LITERT.value)]


def _refuse(*given, kind):
    for flag in given:
        if flag.present:
            raise UserError(f"--{flag.name}: has no meaning for {kind}")


if __name__ == "__main__":
    app.run(main, __doc__, writes={"export_dir": written_places.EXPORT})
