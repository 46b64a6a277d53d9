"""Compare removed documents, and text that `passages` cut, with kept text by models trained on what is kept.

More bits mean that a text is less like the kept texts, not that it is worse.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.ablation.ablation import RunJobs, Say
from zyda_flows.tasks.ablation.documents import Encoder
from zyda_flows.tasks.ablation.experiment import AblationModel, Controls, Experiment, Variant
from zyda_flows.tasks.ablation.libraries import expect_libraries
from zyda_flows.tasks.ablation.planned_runs import expect_models, plan_runs
from zyda_flows.tasks.ablation.preparation import REMOVED, SOURCE, prepare
from zyda_flows.tasks.ablation.protocol import fix_protocol
from zyda_flows.tasks.ablation.records import RUNS, Trainings, read_run
from zyda_flows.tasks.ablation.removed_cells import (
    DECILES,
    FEWEST,
    KEPT,
    GroupDifference,
    Measured,
    differences,
)
from zyda_flows.tasks.ablation.removed_passages import cut_texts
from zyda_flows.tasks.ablation.removed_texts import RemovedGroup, sampled_groups, texts_of_removed
from zyda_flows.tasks.ablation.runs import documents_path
from zyda_flows.tasks.ablation.variants import OpenedVariant, open_variants
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRequest, Denied
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.signatures.exact import text_hashes
from zyda_flows.tasks.storage.finished import finished_artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record, digest_of, write_record
from zyda_flows.tasks.storage.tables import read_table
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.tasks.tokens.stored import load_tokenizer

RESULT = "removed.json"
SHARE_READ = 0.8  # of the kept tokens that a run reads at most
NOT_COMPLETE = (
    "{url}: the recipe, its sources or the version of zyda-flows have changed since the last build; build the "
    "corpus (zyda build), then compare what it removed"
)


class RemovedResult(Record):
    """The groups, by descending difference.

    name, corpus: of the corpus, and its URL. protocol: a digest. curves: of the losses of the runs. documents:
    held-out kept documents, by source. excluded: drawn documents that the trainings left out.
    """

    name: str
    corpus: str
    protocol: str
    groups: tuple[GroupDifference, ...]
    curves: tuple[tuple[tuple[int, float], ...], ...]
    documents: dict[str, int]
    excluded: int
    trainings: Trainings


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
    recipe: Recipe, experiment: Experiment, options: RemovedOptions, run_jobs: RunJobs, say: Say
) -> RemovedResult:
    """Train models on what a recipe keeps, compare what it removed, and write RESULT.

    experiment: of `removed_experiment`. Raises BadRequest if nothing was removed, Denied if the recipe or its
    sources have changed since the build, and the errors of `ablate` and `texts_of_removed`.
    """
    corpus = PublishedCorpus.of(recipe).expect_ids()
    say("looking for removed documents")
    groups = sampled_groups(corpus, options.documents, options.seed)
    cut = cut_texts(corpus, options.documents, options.seed) if recipe.passages else None
    if not groups and cut is None:
        raise BadRequest(f"{corpus.url}: no document was removed")
    texts = texts_of_removed(recipe, groups, say)
    encoder = encoder_of(experiment)
    tables = {
        f"{REMOVED}{group.name}|{source}": table
        for group in groups
        for source, table in tables_of(by_source(group, texts), encoder).items()
    }
    left_out = None
    if cut is not None:
        groups.append(cut.group)
        for start, by_name in ((REMOVED, cut.spans), (KEPT, cut.windows)):
            found = tables_of(by_name, encoder)
            tables |= {f"{start}{cut.group.name}|{source}": table for source, table in found.items()}
        left_out = next(iter(tables_of({"": cut.left_out}, encoder).values()), None)
    protocol = fix_protocol(experiment)
    prepared = prepare(experiment, say, measured=tables, left_out=left_out)
    runs = plan_runs(experiment, prepared, protocol.digest)
    missing = [run for run in runs if read_run(run.folder, run.key) is None]
    run_jobs(missing, len(runs) - len(missing))
    records = [run() for run in runs]
    documents = measured_documents(experiment.folder, [run.key for run in runs])
    result = RemovedResult(
        name=corpus.label,
        corpus=corpus.url,
        protocol=protocol.digest,
        groups=tuple(differences(groups, documents)),
        curves=tuple(record.curve for record in records),
        documents={
            name.removeprefix(SOURCE): number
            for name, number in prepared.documents.items() if name.startswith(SOURCE)
        },
        excluded=prepared.excluded,
        trainings=Trainings.of(records),
    )  # fmt: skip
    write_record(experiment.folder, RESULT, result)
    return result


def removed_experiment(recipe: Recipe, path: str, options: RemovedOptions) -> Experiment:
    """Return the experiment that trains on what a recipe keeps, for at most SHARE_READ of its tokens.

    path: of the recipe. Raises Denied if the corpus is not complete, and BadRequest for a corpus that is too small.
    """
    expect_libraries()
    PublishedCorpus.of(recipe).expect_ids()
    if ledger_if_complete(recipe) is None:
        raise Denied(NOT_COMPLETE.format(url=recipe.folder.url))
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
    expect_models(experiment)
    return experiment.model_copy(update={"tokens": tokens, "controls": Controls(equal=False, degraded=None)})


def opened_for(experiment: Experiment) -> OpenedVariant:
    """Open the only variant, without its need of tokens."""
    return open_variants(experiment.model_copy(update={"tokens": 1000.0}))[0]


def encoder_of(experiment: Experiment) -> Encoder:
    """Return the encoder of an experiment's documents. Raises BadRequest if the tokenizer lacks the separator."""
    tokenizer = load_tokenizer(experiment.tokenizer)
    separator = tokenizer.token_to_id(experiment.separator)
    if separator is None:
        raise BadRequest(f"the tokenizer {experiment.tokenizer} has no token {experiment.separator!r}")
    return Encoder(TokenEngine(tokenizer, special_as_text=True), separator)


def by_source(group: RemovedGroup, texts: Mapping[int, str]) -> dict[str, list[str]]:
    """Return the texts of the documents of a group, by source."""
    found = dict[str, list[str]]()
    for doc_id, source in zip(group.ids, group.sources, strict=True):
        found.setdefault(source, []).append(texts[doc_id])
    return found


def tables_of(texts: Mapping[str, Sequence[str]], encoder: Encoder) -> dict[str, pa.Table]:
    """Return DRAWN of the texts of each source."""
    tables = dict[str, pa.Table]()
    for source, own in texts.items():
        array = pa.array(own, pa.large_string())
        hashes, has_text = text_hashes(array)
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
