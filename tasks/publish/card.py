"""The dataset card: the README.md that the Hugging Face hub shows, and reads its settings from."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import yaml

from zyda_flows.tasks.accounts.components import (
    COMPONENTS_FILE,
    LANGUAGES_FILE,
    LICENSES_FILE,
    NOT_KNOWN,
    CountsBySource,
    added_up,
    start_and_end,
)
from zyda_flows.tasks.accounts.ledger_formats import as_markdown, reasons_as_markdown
from zyda_flows.tasks.accounts.overlapped import Overlap
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.publish.built_corpus import BuiltCorpus
from zyda_flows.tasks.publish.evaluation_certificate import certificate
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.publish.tables_of_markdown import as_table
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.storage.artifacts import Counts
from zyda_flows.tasks.words import and_replaced, counted, in_words

SIZES = [(10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
         (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"),
         (10**11, "10B<n<100B"), (10**12, "100B<n<1T")]  # fmt: skip

TEXT = """\
# {name}

{documents:,} documents and {tokens:,} tokens from {count}, {bytes:,} bytes of text. Tokens are
those of the tokenizer `{tokenizer}` (SHA-256 begins {tokenizer_digest}). Special tokens that are written in a text
are counted as {special_as}.

Tokens of each source, best-ranked first:

{table}
{components}## How it was made

{rounds} {filters}

{removed}

{by_reason}{licenses}{languages}{cleaned}{special_tokens}{skipped}{certificate}{audit}

{overlaps}## What it was made of

{origins}
`sources.parquet` lists the files with their versions. Made by {software} of this recipe:

```yaml
{recipe}```

## What is here

`datasets.load_dataset(<this folder>)` gives the documents of all sources, with `doc_id`, `source`, `text` and
`n_tokens`.
With the name of a source, or with a folder of its own in it (`source-folder`), it gives that with all its columns,
with `clusters` that table, with `removed` what all sources have in common there.

- `<source>/*.parquet`: the documents, with the source's own columns, `doc_id`, `source`, `n_tokens`, the
  `cluster_id` (of a document without near-duplicates its own `doc_id`), and the answers of a quality model.
- `removed/*.parquet`: every document that is not here, with the stage and the reason and, for a
  duplicate, the `kept_doc_id` that was kept for it, or the `matched_doc_id` in another corpus.
- `clusters/*.parquet`: all near-duplicates, `doc_id` and `cluster_id`.
- `audit/*.parquet`: a sample of the near-duplicates that were removed, each with the kept document that is
  most like it and how like it is.
- `overlap/*.parquet`: of each source, what would go if it were deduplicated by itself (`own`) or with all others
  (`global`), and what went, by the source of the document that is kept.
- `bands/*.parquet`: the MinHash band keys of all documents, sorted, with which others can find near-duplicates of
  them; `manifest.json` says how they were made.
- `contamination/*.parquet`: the evaluation sets that were looked for, if there were any.
- `set_aside/*.parquet`: rows that were no documents, with their file, row and fault, if there were any; where the
  recipe has `publish_set_aside`, also with their content.
- `ledger.parquet`, `ledger.json`: documents, tokens and bytes of each source after each stage;
  `reasons.parquet`: removed documents by stage, source and reason; `cleaned.parquet`: what cleaning changed,
  if anything did; `skipped.parquet`: the records of files that were no documents of their kind, if there were any;
  `special_tokens.parquet`: the special tokens of the tokenizer that texts held as characters, by documents and
  occurrences, before any rule removed documents, if there were any.
- `components.parquet`: the documents of each component, by the stage that removed them and why, null for those
  that are here, if the recipe names components.
- `licenses.parquet`: the same of each licence, if the recipe says which documents stay for theirs;
  `languages.parquet`: of each language, if it was found.
- `sources.parquet`: the files that the sources were read from; `source_number` and `file_number` are the
  first {bits[0]} and the next {bits[1]} bits of a `doc_id`, whose last {bits[2]} are the row in the file.
