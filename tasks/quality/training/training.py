"""Train a judge: sample, targets, repeats, and a folder with the model of the first repeat and a card."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from tokenizers import Tokenizer

from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied, first_line
from zyda_flows.tasks.quality import encoders
from zyda_flows.tasks.quality.forms import Model, digest_of_model, judged_model, load_model
from zyda_flows.tasks.quality.similarity_tokens import write_mean_of
from zyda_flows.tasks.quality.training import fasttext_training
from zyda_flows.tasks.quality.training.card import FILES, lines_of_card
from zyda_flows.tasks.quality.training.held_out import clusters_of, held_out
from zyda_flows.tasks.quality.training.measured import write_measures
from zyda_flows.tasks.quality.training.measures import Figures, Numbers, Result, compared
from zyda_flows.tasks.quality.training.sample import Sample, draw_sample, is_published
from zyda_flows.tasks.quality.training.targets import TargetColumn, normalised
from zyda_flows.tasks.recipe.judges import Judge
from zyda_flows.tasks.tokens.stored import load_tokenizer, stored_tokenizer, tokenizer_path

FEWEST_DOCUMENTS = 100
CARD = "README.md"
HELD_OUT = 0.2  # the share of documents that are held out
# The module of each form, and the function that returns which libraries it lacks.
FORMS: dict[str, tuple[str, Callable[[], str]]] = {
    "fasttext": ("fasttext_training", fasttext_training.missing_libraries),
    "luxical": ("luxical_training", encoders.missing_libraries),
    "pooled": ("pooled_training", encoders.missing_libraries),
}
WITHOUT_TOKENIZER, LUXICAL = ("fasttext",), "luxical"

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Training:
    """The input of a training.

    Args:
        urls: files or patterns of tables, or the URL of a published corpus.
        targets: the column of each named target; the first is the one that is trained.
        judge: the name and the model of an expensive judge; its answers are then the first target.
        form: a name in FORMS.
        tokenizer: a tokenizer.json or a hub name, for the forms of token ids; None for that of a published corpus.
        teacher: an encoder of sentences, a folder or a hub name, for the form luxical.
        text: the column with the text.
        documents: the size of the sample.
        repeats: the number of trainings, with seeds from `seed` on.
        max_tokens: of the expensive judge.
    """

    urls: Sequence[str]
    targets: Sequence[tuple[str, str]]
    judge: tuple[str, str] | None = None
    form: str = "pooled"
    tokenizer: str | None = None
    teacher: str | None = None
    text: str = "text"
    documents: int = 5000
    repeats: int = 5
    seed: int = 0
    max_tokens: int = 1024


def train_judge(folder: Path, training: Training, progress: Progress) -> list[Result]:
    """Train and measure a judge, and write its folder at once; return the comparisons with each target.

    Raises BadRequest for unusable input, Denied if the folder exists, and the errors of `draw_sample`.
    """
    check(folder, training)
    tokenizer = tokenizer_of(training)
    judge = judge_of(training.judge, training.max_tokens) if training.judge else None
    progress("drawing the sample")
    columns = [*dict.fromkeys(column for _, column in training.targets)]
    sample = draw_sample(training.urls, training.text, columns, training.documents)
    if len(sample.texts) < FEWEST_DOCUMENTS:
        raise BadRequest(f"{len(sample.texts):,} documents with a text, expected at least {FEWEST_DOCUMENTS}")
    targets = [TargetColumn.of(name, sample.columns[column]) for name, column in training.targets]
    if judge is not None:
        progress(f"{judge.name} judges {len(sample.texts):,} documents")
        targets.insert(
            0, TargetColumn.of(judge.judge, first_answers(judge, training.max_tokens, sample.texts))
        )
    progress("finding duplicates")
    clusters = clusters_of(sample.texts, sample.hashes)
    if training.teacher is not None and training.form == LUXICAL:
        progress(f"{training.teacher} reads {len(sample.texts):,} documents")
        sample = replace(sample, vectors=vectors_of_teacher(training.teacher, sample.texts))
    with folder_at_once(folder) as scratch:
        repeats, sizes = list[list[Figures]](), (0, 0)
        for number in range(training.repeats):
            progress(f"training {number + 1} of {training.repeats}")
            seed = training.seed + number
            is_held = held_out(clusters, HELD_OUT, seed)
            path = trained(scratch / f"{number}", training.form, tokenizer, sample, targets, is_held, seed)
            repeats.append(measured(path, targets, sample, is_held))
            if number == 0:
                if training.form not in WITHOUT_TOKENIZER:
                    write_mean_of(path, sample.texts.filter(pa.array(~is_held)))
                sizes = (int((~is_held).sum()), int(is_held.sum()))
            else:
                shutil.rmtree(scratch / f"{number}")
        results = Result.of_repeats(repeats)
        write_card(folder, scratch / "0", training, targets, results, sizes, sample.left_out)
    return results


def write_card(
    folder: Path,
    scratch: Path,
    training: Training,
    targets: Sequence[TargetColumn],
    results: Sequence[Result],
    sizes: tuple[int, int],
    left_out: int,
) -> None:
    """Write the card of a judge, and its measures as a record, into `scratch`, which becomes `folder`."""
    form, repeats = training.form, training.repeats
    card = lines_of_card(folder, form, targets, results, origin_of(training), sizes, repeats, left_out)
    (scratch / CARD).write_text("\n".join([*card, ""]), encoding="utf-8")
    digest = digest_of_model(f"{scratch}{FILES.get(form, '')}")
    write_measures(scratch, digest, form, [target.name for target in targets], results, sizes, repeats)


def check(folder: Path, training: Training) -> None:
    """Raise Denied or BadRequest for faults that are known before any work."""
    if folder.exists():
        raise Denied(f"{folder} exists; remove it, or give another folder")
    if not training.targets and training.judge is None:
        raise BadRequest(
            "there is no target; give the column of a score with --target, or a model with --judge"
        )
    names = [name for name, _ in training.targets] + ([training.judge[0]] if training.judge else [])
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadRequest(f"two targets have the name {twice[0]}; rename one of them")
    if missing := FORMS[training.form][1]():
        raise BadRequest(f"form {training.form}: {missing}")
    has_tokenizer = training.tokenizer is not None or is_published(training.urls)
    if not has_tokenizer and training.form not in WITHOUT_TOKENIZER:
        raise BadRequest(f"form {training.form}: it needs --tokenizer, the tokenizer of its token ids")
    if training.teacher is None and training.form == LUXICAL:
        raise BadRequest(f"form {LUXICAL}: it needs --teacher, an encoder of sentences")


def tokenizer_of(training: Training) -> Tokenizer | None:
    """Return the tokenizer of a training; by default that of a published corpus. Raises BadRecipe, Damaged."""
    if training.tokenizer is not None:
        return load_tokenizer(training.tokenizer)
    if training.form in WITHOUT_TOKENIZER:
        return None
    corpus = PublishedCorpus.at(training.urls[0])
    name, digest = (corpus.manifest.tokenizer[field] for field in ("name", "digest"))
    if corpus.root.exists(tokenizer_path(digest)):
        return Tokenizer.from_str(stored_tokenizer(corpus.root, digest))
    return load_tokenizer(name)


@contextmanager
def folder_at_once(folder: Path) -> Iterator[Path]:
    """Yield a scratch folder beside `folder`, whose subfolder `0` becomes `folder` at the end of the block."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        yield Path(scratch)
        (Path(scratch) / "0").rename(folder)


