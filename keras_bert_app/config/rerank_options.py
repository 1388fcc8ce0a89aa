"""RerankOptions: the fine-tuning options of rerankers. The module does not load TensorFlow."""

import dataclasses

from keras_bert_app.config.similarity_options import SimilarityOptions
from keras_bert_app.config.training_config import field

RANKING_LOSSES = ("auto", "binary", "graded", "listwise")
RANKING_METRICS = ("ndcg@10", "mrr@10", "map")


@dataclasses.dataclass(frozen=True)
class RerankOptions(SimilarityOptions):
    """The options of rerankers, together with those of sentence vectors, of texts and of every training.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    ranking_loss: str = field(
        "auto",
        "Loss of a reranker. auto: the columns of the training file decide. binary: whether a document answers its "
        "query; graded: how well it does, in the units of the file's grades; listwise: the relevant documents of a "
        "query among all documents of a list.",
        choices=RANKING_LOSSES,
    )
    list_size: int = field(16, "With --ranking_loss=listwise: most documents of a query in one list.", minimum=2)
    ranking_metric: str = field(
        "ndcg@10",
        "The score of the rankings of dev that chooses the weights; the others are reported, too.",
        choices=RANKING_METRICS,
    )

    ONLY_WITH = SimilarityOptions.ONLY_WITH | {"list_size": ("ranking_loss", ("auto", "listwise"))}
