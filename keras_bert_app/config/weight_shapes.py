"""The paths and shapes of the variables of every architecture. The module does not load TensorFlow."""

from collections.abc import Collection

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.lstm_config import NUM_CHARACTERS


def shapes(config: BertConfig, parts: Collection[str] = PARTS) -> dict[str, tuple[int, ...]]:
    """Lists the variables of a model for pre-training: a BertPretrainer or a LanguageModel.

    Args:
        config: BertConfig. Configuration of the model.
        parts: collection of str. Some of PARTS. Only their variables are listed.

    Returns:
        dict path -> shape, in the order of the model's variables.
    """
    all_shapes = {"bert": _bert, "gpt": _gpt, "lstm_lm": _lstm}[config.architecture](config)
    return {path: shape for path, shape in all_shapes.items() if part_of(path) in parts}


def part_of(path: str) -> str:
    """Gives the part that a path belongs to.

    Args:
        path: str. Path of a tensor.

    Returns:
        str. One of PARTS, or "classifier".
    """
    return "pooler" if path.startswith("encoder/pooler/") else path.split("/", 1)[0]


def _bert(config):
    hidden = config.hidden_size
    all_shapes = {
        "encoder/embeddings/word_embeddings": (config.vocab_size, hidden),
        "encoder/embeddings/position_embeddings": (config.max_position_embeddings, hidden),
        "encoder/embeddings/token_type_embeddings": (config.type_vocab_size, hidden),
        **_channels(config),
        **_layer_norm("encoder/embeddings/layer_norm", hidden),
        **_token_vectors(config),
        **_layers(config),
        **_dense("encoder/pooler", hidden, hidden),
        "masked_lm/output_bias": (config.vocab_size,),
        **_dense("masked_lm/transform", hidden, hidden),
        **_layer_norm("masked_lm/layer_norm", hidden),
        **_dense("next_sentence/projection", hidden, 2),
    }
    if not config.tie_word_embeddings:
        all_shapes["masked_lm/output_embeddings"] = (config.vocab_size, hidden)
    return all_shapes


def _channels(config):
    return {
        f"encoder/embeddings/channel_{channel.name}": (
            channel.size + 1 if channel.size else channel.width,
            config.hidden_size,
        )
        for channel in config.channels
    }


def _token_vectors(config):
    path, hidden, shapes = "encoder/embeddings/token_vectors", config.hidden_size, {}
    if config.token_vectors == "groups":
        num_groups, longest = config.token_vectors_shape
        shapes = {
            "groups": (num_groups, hidden),
            "query": (hidden, hidden),
            "key": (hidden, hidden),
            "attention_bias": (hidden,),
            "score": (hidden, 1),
            "groups_of_pieces": (config.vocab_size, longest),
        }
    elif config.token_vectors == "given":
        (size,) = config.token_vectors_shape
        shapes = {"given": (config.vocab_size, size), "projection": (size, hidden)}
    if config.token_vectors and config.token_fusion == "gate":
        shapes |= {"gate_kernel": (2 * hidden, hidden), "gate_bias": (hidden,)}
    return {f"{path}/{name}": shape for name, shape in shapes.items()}


def _gpt(config):
    hidden = config.hidden_size
    all_shapes = {
        "encoder/embeddings/word_embeddings": (config.vocab_size, hidden),
        "encoder/embeddings/position_embeddings": (config.max_position_embeddings, hidden),
        **_layers(config),
        **_layer_norm("encoder/final_layer_norm", hidden),
    }
    if not config.tie_word_embeddings:
        all_shapes["language_model/output_embeddings"] = (config.vocab_size, hidden)
    return all_shapes


def _lstm(config):
    all_shapes, size = {**_embeddings_of_lstm(config)}, config.direction_size
    input_size = size
    for number in range(config.num_hidden_layers):
        units, output_size = config.units(number), config.output_size(number)
        for direction in ("forward", "backward")[: config.num_directions]:
            path = f"encoder/layer_{number}/{direction}"
            all_shapes[f"{path}_kernel"] = (input_size, 4 * units)
            all_shapes[f"{path}_recurrent_kernel"] = (output_size, 4 * units)
            if config.has_projection:
                all_shapes[f"{path}_projection_kernel"] = (units, output_size)
            all_shapes[f"{path}_bias"] = (4 * units,)
        input_size = output_size
    if not config.has_tied_table:
        all_shapes["language_model/output_embeddings"] = (config.vocab_size, size)
    all_shapes["language_model/output_bias"] = (config.vocab_size,)
    return all_shapes


def _embeddings_of_lstm(config):
    path, size = "encoder/embeddings", config.direction_size
    if not config.character_filters:
        return {f"{path}/word_embeddings": (config.vocab_size, size)}
    width = sum(number for _, number in config.character_filters)
    all_shapes = {f"{path}/table": (NUM_CHARACTERS, config.character_size)}
    for filter_width, number in config.character_filters:
        all_shapes[f"{path}/filters_{filter_width}"] = (filter_width * config.character_size, number)
    for filter_width, number in config.character_filters:
        all_shapes[f"{path}/bias_{filter_width}"] = (number,)
    all_shapes[f"{path}/characters"] = (
        config.vocab_size,
        config.max_characters,
    )  # Keras lists it after those it trains
    for number in range(config.num_highway_layers):
        all_shapes |= _dense(f"{path}/highway_{number}", width, 2 * width)
    return {**all_shapes, **_dense(f"{path}/projection", width, size)}


def _layers(config):
    hidden, inner, all_shapes = config.hidden_size, config.intermediate_size, {}
    for index, num_heads in enumerate(config.head_counts):
        layer, width = f"encoder/layer_{index}", num_heads * config.head_size
        all_shapes |= {
            **_dense(f"{layer}/attention/query_key_value", hidden, 3 * width),
            **_dense(f"{layer}/attention/output", width, hidden),
            **_layer_norm(f"{layer}/attention_layer_norm", hidden),
            **_dense(f"{layer}/intermediate", hidden, inner),
            **_dense(f"{layer}/output", inner, hidden),
            **_layer_norm(f"{layer}/output_layer_norm", hidden),
        }
    return all_shapes


def _dense(path, size, output_size):
    return {f"{path}/kernel": (size, output_size), f"{path}/bias": (output_size,)}


def _layer_norm(path, size):
    return {f"{path}/gamma": (size,), f"{path}/beta": (size,)}
