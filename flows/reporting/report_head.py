"""The head of a report: the corpus, the build, its software and links to published files."""

from collections.abc import Iterator
from datetime import UTC, datetime

import yaml

from zyda_flows.flows.reporting.report_parts import Fact, Text, count
from zyda_flows.tasks.accounts.published import PUBLISHED
from zyda_flows.tasks.lookup.report_findings import Findings
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.words import counted

BESIDE = (
    "README.md",
    "manifest.json",
    "ledger.json",
    "ledger.parquet",
    "reasons.parquet",
    "cleaned.parquet",
    "skipped.parquet",
    "special_tokens.parquet",
    "judges.parquet",
    "components.parquet",
    "buckets.parquet",
    "sources.parquet",
)


def head(recipe: Recipe, findings: Findings) -> list[Fact]:
    """Return the lines of the head."""
    manifest, ledger = findings.manifest, findings.ledger
    end = ledger.of(ledger.stages[-1])
    url = f"{recipe.folder.url}/{PUBLISHED}"
    sample = [Fact("Sample", f"{manifest.sample:g} of the input")] if manifest.sample != 1 else []
    return [
        Fact(
            "Contents",
            f"{count(end.documents)} documents, {count(end.tokens)} tokens and {count(end.bytes)} bytes of text "
            f"from {counted(len(ledger.sources), 'source')}",
        ),
        *sample,
        Fact("Published at", url, is_to_copy=True, link=url if "://" in url else ""),
        Fact("Built", f"{date_of(findings.time)} as recipe {manifest.name}"),
        Fact("Report made", date_of(datetime.now(UTC))),
        *(Fact(name, text) for name, text in deduplication(findings)),
        Fact("Tokenizer", f"{manifest.tokenizer['name']} (SHA-256 begins {manifest.tokenizer['digest']})"),
        Fact("Software", software(findings)),
        Fact("Other files", more=tuple(published_links(findings))),
    ]


def date_of(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def software(findings: Findings) -> str:
    """Return the software in the record of the build, or in the manifest if there is no record."""
    build = findings.build
    if build is None:
        return findings.manifest.software
    return ", ".join(f"{name} {version}" for name, version in build.software.items())


def deduplication(findings: Findings) -> Iterator[tuple[str, str]]:
    """Yield the name and the parameters of each round."""
    for dedup_round in findings.rounds:
        name = "Deduplication" if len(findings.rounds) == 1 else f"Deduplication, round {dedup_round.number}"
        yield name, "; ".join(parameters(dedup_round.dedup))


def parameters(dedup: Dedup) -> Iterator[str]:
    """Yield the parameters of a round, in words."""
    yield from dedup.sentences.keys
    yield from dedup.removal_rules()
    if dedup.against:
        yield f"against: {', '.join(dedup.against)}"


def published_links(findings: Findings) -> Iterator[Fact]:
    """Yield links to the files that are published with the documents."""
    files = [file.path for file in findings.manifest.accounts]
    names = [name for name in BESIDE if name in files or name == "manifest.json"]
    folders = dict.fromkeys(place.partition("/")[0] for place in findings.places)
    names += [f"{name}/" for name in folders if name not in findings.ledger.sources]
    for name in names:
        yield Fact(name, link=f"{PUBLISHED}/{name}")


def recipe_text(findings: Findings) -> Text:
    """Return the recipe in the manifest."""
    return Text("The recipe", (("", as_yaml(findings.manifest.recipe)),))


def as_yaml(recipe: dict[str, object]) -> str:
    """Return a recipe as YAML, without empty fields. In steps on documents null is kept: it switches a rule off."""

    def without_empty(value: object) -> object:
        if isinstance(value, dict):
            return {
                name: item if name == "documents" else without_empty(item)
                for name, item in value.items()
                if item is not None and item != []
            }
        return [without_empty(item) for item in value] if isinstance(value, list) else value

    return str(yaml.safe_dump(without_empty(recipe), sort_keys=False, allow_unicode=True))
