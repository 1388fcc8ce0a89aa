"""What an analysis found: tables, pictures and remarks, printed for the person who waits and kept for the report."""

import dataclasses
import json


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells; numbers are shown with `digits` places. Cells are str, int, float, or None for what is not
    there."""

    title: str
    columns: tuple
    rows: list
    digits: int = 4

    def cells(self):
        """The rows as str."""
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
        name: of the analysis. title: one line. tables: list of Table; the first is the one to read.
        remarks: lines: what was measured how, what was left out, what the figures say beside their baseline.
        files: dict name -> bytes (PNG), str (HTML, text) or an iterator of bytes (what is large), laid beside.
        values: dict of figures beyond the tables, for programs; anything that JSON holds.
        origin: encoders.origin_of the model that was looked into, where it is not the subject.
    """

    name: str
    title: str
    tables: list = dataclasses.field(default_factory=list)
    remarks: list = dataclasses.field(default_factory=list)
    files: dict = dataclasses.field(default_factory=dict)
    values: dict = dataclasses.field(default_factory=dict)
    origin: dict = dataclasses.field(default_factory=dict)


def contents(findings, options):
    """dict file name -> bytes or an iterator of bytes: NAME.json with all that was found and how, and the files.

    Args:
        options: Options, the seeds among them.
    """
    record = {
        **dataclasses.asdict(dataclasses.replace(findings, files={})),
        "files": sorted(findings.files),
        "options": dataclasses.asdict(options),
    }
    files = {**findings.files, f"{findings.name}.json": json.dumps(record, indent=1, ensure_ascii=False) + "\n"}
    return {name: content.encode() if isinstance(content, str) else content for name, content in files.items()}


def text_lines(findings):
    """Yields the lines of its title, tables and remarks."""
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
                    cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(row, widths, is_text)
                ).rstrip()
            )
    yield ""
    yield from findings.remarks
