"""Counts with their nouns, in the singular or plural."""


def counted(count: int, noun: str) -> str:
    """Writes a count and its noun: "1 document", "2,000 documents".

    Args:
        count: int.
        noun: str. The singular. An s makes the plural.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
