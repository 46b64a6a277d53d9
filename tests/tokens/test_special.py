"""Special tokens that are written in texts: encoded as text or as control tokens, and counted."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_corpus import TOKENIZER, Corpus, build_here, rows, table_of, write_rows
from small_mixtures import END, megatron, mixed_in, mixing_of, mixture_file
from tokenizer_kinds import TOKENIZERS
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from zyda_flows.flows.command.mixture_plan import plan_lines
from zyda_flows.tasks.accounts.ledger_formats import as_json
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.tasks.tokens.special import SpecialTokens, special_names

WORDS = ["The quick brown fox", "naïve café", "x=1", "漢字", ""]


def by_model_alone(tokenizer, text):
    """Encode a text by normaliser, pre-tokeniser and model, which know no added tokens."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    words = tokenizer.pre_tokenizer.pre_tokenize_str(text) if tokenizer.pre_tokenizer else [(text, None)]
    return [token.id for word, _ in words for token in tokenizer.model.tokenize(word)]


def with_special(token):
    """Write a token alone, at starts and ends, glued to words, in quotes, cut, twice."""
    return [
        token, f"{token} a", f"a {token}", f"a{token}b", f"a {token} b", f"\n{token}\n", f'"{token}"', token * 2,
        f"{token[:-1]} {token[1:]}", f"The quick{token}brown {token}{token}.",
    ]  # fmt: skip


def large(texts):
    return pa.array(texts, pa.large_string())


@pytest.mark.slow
@pytest.mark.parametrize("name", TOKENIZERS)
def test_special_tokens_in_texts_are_text_or_control_tokens_by_both_libraries(name):
    plain, given = TOKENIZERS[name](), TOKENIZERS[name]()
    names = special_names(plain)
    few = [*names[:4], *names[-4:], "<|im_start|>user", "<s>", "</s>", "[CLS]", "<pad>"]
    texts = [*WORDS, *(text for token in few for text in with_special(token))]
    special = {plain.token_to_id(token) for token in names}
    as_text = [by_model_alone(plain, text) for text in texts]
    as_control = [plain.encode(text, add_special_tokens=False).ids for text in texts]
    assert not special & {token_id for ids in as_text for token_id in ids}
    both = ((as_text, True), (as_control, False))
    some = both if name in ("demo", "neox") else both[:1]  # an engine of the others takes seconds
    for expected, special_as_text in some:
        engine = TokenEngine(given, special_as_text=special_as_text)
        assert engine.why_slow is None
        encoded = engine.encode(large(texts))
        assert [encoded.of(i).tolist() for i in range(len(texts))] == expected
        assert engine.reference_ids(texts).ids.tolist() == [token_id for ids in expected for token_id in ids]
    written = [sum(token_id in special for token_id in ids) for ids in as_control]
    assert engine.special.count_per_text(large(texts)).tolist() == written


def test_added_tokens_that_are_not_special_remain_tokens():
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("    ", normalized=True)])
    tokenizer.add_special_tokens(
        [
            AddedToken("<mask>", lstrip=True),
            AddedToken("<w>", single_word=True),
            AddedToken("<r>", rstrip=True),
        ]
    )
    text = "a <tool> b    c <mask> d <w> e <r>  f"
    engine = TokenEngine(tokenizer)
    ids = engine.encode(large([text])).of(0).tolist()
    assert engine.why_slow is None
    kept, special = (
        {tokenizer.token_to_id(name) for name in names}
        for names in (("<tool>", "    "), ("<mask>", "<w>", "<r>"))
    )
    assert kept <= set(ids)
    assert not special & set(ids)
    assert engine.reference.decode(ids, skip_special_tokens=False) == text
    assert engine.special.count(large([text, text])).keys() == {"[CLS]"} ^ {"[CLS]", "<mask>", "<w>", "<r>"}


def tokenizer_of_model(model, pre_tokenizer=None, specials=("</s>", "<unk>"), normalizer=None):
    tokenizer = Tokenizer(model)
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.add_special_tokens([AddedToken(special, normalized=False) for special in specials])
    return tokenizer


