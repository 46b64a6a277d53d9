"""`zyda try` with passages, on a sample that is the whole corpus."""

from small_corpus import QUALITY, build_here, prose, rows, write_rows, zyda_here

SHARED = f"[bold] {prose('a shared passage', 60)}"


def test_figures_are_those_of_a_build(corpus):
    texts = {name: f"{prose(f'own {name}', 60)}\n{SHARED}\n" for name in ("b1", "w1", "w2")}
    write_rows(corpus.folder / "in/best.jsonl", rows(b1=texts["b1"]))
    write_rows(corpus.folder / "in/worst.jsonl", rows(w1=texts["w1"], w2=texts["w2"], w3=SHARED))
    sources = [{"name": name, "files": f"in/{name}.jsonl"} for name in ("best", "worst")]
    recipe = corpus.load(
        sources=sources, dedup={"prefer": ["source", "stars desc"]}, documents=[{"clean": "unicode"}],
        passages=[{"length": 100}, {"lines": {"in_documents": 3}}],
        judges=[{"name": "deep", "model": str(QUALITY), "max_tokens": 64, "keep": "stars >= 0"}],
    )  # fmt: skip
    printed = zyda_here("try", str(corpus.path), "--examples", "1").stdout
    before = {path for path in corpus.folder.rglob("*") if path.is_file()}
    ledger = build_here(recipe)
    assert not [path for path in before if "out" in path.parts]
    for source in recipe.sources:
        start, removed, cut = (of(stage, source.name) for of, stage in (
            (ledger.of, "removals"), (ledger.removed, "cuts"), (ledger.cut, "cuts")
        ))  # fmt: skip
        numbers = (start.documents, removed.documents, start.tokens, cut.tokens)
        cells = [source.name, *(f"{n:,}" for n in numbers), f"{cut.tokens / start.tokens:.1%}"]
        assert any([*filter(None, line.replace("│", " ").split())] == cells for line in printed.splitlines())
    assert "most repeats of a passage are outside a sample" in printed
    assert f"lines: {len(SHARED) + 1} characters, in 4 documents" in printed
    assert SHARED[:100] in printed


def test_sample_without_repeats(corpus):
    corpus.load(passages=[{"length": 9000}])
    assert "no passage is repeated" in zyda_here("try", str(corpus.path)).stdout
