"""Reads and writes transformers' tokenizer: vocab.txt, tokenizer.json and tokenizer_config.json."""

import json
import os
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json, read_whole
from pipelines import storage
from pipelines.data_error import DataError
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, parse_vocabulary
from pipelines.wordpiece.vocabulary_checks import SPACES, check_symbols

_MAX_BYTES = 100_000_000  # The largest tokenizer.json of a BERT, the multilingual one, has 3 MB.
_CONFIG, _TOKENIZER, _VOCABULARY = "tokenizer_config.json", "tokenizer.json", "vocab.txt"
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
# Kind of tokenizer -> the type of its model in tokenizer.json.
_MODELS = {"wordpiece": "WordPiece", "symbols": "WordLevel"}
_CUT_AS_BERT = "text is cut here as google-research/bert cuts it"


def read(
    directory: str, config: BertConfig, do_lower_case: Any = None
) -> tuple[bytes | None, bool, bool, dict[str, str]]:
    """Reads the tokenizer of a model directory.

    Args:
        directory: str. Local or remote directory.
        config: BertConfig. Configuration of the model.
        do_lower_case: value in config.json, or None. Values in tokenizer_config.json and tokenizer.json have priority.

    Returns:
        Tuple (vocabulary, do_lower_case, says_casing, not_followed).
        vocabulary: bytes or None. From vocab.txt, or else from tokenizer.json.
        do_lower_case: bool. If no file states it, the value is True, the default of transformers. If the vocabulary has
        too many capitals, the value is False.
        says_casing: bool. Whether a file states do_lower_case.
        not_followed: dict of ignored settings with the reasons.

    Raises:
        UserError: A file is damaged, or two files contradict each other.
    """
    settings, tokenizer = (_read_optional(directory, name) for name in (_CONFIG, _TOKENIZER))
    vocabulary = _read_vocabulary(directory, tokenizer, _MODELS[config.tokenizer])
    pieces = parse_vocabulary(vocabulary or b"")[0]
    if len(pieces) > config.vocab_size:
        raise UserError(
            f"{directory}: the vocabulary has {len(pieces):,} pieces, but config.json has vocab_size "
            f"{config.vocab_size:,}; the files are of two models"
        )
    if config.tokenizer == "symbols":
        check_symbols([piece for piece in pieces if piece is not None], f"of {directory}")
        return vocabulary, False, True, {}
    sources = {
        _CONFIG: settings.get("do_lower_case"),
        _TOKENIZER: _object(tokenizer, "normalizer").get("lowercase"),
        "config.json": do_lower_case,
    }
    stated = {name: value for name, value in sources.items() if value is not None}
    for name, value in stated.items():
        if not isinstance(value, bool):
            raise UserError(f"{directory}/{name}: do_lower_case (lowercase) is {value!r}; expected true or false")
    do_lower_case, contradicted = _casing(directory, pieces, stated)
    return (
        vocabulary,
        do_lower_case,
        bool(stated),
        {**contradicted, **_not_followed(settings, tokenizer, pieces, do_lower_case)},
    )


def write(directory: str, vocabulary: bytes, config: BertConfig) -> None:
    """Writes vocab.txt, tokenizer.json and tokenizer_config.json.

    Args:
        directory: str. Existing local directory.
        vocabulary: bytes. Content of vocab.txt.
        config: BertConfig. Configuration of the model.

    Raises:
        UserError: transformers could not use this vocabulary.
    """
    from tokenizers import processors

    pieces, faults = parse_vocabulary(vocabulary)
    if faults:
        raise UserError(
            f"the vocabulary cannot be written for transformers: {'; '.join(faults[:3])}; check_vocab says more"
        )
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = _of_symbols(ids) if config.tokenizer == "symbols" else _of_pieces(ids, config.do_lower_case)
    is_gpt = config.architecture == "gpt"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0" if is_gpt else "[CLS]:0 $A:0 [SEP]:0",  # a GPT continues its text
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, ids[piece]) for piece in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL_PIECES))
    # PreTrainedTokenizerFast uses the whole tokenizer.json. BertTokenizer of transformers 5 takes only the pieces from
    # this file and ignores the limit of 200 characters per word.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        # GPT-2 would add the word embeddings of the segments' numbers.
        "model_input_names": ["input_ids", *([] if is_gpt else ["token_type_ids"]), "attention_mask"],
        "model_max_length": config.max_position_embeddings,
        "do_lower_case": config.do_lower_case,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        **{f"{piece[1:-1].lower()}_token": piece for piece in SPECIAL_PIECES},
    }
    for name, content in (
        (_VOCABULARY, vocabulary),
        (_TOKENIZER, (tokenizer.to_str(pretty=True) + "\n").encode()),
        (_CONFIG, (json.dumps(settings, indent=2) + "\n").encode()),
    ):
        storage.write_whole(os.path.join(directory, name), content)


def _of_pieces(ids, do_lower_case):
    """BERT's tokenizer without its special pieces, as transformers' object."""
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    from pipelines.wordpiece.tokenizer import MAX_CHARACTERS_PER_WORD

    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS_PER_WORD)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=do_lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _of_symbols(ids):
    """The tokenizer of symbols with spaces between them, as transformers' object."""
    import tokenizers
    from tokenizers import models, pre_tokenizers

    tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(f"[{SPACES}]+"), "removed")
    return tokenizer


def _read_optional(directory, name):
    path = f"{directory}/{name}"
    return read_json(path, _MAX_BYTES, directory) if storage.is_file(path) else {}


