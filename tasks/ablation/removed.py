"""Compare removed documents with kept documents by a small model that was trained on what is kept.

Bits per byte differ between sources and with the length of a document. So removed and held-out kept documents are
compared in cells: the documents of a source in a tenth of the lengths of its kept documents. The difference of a
stage and reason is the mean of its cells, by their removed documents. Cells with fewer than FEWEST documents on a
side are left out. More bits mean that a text is less like the kept texts, not that it is worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.ablation.ablation import RunJobs, Say
from zyda_flows.tasks.ablation.documents import Encoder, hashes_of
from zyda_flows.tasks.ablation.experiment import AblationModel, Controls, Experiment, Variant
from zyda_flows.tasks.ablation.libraries import expect_libraries
from zyda_flows.tasks.ablation.planned_runs import plan_runs
from zyda_flows.tasks.ablation.preparation import REMOVED, SOURCE, prepare
from zyda_flows.tasks.ablation.protocol import fix_protocol
from zyda_flows.tasks.ablation.records import RUNS, read_run
from zyda_flows.tasks.ablation.removed_texts import RemovedGroup, sampled_groups, texts_of_removed
from zyda_flows.tasks.ablation.runs import documents_path
from zyda_flows.tasks.ablation.variants import OpenedVariant, open_variants
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, write_record
from zyda_flows.tasks.storage.tables import read_table
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.tasks.tokens.stored import load_tokenizer

FEWEST, DECILES = 50, 10
RESAMPLES, ALPHA = 2000, 0.05
RESULT = "removed.json"
SHARE_READ = 0.8  # of the kept tokens that a run reads at most
Numbers = NDArray[np.float64]


class GroupDifference(Record):
    """The comparison of the documents that a stage removed for a reason.

    documents: all of them. compared: sampled documents in a compared cell. cells, left_out: compared cells, and
    cells with too few documents. difference: bits per byte of removed minus kept documents; low, high: its
    interval, corrected for the number of groups. NaN if no cell is compared.
    """

    stage: str
    reason: str
    documents: int
    compared: int
    cells: int
    left_out: int
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        if not self.cells:
            return "too few documents"
        if self.low > 0:
            return "less like the kept texts"
        return "more like the kept texts" if self.high < 0 else "no difference seen"


class RemovedResult(Record):
    """The groups, by descending difference. url: of the results. runs, tokens, seconds: of the trainings."""

    url: str
    groups: tuple[GroupDifference, ...]
    runs: int
    tokens: int
    parameters: int
    seconds: float
    device: str


@dataclass(frozen=True)
class Measured:
    """Documents. sizes: bytes. bits: of each in each run, (n, runs)."""

    sizes: Numbers
    bits: Numbers


@dataclass(frozen=True)
class RemovedOptions:
    """parameters: of the model, None for a size by the vocabulary. tokens: of a run. documents: of a group."""

    parameters: float | None = None
    tokens: float = 5e6
    documents: int = 2000
    repeats: int = 3
    seed: int = 1
    storage: str | None = None


def compare_removed(
    recipe: Recipe, path: str, options: RemovedOptions, run_jobs: RunJobs, say: Say
) -> RemovedResult:
    """Train models on what a recipe keeps, compare what it removed, and write RESULT. path: of the recipe.

    Raises BadRequest if nothing was removed, and the errors of `ablate` and `texts_of_removed`.
    """
    expect_libraries()
    corpus = PublishedCorpus.of(recipe).expect_ids()
    groups = sampled_groups(corpus, options.documents, options.seed)
    if not groups:
        raise BadRequest(f"{corpus.url}: no document was removed")
    experiment = experiment_of(recipe, path, options)
    texts = texts_of_removed(recipe, groups, say)
    tokenizer = load_tokenizer(experiment.tokenizer)
    separator = tokenizer.token_to_id(experiment.separator)
    if separator is None:
        raise BadRequest(f"the tokenizer {experiment.tokenizer} has no token {experiment.separator!r}")
    encoder = Encoder(TokenEngine(tokenizer, special_as_text=True), separator)
    tables = {
        f"{REMOVED}{group.name}|{source}": table
        for group in groups
        for source, table in tables_of(group, texts, encoder).items()
    }
    protocol = fix_protocol(experiment)
    prepared = prepare(experiment, say, measured=tables)
    runs = plan_runs(experiment, prepared, protocol.digest)
    missing = [run for run in runs if read_run(run.folder, run.key) is None]
    run_jobs(missing, len(runs) - len(missing))
    found = [run() for run in runs]  # their records
    documents = measured_documents(experiment.folder, [run.key for run in runs])
    result = RemovedResult(
        url=experiment.folder.url,
        groups=tuple(differences(groups, documents)),
        runs=len(found),
        tokens=sum(record.tokens for record in found),
        parameters=found[0].parameters,
        seconds=sum(record.seconds for record in found),
        device=found[0].device,
    )
    write_record(experiment.folder, RESULT, result)
    return result


def experiment_of(recipe: Recipe, path: str, options: RemovedOptions) -> Experiment:
    """Return the experiment that trains on what a recipe keeps, for at most SHARE_READ of its tokens."""
    vocabulary = load_tokenizer(recipe.tokenizer).get_vocab_size()
    experiment = Experiment(
        name=f"removed-{digest_of(asdict(replace(options, storage=None)))[:8]}",
        storage=options.storage or recipe.folder.folder("ablation").url,
        tokenizer=recipe.tokenizer,
        variants=(Variant(name="kept", recipe=path),),
        model=AblationModel(parameters=(options.parameters or max(1e6, 200.0 * vocabulary),)),
        tokens=options.tokens,
        repeats=options.repeats,
        seed=options.seed,
        held_out=10 * DECILES * FEWEST,
        controls=Controls(equal=True, degraded=None),
    )
    kept = sum(opened_for(experiment).available)
    tokens = min(options.tokens, SHARE_READ * kept)
    if tokens < experiment.sequence * experiment.batch:
        raise BadRequest(f"{recipe.folder.url}: {kept:,} kept tokens are too few to train a model")
    return experiment.model_copy(update={"tokens": tokens, "controls": Controls(equal=False, degraded=None)})


def opened_for(experiment: Experiment) -> OpenedVariant:
    """Open the only variant, without its need of tokens."""
    return open_variants(experiment.model_copy(update={"tokens": 1000.0}))[0]


def tables_of(group: RemovedGroup, texts: Mapping[int, str], encoder: Encoder) -> dict[str, pa.Table]:
    """Return DRAWN of the documents of a group, by source."""
    by_source = dict[str, list[str]]()
    for doc_id, source in zip(group.ids, group.sources, strict=True):
        by_source.setdefault(source, []).append(texts[doc_id])
    tables = dict[str, pa.Table]()
    for source, own in by_source.items():
        array = pa.array(own, pa.large_string())
        hashes, has_text = hashes_of(array)
        if has_text.any():
            tables[source] = encoder.documents(array.filter(pa.array(has_text)), hashes[has_text])
    return tables


def measured_documents(folder: Folder, keys: Sequence[str]) -> dict[str, Measured]:
    """Return the measured documents of all runs, by the name of their measure."""
    tables = list[pa.Table]()
    for key in keys:
        if (artifact := finished_artifact(folder, documents_path(key))) is None:
            raise Denied(
                f"{folder.url}/{documents_path(key)} is missing; remove {RUNS}/{key}.json to train again"
            )
        tables.append(read_table(folder, artifact))
    names = np.array(tables[0].column("measure").to_pylist(), object)
    sizes = tables[0].column("n_bytes").to_numpy().astype(np.float64)
    bits = np.stack([table.column("nats").to_numpy() / np.log(2) for table in tables], axis=1)
    return {
        name: Measured(sizes[names == name], bits[names == name]) for name in dict.fromkeys(names.tolist())
    }


def differences(groups: Sequence[RemovedGroup], documents: Mapping[str, Measured]) -> list[GroupDifference]:
    """Compare each group with the kept documents of its sources."""
    found = [difference_of(group, documents, ALPHA / len(groups)) for group in groups]
    return sorted(
        found, key=lambda each: (-np.nan_to_num(each.difference, nan=-np.inf), each.stage, each.reason)
    )


def difference_of(group: RemovedGroup, documents: Mapping[str, Measured], level: float) -> GroupDifference:
    """Compare the removed documents of a group with kept documents of the same sources and lengths."""
    cells, left_out = list[tuple[Measured, Measured]](), 0
    for source in dict.fromkeys(group.sources):
        removed, kept = documents.get(f"{REMOVED}{group.name}|{source}"), documents.get(f"{SOURCE}{source}")
        if removed is None:
            continue
        if kept is None:
            left_out += 1
            continue
        edges = np.quantile(kept.sizes, np.arange(1, DECILES) / DECILES)
        places = [np.searchsorted(edges, each.sizes, side="right") for each in (removed, kept)]
        for cell in range(DECILES):
            both = tuple(
                part_of(each, place == cell) for each, place in zip((removed, kept), places, strict=True)
            )
            if min(len(each.sizes) for each in both) >= FEWEST:
                cells.append((both[0], both[1]))
            else:
                left_out += bool(len(both[0].sizes))
    weights = np.array([len(removed.sizes) for removed, _ in cells], np.float64)
    low, middle, high = np.nan, np.nan, np.nan
    if cells:
        middle = float(np.average([ratio(removed) - ratio(kept) for removed, kept in cells], weights=weights))
        low, high = np.quantile(resampled(cells, weights), [level / 2, 1 - level / 2]).tolist()
    return GroupDifference(
        stage=group.stage, reason=group.reason, documents=group.total, compared=int(weights.sum()),
        cells=len(cells), left_out=left_out, difference=middle, low=low, high=high,
    )  # fmt: skip


def part_of(documents: Measured, is_in: NDArray[np.bool_]) -> Measured:
    return Measured(documents.sizes[is_in], documents.bits[is_in])


def ratio(documents: Measured) -> float:
    """Return the bits per byte of documents together, in the mean of the runs."""
    return float(documents.bits.sum(axis=0).mean() / documents.sizes.sum())


def resampled(cells: Sequence[tuple[Measured, Measured]], weights: Numbers) -> Numbers:
    """Return the difference for resampled documents and runs, (RESAMPLES,)."""
    chance = np.random.default_rng(0)
    runs = chance.integers(0, cells[0][0].bits.shape[1], (RESAMPLES, cells[0][0].bits.shape[1]))
    totals = np.zeros(RESAMPLES)
    for weight, pair in zip(weights / weights.sum(), cells, strict=True):
        for sign, documents in zip((1, -1), pair, strict=True):
            rows = chance.integers(0, len(documents.sizes), (RESAMPLES, len(documents.sizes)))
            counts = np.stack([np.bincount(row, minlength=len(documents.sizes)) for row in rows])
            bits = np.take_along_axis(counts @ documents.bits, runs, axis=1).mean(axis=1)
            totals += sign * weight * bits / (counts @ documents.sizes)
    return totals
