"""The features of the epochs of a run whose model finds hard negatives for its own training pairs."""

import dataclasses
import io
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_bert_app.config.prompts import DOCUMENT, QUERY
from keras_bert_app.errors import UserError
from keras_bert_app.runs import work_directory
from keras_bert_app.tasks import hard_negatives, predicting
from keras_bert_app.tasks.dev_evaluation import Scorer
from keras_bert_app.tasks.families.text_vectors import Example
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.hard_negatives import MiningOptions
from keras_bert_app.tasks.task import Examples
from keras_bert_app.terminal.durations import duration
from keras_bert_app.training.infeed import StopAsked
from keras_bert_app.training.start import Start
from pipelines import storage

_FOLDER = "negatives"  # in the work directory


class MinedEpochs:
    """The features of each epoch.

    The model mines when an epoch begins. The negatives follow from the weights of this moment, so the run keeps their
    numbers in a file, which a run that resumes within the epoch reads. A run that resumes at the beginning of the epoch
    has the same weights and mines again.

    Args:
        start: Start whose data are TaskData.
        scorer: Scorer. Its function makes the vectors of the model.
        should_stop: function that says whether a signal has come. The mining then ends without a result.
    """

    def __init__(self, start: Start, scorer: Scorer, should_stop: Callable[[], bool] = lambda: False):
        self.should_stop = should_stop
        self.start, self.run, self.data, self.scorer = start, start.run, start.data.data, scorer
        self.pairs = hard_negatives.pair_texts(example.texts for example in self.data.train_examples)
        low, high = map(int, self.run.mine_range)
        self.options = MiningOptions(self.run.mine_negatives, low, high, self.run.mine_margin)

    def features(self, epoch: int, first: int, step: int) -> Features:
        """The training features of an epoch.

        Args:
            epoch: int. Number of the epoch, from 0.
            first: int. The first batch of the epoch that the run takes. 0: the epoch begins now.
            step: int. The number of steps so far, for the progress line.

        Raises:
            UserError: the file with the negatives of a begun epoch is missing or damaged.
            StopAsked: a signal came during the mining.
        """
        if epoch < self.run.mine_after:
            return self.data.train
        numbers = self._kept(epoch) if first else self._mined(epoch, step)
        examples = Examples(
            dataclasses.replace(example, texts=(*example.texts, *self._texts(row)))
            for example, row in zip(self.data.train_examples, numbers.tolist(), strict=True)
        )
        task = self.data.task
        return task.family.featurize(task, examples, self.start.tokenizer, self.run, self.data.labels)

    def _texts(self, numbers):
        return (self.pairs.candidates[number] for number in numbers if number != hard_negatives.NONE)

    def _mined(self, epoch, step):
        """The numbers of the new negatives of an epoch that begins, int32 [U, num_negatives]."""
        began, reporter = time.monotonic(), self.scorer.reporter
        with reporter.busy(step, "mining negatives", lambda: None):
            vectors = self._vectors()
            anchors, candidates = vectors[: len(self.pairs.anchor_texts)], vectors[len(self.pairs.anchor_texts) :]
            found = hard_negatives.mine(self.pairs, anchors, candidates, self.options, should_stop=self.should_stop)
            if found is None:
                raise StopAsked
        if self.start.is_chief:
            file = io.BytesIO()
            np.save(file, found.numbers)
            storage.make_directories(work_directory.path_in(self.start.workdir, _FOLDER))
            storage.write_whole(self._path(epoch), file.getvalue())
        is_found = found.numbers != hard_negatives.NONE
        cosines = f", mean cosine {found.cosines[is_found].mean():.3f}" if is_found.any() else ""
        reporter.say(
            f"epoch {epoch + 1}: {is_found.sum():,} new negatives{cosines}, for {is_found.any(axis=1).sum():,} of "
            f"{len(is_found):,} pairs (positives {found.positive_cosines.mean():.3f}), mined in "
            f"{duration(time.monotonic() - began)}"
        )
        if not is_found.any():
            reporter.say(
                "warning: no text is a negative; give a smaller first rank in --mine_range (few different texts) or a "
                "smaller --mine_margin (the model does not yet tell the texts apart)"
            )
        return found.numbers

    def _vectors(self):
        """The vectors of the anchors and then of the candidates, with their prompts, float32 [A + C, H]."""
        roles = {QUERY: self.pairs.anchor_texts, DOCUMENT: self.pairs.candidates}
        examples = [Example("", (text,), None, "", role) for role, texts in roles.items() for text in texts]
        task = self.data.task
        features = task.family.featurize(
            task, examples, self.start.tokenizer, self.run, self.data.labels, has_labels=False
        )
        vectors = predicting.unit_logits(
            self.scorer.call,
            self.scorer.model,
            features,
            self.run,
            self.run.global_batch_size,
            self.should_stop,
            **self.scorer.shapes,
        )
        if vectors is None:
            raise StopAsked
        return np.concatenate(vectors)

    def _path(self, epoch):
        return work_directory.path_in(self.start.workdir, _FOLDER, f"epoch-{epoch + 1:05d}.npy")

    def _kept(self, epoch):
        path, wanted = self._path(epoch), (len(self.pairs.anchors), self.run.mine_negatives)
        try:
            with storage.open_file(path) as file:
                numbers = np.load(io.BytesIO(file.read()), allow_pickle=False)
        except (OSError, tf.errors.OpError, ValueError, EOFError) as error:
            raise UserError(
                f"{path}: the negatives of the epoch in which the run stopped cannot be read "
                f"({type(error).__name__}); restore the file, or begin again in another --workdir"
            ) from None
        is_whole = isinstance(numbers, np.ndarray) and numbers.shape == wanted and numbers.dtype == np.int32
        if not is_whole or numbers.min() < hard_negatives.NONE or numbers.max() >= len(self.pairs.candidates):
            raise UserError(
                f"{path}: does not hold the negatives of {wanted[0]:,} pairs; restore the file, or begin again in "
                "another --workdir"
            )
        return numbers
