"""Results of an analysis: tables, pictures and remarks, to print and to keep for the report."""

import dataclasses
import json
from collections.abc import Iterator

from keras_bert_app.analysis.options import Options


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes:
        title: str.
        columns: tuple of str. The headings.
        rows: list of sequences of str, int, float or None. None gives an empty cell.
        digits: int. Decimal places of floats.
    """

    title: str
    columns: tuple
    rows: list
    digits: int = 4

    def cells(self) -> list[list[str]]:
        """Returns the rows as lists of str."""
        return [
            [
                ""
                if cell is None
                else f"{cell:.{self.digits}f}"
                if isinstance(cell, float)
                else f"{cell:,}"
                if isinstance(cell, int)
                else str(cell)
                for cell in row
            ]
            for row in self.rows
        ]


@dataclasses.dataclass(frozen=True)
class Findings:
    """The result of one analysis.

    Attributes:
        name: str. The name of the analysis.
        title: str. One line.
        tables: list of Table. The first one holds the main result.
        remarks: list of str. How the analysis measured, what it left out, and how the figures compare with baselines.
        files: dict of file name -> bytes (PNG), str (HTML, text) or iterator of bytes (large files).
        values: dict of further figures for programs. JSON can hold them.
        origin: dict. The result of encoders.origin_of for the model; empty if the model is the subject's.
    """

    name: str
    title: str
    tables: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)
    values: dict = dataclasses.field(default_factory=dict)
    origin: dict = dataclasses.field(default_factory=dict)


def contents(findings: Findings, options: Options) -> dict[str, bytes | Iterator[bytes]]:
    """Collects the files of an analysis: NAME.json and the files of its findings.

    NAME.json holds all results and options.

    Args:
        findings: Findings.
        options: Options. All of them are recorded, the seeds included.

    Returns:
        dict of file name -> bytes or iterator of bytes.
    """
    record = {
        **dataclasses.asdict(dataclasses.replace(findings, files={})),
        "files": sorted(findings.files),
        "options": dataclasses.asdict(options),
    }
    files = {**findings.files, f"{findings.name}.json": json.dumps(record, indent=1, ensure_ascii=False) + "\n"}
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


def text_lines(findings: Findings) -> Iterator[str]:
    """Yields the lines to print: title, tables and remarks.

    Args:
        findings: Findings.
    """
    yield findings.title
    for table in findings.tables:
        rows = [list(map(str, table.columns)), *table.cells()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
        is_text = [any(isinstance(row[at], str) for row in table.rows) for at in range(len(table.columns))]
        yield f"\n{table.title}"
        for row in rows:
            yield (
                "  "
                + "  ".join(
                    cell.ljust(width) if is_left else cell.rjust(width)
                    for cell, width, is_left in zip(row, widths, is_text, strict=True)
                ).rstrip()
            )
    yield ""
    yield from findings.remarks
