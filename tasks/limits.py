"""Bounds of all input from outside: sizes, counts, depths and ratios, in one frozen record.

Each bound is checked while the input is decoded, before memory or time is spent on it. A value is about ten times
the largest of many real inputs, unless a library or a format sets a lower limit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class BoundsSection:
    """A section of docs/limits.md: its title, and a paragraph about all its bounds."""

    title: str
    paragraph: str = ""


def bound(
    value: int, applies_to: str, beyond: str = "", *, unit: str = "", section: BoundsSection | None = None
) -> Any:
    """Return a field of `Limits`, with its description for docs/limits.md.

    Args:
        value: The maximum.
        applies_to: The input that is bounded.
        beyond: The result for an input beyond the bound. Empty: as the section or the page states.
        unit: "bytes" or "times", or "" for a number of the things that `applies_to` names.
        section: The section that begins with this field.
    """
    return field(
        default=value,
        metadata={"applies_to": applies_to, "beyond": beyond, "unit": unit, "section": section},
    )


@dataclass(frozen=True)
class Limits:
    """The bounds. Code reads them with `limits()`; tests replace them with `replaced_limits`."""

    zstd_dictionary: int = bound(
        1 << 23,
        "a Zstandard dictionary in a WARC file; the standard requires as much",
        unit="bytes",
        section=BoundsSection("Compressed files and HTTP bodies"),
    )
    zstd_dictionaries: int = bound(100, "Zstandard dictionaries in one file; usually 1")
    growth: int = bound(
        1000,
        (
            "the decompressed size of a file, or of the part that has been read, divided by its "
            "compressed size"
        ),
        "one bad row for the rest of the file, or bad rows for a row group or batch",
        unit="times",
    )
    growth_from: int = bound(
        1 << 27,
        "decompressed data for which `growth` is not checked",
        "`growth` is checked",
        unit="bytes",
    )
    http_body: int = bound(
        12 << 20,
        "a decoded HTTP body; crawlers cut pages at 1 to 5 MiB",
        unit="bytes",
    )
    http_codings: int = bound(10, "nested codings of an HTTP body, such as gzip; usually 1")

    warc_head: int = bound(
        1 << 16,
        "the head of a WARC record; real heads have up to 6 KiB",
        unit="bytes",
        section=BoundsSection("WARC files"),
    )
    http_head: int = bound(
        1 << 18,
        "the head of an HTTP response; browsers read as much",
        unit="bytes",
    )
    warc_record: int = bound(
        12 << 20,
        "the block of a WARC record; a worker needs up to forty times as much memory",
        "a bad row, unless the record is skipped anyway, such as a redirect",
        unit="bytes",
    )
    warc_blank: int = bound(
        1 << 20,
        "line ends between two WARC records",
        "one bad row for the rest of the file",
        unit="bytes",
    )
    bad_record_kept: int = bound(
        1 << 12,
        "stored bytes of data that are not a WARC record",
        "the rest is not stored",
        unit="bytes",
    )

    html_bytes: int = bound(
        12 << 20,
        "a page in UTF-8",
        unit="bytes",
        section=BoundsSection(
            "HTML pages",
            (
                "A page beyond these limits is removed by the extractor's rule [`failed`]("
                "raw-web.md#extract), unless the last column states something else."
            ),
        ),
    )
    html_head: int = bound(
        1 << 16,
        "the beginning of a page, in which a `<meta>` tag can name the encoding",
        "an encoding that is named later is ignored",
        unit="bytes",
    )
    html_depth: int = bound(
        512,
        "nested elements; browsers have the same limit; the maximum of 308 real pages was 47",
    )
    html_tags: int = bound(
        1_000_000,
        (
            "tags of a page, including formatting tags that blocks open again; resiliparse needs "
            "about 300 MB for this number; a real page had 19,425"
        ),
    )
    html_work: int = bound(
        2_000_000_000,
        (
            "units of work to parse a page: bytes times depth, and squares of the numbers of "
            "attributes; some seconds"
        ),
    )
    html_options: int = bound(
        256,
        "`<option>` and `<optgroup>` tags of a page",
        "these tags are removed before extraction",
    )
    formula_depth: int = bound(
        60,
        "nested elements of a MathML formula",
        "the element is not replaced by LaTeX",
    )
    formula_characters: int = bound(
        20_000,
        "characters of a formula in LaTeX",
        "the element is not replaced by LaTeX",
    )
    table_columns: int = bound(200, "columns of a table that `colspan` can fill", "the span is cut")
    table_cells: int = bound(
        200_000,
        "cells of a table, including the cells of spans",
        "the table is not written as a Markdown table",
    )

    eprint_bytes: int = bound(
        1 << 28,
        "a compressed e-print; all its decompressed files together",
        unit="bytes",
        section=BoundsSection(
            "arXiv e-prints and LaTeX",
            (
                "A document beyond a `latex_` limit is removed by the extractor's rule [`failed`]("
                "raw-web.md#extract)."
            ),
        ),
    )
    eprint_files: int = bound(20_000, "files of an e-print")
    eprint_inputs: int = bound(
        1_000,
        (
            r"files that the main file includes, directly or through other files (`\input`); a file "
            "counts each time"
        ),
    )
    eprint_input_depth: int = bound(20, "levels of files that include files")
    eprint_characters: int = bound(1 << 26, "characters of the LaTeX with all included files")
    eprint_readme_bytes: int = bound(
        20_000,
        "the file 00README of an e-print",
        "the file is ignored",
        unit="bytes",
    )
    latex_depth: int = bound(200, "nested environments, braces and macros")
    latex_macro_characters: int = bound(1 << 22, "characters that macros add to a document")
    latex_cells: int = bound(1_000_000, "cells of all tables of a document, including empty cells")

    dump_page: int = bound(
        1 << 26,
        "the XML of a page; the longest pages have 2 MiB of text",
        unit="bytes",
        section=BoundsSection("Wikipedia dumps and wikitext"),
    )
    dump_head: int = bound(
        1 << 20,
        "the head of a dump, which names its namespaces",
        "namespaces that are named later are ignored",
        unit="bytes",
    )
    dump_tags: int = bound(1 << 20, "tags in the XML of a page; a revision has about 20")
    wikitext_depth: int = bound(
        40,
        "nested templates, links and tables",
        "deeper levels are kept as text",
    )
    wikitext_columns: int = bound(200, "columns of a table", "the cells are written as paragraphs")
    wikitext_padding: int = bound(
        10,
        "cells of a table with the empty cells of its spans, divided by its written cells",
        "the cells are written as paragraphs",
        unit="times",
    )

    line_bytes: int = bound(
        1 << 26,
        "a line of JSON Lines; a worker holds several copies of it",
        unit="bytes",
        section=BoundsSection("Rows of Parquet, Arrow, JSON Lines, CSV and text files"),
    )
    line_values: int = bound(1 << 22, "lists, objects and their elements in a line of JSON Lines")
    record_bytes: int = bound(1 << 26, "a CSV record, which can have several lines", unit="bytes")
    rescanned_bytes: int = bound(
        1 << 28,
        "lines of a CSV file that are read again because of quotes without an end",
        "one bad row for the rest of the file",
        unit="bytes",
    )
    file_bytes: int = bound(
        1 << 26,
        "a file that is a single document: text, Markdown, HTML",
        unit="bytes",
    )
    page_bytes: int = bound(
        1 << 29,
        (
            "a Parquet page or a row of Parquet or Arrow, decompressed; the largest pages of all "
            "columns of a row group may together have twice as much"
        ),
        unit="bytes",
    )
    batch_bytes: int = bound(
        1 << 28,
        "rows of Parquet or Arrow that are decoded together",
        "fewer rows are decoded together",
        unit="bytes",
    )
    ipc_bytes: int = bound(
        1 << 30,
        ("a batch of an Arrow file with compressed buffers: compressed and decompressed bytes together"),
        unit="bytes",
    )
    encoded_rows: int = bound(
        1 << 24,
        "rows of an Arrow batch with dictionaries, runs, views or only nulls",
    )
    bad_row_bytes: int = bound(
        1 << 20,
        "the stored content of a bad row",
        "the rest is not stored",
        unit="bytes",
    )
    damaged_rows: int = bound(
        1 << 20,
        "bad rows for the damaged row groups or batches of a file",
        "one bad row for each further range of rows",
    )
    rows_without_text: int = bound(
        1 << 20,
        "consecutive blank lines, bad rows and empty texts",
        "one bad row for the rest of the file",
    )
    inspected_bytes: int = bound(
        32 << 20,
        "the first lines of a file, which are read to find its columns",
        "inspection ends",
        unit="bytes",
    )

    file_list_bytes: int = bound(
        1 << 26,
        "a list of files (`files_from`), decompressed",
        unit="bytes",
        section=BoundsSection(
            "Lists, models and tokenizers",
            (
                "`zyda check` or the build ends with an error if a file is beyond one of these limits. "
                "Every tokenizer is tried with some short texts in a separate process, before it is used."
            ),
        ),
    )
    list_bytes: int = bound(
        1 << 28,
        ("a deny list, a list of addresses (`url_rules`) or a file of an evaluation set, decompressed"),
        unit="bytes",
    )
    list_lines: int = bound(
        1 << 24,
        ("lines of a deny list, of a list of addresses, or of a JSON Lines file of an evaluation set"),
    )
    request_list_bytes: int = bound(
        1 << 24,
        "a file of `zyda forget --urls` that is read at once, decompressed",
        "the file is read in blocks, into a table of hashes",
        unit="bytes",
    )
    denied_addresses: int = bound(
        1 << 27,
        "addresses of a request in such tables; a worker holds 12 bytes of each",
        "`zyda forget` ends with an error",
    )
    nested_items: int = bound(
        16,
        (
            "rounds in which `decontaminate` with `action: cut` cuts items out of a text, because the "
            "rest can form another item"
        ),
        "the whole text is cut",
    )
    rules_bytes: int = bound(
        1 << 22,
        "a file with the rules of a language, or a list of words",
        unit="bytes",
    )
    model_bytes: int = bound(
        1 << 33, "a model of fastText or KenLM, or the weights of a model of token ids", unit="bytes"
    )
    kenlm_memory: int = bound(
        1 << 30,
        "memory of the process of a KenLM model, in addition to four times the size of its file",
        unit="bytes",
    )
    kenlm_seconds: int = bound(
        60, "CPU seconds to load a KenLM model or to judge a text, in addition to one for each MiB of it"
    )
    model_dims: int = bound(4096, "numbers of a vector of a model whose cosines are compared")
    model_labels: int = bound(1000, "labels of a model, each of which is a column")
    tokenizer_bytes: int = bound(1 << 28, "a tokenizer.json", unit="bytes")
    tokenizer_memory: int = bound(1 << 31, "memory in the trial of a tokenizer", unit="bytes")
    tokenizer_seconds: int = bound(60, "CPU seconds in the trial of a tokenizer")
    tokenizer_growth: int = bound(
        100,
        "tokens for each character of a text in the trial of a tokenizer",
    )

    expression_characters: int = bound(
        20_000,
        "characters of an expression",
        section=BoundsSection(
            "Expressions", "A `keep` or `where` beyond one of these limits is rejected with an error."
        ),
    )
    expression_levels: int = bound(
        200,
        "parts of an expression that are nested in each other, or chained as in `a + b + c`",
    )
    expression_growth: int = bound(
        256,
        ("the length of a text that an expression makes, divided by the length of the text in the row"),
        unit="times",
    )
    expression_padding: int = bound(1000, "characters to which `lpad` or `rpad` fills a text")
    expression_joined: int = bound(32, "texts and numbers that an expression joins or adds")
    expression_sql: int = bound(
        100_000,
        "characters of the SQL into which an expression is translated",
    )

    component_names: int = bound(
        100_000,
        "values of `component` in a source, and names of licences that are in no list",
        "an error before anything is published; rarer names of licences are counted together",
        section=BoundsSection("Accounts"),
    )

    cluster_bytes: int = bound(
        8 << 20,
        "text of a cluster that is compared without an index",
        "the cluster is compared by an index of its shingles",
        unit="bytes",
        section=BoundsSection(
            "Clusters that `verify` compares",
            (
                "Beyond these limits, a removal can be missed, but every removal has a valid reason "
                "([Large clusters](duplicates.md#large-clusters))."
            ),
        ),
    )
    cluster_documents: int = bound(
        1 << 20,
        "documents of a cluster",
        "the cluster is cut into pieces, and only documents of one piece are compared",
    )
    cluster_members: int = bound(
        1 << 18,
        "kept documents in the index",
        "further documents are not in the index",
    )
    cluster_entries: int = bound(
        1 << 25,
        "entries in all lists of the index, 9 bytes each",
        "some shingles are not in the index",
    )
    cluster_list: int = bound(
        1000,
        "documents in the list of a shingle",
        "further documents are not in the list",
    )
    cluster_column_bytes: int = bound(
        256 << 20,
        "columns of bits in the index, which stand for frequent shingles",
        "fewer shingles have a column",
        unit="bytes",
    )
    cluster_words: int = bound(
        1 << 34,
        "words of 64 bits of these columns that are compared in a cluster",
        "fewer shingles have a column",
    )


LIMITS = Limits()


def limits() -> Limits:
    """Return the bounds in force."""
    return LIMITS


@contextmanager
def replaced_limits(**values: int) -> Iterator[Limits]:
    """Replace some bounds in this process, and in the processes that it forks, until the block ends."""
    global LIMITS
    before = LIMITS
    LIMITS = replace(before, **values)
    try:
        yield LIMITS
    finally:
        LIMITS = before
