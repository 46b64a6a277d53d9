"""Write the dataset card: the README.md of the Hugging Face hub, with the configurations of the data set."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import yaml

from zyda_flows.tasks.accounts.judged import judges_as_markdown
from zyda_flows.tasks.accounts.ledger_formats import as_markdown, reasons_as_markdown
from zyda_flows.tasks.accounts.published import Published
from zyda_flows.tasks.publish.built_corpus import BuiltCorpus
from zyda_flows.tasks.publish.card_filters import filters
from zyda_flows.tasks.publish.card_tables import (
    MOST_COMPONENTS,
    buckets_as_markdown,
    components_as_markdown,
    languages_as_markdown,
    licenses_as_markdown,
    overlap_tables,
    vector_lines,
)
from zyda_flows.tasks.publish.card_text import REFERENCE_SENTENCE, SIZES, TEXT
from zyda_flows.tasks.publish.evaluation_certificate import certificate
from zyda_flows.tasks.publish.published_columns import REMOVED
from zyda_flows.tasks.recipe.dedup import Dedup
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.passages import with_preference
from zyda_flows.tasks.words import and_replaced, counted, in_words

FEW_REASONS = 4  # reasons that are listed in a sentence


def card(built: BuiltCorpus, manifest: Published, places: Collection[str]) -> str:
    """Return the card of a corpus. places: its folders."""
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
        rounds="\n\n".join([*map(dedup_sentences, recipe.rounds), *against(manifest), *passages(recipe)]),
        joins=join_lines(manifest),
        filters=" ".join(filters(recipe)),
        judges=judges_as_markdown(ledger),
        removed=removed_by(manifest),
        by_reason=by_reason(manifest),
        cut=cut_lines(manifest),
        cleaned=cleaning_lines(manifest),
        special_tokens=special_lines(manifest),
        skipped=skipped_lines(manifest),
        certificate=certificate(recipe, manifest, built.evaluation_sets),
        audit="\n\n".join(
            [
                *(headline.sentence() for headline in manifest.audits.values()),
                *(each.sentence for each in built.agreements),
                *(account.sentence() for account in (manifest.semantic or {}).values()),
            ]
        ),
        overlaps="".join(overlap_tables(number, overlap) for number, overlap in built.overlaps),
        components=components_as_markdown(counted_by["components"]),
        licenses=licenses_as_markdown(counted_by["licenses"]),
        languages=languages_as_markdown(counted_by["languages"]),
        buckets=buckets_as_markdown(counted_by["buckets"]),
        vectors=vector_lines(manifest),
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
    """Return the values of a recipe without local folders, whose names may be personal.

    >>> without_local_folders(["/home/anna/data/web/**/*.parquet", "/home/anna/x.json", "hf://datasets/a/b.jsonl"])
    ['…/web/**/*.parquet', '…/x.json', 'hf://datasets/a/b.jsonl']
    """
    if isinstance(value, dict):
        return {name: without_local_folders(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_local_folders(item) for item in value]
    if not isinstance(value, str) or not value.startswith(("/", "~", "file:/")):
        return value
    parts = value.rstrip("/").split("/")
    pattern = next((place for place, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    return "/".join(["…", *parts[max(1, min(pattern, len(parts)) - 1) :]])


def configurations(manifest: Published, places: Collection[str]) -> list[dict[str, Any]]:
    """Return the configurations of `datasets.load_dataset`: of documents, sources, clusters and other tables.

    The configuration of all documents has the columns of all sources, and that of removed documents the columns of
    all stages.
    """
    folders = {
        source: [place for place in sorted(places) if place.startswith(f"{source}/")]
        for source in manifest.ledger.sources
    }
    files = {
        name: f"{name}/**/*.parquet" if folders[name] else f"{name}/*.parquet"
        for name in manifest.ledger.sources
        if name in places or folders[name]
    }
    sources = [*files]
    tables = [
        place for place in sorted(places) if re.fullmatch(r"(clusters|pairs|contradictions)[2-9]?", place)
    ]
    everything = {
        "config_name": "default",
        "default": True,
        "data_files": [*files.values()],
        "columns": ["doc_id", "source", "text", "n_tokens"],
    }
    removed = {"config_name": "removed", "data_files": "removed/*/*.parquet", "columns": REMOVED.names}
    passages = {"config_name": "passages", "data_files": "passages/*/*.parquet"}
    found: list[dict[str, Any]] = [
        *([everything] if sources else []),
        *({"config_name": name, "data_files": pattern} for name, pattern in files.items()),
        *(
            {"config_name": place.replace("/", "-"), "data_files": f"{place}/*.parquet"}
            for name in sources
            for place in folders[name][:MOST_COMPONENTS]
        ),
        *({"config_name": name, "data_files": f"{name}/*.parquet"} for name in tables),
        *([passages] if any(place.startswith("passages/") for place in places) else []),
        *(
            {"config_name": f"vectors-{judge}", "data_files": f"vectors/{judge}/*/*.parquet"}
            for judge in dict.fromkeys(each.judge for each in manifest.vectors or () if each.documents)
        ),
        *([removed] if any(place.startswith("removed/") for place in places) else []),
    ]
    # The name of a subfolder, `source-folder`, may be that of another source: names are unique.
    by_name = {each["config_name"]: each for each in reversed(found)}
    return [each for each in found if by_name[each["config_name"]] is each]


def dedup_sentences(dedup: Dedup) -> str:
    """Return sentences about the method of a round, and about the kept documents."""
    return f"{dedup.sentences.method}\n{dedup.kept_sentence()}"


def against(manifest: Published) -> list[str]:
    """Return a sentence about the other corpora of rounds `against`, if there are any."""
    names = [
        f"`{other.name}` (SHA-256 of its manifest begins {other.sha256[:8]})" for other in manifest.against
    ]
    return [REFERENCE_SENTENCE.format(names=", ".join(names))] if names else []


def passages(recipe: Recipe) -> list[str]:
    """Return sentences about the repeated passages that are cut, if the recipe has `passages`."""
    sentences = [part.sentence for part in with_preference(recipe.passages, recipe.rounds)]
    return [" ".join([*sentences, "`passages/` lists them."])] if sentences else []


def source_lines(manifest: Published) -> str:
    """Return a line for each source."""
    lines = [
        f"- `{origin.source}`: {counted(origin.files, 'file')}, {counted(origin.bytes, 'byte')}"
        + "".join(
            f", judged by the model `{without_local_folders(model['name'])}` ({model['digest']})"
            for model in origin.models
        )
        for origin in manifest.made_of
    ]
    return "\n".join(lines) + "\n"


def join_lines(manifest: Published) -> str:
    """Return a line for each join with the columns it took, and the numbers of documents and labels."""
    lines = list[str]()
    sources = manifest.recipe["sources"]
    labels = {
        (source["name"], i): each["from"]
        for source in sources
        for i, each in enumerate(source.get("join", ()))
    }
    for join in manifest.joins:
        columns = ", ".join(f"`{name}` ({kind})" for name, kind in join.columns.items())
        urls = ", ".join(f"`{url}`" for url in without_local_folders(labels[join.source, join.number]))
        lines.append(
            f"- {join.matched:,} of {counted(join.documents, 'document')} of `{join.source}` have labels of {urls} "
            f"by `{join.on}`: {columns}, which are null for the {join.unmatched:,} others. {join.matched_often:,} "
            f"have several labels; {join.unused:,} of {counted(join.rows, 'label')} have no document\n"
        )
    return "".join([*lines, "\n"]) if lines else ""


def removed_by(manifest: Published) -> str:
    """Return a line for each stage that removed documents, with their number and the reasons."""
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
            reasons = "; ".join(why) if len(why) <= FEW_REASONS else "by the rules below"
            lines.append(f"- {in_words(stage)} (`{stage}`) removed {counted(count, 'document')}: {reasons}")
    return "\n".join(lines)


def by_reason(manifest: Published) -> str:
    """Return a table for each stage that removed documents for several reasons."""
    ledger = manifest.ledger
    return "".join(
        f"Documents that `{stage}` removed, with their tokens in parentheses. A document is counted once, for "
        f"its first reason; `removed/` has its other reasons:\n\n"
        f"{reasons_as_markdown(ledger, stage, manifest.reasons.get(stage, {}))}\n"
        for stage in ledger.stages
        if len(ledger.removed_by(stage)) > 1
    )


def cut_lines(manifest: Published) -> str:
    """Return a line for each source from which repeated passages are cut."""
    lines = [
        f"- {counted(line.cut.tokens, 'token')} of repeated passages are cut from the documents of "
        f"`{line.source}` ({line.cut.bytes:,} bytes)\n"
        for line in manifest.ledger.lines
        if line.cut.bytes
    ]
    return "".join([*lines, "\n"]) if lines else ""


def cleaning_lines(manifest: Published) -> str:
    """Return a line for each cleaning of a source."""
    lines = [
        f"- `{row['cleaning']}` changed {counted(row['documents'], 'document')} of `{row['source']}`, from "
        f"{row['characters_before']:,} to {row['characters_after']:,} characters{and_replaced(row['replaced'])}\n"
        for row in manifest.ledger.cleaned().to_pylist()
        if row["documents"]
    ]
    return "".join([*lines, "\n"]) if lines else ""


def special_lines(manifest: Published) -> str:
    """Return a line for each source whose texts contain special tokens as characters."""
    lines = [f"- {line.special_sentence()}\n" for line in manifest.ledger.lines if line.special_tokens]
    return "".join([*lines, "\n"]) if lines else ""


def skipped_lines(manifest: Published) -> str:
    """Return lines about the records of each source that are no documents, and about rows set aside."""
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
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
