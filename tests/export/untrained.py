"""Task models with random weights. They replace tasks.scoring.FinetunedRun, so that no test must train a run."""

import types

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.modeling.task_model import BertTaskModel
from keras_bert_app.tasks import predicting, registry
from pipelines.wordpiece.tokenizer import BertTokenizer
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES

WORDS = (
    "the",
    "river",
    "was",
    "cold",
    "in",
    "spring",
    "and",
    "men",
    "saw",
    "##s",
    "##et",
    "u",
    "s",
    "b",
    "it",
    "o",
    "neil",
    "anna",
    "paris",
    *",.'-()!?",
    "京",
    "北",
    "a",
)
TOKENIZER = BertTokenizer(
    "".join(f"{piece}\n" for piece in (*SPECIAL_PIECES, *WORDS)).encode(), True, verify_casing=False
)
CONFIG = BertConfig(
    vocab_size=TOKENIZER.vocab_size,
    hidden_size=22,
    num_attention_heads=2,
    num_hidden_layers=1,
    intermediate_size=37,
    max_position_embeddings=41,
    initializer_range=0.7,
)


def untrained(task, labels=(), **settings):
    """Makes an object with the task, run, labels, model and tokenizer of a FinetunedRun."""
    task = registry.find(task)
    run = FinetuningConfig(
        **{"task": task.name, "data_dir": "x", "max_seq_length": 17, "doc_stride": 5, "seed": 5, **settings}
    )
    return types.SimpleNamespace(
        task=task,
        run=run,
        labels=tuple(labels),
        tokenizer=TOKENIZER,
        model=BertTaskModel(CONFIG, task.family.make_head(task, run, labels), seed=7),
    )


def predictions(finetuned, examples):
    """Computes the result of tasks.scoring.FinetunedRun.predictions for examples."""
    task, run = finetuned.task, finetuned.run
    features = task.family.featurize(task, examples, TOKENIZER, run, finetuned.labels, has_labels=False)
    logits = predicting.unit_logits(
        lambda inputs: finetuned.model(inputs)["logits"].numpy(), finetuned.model, features, run, 4
    )
    return task.family.decode(task, examples, features, logits, run, finetuned.labels)


def texts(count, most_words, seed=0):
    """Makes texts of known and unknown words. Some texts are empty."""
    generator = np.random.default_rng(seed)
    words = [word.removeprefix("##") for word in WORDS] + ["unknown"]
    return [" ".join(generator.choice(words, generator.integers(0, most_words + 1))) for _ in range(count)]
