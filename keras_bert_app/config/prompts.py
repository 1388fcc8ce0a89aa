"""Prompts: the texts that a model of vectors reads before a text, by the role of the text."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_bert_app.errors import UserError

QUERY, DOCUMENT = ROLES = ("query", "document")
# Role -> the names of its prompt, in the order in which sentence-transformers 6.2 looks for them (encode_query and
# encode_document in sentence_transformers/sentence_transformer/model.py).
_NAMES = {QUERY: ("query",), DOCUMENT: ("document", "passage", "corpus")}
_MOST_PROMPTS, _LONGEST = 1000, 100_000  # a folder of MTEB's instructions has about a hundred


@dataclasses.dataclass(frozen=True)
class Prompts:
    """The prompts of a model, as in config_sentence_transformers.json.

    Attributes:
        texts: dict name -> prompt. A prompt stands before the text without anything between them.
        default_name: str or None. The name of the prompt of a text without a role. None: such a text has no prompt.
    """

    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_name: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """dict name -> prompt, without empty prompts."""
        return {name: text for name, text in self.texts.items() if text}

    @property
    def default(self) -> str:
        """The prompt of a text without a role, or ""."""
        return self.texts.get(self.default_name, "")

    def of_role(self, role: str) -> str:
        """The prompt of a role.

        Args:
            role: str. One of ROLES.

        Returns:
            str. "" if the role has no prompt. The default prompt is for texts without a role.
        """
        # sentence-transformers writes an empty "document" beside "passage".
        return next((self.texts[name] for name in _NAMES[role] if self.texts.get(name)), "")

    def of_name(self, name: str, given: str, owner: str) -> str:
        """The prompt of a name. The roles are names, too.

        Args:
            name: str. A name of a prompt, or one of ROLES.
            given: str. What the user gave, for the error, such as "--prompt=query".
            owner: str. The model, for the error.

        Raises:
            UserError: the model has no such prompt.
        """
        if not self.named:
            raise UserError(f"{given}: {owner} has no prompts; leave it out")
        if name in ROLES:
            return self.of_role(name)
        if name not in self.texts:
            names = sorted({*self.named, *ROLES})
            raise UserError(f"{given}: {owner} has the prompts {', '.join(names)[:200]}; give one of them")
        return self.texts[name]

    def changed(self, query_prompt: str | None, document_prompt: str | None) -> "Prompts":
        """Prompts with other texts for the roles. None keeps the text of a role, and "" removes it."""
        texts = dict(self.texts)
        for role, text in ((QUERY, query_prompt), (DOCUMENT, document_prompt)):
            if text is not None:
                texts[next((name for name in _NAMES[role] if texts.get(name)), role)] = text
        return Prompts(texts, self.default_name)

    def words(self) -> str:
        """The prompts for a line of a log, such as "prompts query 'query: ', document 'passage: '"; "" without any."""
        shown = [f"{name[:40]} {text[:40]!r}" for name, text in list(self.named.items())[:4]]
        more = ["..."] if len(self.named) > 4 else []
        default = f", by default {self.default_name[:40]}" if self.default else ""
        return f"prompts {', '.join(shown + more)}{default}" if shown else ""


NO_PROMPTS = Prompts()


def checked_prompts(values: Mapping[str, Any], place: str) -> Prompts:
    """Reads the prompts of a JSON object, whose source is unknown.

    Args:
        values: dict. Its keys "prompts" and "default_prompt_name" are read. Each may be absent or null.
        place: str. The file, for the error.

    Returns:
        Prompts.

    Raises:
        UserError: the values are no prompts.
    """
    texts, default = values.get("prompts"), values.get("default_prompt_name")
    texts = {} if texts is None else texts
    if isinstance(texts, dict):
        texts = {name: "" if text is None else text for name, text in texts.items()}
    if (
        not isinstance(texts, dict)
        or len(texts) > _MOST_PROMPTS
        or not all(isinstance(text, str) and len(text) <= _LONGEST and is_utf8(text) for text in texts.values())
    ):
        raise UserError(
            f"{place}: prompts is {str(texts)[:60]!r}; expected an object of names and texts, such as "
            '{"query": "query: "}'
        )
    if default is not None and (not isinstance(default, str) or default not in {*texts, *ROLES}):
        raise UserError(
            f"{place}: default_prompt_name is {str(default)[:40]!r}; expected null or a name of prompts "
            f"({', '.join(texts)[:200] or 'there are none'})"
        )
    return Prompts(texts, default)


def is_utf8(text: str) -> bool:
    """Whether a text has no surrogates, which stand for bytes that are not UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
