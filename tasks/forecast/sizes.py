"""The sizes of a recipe's sources, estimated from listings, footers and the parts that a trial read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod

from zyda_flows.tasks import pipeline
from zyda_flows.tasks.forecast.pieces import rows_of
from zyda_flows.tasks.forecast.trial import Trial, TrialPart
from zyda_flows.tasks.planning.estimates import Estimate, SourceEstimate, ratio_estimate
from zyda_flows.tasks.planning.inspection import shard_bytes
from zyda_flows.tasks.planning.survey import SourceSurvey
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.source import Source
from zyda_flows.tasks.sources.input_files import InputFile
from zyda_flows.tasks.stage.cost import SourceSize
from zyda_flows.tasks.stage.stage import Stage


@dataclass(frozen=True)
class SizeEstimates:
    """A recipe, its files and a trial of it. files: the inspected files, with their pieces."""

    recipe: Recipe
    survey: SourceSurvey
    files: dict[str, list[InputFile]]
    trial: Trial

    @cached_property
    def estimates(self) -> dict[str, SourceEstimate]:
        return {
            source.name: self.estimate(source, chosen)
            for source, chosen in zip(self.recipe.sources, self.survey.chosen, strict=True)
        }

    @cached_property
    def sources(self) -> dict[str, SourceSize]:
        return {
            source.name: SourceSize(
                documents=self.estimates[source.name].documents.value,
                text=self.estimates[source.name].text.value,
                kept=self.estimates[source.name].kept,
                before_model=self.kept(source.name),
                shards=self.shards(source.name, chosen, self.estimates[source.name].text.value),
                models=self.trial.models.get(source.name, {}),
                labels=[[file.size for file in table.files if file.size] for table in labels or ()],
            )
            for source, chosen, labels in zip(
                self.recipe.sources, self.survey.chosen, self.survey.labels, strict=True
            )
        }

    def estimate(self, source: Source, chosen: Sequence[InputFile]) -> SourceEstimate:
        """Estimate the size of a source from its tried parts; without any, from the parts of other sources."""
        parts, size = self.parts_of(source.name), sum(file.size for file in chosen)
        weights = [part.weight for part in parts]

        def scaled_estimate(count: Callable[[TrialPart], float]) -> Estimate:
            known = ratio_estimate(weights, [count(part) for part in parts], size)
            if source.name in self.trial.parts:
                return known
            return known.model_copy(update={"low": known.value / 2, "high": known.value * 2})

        text = scaled_estimate(lambda part: part.documents.bytes)
        return SourceEstimate(
            source=source.name,
            files=len(chosen),
            bytes=size,
            shards=len(self.shards(source.name, chosen, text.value)),
            tried=min(1.0, sum(weights) / max(1, size)) if source.name in self.trial.parts else 0.0,
            documents=self.documents_by_rows(source.name, chosen)
            or scaled_estimate(lambda part: part.documents.documents),
            tokens=scaled_estimate(lambda part: part.documents.tokens),
            text=text,
            set_aside=scaled_estimate(lambda part: part.set_aside),
            kept=self.kept(source.name) * self.kept_by_model(source.name),
        )

    def documents_by_rows(self, source: str, chosen: Sequence[InputFile]) -> Estimate | None:
        """Estimate a source's documents by the rows in its footers; None if not all files were inspected."""
        rows = [rows_of(file) for file in self.files[source]]
        parts = self.trial.parts.get(source, [])
        if len(rows) < len(chosen) or None in rows or not parts:
            return None
        documents = [part.documents.documents for part in parts]
        return ratio_estimate([part.rows for part in parts], documents, sum(row or 0 for row in rows))

    def parts_of(self, source: str) -> list[TrialPart]:
        return self.trial.parts.get(source) or self.all_parts

    @property
    def all_parts(self) -> list[TrialPart]:
        return [part for parts in self.trial.parts.values() for part in parts]

    def kept(self, source: str) -> float:
        """Return the share of a source's tokens that the stages which process single documents keep."""
        by_document = {
            entry.name for entry in pipeline.PIPELINE if isinstance(entry, Stage) and "trail" in entry.inputs
        }
        ledger, kept = self.trial.ledger, 1.0
        for line in ledger.lines if ledger else ():
            if line.source == source and line.stage in by_document:
                entering = line.out.tokens + line.removed.tokens + line.cut.tokens
                kept *= line.out.tokens / entering if entering else 1.0
        return kept

    def kept_by_model(self, source: str) -> float:
        return prod(trial.kept for trial in self.trial.models.get(source, {}).values())

    def shards(self, source: str, chosen: Sequence[InputFile], text: float) -> list[str]:
        """Return approximate names of the shards that ingest will write for a source. text: its bytes."""
        text_of_byte = text / max(1, sum(file.size for file in chosen))
        known = {file.url: len(file.pieces) for file in self.files[source]}
        pieces = sum(known.values()) / max(1, sum(file.size for file in self.files[source]))
        names = list[str]()
        for number, file in enumerate(chosen):
            in_file = known.get(file.url) or max(1, round(pieces * file.size))
            each = max(1, ceil(file.size * text_of_byte / in_file / shard_bytes(self.recipe) - 0.02))
            names += [f"{number:06d}-{piece:03d}-{i:03d}" for piece in range(in_file) for i in range(each)]
        return names