- `files-*.parquet`: every file with its SHA-256.
- `manifest.json`: the recipe, all of the above that is counted, and the SHA-256 of the files beside it.
"""
MOST_COMPONENTS = 200  # of a source, which the card names
LONGEST = 100  # characters of a component's name
FEW = 4  # reasons that are said in a sentence
OTHERS = "Before that, documents near a document of another published corpus were removed: {names}."


def card(built: BuiltCorpus, manifest: Published, places: Collection[str]) -> str:
    """Write the card of a corpus. places: its folders."""
    recipe, ledger, counted_by = built.recipe, manifest.ledger, built.counted_by
    counts = ledger.of(ledger.stages[-1])
    head = {
        **({"license": recipe.license} if recipe.license else {}),
        **({"language": list(recipe.languages)} if recipe.languages else {}),
        "pretty_name": recipe.corpus,
        "task_categories": ["text-generation"],
        "size_categories": [next((text for size, text in SIZES if counts.documents < size), "n>1T")],
        "tags": ["pretraining", "deduplicated"],
        "configs": configurations(manifest, places),
    }
    body = TEXT.format(
        name=recipe.corpus,
        count=counted(len(ledger.sources), "source"),
        table=as_markdown(ledger),
        rounds="\n\n".join([*map(dedup_sentences, recipe.rounds), *against(manifest)]),
        filters=" ".join(filters(recipe)),
        removed=removed_by(manifest),
        by_reason=by_reason(manifest),
        cleaned=cleaning_lines(manifest),
        special_tokens=special_lines(manifest),
        skipped=skipped_lines(manifest),
        certificate=certificate(recipe, manifest, built.evaluation_sets),
        audit="\n\n".join(headline.sentence() for headline in manifest.audits.values()),
        overlaps="".join(overlap_tables(number, of) for number, of in built.overlaps),
        components=components_as_markdown(counted_by["components"]),
        licenses=licenses_as_markdown(counted_by["licenses"]),
        languages=languages_as_markdown(counted_by["languages"]),
        origins=source_lines(manifest),
        tokenizer=without_local_folders(manifest.tokenizer["name"]),
        tokenizer_digest=manifest.tokenizer["digest"],
        special_as={"text": "text", "control": "control tokens"}[manifest.tokenizer["special_tokens"]],
        software=manifest.software,
        bits=manifest.id_bits,
        recipe=yaml.safe_dump(without_local_folders(manifest.recipe), sort_keys=False, allow_unicode=True),
        **counts.model_dump(),
    )
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n{body}"


def without_local_folders(value: Any) -> Any:
    """Return the values of a recipe without the folders of this machine, which say who built it and where.

    >>> without_local_folders(["/home/anna/data/web/**/*.parquet", "/home/anna/x.json", "hf://datasets/a/b.jsonl"])
    ['…/web/**/*.parquet', '…/x.json', 'hf://datasets/a/b.jsonl']
    """
    if isinstance(value, dict):
        return {name: without_local_folders(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [without_local_folders(one) for one in value]
    if not isinstance(value, str) or not value.startswith(("/", "~", "file:/")):
        return value
    parts = value.rstrip("/").split("/")
    pattern = next((place for place, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    return "/".join(["…", *parts[max(1, min(pattern, len(parts)) - 1) :]])


def configurations(manifest: Published, places: Collection[str]) -> list[dict[str, Any]]:
    """Say what `datasets.load_dataset` gives: all documents without a name, and a source or a table by its name.

    All documents have the columns that every source has, and those that were removed the columns of every stage.
    """
    folders = {
        place: [one for one in sorted(places) if one.startswith(f"{place}/")]
        for place in manifest.ledger.sources
    }
    files = {
        name: f"{name}/**/*.parquet" if folders[name] else f"{name}/*.parquet"
        for name in manifest.ledger.sources
        if name in places or folders[name]
    }
    sources = [*files]
    clusters = [place for place in sorted(places) if place.startswith("clusters") and place not in sources]
    everything = {
        "config_name": "default",
        "default": True,
        "data_files": [*files.values()],
        "columns": ["doc_id", "source", "text", "n_tokens"],
    }
    removed = {"config_name": "removed", "data_files": "removed/*.parquet", "columns": REMOVED.names}
    return [
        *([everything] if sources else []),
        *({"config_name": name, "data_files": pattern} for name, pattern in files.items()),
        *(
            {"config_name": place.replace("/", "-"), "data_files": f"{place}/*.parquet"}
            for name in sources
            for place in folders[name][:MOST_COMPONENTS]
        ),
        *({"config_name": name, "data_files": f"{name}/*.parquet"} for name in clusters),
        *([removed] if "removed" in places else []),
    ]


def components_as_markdown(components: CountsBySource) -> str:
    """Write documents and tokens of each component, at the start and at the end."""
    return "".join(
        f"Components of `{source}`:\n\n{starts_and_ends('component', found.items(), COMPONENTS_FILE)}"
        for source, ends in components.items()
        if (found := start_and_end(ends))
    )


def licenses_as_markdown(licenses: CountsBySource) -> str:
    """Write documents and tokens of each licence in all sources, at the start and at the end; and unknown names."""
    if not licenses:
        return ""
    found = start_and_end(added_up(licenses.values()))
    in_order = sorted(found.items(), key=lambda of: (-of[1][0].tokens, of[0] or ""))
    known = [(name, counts) for name, counts in in_order if not (name or "").startswith(NOT_KNOWN)]
    unknown = [
        (name[len(NOT_KNOWN) :], counts) for name, counts in in_order if name and name.startswith(NOT_KNOWN)
    ]
    text = f"Licences, by SPDX's list:\n\n{starts_and_ends('licence', known, LICENSES_FILE)}"
    if unknown:
        table = starts_and_ends("licence", unknown, LICENSES_FILE)
        text += f"Names of licences that are in no list; their documents were removed:\n\n{table}"
    return text


def languages_as_markdown(languages: CountsBySource) -> str:
    """Write documents and tokens of each language in all sources, at the start and at the end."""
    if not languages:
        return ""
    found = start_and_end(added_up(languages.values()))
    in_order = sorted(found.items(), key=lambda of: (-of[1][0].tokens, of[0] or ""))
    return f"Languages, as the model names them:\n\n{starts_and_ends('language', in_order, LANGUAGES_FILE)}"


def starts_and_ends(what: str, found: Iterable[tuple[str | None, Sequence[Counts]]], file: str) -> str:
    """Write what there was of components or licences, and what is left; of many the first, and the file of all."""
    rows = [
        [in_cell(name), *(f"{of:,}" for one in counts for of in (one.documents, one.tokens))]
        for name, counts in found
    ]
    others = len(rows) - MOST_COMPONENTS
    more = f"\n{others:,} more are in `{file}`.\n" if others > 0 else ""
    return f"{as_table([what, 'documents', 'tokens', 'left', 'tokens'], rows[:MOST_COMPONENTS])}{more}\n"


def in_cell(name: str | None) -> str:
    """Write the name of a component, which may be any text, into a cell of a table."""
    if name is None:
        return "(none)"
    short = name if len(name) <= LONGEST else f"{name[:LONGEST]} …"
    return re.sub(r"([\\|`*_\[\]])", r"\\\1", escape(" ".join(short.split()), quote=False))


def dedup_sentences(dedup: Dedup) -> str:
    """Say in sentences how duplicates were found, and which of them stayed."""
    return f"{dedup.sentences.method}\n{dedup.who_stayed()}"


def against(manifest: Published) -> list[str]:
    """Say which other corpora it was deduplicated against."""
    names = [
        f"`{other.name}` (SHA-256 of its manifest begins {other.sha256[:8]})" for other in manifest.against
    ]
    return [OTHERS.format(names=", ".join(names))] if names else []


def source_lines(manifest: Published) -> str:
    """Write a line for each source."""
    lines = [
        f"- `{origin.source}`: {counted(origin.files, 'file')}, {counted(origin.bytes, 'byte')}"
        + (
            f", judged by the model `{without_local_folders(origin.model['name'])}` ({origin.model['digest']})"
            if origin.model
            else ""
        )
        for origin in manifest.made_of
    ]
    return "\n".join(lines) + "\n"


def removed_by(manifest: Published) -> str:
    """Write a line for each stage that removed documents: how many, and for which reasons."""
    ledger = manifest.ledger
    lines = list[str]()
    for stage in ledger.stages:
        if count := ledger.removed(stage).documents:
            sentences = manifest.reasons.get(stage, {})
            why = [
                f"`{reason}`, {sentences[reason]}"
                for reason in ledger.removed_by(stage)
                if reason in sentences
            ]
            reasons = "; ".join(why) if len(why) <= FEW else "by the rules below"
            lines.append(f"- {in_words(stage)} (`{stage}`) removed {counted(count, 'document')}: {reasons}")
    return "\n".join(lines)


def by_reason(manifest: Published) -> str:
    """Write a table for each stage that removed documents for several reasons."""
    ledger = manifest.ledger
    return "".join(
        f"Documents that `{stage}` removed, with their tokens in brackets. A document counts for the first reason "
        f"that was found; `removed/` has its other reasons:\n\n"
        f"{reasons_as_markdown(ledger, stage, manifest.reasons.get(stage, {}))}\n"
        for stage in ledger.stages
        if len(ledger.removed_by(stage)) > 1
    )


def cleaning_lines(manifest: Published) -> str:
    """Write a line for each cleaning of a source."""
    lines = [
        f"- `{row['cleaning']}` changed {counted(row['documents'], 'document')} of `{row['source']}`, from "
        f"{row['characters_before']:,} to {row['characters_after']:,} characters{and_replaced(row['replaced'])}\n"
        for row in manifest.ledger.cleaned().to_pylist()
        if row["documents"]
    ]
    return "".join([*lines, "\n"]) if lines else ""


def special_lines(manifest: Published) -> str:
    """Write which special tokens the texts of each source hold as characters."""
    lines = [f"- {line.special_sentence()}\n" for line in manifest.ledger.lines if line.special_tokens]
    return "".join([*lines, "\n"]) if lines else ""


def skipped_lines(manifest: Published) -> str:
    """Write how many records of each source's files are no documents, what they are, and how many are bad rows."""
    lines = [
        f"- {sum(line.skipped.values()):,} records in the files of `{line.source}` are no documents: "
        f"{', '.join(f'{records:,} {reason}' for reason, records in most_first(line.skipped))}\n"
        for line in manifest.ledger.lines
        if line.skipped
    ]
    lines += [
        f"- {counted(line.set_aside.documents, 'row')} in the files of `{line.source}` could not be read and "
        f"{'is' if line.set_aside.documents == 1 else 'are'} set aside: `set_aside` has the reason of each\n"
        for line in manifest.ledger.lines
        if line.set_aside.documents
    ]
    return "".join([*lines, "\n"]) if lines else ""


