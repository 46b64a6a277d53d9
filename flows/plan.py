"""A plan: what a build will take, from listings, footers and a trial of its stages, before anything is built.

What grows with the texts is what the trial took, by their size. What grows with the documents is reckoned from how
the stages cut their work, at the rates of docs/speed.md, for a trial has too few documents to see it. How many are
duplicates no sample can tell: the figures are for none that go, and for so many in clusters as a tenth and four
fifths.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from zyda_flows.flows.trial import Part, Trial, rows_of, run_trial
from zyda_flows.tasks.dedup.audit import PAIRS, is_audited
from zyda_flows.tasks.dedup.cluster_files import FILE_DOCUMENTS
from zyda_flows.tasks.dedup.clusters import LAST_DOCUMENTS, STEP_DOCUMENTS
from zyda_flows.tasks.ids import MAX_FILES
from zyda_flows.tasks.planning.estimates import (
    Estimate,
    Plan,
    SourceEstimate,
    StageEstimate,
    ratio_estimate,
)
from zyda_flows.tasks.planning.inspection import Spread, inspect_new, shard_bytes
from zyda_flows.tasks.planning.survey import SourceSurvey, check_sources
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.rounds import Round, rounds_of
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.signatures.bands import RANGE_ROWS, key_ranges
from zyda_flows.tasks.signatures.merging import GROUP_SHARDS, groups_of
from zyda_flows.tasks.sources.listing import InputFile, sampled_files
from zyda_flows.tasks.spent import METER, NAMES, Spent
from zyda_flows.tasks.stage.runner import threads_for
from zyda_flows.tasks.storage.folder import BLOCK_BYTES, UPLOAD_BYTES
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.words import counted

MOST_INSPECTED = 64  # files of a source that are looked into
# Seconds of one core, as measured (docs/speed.md): for a document in each of 8 bands that is merged, joined or
# sorted; for one that is in a cluster, in one step or in rounds, and to decide about it.
SECONDS_OF_ROW = 1.1e-6 / 8
SECONDS_OF_CLUSTERED, SECONDS_IN_ROUNDS, SECONDS_OF_DECISION = 1.0e-6, 12.0e-6, 0.7e-6
# Of a pair that is audited, and for each byte of its texts, as measured with pairs of 150 to 50,000 bytes.
SECONDS_OF_PAIR, SECONDS_OF_COMPARED = 0.2e-3, 0.08e-6
BYTES_OF_CLUSTERED = 43  # of memory, in the last step
MEMORY_OF_WORKER, MEMORY_OF_TASK = 250 << 20, 1200 << 20  # its imports; what a step by documents may take
USUALLY, AT_MOST = 0.1, 0.8  # of documents, in clusters: of docs/speed.md, and of Zyda-2's largest sources
LATE = 0.5  # of START_SECONDS, by which these may be more
# Of a flow run with its report, of each of its tasks in the scheduler's thread, and of workers that first run each
# kind of stage.
START_SECONDS, DASK_SECONDS, FIRST_SECONDS = 8.5, 0.007, 2.5
# By which a core is slower beside others than alone: from nothing to what two took of each other's memory.
BESIDE = Estimate(value=1.15, low=0.95, high=1.5)
REST = 0.4  # of a task's memory, what a worker keeps of those before it
SAFE = 0.95  # of a worker's memory limit
BYTES_NOT_COUNTS = 1 << 12  # files and requests of a call are fewer
OF_STORES = ("inputs", "input_requests", "read", "written", "requests", "files")
ALIKE = 0.1  # of their mean, the spread of sizes that say nothing of how something grows with them
TABLES_OF_ALL = 3  # of clusters, of the overlap and of the audit
REQUESTS_FOR_FOOTER = 2  # its file's size, and itself
REQUESTS_OF_COLUMNS = 4  # of a shard, to read two
REQUESTS_TO_LET_GO = 3  # its record is read and written, and it is removed
CHECKS_OF_FILE = 5  # requests for a file before it is published, beside those that read it


def plan_of(recipe: Recipe, workers: int, memory: int, spread: Spread) -> Plan:
    """Plan a build on so many workers with so many bytes of memory each. Raises what a build would, early.

    spread: calls a function on every file to look into.
    """
    return planning_of(recipe, spread).plan(workers, memory)


def planning_of(recipe: Recipe, spread: Spread) -> "Planning":
    """Look into a recipe's files and try a part of them: all that a plan is made from."""
    survey = check_sources(recipe, replace=True)
    survey.expect_none()
    some = [sampled_files(files, min(1.0, MOST_INSPECTED / len(files))) for files in survey.chosen]
    METER.take()
    looked_into = inspect_new(recipe, replace(survey, chosen=some), spread)
    inspecting = METER.take()
    files = {
        source.name: files_with_pieces(source, survey, chosen, [one.file for one in inspected])
        for source, chosen, inspected in zip(recipe.sources, some, looked_into.inspected, strict=True)
    }
    return Planning(recipe, survey, files, run_trial(recipe, survey, files), inspecting)


