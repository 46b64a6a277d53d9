"""Bounds of all input from outside: sizes, counts, depths and ratios, in one frozen record.

Each bound is checked while the input is decoded, before memory or time is spent on it. A value is about ten times
the largest of many real inputs, unless a library or a format sets a lower limit.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any


def bound(value: int, unit: str, description: str) -> Any:
    """Return a field of `Limits` with its unit and description, which docs/limits.md lists."""
    return field(default=value, metadata={"unit": unit, "description": description})


@dataclass(frozen=True)
class Limits:
    """The bounds. Code reads them with `limits()`; tests replace them with `replaced_limits`."""

    # Compressed input and HTTP bodies.
    zstd_dictionary: int = bound(
        1 << 23, "bytes", "a dictionary of Zstandard in a WARC file; the standard requires as much"
    )
    zstd_dictionaries: int = bound(100, "dictionaries", "dictionaries of a file of Zstandard; usually 1")
    http_body: int = bound(
        12 << 20, "bytes", "a body of HTTP when it is decoded; crawlers cut pages at 1 to 5 MiB"
    )
    growth: int = bound(
        1000, "times", "the size of a compressed file, or of its first part, that it may decompress to"
    )
    growth_from: int = bound(1 << 27, "bytes", "decompressed, before `growth` is a bound")
    http_codings: int = bound(10, "codings", "nested codings of a body of HTTP; usually 1")

    # Records of WARC files and pages.
    warc_head: int = bound(1 << 16, "bytes", "the head of a WARC record; real heads have up to 6 KiB")
    http_head: int = bound(1 << 18, "bytes", "the head of an HTTP response; browsers read as much")
    warc_record: int = bound(
        12 << 20, "bytes", "the block of a WARC record; a worker needs up to forty times as much"
    )
    warc_blank: int = bound(1 << 20, "bytes", "line ends between two WARC records")
    bad_record_kept: int = bound(1 << 12, "bytes", "the stored part of bytes that are not a WARC record")

    # HTML.
    html_bytes: int = bound(12 << 20, "bytes", "of a page in UTF-8 that is extracted")
    html_head: int = bound(1 << 16, "bytes", "of a page in which it may name its encoding")
    html_depth: int = bound(
        512, "elements", "nested elements; browsers have the same limit; the maximum of 308 real pages was 47"
    )
    html_tags: int = bound(
        1_000_000,
        "tags",
        "of a page, including tags that blocks reopen; resiliparse needs about 300 MB; a real page had 19,425",
    )
    html_work: int = bound(
        2_000_000_000, "units", "of parsing: bytes times depth, and squares of attributes; some seconds"
    )
    html_options: int = bound(256, "options", "of a page; its lists of options are removed if it has more")
    formula_depth: int = bound(60, "elements", "nested elements in a formula of MathML")
    formula_characters: int = bound(20_000, "characters", "of a formula in LaTeX")
    table_columns: int = bound(200, "columns", "of a table of a page, including its spans")
    table_cells: int = bound(200_000, "cells", "of a table of a page, including its spans")

    # LaTeX and e-prints.
    eprint_bytes: int = bound(1 << 28, "bytes", "a compressed e-print, and all its files after decompression")
    eprint_files: int = bound(20_000, "files", "files of an e-print")
    eprint_inputs: int = bound(
        1_000, "files", "files that the main file of an e-print inputs, with repetitions"
    )
    eprint_input_depth: int = bound(20, "levels", "files inputted by inputted files")
    eprint_characters: int = bound(1 << 26, "characters", "the LaTeX of an e-print with its inputs")
    eprint_readme_bytes: int = bound(20_000, "bytes", "an e-print's 00README")
    latex_depth: int = bound(200, "levels", "environments, braces and macros inside others")
    latex_macro_characters: int = bound(
        1 << 22, "characters", "characters that the macros of a document add to it"
    )
    latex_cells: int = bound(1_000_000, "cells", "cells of all tables of a document, including empty cells")

    # Wikitext and dumps of MediaWiki.
    dump_page: int = bound(1 << 26, "bytes", "the XML of a page of a dump; the longest have 2 MiB of text")
    dump_head: int = bound(1 << 20, "bytes", "the head of a dump, which names its namespaces")
    dump_tags: int = bound(1 << 20, "tags", "the XML of a page of a dump; a revision has about 20")
    wikitext_depth: int = bound(40, "elements", "nested templates, links and tables; deeper levels are text")
    wikitext_columns: int = bound(
        200, "columns", "a table of wikitext; the cells of a wider table are paragraphs"
    )
    wikitext_padding: int = bound(
        10, "times", "the cells of a table of wikitext that its rows may have, including empty cells of spans"
    )

    # Rows of Parquet, Arrow, JSON Lines, CSV and text files.
    line_bytes: int = bound(1 << 26, "bytes", "a line of JSON Lines; a worker holds several copies of it")
    record_bytes: int = bound(1 << 26, "bytes", "the lines of a record of CSV")
    file_bytes: int = bound(1 << 26, "bytes", "a file that is a single document: text, Markdown, HTML")
    rescanned_bytes: int = bound(
        1 << 28, "bytes", "lines of CSV that are read again after quotes without an end"
    )
    bad_row_bytes: int = bound(1 << 20, "bytes", "the stored part of a bad row, without its reason")
    damaged_rows: int = bound(
        1 << 20,
        "rows",
        "bad rows of damaged row groups or batches of a file; a single bad row stands for the rest",
    )
    rows_without_text: int = bound(
        1 << 20,
        "rows",
        "consecutive blank lines, bad rows and empty texts; a single bad row stands for the rest",
    )
    page_bytes: int = bound(1 << 29, "bytes", "the largest pages of the columns of a row group, decompressed")
    batch_bytes: int = bound(
        1 << 28, "bytes", "rows that are decoded at once; a single row may have `page_bytes`"
    )
    ipc_bytes: int = bound(1 << 30, "bytes", "a batch of an Arrow file with compressed buffers, decompressed")
    encoded_rows: int = bound(
        1 << 24, "rows", "a batch of Arrow with dictionaries, runs, views or only nulls"
    )
    line_values: int = bound(1 << 22, "values", "lists, objects and their elements in a line of JSON Lines")
    inspected_bytes: int = bound(32 << 20, "bytes", "lines that are read to find the columns of a file")

    # Lists, deny lists, evaluation sets, tokenizers and models.
    file_list_bytes: int = bound(1 << 26, "bytes", "a list of files (`files_from`), decompressed")
    list_bytes: int = bound(
        1 << 28, "bytes", "a deny list, a list of addresses or a file of an evaluation set, decompressed"
    )
    list_lines: int = bound(
        1 << 24, "lines", "a deny list, a list of addresses or JSON Lines of an evaluation set"
    )
    request_list_bytes: int = bound(
        1 << 24,
        "bytes",
        "a file of `zyda forget --urls`; a larger file is read in blocks, into a table of hashes",
    )
    denied_addresses: int = bound(
        1 << 27, "addresses", "of a request in such tables; a worker holds 12 bytes of each"
    )
    nested_items: int = bound(
        16, "rounds", "in which nested items are cut out of a text; after more rounds, the whole text is cut"
    )
    rules_bytes: int = bound(1 << 22, "bytes", "the rules of a language, or a list of words")
    model_bytes: int = bound(1 << 33, "bytes", "a model that finds languages")
    tokenizer_bytes: int = bound(1 << 28, "bytes", "a tokenizer.json")
    tokenizer_memory: int = bound(1 << 31, "bytes", "the memory in which a tokenizer is tried")
    tokenizer_seconds: int = bound(60, "seconds", "the CPU time in which a tokenizer is tried")
    tokenizer_growth: int = bound(
        100, "tokens", "for a character of the texts with which a tokenizer is tried"
    )

    # Expressions.
    expression_characters: int = bound(20_000, "characters", "An expression of `keep` or `where`.")
    expression_levels: int = bound(200, "parts", "Parts of an expression, nested or in a row.")
    expression_growth: int = bound(256, "times", "A text that an expression makes, by its row's text.")
    expression_padding: int = bound(1000, "characters", "A text that `lpad` or `rpad` fills up.")
    expression_joined: int = bound(32, "texts", "Texts and numbers that an expression joins or adds.")
    expression_sql: int = bound(100_000, "characters", "The SQL that an expression is translated into.")

    # Clusters of near-duplicates that `verify` compares.
    cluster_bytes: int = bound(
        8 << 20, "bytes of text", "of a cluster that is compared in memory, without an index"
    )
    cluster_documents: int = bound(
        1 << 20, "documents", "of a cluster that are compared with each other; more are cut"
    )
    cluster_members: int = bound(1 << 18, "documents", "in the index of a larger cluster")
    cluster_entries: int = bound(1 << 25, "entries", "in all lists of the index, of 9 bytes each")
    cluster_list: int = bound(1000, "documents", "in the list of a shingle")
    cluster_column_bytes: int = bound(256 << 20, "bytes", "of the index's bits of frequent shingles")
    cluster_words: int = bound(1 << 34, "words of 64 bits", "of such bits that are compared in a cluster")


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
