"""The tokenizer's files beside a transformers model: vocab.txt, tokenizer.json, tokenizer_config.json."""

import json
import os

from keras_bert_app.errors import UserError
from keras_bert_app.interop import bounded_files
from pipelines.data_error import DataError
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import SPECIAL_PIECES, parse_vocabulary

_MAX_BYTES = 100_000_000  # multilingual BERT's tokenizer.json, the largest of BERT's, has 3 MB
_CONFIG, _TOKENIZER, _VOCABULARY = "tokenizer_config.json", "tokenizer.json", "vocab.txt"
_CLASSES = ("BertTokenizer", "BertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend")
_CUT_AS_BERT = "text is cut here as google-research/bert cuts it"


def read(directory, config, do_lower_case=None):
    """What a directory says about the tokenizer.

    Args:
        config: BertConfig. do_lower_case: what config.json says, if anything; tokenizer_config.json and tokenizer.json
            go before it.

    Returns:
        (the bytes of vocab.txt or None, do_lower_case, whether the files say that, dict setting that is not followed -> why). Without vocab.txt the
        vocabulary comes out of tokenizer.json. Where nothing says do_lower_case it is judged from the vocabulary: false
        if that has too many capitals for true, transformers' default, to make sense.

    Raises:
        UserError: a damaged file, or two that contradict each other.
    """
    settings, tokenizer = (_read_optional(directory, name) for name in (_CONFIG, _TOKENIZER))
    path = f"{directory}/{_VOCABULARY}"
    vocabulary = bounded_files.read_whole(path, _MAX_BYTES) if bounded_files.is_file(path) else None
    if _object(tokenizer, "model").get("vocab"):
        vocabulary = _agreed(directory, vocabulary, _vocabulary_of(directory, _object(tokenizer, "model")))
    pieces = parse_vocabulary(vocabulary or b"")[0]
    if len(pieces) > config.vocab_size:
        raise UserError(
            f"{directory}: the vocabulary has {len(pieces):,} pieces, but config.json has vocab_size "
            f"{config.vocab_size:,}; the files are of two models"
        )
    sources = {
        _CONFIG: settings.get("do_lower_case"),
        _TOKENIZER: _object(tokenizer, "normalizer").get("lowercase"),
        "config.json": do_lower_case,
    }
    said = {name: value for name, value in sources.items() if value is not None}
    for name, value in said.items():
        if not isinstance(value, bool):
            raise UserError(f"{directory}/{name}: do_lower_case (lowercase) is {value!r}; expected true or false")
    do_lower_case, contradicted = _casing(directory, pieces, said)
    return (
        vocabulary,
        do_lower_case,
        bool(said),
        {**contradicted, **_not_followed(settings, tokenizer, pieces, do_lower_case)},
    )


def write(directory, vocabulary, config):
    """Writes the three files for a vocabulary's bytes and a BertConfig.

    Raises:
        UserError: transformers could not use this vocabulary.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    from pipelines.wordpiece.tokenizer import MAX_CHARACTERS_PER_WORD

    pieces, faults = parse_vocabulary(vocabulary)
    if faults:
        raise UserError(
            f"the vocabulary cannot be written for transformers: {'; '.join(faults[:3])}; check_vocab says more"
        )
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS_PER_WORD)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=config.do_lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(piece, ids[piece]) for piece in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(SPECIAL_PIECES))
    # transformers 5's BertTokenizer takes the pieces out of tokenizer.json but not the limit of 200 characters a word;
    # this class takes the file as it is.
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
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
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)


def _read_optional(directory, name):
    path = f"{directory}/{name}"
    return bounded_files.read_json(path, _MAX_BYTES) if bounded_files.is_file(path) else {}


def _object(values, key):
    """A nested object, empty where there is none (null is common)."""
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _vocabulary_of(directory, model):
    """The bytes of vocab.txt that the model of tokenizer.json stands for.

    transformers takes white space off every piece, so that Google's Chinese vocabulary has an empty one there. No text
    can give it, and no vocab.txt have it: it is called [unusedN].
    """
    path, vocab = f"{directory}/{_TOKENIZER}", model["vocab"]
    if model.get("type", "WordPiece") != "WordPiece" or not isinstance(vocab, dict):
        raise UserError(f"{path}: its model is a {str(model.get('type'))[:30]!r}; only WordPiece is BERT's tokenizer")
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
    """The one vocabulary that vocab.txt (or None) and tokenizer.json give, white space apart."""
    if vocabulary is None:
        return other
    ours, others = (
        [_without_space(i, piece) for i, piece in enumerate(parse_vocabulary(data)[0])] for data in (vocabulary, other)
    )
    if ours == others:
        return vocabulary
    line = next(
        (i for i, pair in enumerate(zip(ours, others), start=1) if pair[0] != pair[1]), min(len(ours), len(others)) + 1
    )
    raise UserError(
        f"{directory}: vocab.txt ({len(ours):,} pieces) and tokenizer.json ({len(others):,}) differ from "
        f"line {line:,} on; take the one away that does not belong to the model"
    )


def _without_space(index, piece):
    return piece and (piece.strip() or f"[unused{index}]")


def _casing(directory, pieces, said):
    """(do_lower_case, dict of what is not followed): of the first of the sources that say it, or judged from the vocabulary.

    That of bert-base-chinese says that text keeps its capitals, of which its vocabulary has none: they would all be [UNK].
    """
    name, value = next(iter(said.items()), ("", True))
    try:
        casing.verify([piece for piece in pieces if piece], value, f"of {directory}")
    except DataError as error:
        if name and value:
            raise UserError(f"{error}, in {name}") from None
        return (True, {f"{name} do_lower_case=False": casing.NO_CAPITALS}) if name else (False, {})
    return value, {}


def _not_followed(settings, tokenizer, pieces, do_lower_case):
    """Settings that would cut text otherwise than BERT's tokenizer does -> why they are not followed."""
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
    found = {
        f"{name} {key}={str(values[key])[:50]!r}": _CUT_AS_BERT
        for name, values, key, expected in checks
        if values.get(key) is not None and values[key] not in expected
    }
    empty = _object(model, "vocab").get("")
    if empty is not None and pieces[empty] == f"[unused{empty}]":
        found[f"{_TOKENIZER} piece {empty}, which is empty"] = "no text can give it"
    known = set(pieces)
    added = tokenizer.get("added_tokens")
    contents = [token.get("content") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    more = [content for content in contents if isinstance(content, str) and content not in known]
    if more:
        found[f"{_TOKENIZER} {len(more)} added_tokens such as {more[0][:50]!r}"] = "they are not in the vocabulary"
    return found