def files_with_pieces(
    source: Source, survey: SourceSurvey, chosen: Sequence[InputFile], inspected: Sequence[InputFile]
) -> list[InputFile]:
    """Return the chosen files of a source as they were looked into, now or for an earlier build."""
    known = {file.key: file for file in survey.register.files.get(source.name, ())}
    known |= {file.key: file for file in inspected}
    return [known[file.key].model_copy(update={"location": file.location}) for file in chosen]


@dataclass(frozen=True)
class Planning:
    """A recipe, its files, and what a trial of it took.

    files: those that were looked into, with their pieces. inspecting: what that took.
    """

    recipe: Recipe
    survey: SourceSurvey
    files: dict[str, list[InputFile]]
    trial: Trial
    inspecting: Spent

    def plan(self, workers: int, memory: int) -> Plan:
        """Put together what the stages will take."""
        threads = workers * threads_for(self.recipe)
        stages = tuple(self.stages(workers))
        by_stage = {stage.stage: stage.spent for stage in stages}
        published = sum(by_stage.get(name, Spent()).written for name in ("publish", "index"))
        written = sum(one.written for name, one in by_stage.items() if name != "corpus")
        is_local = self.recipe.folder.is_local
        plan = Plan(
            recipe=digest_of(self.recipe.as_written),
            made_at=datetime.now(UTC).isoformat(timespec="seconds"),
            workers=workers,
            threads=threads,
            memory=memory,
            sources=tuple(self.sources.values()),
            stages=stages,
            work=written,
            published=published,
            in_storage=written + published if self.recipe.work_copies and not is_local else written,
            at_most=written if is_local else written + published,
            scratch=0 if is_local else threads * self.largest_file,
            seconds=self.seconds(stages, threads),
            model_seconds={
                name: tried.seconds * self.entering_model(name) for name, tried in self.trial.models.items()
            },
        )
        return plan.model_copy(update={"faults": tuple(self.faults(plan)), "notes": tuple(self.notes())})

    # What the sources have.

    @cached_property
    def sources(self) -> dict[str, SourceEstimate]:
        return {
            source.name: self.source(source, chosen)
            for source, chosen in zip(self.recipe.sources, self.survey.chosen, strict=True)
        }

    def source(self, source: Source, chosen: Sequence[InputFile]) -> SourceEstimate:
        """Estimate what a source has by what its parts have, or, where none were tried, by those of all others."""
        parts, size = self.parts_of(source.name), sum(file.size for file in chosen)
        weights = [part.weight for part in parts]

        def of_all(count: Callable[[Part], float]) -> Estimate:
            known = ratio_estimate(weights, [count(part) for part in parts], size)
            if source.name in self.trial.parts:
                return known
            return known.model_copy(update={"low": known.value / 2, "high": known.value * 2})

        text = of_all(lambda part: part.documents.bytes)
        return SourceEstimate(
            source=source.name,
            files=len(chosen),
            bytes=size,
            shards=len(self.names_of_shards(source.name, chosen, text.value / max(1, size))),
            tried=min(1.0, sum(weights) / max(1, size)) if source.name in self.trial.parts else 0.0,
            documents=self.documents_by_rows(source.name, chosen)
            or of_all(lambda part: part.documents.documents),
            tokens=of_all(lambda part: part.documents.tokens),
            text=text,
            set_aside=of_all(lambda part: part.set_aside),
            kept=self.kept(source.name) * self.kept_by_model(source.name),
        )

    def documents_by_rows(self, source: str, chosen: Sequence[InputFile]) -> Estimate | None:
        """Estimate the documents of a source whose footers say how many rows they have, if all were looked into."""
        rows = [rows_of(file) for file in self.files[source]]
        parts = self.trial.parts.get(source, [])
        if len(rows) < len(chosen) or None in rows or not parts:
            return None
        documents = [part.documents.documents for part in parts]
        return ratio_estimate([part.rows for part in parts], documents, sum(row or 0 for row in rows))

    def parts_of(self, source: str) -> list[Part]:
        every = [part for parts in self.trial.parts.values() for part in parts]
        return self.trial.parts.get(source) or every

    def kept(self, source: str) -> float:
        """Return the part of a source's tokens that rules and filters leave."""
        ledger, kept = self.trial.ledger, 1.0
        for line in ledger.lines if ledger else ():
            if line.source == source and line.stage in {"rules", "filter"}:
                entering = line.out.tokens + line.removed.tokens
                kept *= line.out.tokens / entering if entering else 1.0
        return kept

    def kept_by_model(self, source: str) -> float:
        return self.trial.models[source].kept if source in self.trial.models else 1.0

    def names_of_shards(self, source: str, chosen: Sequence[InputFile], text: float) -> list[str]:
        """Name the shards of a source, about as ingest will. text: bytes of it for each byte of a file."""
        known = {file.url: len(file.pieces) for file in self.files[source]}
        pieces = sum(known.values()) / max(1, sum(file.size for file in self.files[source]))
        names = list[str]()
        for number, file in enumerate(chosen):
            of_file = known.get(file.url) or max(1, round(pieces * file.size))
            each = max(1, ceil(file.size * text / of_file / shard_bytes(self.recipe) - 0.02))
            names += [f"{number:06d}-{piece:03d}-{i:03d}" for piece in range(of_file) for i in range(each)]
        return names

    @cached_property
    def shards(self) -> dict[str, list[str]]:
        return {
            source.name: self.names_of_shards(
                source.name,
                chosen,
                self.sources[source.name].text.value / max(1, self.sources[source.name].bytes),
            )
            for source, chosen in zip(self.recipe.sources, self.survey.chosen, strict=True)
        }

    @property
    def documents(self) -> float:
        return sum(source.documents.value for source in self.sources.values())

    # What the stages take.

    def stages(self, workers: int) -> Iterator[StageEstimate]:
        """Yield what each stage takes that the trial ran, in their order."""
        names = dict.fromkeys(
            ["prepare", "ingest", *(stage for stage, _ in self.trial.calls), *self.trial.rest]
        )
        by_rounds = dict(self.by_rounds(workers))
        for name in ["merge bands", *by_rounds]:
            names.setdefault(name)
        for name in names:
            spent, most = self.by_texts(name), 0.0
            if name in by_rounds:
                spent, most = by_rounds[name]
            elif name == "ingest":  # each worker loads what it needs when it first works
                spent = replace(spent, cpu=spent.cpu + min(workers, spent.calls) * self.trial.warming)
            elif name == "prepare":
                files = sum(source.files for source in self.sources.values())
                inspected = sum(map(len, self.files.values()))
                spent = replace(scaled(self.inspecting, files / inspected), calls=files)
            elif name in self.audits:
                spent += Spent(cpu=self.audits[name])
            elif name == "contamination":
                spent = self.of_all_shards(name)
            elif name == "corpus":
                spent = self.corpus()
                spent += self.placing(spent.calls) + self.letting_go()
            elif name == "classify":
                continue
            if name != "corpus":
                spent += replace(self.trial.rest.get(name, Spent()), peak=0)
            yield StageEstimate(stage=name, spent=spent, most_clustered=max(most, spent.cpu))
        if self.trial.models:
            yield self.classify(workers)

    def by_texts(self, stage: str) -> Spent:
        """Return what a stage takes that goes through each source's shards: by what it took of the trial's."""
        return sum((self.of_source(stage, name) for name in self.sources), Spent())

    def of_source(self, stage: str, source: str) -> Spent:
        """Return what a stage takes of a source: by what it took of its parts, or of all where it has none."""
        is_tried, parts = source in self.trial.parts, self.parts_of(source)
        calls = [
            calls
            for (name, of), calls in self.trial.calls.items()
            if name == stage and (of == source if is_tried else of in self.trial.parts)
        ]
        spent = sum((of.spent for of in calls), Spent())
        if not spent.calls:
            return spent
        by_size = self.sources[source].bytes / max(1.0, sum(part.weight for part in parts))
        by_calls = len(self.shards[source]) / max(1, sum(part.shards for part in parts))
        size = by_size * sum(seen for of in calls for seen, _ in of.each)
        count = spent.calls * by_calls
        grown = {name: growth.of(count, size) for name, growth in self.growths(stage).items()}
        known: dict[str, Any] = {"cpu": spent.cpu * by_size, "peak": spent.peak}
        # The files of the trial are small, and go to a store in one request each.
        grown["requests"] += count * requests_for_parts(grown["written"] / count)
        whole = {name: round(value) for name, value in grown.items()}
        return Spent(calls=round(count), **(whole | known))

    def of_all_shards(self, stage: str) -> Spent:
        """Return what a stage about the corpus takes that looks at each shard once."""
        tried, parts = self.own(stage), [part for of in self.trial.parts.values() for part in of]
        by_size = sum(source.bytes for source in self.sources.values()) / max(
            1.0, sum(part.weight for part in parts)
        )
        by_shards = sum(map(len, self.shards.values())) / max(1, sum(part.shards for part in parts))
        return replace(
            tried,
            **{name: round(getattr(tried, name) * by_shards) for name in ("calls", "requests", "files")},
            **{name: round(getattr(tried, name) * by_size) for name in ("read", "written")},
            cpu=tried.cpu * by_size,
        )

    def growths(self, stage: str) -> "dict[str, Growth]":
        """Return how what the stage's calls ask of stores grows with the text that they see, over all sources."""
        each = [
            one
            for (name, source), calls in self.trial.calls.items()
            if name == stage and source
            for one in calls.each
        ]
        sizes = [size for size, _ in each]
        return {name: growth([getattr(spent, name) for _, spent in each], sizes) for name in OF_STORES}

    def by_rounds(self, workers: int = 1) -> Iterator[tuple[str, tuple[Spent, float]]]:
        """Yield what the stages take that go through documents, of each round: and where most are clustered."""
        merges = Spent()
        for of_round in rounds_of(self.recipe):
            dedup = of_round.dedup
            merges += self.merges(dedup, 1.0)
            rows = round(self.documents)
            spent, most = self.ranges(of_round.name_of("edges"), dedup, rows, USUALLY)
            readers = min(workers, spent.calls)  # each of which reads every footer once
            footers = REQUESTS_FOR_FOOTER * self.files_with_keys * readers
            yield of_round.name_of("edges"), (replace(spent, requests=spent.requests + footers), most)
            yield of_round.name_of("clusters"), self.clusters(of_round, rows)
            yield of_round.name_of("own_clusters"), self.clusters(of_round, rows, "own_clusters")
            yield of_round.name_of("decisions"), self.decisions(of_round, rows)
            yield of_round.name_of("overlap"), self.overlap(of_round, rows)
            if self.recipe.publish_bands:
                left = round(sum(one.documents.value * one.kept for one in self.sources.values()))
                merges += self.merges(dedup, left / max(1, rows))
                yield of_round.name_of("index"), self.ranges(of_round.name_of("index"), dedup, left, 1.0)
        if merges.calls:
            yield "merge bands", (merges, merges.cpu)

    def merges(self, dedup: Dedup, kept: float) -> Spent:
        """Return what it takes to merge the band keys of large sources. kept: the part of documents with keys."""
        spent = Spent()
        for name, shards in self.shards.items():
            rows = self.sources[name].documents.value * kept * dedup.key_bands
            size = round(rows * row_bytes(dedup))
            for files, groups in levels_of(shards):
                calls = sum(len(group) > 1 for group in groups)
                spent += Spent(
                    calls=calls, cpu=rows * SECONDS_OF_ROW, peak=2 * MEMORY_OF_WORKER, read=size, written=size,
                    requests=calls * 4 + 2 * len(files) * dedup.key_bands, files=2 * calls,
                )  # fmt: skip
        return spent

    @property
    def files_with_keys(self) -> int:
        """In how many files the band keys of a round are."""
        return sum(files_with_keys(shards) for shards in self.shards.values())

    def ranges(self, stage: str, dedup: Dedup, rows: int, written: float) -> tuple[Spent, float]:
        """Return what a stage takes that reads ranges of keys. written: the part of the rows that it writes."""
        ranges, bands = len(key_ranges(rows)), dedup.key_bands
        files = self.files_with_keys
        own, calls, size = self.own(stage), ranges * bands, rows * bands * row_bytes(dedup)
        spent = Spent(
            calls=calls,
            cpu=own.cpu / max(1, own.calls) * calls + rows * bands * SECONDS_OF_ROW,
            peak=max(own.peak, MEMORY_OF_WORKER) + round(min(rows, RANGE_ROWS) * row_bytes(dedup) * 4),
            read=size,
            written=round(size * written) + own.written // max(1, own.calls) * calls,
            requests=calls * max(1, own.requests // max(1, own.calls) + 2 * (files - self.tried_files)),
            files=calls * max(1, own.files // max(1, own.calls)),
        )
        return spent, spent.cpu

    @property
    def tried_files(self) -> int:
        """How many files of band keys the trial's stages read."""
        return sum(part.shards for parts in self.trial.parts.values() for part in parts)

    def clusters(self, of_round: Round, rows: int, stage: str = "clusters") -> tuple[Spent, float]:
        """Return what it takes to join clusters: in one step, in a tree, or in rounds."""
        name, bands = of_round.name_of(stage), of_round.dedup.key_bands

        def taken(share: float) -> Spent:
            clustered = rows * share
            edges = clustered * bands * 0.6
            is_one = 2 * edges <= LAST_DOCUMENTS
            steps = 1 if is_one else ceil(2 * edges / STEP_DOCUMENTS) + 1
            seconds = SECONDS_OF_CLUSTERED if clustered <= LAST_DOCUMENTS else SECONDS_IN_ROUNDS
            own = self.own(name)
            return Spent(
                calls=steps,
                cpu=own.cpu + clustered * seconds,
                peak=max(own.peak, MEMORY_OF_WORKER)
                + round(min(clustered * BYTES_OF_CLUSTERED, MEMORY_OF_TASK)),
                read=round(edges * 16),
                written=own.written + round(clustered * 20),
                requests=own.requests + steps * 8,
                files=own.files + 2 * (steps - 1) + 2 * (files_of_clusters(rows) - 1),
            )

        return taken(USUALLY), taken(AT_MOST).cpu

    def decisions(self, of_round: Round, rows: int, stage: str = "decisions") -> tuple[Spent, float]:
        """Return what it takes to decide who stays, once or, of `overlap`, as if the scope were another."""
        own, files = self.own(of_round.name_of(stage)), files_of_clusters(rows)
        passes = max(1, own.calls)  # in the trial there is one file
        calls = passes if files == 1 else 3 * files * passes
        spent = Spent(
            calls=calls,
            cpu=own.cpu + passes * rows * USUALLY * SECONDS_OF_DECISION,
            peak=max(own.peak, MEMORY_OF_WORKER) + round(min(rows * USUALLY, FILE_DOCUMENTS) * 100),
            read=round(passes * rows * USUALLY * 20),
            written=own.written + round(passes * rows * USUALLY * 25),
            requests=own.requests * calls // passes,
            files=own.files * calls // passes,
        )
        return spent, spent.cpu + passes * rows * (AT_MOST - USUALLY) * SECONDS_OF_DECISION

    def overlap(self, of_round: Round, rows: int) -> tuple[Spent, float]:
        """Return what it takes to count the duplicates of each source: their tokens are read from all shards."""
        spent, most = self.decisions(of_round, rows, "overlap")
        untried = sum(map(len, self.shards.values())) - sum(
            part.shards for parts in self.trial.parts.values() for part in parts
        )
        more = max(0, untried)
        return replace(
            spent, requests=spent.requests + REQUESTS_OF_COLUMNS * more, read=spent.read + rows * 6
        ), most

    def own(self, stage: str) -> Spent:
        """Return what a stage about the corpus took in the trial."""
        return sum((calls.spent for (name, _), calls in self.trial.calls.items() if name == stage), Spent())

    def corpus(self) -> Spent:
        """Return what it takes to read what was made, and to put it in place."""
        tried, before = self.own("corpus"), self.own("publish")
        tried_shards = sum(part.shards for parts in self.trial.parts.values() for part in parts)
        by_size = self.by_texts("publish").written / max(1, before.written)
        by_shards = sum(map(len, self.shards.values())) / max(1, tried_shards)
        indexes = [of_round.name_of("index") for of_round in rounds_of(self.recipe)]
        tried_keys = sum(self.own(name).calls for name in indexes)
        of_all = min(TABLES_OF_ALL, tried.calls - tried_keys)
        calls = round((tried.calls - tried_keys - of_all) * by_shards) + self.key_files() + of_all
        spent = scaled(tried, by_size)
        requests = CHECKS_OF_FILE * calls + spent.read // BLOCK_BYTES
        return replace(spent, calls=calls, files=0, requests=requests)

    def key_files(self) -> int:
        """Return how many files of band keys are published."""
        indexes = {of_round.name_of("index") for of_round in rounds_of(self.recipe)}
        return sum(spent.calls for name, (spent, _) in self.by_rounds() if name in indexes)

    def letting_go(self) -> Spent:
        """Return what it takes to remove from an object store what is published."""
        if self.recipe.folder.is_local or self.recipe.work_copies:
            return Spent()
        calls = sum(map(len, self.shards.values())) + self.key_files()
        return Spent(calls=calls, files=-calls, requests=REQUESTS_TO_LET_GO * calls)

    def placing(self, calls: int) -> Spent:
        """Return what it takes to put so many files in place: beside what is done whatever their number is."""
        rest, tried = self.trial.rest.get("corpus", Spent()), self.own("corpus")
        more = calls - tried.calls
        return replace(rest, peak=0, files=rest.files + more, requests=rest.requests + more)

    @cached_property
    def audits(self) -> dict[str, float]:
        """Return the processor seconds that the pairs of each audit take, if USUALLY are duplicates."""
        size = sum(source.text.value for source in self.sources.values()) / max(1.0, self.documents)
        seconds = SECONDS_OF_PAIR + SECONDS_OF_COMPARED * size
        pairs = min(PAIRS, USUALLY * self.documents)
        return {
            of_round.name_of("audit"): seconds * pairs
            for of_round in rounds_of(self.recipe)
            if is_audited(of_round, "")
        }

    def classify(self, workers: int) -> StageEstimate:
        """Return what the models take, of one core or of the device that they were tried on."""
        shards = sum(len(self.shards[name]) for name in self.trial.models)
        seconds = sum(
            tried.seconds * self.entering_model(name) + tried.loading * min(workers, len(self.shards[name]))
            for name, tried in self.trial.models.items()
        )
        spent = Spent(calls=shards, cpu=seconds, files=2 * shards, requests=8 * shards)
        return StageEstimate(stage="classify", spent=spent, most_clustered=seconds)

    def entering_model(self, source: str) -> float:
        """Return how many documents a model is asked about, if none goes as a duplicate."""
        return self.sources[source].documents.value * self.kept(source)

    # What a build takes in all.

    def seconds(self, stages: Sequence[StageEstimate], threads: int) -> Estimate:
        """Estimate the seconds of a build on so many threads, of which the scheduler's is one more."""
        cores = min(threads, threads // threads_for(self.recipe))
        least, most = (sum(of(stage) for stage in stages) for of in (cpu_of, most_of))
        calls = sum(stage.spent.calls for stage in stages) * DASK_SECONDS
        low, value, high = (
            START_SECONDS + FIRST_SECONDS + max(cpu * factor / cores, calls)
            for cpu, factor in ((least, BESIDE.low), (least, BESIDE.value), (most, BESIDE.high))
        )
        return Estimate(value=value, low=low * 0.8, high=high + calls / cores + LATE * START_SECONDS)

    @property
    def largest_file(self) -> int:
        """The bytes of the largest file that one task writes: a shard, or the merged band keys of many."""
        of_document = max(dedup.key_bands * row_bytes(dedup) for dedup in self.recipe.rounds)

        def merged(source: SourceEstimate) -> float:
            together = 1
            while source.shards > together * GROUP_SHARDS:
                together *= GROUP_SHARDS
            return source.documents.value * min(1.0, together / max(1, source.shards)) * of_document

        return round(max(shard_bytes(self.recipe), *map(merged, self.sources.values())))

    def faults(self, plan: Plan) -> Iterator[str]:
        """Say what will not fit."""
        largest = max(plan.stages, key=lambda stage: stage.spent.peak)
        with_rest = largest.spent.peak * (1 + REST)
        if with_rest > SAFE * plan.memory:
            yield (
                f"the largest task, of {largest.stage}, takes {gib(largest.spent.peak)}, {gib(with_rest)} with "
                f"what is left of tasks before it, and a worker has {gib(plan.memory)}: start fewer workers with "
                "more each, or make shard_mib smaller"
            )
        if self.recipe.folder.is_local:
            yield from no_room(self.recipe.folder.url, plan.at_most, "the corpus")
        elif plan.scratch:
            yield from no_room(tempfile.gettempdir(), plan.scratch, "files that are being written")
        for source in self.sources.values():
            if source.files > MAX_FILES:
                yield f"source {source.source}: {source.files:,} files, and ids have room for {MAX_FILES:,}"

    def notes(self) -> Iterator[str]:
        """Say what the figures leave out."""
        yield (
            "How many documents are duplicates no sample can tell: what is published is reckoned as if none were, "
            f"and time as if a tenth of the documents were in clusters, at most {AT_MOST:.0%}."
        )
        largest = len(self.trial.parts)
        if largest < len(self.sources):
            yield (
                f"Of {counted(len(self.sources), 'source')}, the {largest} largest were tried; "
                "the others are reckoned as if they were like those."
            )
        for name, tried in self.trial.models.items():
            yield (
                f"The model of {name} was asked about {counted(tried.documents, 'document')}, and lets "
                f"{tried.kept:.0%} stay; of all it may be another part."
            )
        yield (
            "Kernels are compiled once on each machine, which takes a core a minute or more. This machine has done "
            "so for this plan; the time is for machines that have."
        )
        if self.recipe.is_against_others:
            yield "What the corpora of `against` take to compare with, and what goes for them, is not reckoned."


class Growth(NamedTuple):
    """What a call takes, whatever its size, and each byte of text."""

    of_call: float
    of_byte: float

    def of(self, calls: float, size: float) -> float:
        return self.of_call * calls + self.of_byte * size


def growth(taken: Sequence[float], sizes: Sequence[float]) -> Growth:
    """Tell what calls took for themselves from what grew with their sizes, by least squares; neither is below 0."""
    mean, mean_size = sum(taken) / len(taken), sum(sizes) / len(sizes)
    spread = sum((size - mean_size) ** 2 for size in sizes)
    if spread <= len(sizes) * (ALIKE * mean_size) ** 2:
        return Growth(0.0, mean / mean_size) if mean > BYTES_NOT_COUNTS and mean_size else Growth(mean, 0.0)
    together = sum((one - mean) * (size - mean_size) for one, size in zip(taken, sizes, strict=True))
    of_byte = min(max(0.0, together / spread), mean / mean_size)
    return Growth(mean - of_byte * mean_size, of_byte)


def scaled(spent: Spent, factor: float) -> Spent:
    """Return what so many times as much takes; the memory of its largest call is the same."""
    values = {name: getattr(spent, name) * factor for name in NAMES}
    whole = {name: round(value) for name, value in values.items()}
    return Spent(**(whole | {"cpu": values["cpu"], "peak": spent.peak}))


def requests_for_parts(size: float) -> int:
    """Return how many requests more than one it takes to write a file of so many bytes to a store."""
    return 0 if size < UPLOAD_BYTES else 1 + ceil(size / UPLOAD_BYTES)


def row_bytes(dedup: Dedup) -> int:
    """Return the bytes of a row of band keys on storage: a key and an id."""
    return 24 if dedup.is_wide else 16


def files_of_clusters(rows: int) -> int:
    return max(1, ceil(rows / FILE_DOCUMENTS))


def cpu_of(stage: StageEstimate) -> float:
    return stage.spent.cpu


def most_of(stage: StageEstimate) -> float:
    return stage.most_clustered


def no_room(place: str, needed: float, what: str) -> Iterator[str]:
    """Say where a disk of this machine has too little room."""
    there = next(path for path in (Path(place), *Path(place).parents) if path.exists())
    free = shutil.disk_usage(there).free
    if needed > free:
        yield f"{place}: {what} will take {gib(needed)}, and {gib(free)} are free there"


def gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"


def levels_of(shards: Sequence[str]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yield, level by level, the files of band keys of so many shards, and the groups in which they are merged."""
    level, files = 1, [cast(Any, SimpleNamespace(name=shard)) for shard in shards]
    while len(files) > GROUP_SHARDS:
        groups = groups_of(files, level)
        yield files, groups
        files = [group[0] for group in groups]
        level += 1


def files_with_keys(shards: Sequence[str]) -> int:
    """Return in how many files the band keys of some shards are read."""
    last = len(shards)
    for _, groups in levels_of(shards):
        last = len(groups)
    return last
