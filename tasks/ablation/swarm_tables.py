"""The two tables of a swarm, as Olmix reads and writes them: the shares and the measures of each run, as CSV.

Both have the column `run` or `run_id`, by which they are joined. `name`, `index` and unnamed columns are
not read. All other columns are parts, or measures. Their order does not matter.
"""

import csv
import io
from dataclasses import dataclass

import numpy as np

from zyda_flows.tasks.ablation.mixture_fit import Numbers
from zyda_flows.tasks.errors import BadInput, ZydaError, first_line
from zyda_flows.tasks.storage.folder import Folder

RATIOS, METRICS = "swarm/ratios.csv", "swarm/metrics.csv"
RUN = ("run", "run_id")
OTHERS = ("name", "index", "")
MOST_BYTES = 64 << 20
TOLERANCE = 0.01  # of the sum of the shares of a run
Rows = dict[str, dict[str, float]]  # by run, then by column


@dataclass(frozen=True)
class SwarmTable:
    """The runs of a swarm. shares: (n, parts). values: each measure, (n,). left_out: runs of a single table."""

    runs: tuple[str, ...]
    parts: tuple[str, ...]
    shares: Numbers
    values: dict[str, Numbers]
    left_out: int = 0


def write_tables(folder: Folder, table: SwarmTable) -> None:
    """Write both tables below a folder."""
    metrics = np.stack([*table.values.values()], axis=1)
    for path, names, numbers in ((RATIOS, table.parts, table.shares), (METRICS, [*table.values], metrics)):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["run", "name", "index", *names])
        writer.writerows(
            [run, run, index, *row]
            for index, (run, row) in enumerate(zip(table.runs, numbers.tolist(), strict=True))
        )
        folder.write(path, text.getvalue().encode())


def read_tables(ratios: str, metrics: str) -> SwarmTable:
    """Read both tables. Raises BadInput with file and line."""
    shares, values = read_rows(ratios), read_rows(metrics)
    parts, names = ([*next(iter(rows.values()))] for rows in (shares, values))
    for number, (run, row) in enumerate(shares.items(), 2):
        if abs(sum(row.values()) - 1) > TOLERANCE or min(row.values()) < 0:
            raise BadInput(
                f"{ratios}: line {number}: the shares of run {run} are not positive with the sum 1"
            )
    runs = [run for run in shares if run in values]
    if not runs:
        raise BadInput(f"{metrics}: none of its runs is in {ratios}")
    array = np.array([[shares[run][part] for part in parts] for run in runs])
    return SwarmTable(
        tuple(runs), tuple(parts), array / array.sum(axis=1, keepdims=True),
        {name: np.array([values[run][name] for run in runs]) for name in names},
        len({*shares} ^ {*values}),
    )  # fmt: skip


def read_rows(url: str) -> Rows:
    """Read a table of numbers. Raises BadInput with file and line."""
    parent, _, name = url.rpartition("/")
    folder = Folder(parent or ".")
    if not folder.exists(name):
        raise BadInput(f"{url}: there is no such file")
    try:
        with folder.open(name) as stream:
            content = stream.read(MOST_BYTES + 1)
        lines = [*csv.reader(io.StringIO(content.decode("utf-8-sig")), strict=True)]
    except (OSError, ZydaError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{url}: cannot be read: {first_line(error)}") from error
    if len(content) > MOST_BYTES:
        raise BadInput(f"{url}: it has more than {MOST_BYTES >> 20} MiB")
    head = lines[0] if lines else []
    place = next((head.index(name) for name in RUN if name in head), None)
    columns = {
        name: i for i, name in enumerate(head)
        if i != place and name not in (*RUN, *OTHERS) and not name.startswith("Unnamed")
    }  # fmt: skip
    if place is None or not columns or len({*head}) < len(head):
        raise BadInput(f"{url}: line 1: expected the column run, and different names of further columns")
    rows = Rows()
    for number, line in enumerate(lines[1:], 2):
        if len(line) != len(head):
            raise BadInput(f"{url}: line {number}: {len(line)} columns, expected {len(head)}")
        if line[place] in rows:
            raise BadInput(f"{url}: line {number}: run {line[place]} is listed twice")
        rows[line[place]] = {name: number_in(url, number, name, line[i]) for name, i in columns.items()}
    if not rows:
        raise BadInput(f"{url}: it has no runs")
    return rows


def number_in(url: str, line: int, column: str, text: str) -> float:
    """Return a number of a table. Raises BadInput if it is none."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise BadInput(f"{url}: line {line}, column {column}: expected a number, not {text[:40]!r}")
    return value
