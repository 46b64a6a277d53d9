"""A requested text matches all forms of its copies, and no other text."""

import hashlib
import json
import string
import textwrap
import unicodedata

import pyarrow as pa
import pytest
from forgetting import asking, forget, in_turn
from leaks import files_with
from small_corpus import REPOSITORY, build_here, prose, table_of, write_rows

from zyda_flows.tasks.documents.deny_list import DenyList, requests_of
from zyda_flows.tasks.documents.deny_signatures import rounds_with_signatures
from zyda_flows.tasks.erasure.requested_documents import find_documents
from zyda_flows.tasks.recipe.kinds import ExactRound, MinHashRound
from zyda_flows.tasks.recipe.semantic import SemanticRound
from zyda_flows.tasks.signatures.letters import letter_hash, letters_in

LETTER = (
    "Jane's \"big\" house in Łódź -- naïve, isn't it? -- was sold. "
    + prose("a letter", 60)
    + "\n\nÅsa said: "
    "“no”… " + prose("another", 60)
)
SHORT = "Jane Doe, 5 Elm Rd."
CHINESE = "王小明住在上海市。他的電話號碼是一二三四五六七八九，請不要公開這段文字！" * 3
HINDI = "नमस्ते दुनिया, यह एक परीक्षण है। " * 5
POINTED = "¿?! ... -- «»"
LONG = prose("a long text", 40_000)
CURLY = str.maketrans({"'": "’", '"': "”"})
FORMS = {
    "as it is": str,
    "byte order mark": lambda text: f"\ufeff{text}",
    "Windows": lambda text: text.replace("\n", "\r\n") + "\r\n",
    "in a line": lambda text: " ".join(text.split()),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "thin spaces": lambda text: text.replace(" ", "\u2009\u200a"),
    "doubled spaces": lambda text: text.replace(" ", "  "),
    "wrapped": lambda text: textwrap.fill(text, 40),
    "indented": lambda text: textwrap.indent(textwrap.fill(text, 30), "\t> "),
    "lower case": str.lower,
    "capitals": str.upper,
    "curly quotes": lambda text: text.translate(CURLY),
    "NFC": lambda text: unicodedata.normalize("NFC", text),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKC": lambda text: unicodedata.normalize("NFKC", text),
    "full width": lambda text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text),
    "soft hyphens": lambda text: text.replace("e", "e\u00ad"),
    "zero width": lambda text: text.replace(" ", "\u200b \u200d"),
    "line breaks within words": lambda text: "\n".join(text[i : i + 7] for i in range(0, len(text), 7)),
    "Markdown": lambda text: f"# *{text}*",
}


def innocent():
    texts = [
        "",
        " ",
        "!!",
        "...",
        "¿?! ... --",
        "Jane Doe, 6 Elm Rd.",
        "Jane Doe",
        SHORT + " No.",
        CHINESE + "不",
    ]
    return [*texts, prose("a letter", 60), prose("innocent"), POINTED + "x", LETTER.replace("sold", "built")]


@pytest.fixture
def letters(corpus):
    """Return a corpus of a text in many forms, each once, and of other texts."""
    texts = [make(text) for text in (LETTER, SHORT, CHINESE, HINDI) for make in FORMS.values()]
    texts += [LONG.upper(), POINTED]
    rows = [{"text": text, "name": "asked"} for text in dict.fromkeys(texts)]
    rows += [{"text": text, "name": "innocent"} for text in innocent()]
    write_rows(corpus.folder / "in/all.jsonl", rows)
    corpus.recipe |= {
        "name": "mine", "sources": [{"name": "all", "files": "in/all.jsonl"}], "dedup": {"exact": "text"},
    }  # fmt: skip
    corpus.names = [row["name"] for row in rows]
    return corpus


def rows_found(corpus, *texts, **options):
    requested = find_documents(corpus.load(), asking(texts=texts), in_turn, **options)
    return {corpus.names[document.row] for document in requested.documents}, len(requested.documents)


def test_all_forms_of_a_text_are_matched_and_removed(letters):
    recipe = letters.load()
    build_here(recipe)
    asked_rows = letters.names.count("asked")
    in_forms = asked_rows - 1  # POINTED has no letters
    everything = [LETTER, SHORT, CHINESE, HINDI, LONG]
    assert rows_found(letters, *everything) == ({"asked"}, in_forms)
    other_forms = [make(text) for text, make in zip(everything, [*FORMS.values()][7:], strict=False)]
    assert rows_found(letters, *other_forms) == ({"asked"}, in_forms)
    assert rows_found(letters, POINTED) == ({"asked"}, 1)
    exactly, count = rows_found(letters, SHORT, alike=False)
    # Unchanged, and with a byte order mark.
    assert (exactly, count) == ({"asked"}, 2)

    write_forms = [{"text": make(LETTER), "name": "new"} for make in FORMS.values()]
    write_forms += [{"text": SHORT.upper(), "name": "new"}, {"text": "!?", "name": "other"}]
    _, recipe, _ = forget(letters, asking(texts=[*everything, POINTED]))
    assert {row["name"] for row in table_of(recipe, "all")} == {"innocent"}
    assert files_with(LONG, letters.folder / "out/mine") == []
    write_rows(letters.folder / "in/new.jsonl", write_forms)
    letters.recipe["sources"].append({"name": "new", "files": "in/new.jsonl"})
    recipe = letters.load()
    build_here(recipe)
    assert [row["name"] for row in table_of(recipe, "new")] == ["other"]
    reasons = {row["reason"] for row in table_of(recipe, "removed") if row["source"] == "new"}
    assert reasons == {"requested"}