LETTERS = ["<", "/", "s", ">", "u", "n", "k", "a", "b", "\u2581", "un", "</"]
VOCAB = {one: i for i, one in enumerate(["<unk>", "</s>", "<s>", *LETTERS])}
OWN_WORDS = {
    "WordLevel": lambda: tokenizer_of_model(
        models.WordLevel(VOCAB, unk_token="<unk>"), pre_tokenizers.WhitespaceSplit()
    ),
    "WordPiece": lambda: tokenizer_of_model(
        models.WordPiece(
            {**VOCAB, **{f"##{one}": 50 + i for i, one in enumerate(LETTERS)}}, unk_token="<unk>"
        ),
        pre_tokenizers.WhitespaceSplit(),
    ),
    "Unigram": lambda: tokenizer_of_model(
        models.Unigram([(one, -9.0 if number > 2 else 0.0) for one, number in VOCAB.items()], unk_id=0),
        pre_tokenizers.Metaspace(),
    ),
    "BPE whose merges make one": lambda: tokenizer_of_model(
        models.BPE(
            VOCAB | {"s>": 90}, [("<", "/"), ("s", ">"), ("</", "s>"), ("<", "s>")], unk_token="<unk>"
        ),
        specials=("</s>", "<s>", "<unk>"),
    ),
    "BPE that ignores merges": lambda: tokenizer_of_model(
        models.BPE(VOCAB, [("<", "/")], unk_token="<unk>", ignore_merges=True),
        pre_tokenizers.WhitespaceSplit(),
    ),
    "as sentencepiece": lambda: tokenizer_of_model(
        models.BPE(VOCAB, [("u", "n"), ("<", "/")], unk_token="<unk>", fuse_unk=True),
        specials=("</s>", "<s>", "<unk>"),
        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]),
    ),
}


@pytest.mark.parametrize("make", OWN_WORDS.values(), ids=OWN_WORDS)
@pytest.mark.parametrize("is_exact", [False, True])
def test_special_tokens_in_vocabularies_are_not_made_from_texts(make, is_exact):
    texts = ["</s>", "a </s> b", "a</s>b", "</s></s>", "b</s>", "a b un", "ab"]
    texts += [
        "\U0010fffe</s>\U0010fffe",
        "\U0010ffff</s>\U0010ffff",
    ]  # with signs that no text is expected to have
    tokenizer = make()
    end, unknown = tokenizer.token_to_id("</s>"), tokenizer.token_to_id("<unk>")
    control = TokenEngine(make(), is_exact=is_exact, special_as_text=False).encode(large(texts))
    assert control.ids.tolist().count(end) == 8
    engine = TokenEngine(make(), is_exact=is_exact)
    encoded = engine.encode(large(texts))
    assert end not in encoded.ids
    assert all(len(encoded.of(i)) for i in range(len(texts)))
    assert [encoded.of(i).tolist() for i in (5, 6)] == [control.of(i).tolist() for i in (5, 6)]
    if not isinstance(tokenizer.model, models.WordLevel):  # for which any word it has not is unknown
        assert unknown not in encoded.of(0)
        assert unknown not in engine.encode(large(["<unk>"])).ids


@pytest.mark.parametrize(
    "names", [("<|end|>", "<|endoftext|>", "[CLS]"), ("<s>", "</s>", "<s"), ("|", "ab"), ("漢字", "<é>"), ()]
)
def test_occurrences_equal_a_plain_search(names):
    texts = [
        "",
        "skipped",
        *(text for name in (*names, "<|end") for text in with_special(name)),
        "long " * 3000,
    ]
    column = large([*texts, *names])[1:]

    def plainly(text):
        positions, at = [], 0
        while at < len(text):
            here = max((name for name in names if text.startswith(name, at)), key=len, default=None)
            positions += [here] * (here is not None)
            at += len(here or "x")
        return positions

    special, expected = SpecialTokens(names), [plainly(text) for text in column.to_pylist()]
    assert special.count_per_text(column).tolist() == list(map(len, expected))
    counted = {name: (of.documents, of.occurrences) for name, of in special.count(column).items()}
    assert counted == {
        name: (sum(name in of for of in expected), sum(of.count(name) for of in expected))
        for name in names
        if any(name in of for of in expected)
    }


