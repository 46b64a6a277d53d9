"""The corpora of fixed inputs have the recorded digests.

A change of the result must increase the VERSION of its stage. Otherwise existing corpora keep the old results. Then
write the new digest here.
"""

import hashlib
import json

import pytest
from small_corpus import build_here, table_of

STEPS = [
    {"clean": {"unicode": True, "newlines": True, "control_characters": True, "runs": "zyda1"}},
    {
        "measure": [
            "zyda1",
            "gopher-quality",
            "gopher-repetition",
            "c4",
            "fineweb",
            "refinedweb-lines",
            "code",
        ]
    },
    {"filter": {"zyda1": {"length": 20}, "code": {}}},
    {"clean": {"lines": {"rules": "c4", "terminal_punctuation": False}}},
]
GOLDEN = {
    "across": ({}, "f2c5363b306b5642"),
    "global": ({"scope": "global"}, "bbcf2c1959874f59"),
    "verified": ({"scope": "global", "verify": {"containment": 0.97}}, "72a36abc34c37df5"),
    "rounds": ({"rounds": [{"exact": "normalised"}, {"scope": "global"}]}, "1330c43bdda856e1"),
    "documents": ({"documents": STEPS}, "5a414a7073f75c7d"),
    "words": ({"shingle": "words", "width": 1, "bands": 64}, "d60dcf287c6ee9f3"),
}
BROKEN = b'{"name": "broken", "text": 1}\n{"name": "late", "stars": 1, "text": "A late one."}\n'


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_corpus_has_the_recorded_digest(corpus, name):
    options, expected = GOLDEN[name]
    (corpus.folder / "in/middle-1.jsonl").write_bytes(BROKEN)
    corpus.recipe["sources"][1]["files"] = "in/middle*.jsonl*"
    dedup = options.get("rounds", {name: value for name, value in options.items() if name != "documents"})
    recipe = corpus.load(dedup=dedup, documents=options.get("documents", []), on_bad_rows="set_aside")
    ledger = build_here(recipe)
    tables = {
        place: table_of(recipe, place) for place in (*ledger.sources, "removed", "clusters", "set_aside")
    }
    for row in tables["set_aside"]:
        row["file"] = row["file"].rpartition("/")[2]
    content = json.dumps([tables, ledger.model_dump(exclude_none=True)], default=str, sort_keys=True)
    assert hashlib.sha256(content.encode()).hexdigest()[:16] == expected