def origin_of(training: Training) -> str:
    if training.judge is not None:
        return f"the answers of {training.judge[1]}"
    return f"the column `{training.targets[0][1]}`"


def vectors_of_teacher(teacher: str, texts: pa.LargeStringArray) -> NDArray[np.float32]:
    """Return the vectors of an encoder of sentences. Raises BadRequest if it cannot be loaded."""
    from zyda_flows.tasks.quality.training.luxical_training import teacher_vectors  # late: it imports torch

    try:
        return teacher_vectors(encoders.locate(teacher, None), texts)
    except Exception as error:  # transformers, torch and the hub raise many kinds of errors
        raise BadRequest(f"--teacher: {teacher} cannot be loaded: {first_line(error)}") from error


def judge_of(named: tuple[str, str], max_tokens: int) -> Model:
    """Find and check the model of the expensive judge. Raises BadInput, BadRequest."""
    name, model = named
    judge = judged_model(Judge(name=name, model=model, max_tokens=max_tokens))
    if len(judge.heads) > 1:
        heads = ", ".join(head.name for head in judge.heads)
        raise BadRequest(
            f"--judge {name}: {model} has several heads ({heads}); run it in a build, and name one of its columns "
            "with --target"
        )
    return judge


def first_answers(judge: Model, max_tokens: int, texts: pa.LargeStringArray) -> pa.Array:
    """Return the first column of a judge's answers: its most probable label, its score, or its perplexity."""
    columns = load_model(judge, max_tokens)(pa.chunked_array([texts]))
    return normalised(judge.judge, pa.chunked_array([columns[0]]), judge.name, np.arange(len(texts)))