def most_first(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def overlap_tables(number: int, overlap: Overlap) -> str:
    """Write how much of each source is a duplicate, and of which other source's. number: of a round, or 0."""
    where = f" in round {number}" if number else ""
    by_source = [
        [one.source, f"{one.entering.documents:,}", *(share(of, one.entering) for of in one[2:])]
        for one in overlap.own_duplicates()
    ]
    names, columns, matrix = overlap.matrix("global", "documents")
    by_other = [
        [name, *(f"{number / max(1, sum(row)):.1%}" for number in row)]
        for name, row in zip(names, matrix, strict=True)
    ]
    tables = [
        f"Duplicates of each source{where}, in documents and in brackets in tokens: those that would go if it were "
        "deduplicated by itself, or with all others as one (`global`), and those that went:\n\n",
        as_table(["source", "documents", "own", "global", "removed"], by_source),
    ]
    if by_other:
        tables += [
            f"\nThe same documents of `global`{where}, by the source of the one that would stay:\n\n",
            as_table(["source", *columns], by_other),
        ]
    return "".join([*tables, "\n"])


def share(part: Counts, whole: Counts) -> str:
    """Write a part of documents and of tokens, in per cent."""
    documents, tokens = part.documents / max(1, whole.documents), part.tokens / max(1, whole.tokens)
    return f"{documents:.1%} ({tokens:.1%})"


def filters(recipe: Recipe) -> list[str]:
    """Say in sentences which documents the filters kept."""
    sentences = []
    for source in recipe.sources:
        if source.classify and source.classify.keep:
            labels = ", ".join(source.classify.keep)
            sentences.append(f"Of {source.name}, documents with the quality label {labels} stayed.")
        if source.keep:
            sentences.append(f"Of {source.name}, documents with `{source.keep}` stayed.")
    return sentences
