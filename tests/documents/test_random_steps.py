"""Test random sequences of document steps."""

import numpy as np
import pytest
from raw_corpus import removed
from small_corpus import build_here, rows, table_of, write_rows

CLEANINGS = [
    {"clean": "zyda1"}, {"clean": "unicode"}, {"clean": {"newlines": True, "control_characters": True}},
    {"clean": "refinedweb-lines"}, {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
    {"clean": {"runs": {"a": 1, " ": 1}}}, {"clean": "c4-lines"},
    {"clean": {"pii": {"mail": True, "ip": "", "phone": True, "card": "x", "iban": True}}},
]  # fmt: skip
FILTERS = [
    {"filter": {"zyda1": {"length": 30}}}, {"filter": {"gopher-quality": {"words": [2, 200], "stop_words": 0}}},
    {"filter": {"gopher-repetition": {"top_2_grams": 0.9}, "code": {}}}, {"filter": {"c4": {"sentences": 1}}},
    {"filter": {"fineweb": {"line_punctuation": None, "new_lines": 0.01}}}, {"filter": "refinedweb-lines"},
    {"filter": {"mine": {"zyda1.symbols": [0.001, 0.2], "code.alphanumeric": [None, 0.99]}}},
    {"filter": {"c4": {"terminal_punctuation": False, "sentences": [0, 3]}}}, {"filter": {"pii": {"mail": [None, 2]}}},
]  # fmt: skip
HOSTILE = rows(
    ruled="=" * 500, many_lines="\r\n\x0b\x85\u2028" * 300, nulls="\0\0 \0", mojibake="schÃ¶n â€œ quoted â€\x9d &amp;",
    right="שלום עולם " * 30, marks="e\u0301" * 99, emoji="👩‍👩‍👧" * 40, one_word="x" * 100_000, mails="a@b.co 8.8.8.8 " * 9, braces="{a} lorem ipsum. " * 9,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_steps_conserve_documents_for_any_shard_size_and_keep_text(raw, seed):
    chance = np.random.default_rng(seed)
    steps = [*CLEANINGS, *FILTERS, {"measure": "fineweb"}]
    chosen = [steps[i] for i in chance.permutation(len(steps))[: chance.integers(2, 7)]]
    write_rows(raw.folder / "in/worst-7.arrow", HOSTILE)
    plain = raw.load(name="plain", documents=chosen)
    kept = raw.load(name="kept", documents=chosen, keep_text=True)
    small = raw.load(name="small-shards", documents=chosen, shard_mib=0.003)
    ledger, kept_ledger, small_ledger = map(build_here, (plain, kept, small))
    assert (small_ledger.table(), small_ledger.reasons(), small_ledger.cleaned()) == (
        ledger.table(), ledger.reasons(), ledger.cleaned()
    )  # fmt: skip
    # With keep_text, the steps after the removing rule also clean a text, so the counts after cleaning differ.
    counts = ["stage", "source", "reason", "documents"]
    assert kept_ledger.reasons().select(counts) == ledger.reasons().select(counts)
    assert kept_ledger.lines[-3:] == ledger.lines[-3:]
    for other in (kept, small):
        for place in ("best", "middle", "worst", "clusters"):
            assert table_of(other, place) == table_of(plain, place)
        reasons = (
            {i: (row["reason"], row["value"]) for i, row in removed(built).items()}
            for built in (other, plain)
        )
        assert next(reasons) == next(reasons)