def trained(
    folder: Path,
    form: str,
    tokenizer: Tokenizer | None,
    sample: Sample,
    targets: Sequence[TargetColumn],
    is_held: NDArray[np.bool_],
    seed: int,
) -> Path:
    """Train a judge with the documents that are not held out; return the path of its model."""
    for target in targets:
        expect_both(target, is_held, seed)
    module = import_module(f"{__package__}.{FORMS[form][0]}")
    texts = sample.texts.filter(pa.array(~is_held))
    vectors = () if sample.vectors is None else (sample.vectors[~is_held],)
    path: Path = module.train(folder, texts, targets[0].of_documents(~is_held), seed, tokenizer, *vectors)
    return path


def expect_both(target: TargetColumn, is_held: NDArray[np.bool_], seed: int) -> None:
    """Raise BadRequest unless there are different values on both sides, and all labels of a training."""
    for side, documents in (("held out", is_held), ("trained on", ~is_held)):
        found = np.unique(target.values[documents])
        if len(found) < max(2, len(target.labels)):
            missing = [label for i, label in enumerate(target.labels) if i not in found]
            which = f"document with the label {missing[0]}" if missing else "different scores"
            raise BadRequest(
                f"target {target.name}: no {which} would be {side} with the seed {seed}; near-duplicates stay "
                "together, so draw more documents, or use another seed"
            )


def measured(
    path: Path, targets: Sequence[TargetColumn], sample: Sample, is_held: NDArray[np.bool_]
) -> list[Figures]:
    """Compare the answers of a model, run as a recipe's judge, with each target."""
    texts = sample.texts.filter(pa.array(is_held))
    answers = answers_of(path, targets[0], texts)
    return [
        compared(name, values, target.name, label, scores)
        for number, target in enumerate(target.of_documents(is_held) for target in targets)
        for label, scores in target.measured()
        for name, values in answers.items()
        if number or not target.labels or label == name
    ]


def answers_of(path: Path, target: TargetColumn, texts: pa.LargeStringArray) -> dict[str, Numbers]:
    """Return the score of each text, or its probability for each label; of two labels, for the second."""
    model = judged_model(Judge(name="a", model=str(path), probabilities=bool(target.labels)))
    columns = dict(
        zip(
            [field.name for field in model.added_columns],
            load_model(model, 1024)(pa.chunked_array([texts])),
            strict=True,
        )
    )
    labels = target.labels or (fasttext_training.LABELS_OF_SCORES if model.labels else ())
    names = labels[1:] if len(labels) == 2 else labels or ("score",)
    return {name: columns[f"a_{name}"].to_numpy(zero_copy_only=False).astype(np.float64) for name in names}
