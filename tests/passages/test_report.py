"""The report's chapter about repeated passages."""

import html

from report_pages import cells_of, page_of, titles
from small_corpus import build_here, prose, rows, write_rows

TAGGED = f"<script>alert(1)</script> {prose('a shared passage', 60)}"
LISTS = ["Repeated passages", "Lengths of repeated passages", "The longest repeated passages",
         "The most frequent repeated passages"]  # fmt: skip


def shared_corpus(corpus):
    texts = {name: f"{prose(f'own {name}', 60)}\n{TAGGED}\n" for name in ("b1", "w1", "w2")}
    write_rows(corpus.folder / "in/best.jsonl", rows(b1=texts["b1"]))
    write_rows(corpus.folder / "in/worst.jsonl", rows(w1=texts["w1"], w2=texts["w2"], w3=TAGGED))
    sources = [{"name": name, "files": f"in/{name}.jsonl"} for name in ("best", "worst")]
    corpus.recipe |= {"sources": sources, "dedup": {"exact": "text"}}
    return corpus


def test_chapter_lists_passages_with_their_texts(corpus):
    recipe = shared_corpus(corpus).load(passages=[{"length": 100}, {"lines": {"in_documents": 3}}])
    ledger = build_here(recipe)
    page = page_of(recipe)
    assert [title for title in titles(page) if "passages" in title] == LISTS
    before = ledger.of("removals", "worst")
    cut, removed = ledger.cut("cuts", "worst").tokens, ledger.removed("cuts", "worst")
    assert cells_of(page, "Cut and removed by source")["worst"] == [
        "3", "3", "1", f"{before.tokens:,}", f"{cut:,}", f"{cut / before.tokens:.1%}", f"{removed.tokens:,}",
        f"{removed.tokens / before.tokens:.1%}",
    ]  # fmt: skip
    assert f"1: characters: {len(TAGGED)} characters, in " in page
    assert f"2: lines: {len(TAGGED) + 1} characters, in 4 documents" in page
    assert html.escape(TAGGED[:200]) in page
    assert "<script>alert" not in page


def test_corpus_without_passages_has_no_chapter(corpus):
    recipe = shared_corpus(corpus).load(passages=[{"length": 5000}])
    build_here(recipe)
    assert not [title for title in titles(page_of(recipe, has_plots=False)) if "passages" in title]