def _object(values, key):
    """Returns a nested object, or {} if the key is missing or has another type, such as null."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def _read_vocabulary(directory, tokenizer, model_type):
    """Returns the bytes of the vocabulary from vocab.txt and tokenizer.json, or None."""
    path = f"{directory}/{_VOCABULARY}"
    vocabulary = read_whole(path, _MAX_BYTES, directory) if storage.is_file(path) else None
    if _object(tokenizer, "model").get("vocab"):
        vocabulary = _agreed(directory, vocabulary, _vocabulary_of(directory, _object(tokenizer, "model"), model_type))
    return vocabulary


def _vocabulary_of(directory, model, model_type):
    """Makes the bytes of a vocab.txt for the model in tokenizer.json.

    transformers strips white space from every piece. Google's Chinese vocabulary thus gets an empty piece. No text can
    contain the empty piece, and vocab.txt cannot store it, so this function names it [unusedN].
    """
    path, vocab = f"{directory}/{_TOKENIZER}", model["vocab"]
    if model.get("type", model_type) != model_type or not isinstance(vocab, dict):
        reason = "only WordPiece is BERT's tokenizer" if model_type == "WordPiece" else f"symbols need a {model_type}"
        raise UserError(f"{path}: its model is a {str(model.get('type'))[:30]!r}; {reason}")
    pieces = {i: piece for piece, i in vocab.items() if type(i) is int}
    if len(pieces) != len(vocab) or set(pieces) != set(range(len(vocab))):
        raise UserError(
            f"{path}: the ids of its {len(vocab):,} pieces are not 0 to {len(vocab) - 1:,}, each once; "
            "put the model's vocab.txt beside it"
        )
    lines = "".join(f"{pieces[i] or f'[unused{i}]'}\n" for i in range(len(pieces)))
    try:
        encoded = lines.encode()
    except UnicodeEncodeError:
        encoded = b""
    if encoded.count(b"\n") != len(pieces):
        raise UserError(f"{path}: has a piece that no vocab.txt can hold (a line break, or half a character)")
    return encoded


def _agreed(directory, vocabulary, other):
    """Checks that vocab.txt (if any) and tokenizer.json agree, except for white space. Returns the vocabulary."""
    if vocabulary is None:
        return other
    ours, others = (
        [_without_space(i, piece) for i, piece in enumerate(parse_vocabulary(data)[0])] for data in (vocabulary, other)
    )
    if ours == others:
        return vocabulary
    line = next(
        (i for i, pair in enumerate(zip(ours, others, strict=False), start=1) if pair[0] != pair[1]),
        min(len(ours), len(others)) + 1,
    )
    raise UserError(
        f"{directory}: vocab.txt ({len(ours):,} pieces) and tokenizer.json ({len(others):,}) differ from "
        f"line {line:,} on; remove the file that does not belong to the model"
    )


def _without_space(index, piece):
    return piece and (piece.strip() or f"[unused{index}]")


def _casing(directory, pieces, stated):
    """Takes do_lower_case from the first source that states it, or guesses it from the vocabulary.

    bert-base-chinese states False, but its vocabulary has no capitals, so every capital in a text would become [UNK].

    Returns:
        Tuple (do_lower_case, dict of ignored settings with the reasons).
    """
    name, value = next(iter(stated.items()), ("", True))
    try:
        casing.verify([piece for piece in pieces if piece], value, f"of {directory}")
    except DataError as error:
        if name and value:
            raise UserError(f"{error}, in {name}") from None
        return (True, {f"{name} do_lower_case=False": casing.NO_CAPITALS}) if name else (False, {})
    return value, {}


def _not_followed(settings, tokenizer, pieces, do_lower_case):
    """Lists the settings that would cut text in another way than BERT's tokenizer, with the reasons."""
    normalizer, model = _object(tokenizer, "normalizer"), _object(tokenizer, "model")
    checks = [
        (_CONFIG, settings, "tokenizer_class", _CLASSES),
        (_CONFIG, settings, "strip_accents", (do_lower_case,)),
        (_CONFIG, settings, "tokenize_chinese_chars", (True,)),
        (_CONFIG, settings, "do_basic_tokenize", (True,)),
        (_TOKENIZER, normalizer, "type", ("BertNormalizer",)),
        (_TOKENIZER, normalizer, "strip_accents", (do_lower_case,)),
        (_TOKENIZER, normalizer, "handle_chinese_chars", (True,)),
        (_TOKENIZER, normalizer, "clean_text", (True,)),
        (_TOKENIZER, _object(tokenizer, "pre_tokenizer"), "type", ("BertPreTokenizer",)),
        (_TOKENIZER, model, "continuing_subword_prefix", ("##",)),
    ]
    ignored = {
        f"{name} {key}={str(values[key])[:50]!r}": _CUT_AS_BERT
        for name, values, key, expected in checks
        if values.get(key) is not None and values[key] not in expected
    }
    empty = _object(model, "vocab").get("")
    if empty is not None and pieces[empty] == f"[unused{empty}]":
        ignored[f"{_TOKENIZER} piece {empty}, which is empty"] = "no text can give it"
    known = set(pieces)
    added = tokenizer.get("added_tokens")
    contents = [token.get("content") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    unknown = [content for content in contents if isinstance(content, str) and content not in known]
    if unknown:
        ignored[f"{_TOKENIZER} {len(unknown)} added_tokens such as {unknown[0][:50]!r}"] = (
            "they are not in the vocabulary"
        )
    return ignored
