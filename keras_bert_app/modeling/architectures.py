"""Makes the encoder, or the model for pre-training, of the architecture that a configuration names."""

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from keras_bert_app.modeling.gpt_encoder import GptEncoder
from keras_bert_app.modeling.language_model import LanguageModel
from keras_bert_app.modeling.lstm_encoder import LstmEncoder
from keras_bert_app.modeling.lstm_language_model import LstmLanguageModel
from keras_bert_app.modeling.pretrainer import BertPretrainer

Encoder = BertEncoder | GptEncoder | LstmEncoder
Pretrainer = BertPretrainer | LanguageModel
_ENCODERS = {"bert": BertEncoder, "gpt": GptEncoder, "lstm_lm": LstmEncoder}
_PRETRAINERS = {"bert": BertPretrainer, "gpt": LanguageModel, "lstm_lm": LstmLanguageModel}


def make_encoder(config: BertConfig, seed: int = 0, dtype: str = "float32", has_pooler: bool = False) -> Encoder:
    """Makes an encoder with new weights.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy.
        has_pooler: bool. Whether the encoder has BERT's pooler.

    Returns:
        BertEncoder, GptEncoder or LstmEncoder. All have the same call arguments, results and methods.
    """
    return _ENCODERS[config.architecture](config, seed=seed, dtype=dtype, has_pooler=has_pooler)


def make_pretrainer(
    config: BertConfig, seed: int = 0, dtype: str = "float32", parts: tuple[str, ...] = PARTS
) -> Pretrainer:
    """Makes a model for pre-training with new weights.

    Args:
        config: BertConfig. The configuration of the model.
        seed: int. The seed of the initial weights.
        dtype: str. Keras type policy.
        parts: collection of str. The parts that the model has, some of config.parts. Other names have no meaning.

    Returns:
        BertPretrainer, LanguageModel or LstmLanguageModel. All have the attributes encoder and parts, and the call
        arguments inputs, dropout_seed, heads_only and execution.
    """
    return _PRETRAINERS[config.architecture](config, seed=seed, dtype=dtype, parts=parts)
