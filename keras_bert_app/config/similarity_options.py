"""SimilarityOptions: the fine-tuning options of sentence vectors. The module does not load TensorFlow."""

import dataclasses

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.prompts import NO_PROMPTS, ROLES, Prompts, is_utf8
from keras_bert_app.config.text_to_text_options import TextToTextOptions
from keras_bert_app.config.training_config import field
from keras_bert_app.errors import UserError

VECTOR_LOSSES = ("auto", "contrastive", "cosent", "cosine", "triplet", "simcse", "tsdae", "distill")
_SIZED_LOSSES = tuple(loss for loss in VECTOR_LOSSES if loss not in ("tsdae", "distill"))
SIMILARITY_METRICS = ("auto", "spearman", "mrr", "nearest_label")


@dataclasses.dataclass(frozen=True)
class SimilarityOptions(TextToTextOptions):
    """The options of sentence vectors, together with those of texts and of every training.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    vector_loss: str = field(
        "auto",
        "Loss of sentence vectors. auto: the columns of the training file decide. contrastive: an anchor finds its "
        "positive among all texts of the batch (InfoNCE); cosent or cosine: two texts with a score; triplet: texts "
        "with labels; simcse: each text twice, with different dropout; tsdae: a decoder rebuilds each text from the "
        "vector of the text with words deleted; distill: a text, or a text and its translation, with the vector that "
        "--teacher gives the first text.",
        choices=VECTOR_LOSSES,
    )
    vector_temperature: float = field(
        0.05, "Divides the cosines in the losses contrastive, cosent and simcse.", minimum=1e-3
    )
    symmetric_loss: bool = field(
        False, "With --vector_loss=contrastive or simcse: each text also looks for its positive in the other column."
    )
    triplet_margin: float = field(
        0.5, "With --vector_loss=triplet: least difference of the two distances, of vectors of length 1.", minimum=0.0
    )
    deletion_ratio: float = field(
        0.6, "With --vector_loss=tsdae: the probability that a word is deleted.", minimum=0.0, below=1.0
    )
    vector_sizes: tuple = field(
        (),
        "Sizes, such as 384,192,96: the first so many numbers of a vector also learn to be vectors (Matryoshka).",
    )
    mine_negatives: int = field(
        0,
        "With --vector_loss=contrastive: before each epoch from the second on, the model finds this number of hard "
        "negatives for each pair among the positives of the other pairs. They join the negatives of the file. 0: none.",
        minimum=0,
    )
    mine_range: tuple = field(
        ("10", "50"),
        "Two ranks for --mine_negatives. The texts up to the first rank are skipped, because they may be answers that "
        "nobody marked. The texts after the second rank are skipped, too.",
    )
    mine_margin: float = field(
        0.05,
        "For --mine_negatives: the cosine of a negative is at least this much below that of the positive. -2: no "
        "limit.",
        minimum=-2.0,
        most=2.0,
    )
    mine_after: int = field(1, "Epochs before the first --mine_negatives; 0: the first epoch has them, too.", minimum=0)
    similarity_metric: str = field(
        "auto",
        "The score that chooses the weights. auto: the columns of dev decide. spearman: cosines against scores; mrr: "
        "the rank of the positive among those of all examples; nearest_label: whether the nearest text has the label.",
        choices=SIMILARITY_METRICS,
    )
    query_prompt: str = field(
        "",
        "Text before the first text of each row, in training, in scores and in the export (--prompt=query), such as "
        "'query: '.",
    )
    document_prompt: str = field(
        "",
        "Text before all other texts of each row, and before the text of a row that has one text, such as 'passage: '.",
    )

    ONLY_WITH = TextToTextOptions.ONLY_WITH | {
        "vector_temperature": ("vector_loss", ("auto", "contrastive", "cosent", "simcse")),
        "symmetric_loss": ("vector_loss", ("auto", "contrastive", "simcse")),
        "triplet_margin": ("vector_loss", ("auto", "triplet")),
        "deletion_ratio": ("vector_loss", ("auto", "tsdae")),
        "vector_sizes": ("vector_loss", _SIZED_LOSSES),
        "mine_negatives": ("vector_loss", ("auto", "contrastive")),
        **dict.fromkeys(("mine_range", "mine_margin", "mine_after"), ("mine_negatives", ())),
    }

    def __post_init__(self):
        super().__post_init__()
        for role in ROLES:
            if not is_utf8(prompt := getattr(self, f"{role}_prompt")):
                raise UserError(f"--{role}_prompt={prompt[:40]!r}: is not UTF-8; give the text in UTF-8")
        sizes = [str(size) for size in self.vector_sizes]
        object.__setattr__(self, "vector_sizes", tuple(sizes))
        if not all(size.isdecimal() and int(size) > 0 for size in sizes) or len(set(sizes)) < len(sizes):
            raise UserError(
                f"--vector_sizes={','.join(sizes)}: expected different whole numbers from 1, such as 384,96"
            )

        ranks = [str(rank) for rank in self.mine_range]
        object.__setattr__(self, "mine_range", tuple(ranks))
        if len(ranks) != 2 or not all(rank.isdecimal() for rank in ranks) or int(ranks[0]) >= int(ranks[1]):
            raise UserError(f"--mine_range={','.join(ranks)}: expected two rising whole numbers, such as 10,50")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of --vector_sizes as numbers, the largest first."""
        return tuple(sorted(map(int, self.vector_sizes), reverse=True))

    @property
    def prompts(self) -> Prompts:
        """The Prompts of the run. A text without a role has none."""
        texts = {role: getattr(self, f"{role}_prompt") for role in ROLES}
        return Prompts(texts) if any(texts.values()) else NO_PROMPTS

    def checked_against(self, model_config: BertConfig) -> "SimilarityOptions":
        if self.sizes and self.sizes[0] > model_config.hidden_size:
            raise UserError(
                f"--vector_sizes={','.join(self.vector_sizes)}: the model's vectors have "
                f"{model_config.hidden_size} numbers; give sizes up to that"
            )
        return super().checked_against(model_config)
