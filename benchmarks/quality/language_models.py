"""The kinds of language model that quality_per_minute and search_settings compare."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from keras_bert_app.errors import UserError


class LanguageModel(NamedTuple):
    """A kind of language model.

    Attributes:
        flags: further flags of our pretrain.
        peers: the contenders beside ours.
        figures: for each figure of a table its title, its name in an evaluation, and its format. The first figure
            decides a search.
        is_better_lower: whether a lower value of the first figure is better.
        baseline: what the baseline is, and its name in an evaluation. It belongs to the first figure.
        note: second and further lines of the title of the curves.
    """

    flags: Mapping[str, Any]
    peers: tuple[str, ...]
    figures: tuple[tuple[str, str, str], ...]
    is_better_lower: bool
    baseline: tuple[str, str]
    note: str

    def is_better(self, figures: Mapping[str, float], others: Mapping[str, float]) -> bool:
        """Whether one evaluation is better than another.

        Args:
            figures: an evaluation; {} if the model had no finite weights, which is worst.
            others: another one.
        """
        if not figures or not others:
            return bool(figures)
        key = self.figures[0][1]
        return figures[key] < others[key] if self.is_better_lower else figures[key] > others[key]


LANGUAGE_MODELS = {
    "masked": LanguageModel(
        {},
        ("keras_hub", "transformers"),
        (("held-out MLM accuracy", "eval_masked_lm_accuracy", ".4f"), ("MLM loss", "eval_masked_lm_loss", ".4f")),
        False,
        ("the most frequent piece", "eval_unigram_accuracy"),
        "our recipe predicts a quarter of the pieces, without dropout;\n"
        "the peers predict 15 %, by default with dropout:\ncompare the models by the table, not by these curves",
    ),
    "causal": LanguageModel(
        {"architecture": "gpt", "language_model": "causal"},
        ("transformers",),
        (
            ("held-out perplexity", "eval_perplexity", ",.1f"),
            ("accuracy", "eval_language_model_accuracy", ".4f"),
        ),
        True,
        ("bigrams of the training text", "eval_bigram_perplexity"),
        "our recipe has no dropout; the peer has dropout unless its entry ends in @0:\n"
        "compare the models by the table, not by these curves",
    ),
}


HELP = "What the models learn: masked pieces (BERT), or the next piece (causal: GPT, and transformers' GPT2)."


def check(language_model: str, names: list[str]) -> None:
    """Refuses contenders that this benchmark does not train as such a language model.

    Args:
        language_model: a key of LANGUAGE_MODELS.
        names: names of contenders.

    Raises:
        UserError: a contender has no such model here.
    """
    known = ("ours", *LANGUAGE_MODELS[language_model].peers)
    for name in names:
        if name not in known:
            raise UserError(
                f"contender {name!r}: has no {language_model} language model in this benchmark; give "
                f"{' or '.join(known)}"
            )