def test_copy_in_a_longer_page_is_matched_by_signatures(corpus):
    copy, half = prose("the text", 400), prose("the text", 200)
    texts = {
        "some more": f"{prose('before', 60)} {copy} {prose('behind', 60)}",
        "twice as long": f"{copy} {prose('behind', 400)}",
        "a half of it": f"{half} {prose('behind', 400)}",
        "innocent": prose("innocent", 400),
    }
    rows = [{"text": text, "name": name} for name, text in texts.items()]
    write_rows(corpus.folder / "in/all.jsonl", rows)
    sources = [{"name": "all", "files": "in/all.jsonl"}]
    dedup = {"bands": 64, "rows": 2, "scope": "across"}  # which shares buckets also at 0.3
    recipe = corpus.load(name="mine", sources=sources, dedup=dedup)
    build_here(recipe)
    requested = find_documents(recipe, asking(texts=[copy]), in_turn)
    names = {rows[document.row]["name"]: document.likeness for document in requested.documents}
    assert {*names} == {"some more", "twice as long"}
    assert all(likeness > 0.85 for likeness in names.values())  # they contain the whole text
    assert find_documents(recipe, asking(texts=[copy]), in_turn, alike=False).documents == []


def test_similar_texts_are_matched_for_rounds_of_near_duplicates_only():
    minhash = MinHashRound(bands=4, rows=32)
    semantic = SemanticRound.model_construct()
    assert rounds_with_signatures([ExactRound(exact="text"), minhash, semantic]) == (minhash,)
    assert rounds_with_signatures([semantic, ExactRound(exact="text")]) == (MinHashRound(),)
    assert rounds_with_signatures([ExactRound(exact="text")]) == rounds_with_signatures([]) == ()


def test_hash_of_letters_matches_the_documentation():
    """docs/removal.md: NFKD, case folding, without white space and punctuation."""
    digest = hashlib.sha256("janesbighouseinło\u0301dz\u0301".encode()).hexdigest()
    assert letter_hash("Jane's BIG house\nin Łódź!") == digest
    line = json.dumps({"letters_sha256": digest})
    assert DenyList(requests_of(line)).letter_hashes == {digest}
    assert letter_hash(POINTED) is letter_hash("") is letter_hash("\u200b \n") is None


def test_letters_match_a_plain_implementation():
    texts = [
        make(text)
        for text in (LETTER, CHINESE, HINDI, "ﬁne ﷺ ½ Straße İı ǅ ﾊﾞ", "e\u0302\u0323 ệ")
        for make in FORMS.values()
    ]
    texts += ["\ufdfa" * 1000, "\ufdfaa" * 999]
    texts += ["".join(map(chr, range(start, start + 256))) for start in range(0, 0xD800, 256)]
    contents = [bytes(content).decode() for content in letters_in(pa.array(texts, pa.large_string()))]
    for text, letters in zip(texts, contents, strict=True):
        assert unicodedata.normalize("NFKD", letters) == plain_letters(text), text[:50]


def plain_letters(text):
    folded = unicodedata.normalize("NFKD", "".join(c.casefold() for c in unicodedata.normalize("NFKD", text)))
    kept = [
        c
        for c in folded
        if not (
            c.isspace() or unicodedata.category(c)[0] in "PZ" or unicodedata.category(c) in ("Cc", "Cf", "Sk")
        )
        and c not in "$+<=>^`|~\u034f\u0640\u180b\u180c\u180d"
        and not 0xFE00 <= ord(c) < 0xFE10
    ]
    return unicodedata.normalize("NFKD", "".join(kept))


def test_hash_of_letters_matches_the_documented_program():
    page = (REPOSITORY / "docs/removal.md").read_text(encoding="utf-8")
    program = page.partition("### Letters")[2].split("```python\n")[1].partition("```")[0]
    for text in (
        "Naïve “Café”, ﬁne!\r\n 漢\u200b字 x\u034fy \U000e0041 \u180b",
        "Tab\tand ＦＵＬＬ ٪ $1+2",
        "नमस्ते दुनिया",
    ):
        names = {"unicodedata": unicodedata, "string": string, "hashlib": hashlib, "text": text}
        exec(program, names)
        assert names["letters_sha256"] == letter_hash(text)