TEXTS = {"one": f"a text with {END} inside {END}", "two": "a text of words", "three": END, "four": "[CLS]x"}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory, compiled):
    """Give a corpus of texts with special tokens for each setting."""
    built = {}
    for setting in ("text", "control"):
        folder = tmp_path_factory.mktemp(setting)
        corpus = Corpus(folder)
        write_rows(folder / "in/good.jsonl", rows(**TEXTS))
        corpus.recipe["sources"] = [{"name": "good", "files": ["in/good.jsonl"]}]
        corpus.recipe["special_tokens"] = setting
        built[setting] = corpus, build_here(corpus.load())
    return built


def mixture_of(folder, corpus, **options):
    parts = [{"name": "good", "source": "good", "epochs": 2}]
    return mixture_file(folder, [corpus], parts=parts, budget=..., **options)


@pytest.mark.parametrize("setting", ["text", "control"])
def test_ledger_account_and_token_files_agree_on_special_tokens(corpora, tmp_path, setting):
    corpus, ledger = corpora[setting]
    tokenizer = Tokenizer.from_file(str(TOKENIZER))
    tokenizer.encode_special_tokens = setting == "text"
    expected = {name: tokenizer.encode(text, add_special_tokens=False).ids for name, text in TEXTS.items()}
    published = table_of(corpus.load(), "good")
    assert {row["name"]: row["n_tokens"] for row in published} == {n: len(i) for n, i in expected.items()}
    line = ledger.lines[0]
    counted = {token: (of.documents, of.occurrences) for token, of in line.special_tokens.items()}
    assert counted == {END: (2, 3), "[CLS]": (1, 1)}
    place = corpus.folder / "out/small/published"
    listed = pq.read_table(place / "special_tokens.parquet").to_pylist()
    assert [tuple(row.values()) for row in listed] == [("good", END, 2, 3), ("good", "[CLS]", 1, 1)]
    assert json.loads((place / "manifest.json").read_text())["tokenizer"]["special_tokens"] == setting
    card = (place / "README.md").read_text()
    assert f"`{END}` 3 times in 2 documents, `[CLS]` 1 time in 1 document" in card
    assert "special_tokens" in as_json(ledger)
    mixed, files = mixed_in(mixture_of(tmp_path, corpus, special_tokens=setting))
    end = tokenizer.token_to_id(END)
    sequences = sorted(sequence.tolist() for sequence in megatron(files, "train-00000"))
    assert sequences == sorted([*ids, end] for ids in [*expected.values()] * 2)
    part = mixed.parts[0]
    assert part.written == 2 * (ledger.lines[-1].out.tokens + len(TEXTS))
    assert (part.special_documents, part.special_tokens) == (3, 4)
    ends = sum(of.count(end) for of in sequences)
    assert ends == (8 if setting == "text" else 14)


def test_mixture_with_another_setting_than_its_corpus_encodes_again_with_a_note(corpora, tmp_path):
    corpus, _ = corpora["control"]
    end = Tokenizer.from_file(str(TOKENIZER)).token_to_id(END)
    ends = {}
    for setting in ("text", "control", "text"):  # in the same folder: the ids of the settings differ
        path = mixture_of(tmp_path, corpus, special_tokens=setting)
        lines = "\n".join(plan_lines(mixing_of(path)))
        assert "special tokens occur in 3 documents, 4 times" in lines
        assert ("was counted with another `special_tokens`" in lines) is (setting == "text")
        _, place = mixed_in(path)
        ends[setting] = sum(sequence.tolist().count(end) for sequence in megatron(place, "train-00000"))
    assert ends == {"text": 8, "control": 14}
