"""Separates the held-out documents that choose settings from the held-out documents of the reported results."""

import hashlib
import os
from collections.abc import Iterable, Iterator

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError
from pipelines import storage

_FILE = "choosing.txt"


def write(directory: str, corpus_dir: str, reported_corpus_dir: str) -> tuple[str, int, int]:
    """Writes the held-out documents of a corpus that share no sentence with those of another corpus.

    Two seeds of prepare_corpus hold out some documents in common. The function leaves these documents out. It compares
    sentences, and not documents, because prepare_corpus drops sentences of held-out documents.

    Args:
        directory: str. Directory for the file. The file has one sentence on each line, and a blank line between
            documents.
        corpus_dir: str. Directory that prepare_corpus wrote.
        reported_corpus_dir: str. Another such directory, whose held-out documents must not choose.

    Returns:
        (path of the file, number of its documents, number of held-out documents of corpus_dir).

    Raises:
        UserError: fewer than half of the documents are left, or the directory has other documents.
    """
    documents = list(heldout_documents(corpus_dir))
    kept = list(others(documents, heldout_documents(reported_corpus_dir)))
    if 2 * len(kept) < len(documents) or not kept:
        raise UserError(
            f"--corpus_dir={corpus_dir} and --reported_corpus_dir={reported_corpus_dir} hold out the same text: "
            f"{len(documents) - len(kept)} of {len(documents)} documents; prepare one of them with another --seed"
        )
    path, text = os.path.join(directory, _FILE), b"\n\n".join(kept) + b"\n"
    if os.path.exists(path) and storage.sha256_of(path) != hashlib.sha256(text).hexdigest():
        raise UserError(
            f"--directory={directory} has trials with other held-out documents; expected those of "
            f"--corpus_dir={corpus_dir} that --reported_corpus_dir={reported_corpus_dir} does not hold out; give "
            "another directory"
        )
    storage.write_whole(path, text)
    return path, len(kept), len(documents)


def refuse_if_reported(search_dir: str, corpus_dir: str) -> None:
    """Raises UserError if documents that chose settings are held out in a corpus.

    Args:
        search_dir: str. The directory that write filled.
        corpus_dir: str. Directory that prepare_corpus wrote, whose held-out documents are reported on.
    """
    path = os.path.join(search_dir, _FILE)
    try:
        with open(path, "rb") as file:
            chose = file.read().rstrip(b"\n").split(b"\n\n")
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); give as --search_dir the --directory of a run of "
            "benchmarks.quality.search_settings"
        ) from error
    if shared := len(chose) - len(list(others(chose, heldout_documents(corpus_dir)))):
        raise UserError(
            f"--search_dir={search_dir}: {shared} of the {len(chose)} documents that chose the settings are held out "
            f"in --corpus_dir={corpus_dir}; search with --reported_corpus_dir={corpus_dir}"
        )


def others(documents: Iterable[bytes], reported: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yields the documents that share no sentence with the reported ones.

    Args:
        documents: documents in UTF-8, their sentences joined with "\n".
        reported: documents in the same form.
    """
    sentences = {sentence for document in reported for sentence in document.split(b"\n")}
    return (document for document in documents if sentences.isdisjoint(document.split(b"\n")))


def heldout_documents(corpus_dir: str) -> Iterator[bytes]:
    """Yields the held-out documents of a corpus.

    Args:
        corpus_dir: str. Directory that prepare_corpus wrote.
    """
    with app.quiet_start():
        import tensorflow as tf

        from pipelines.corpus import preparation
    shards = preparation.shard_paths(corpus_dir, preparation.load_manifest(corpus_dir), "heldout")
    # TFRecordDataset refuses an empty list.
    return tf.data.TFRecordDataset(shards).as_numpy_iterator() if shards else iter(())
