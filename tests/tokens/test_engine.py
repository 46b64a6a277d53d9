"""Token ids equal the token ids of `tokenizers`, for all kinds of characters and their combinations."""

import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import Corpus, build_here, prose, rows, write_rows
from tokenizer_kinds import TOKENIZERS, demo_tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from zyda_flows.tasks.errors import BadInput, BadRecipe, WrongTokens
from zyda_flows.tasks.ingest import ingest
from zyda_flows.tasks.tokens import engine as engines
from zyda_flows.tasks.tokens.engine import EngineDiffers, TokenEngine
from zyda_flows.tasks.tokens.stored import load_tokenizer, token_counter

SPARSE = 0x40000  # few code points from here on are assigned
SURROGATES = range(0xD800, 0xE000)


@pytest.fixture(scope="module", params=TOKENIZERS.values(), ids=TOKENIZERS)
def engine(request):
    engine = TokenEngine(request.param())
    assert engine.why_slow is None
    return engine


def check(engine, texts):
    ids = engine.encode(pa.array(texts, pa.large_string()))
    encodings = engine.reference.encode_batch_fast(texts, add_special_tokens=False)
    exact = [encoding.ids for encoding in encodings]
    wrong = [texts[i][:200] for i in range(len(texts)) if ids.of(i).tolist() != exact[i]]
    assert not wrong, wrong[:3]
    assert ids.counts.tolist() == list(map(len, exact))


@pytest.mark.slow
def test_code_points_alone_and_between_other_characters_are_encoded_equally(engine, request):
    """Ranges with few assigned code points are sampled. The sample for the demo tokenizer is larger."""
    some = 7 if request.node.callspec.id == "demo" else 61
    codes = [c for c in (*range(SPARSE), *range(SPARSE, 0x110000, some)) if c not in SURROGATES]
    step = 997  # number of code points in a text
    groups = [codes[i : i + step] for i in range(0, len(codes), step)]
    check(engine, ["".join(map(chr, group)) for group in groups])
    check(engine, ["".join(f"a{chr(c)}1 {chr(c)}!" for c in group) for group in groups])


def test_runs_of_white_space_are_encoded_equally(engine):
    runs = [" " * n for n in range(61)] + ["\t" * n for n in range(1, 9)] + ["\n" * n for n in range(1, 9)]
    runs += [
        " \n",
        "\n ",
        "  \n",
        "\n  ",
        "\t  ",
        "  \t",
        " \t \n  x",
        "\u00a0 ",
        " \u00a0",
        "  \u2003  ",
        "\r\n",
        "\r\n\r\n  ",
    ]
    texts = [
        left + run + right
        for run in runs
        for left in ("", "a", "1", "!", "é")
        for right in ("", "b", "2", "?", "'s", "漢")
    ]
    check(engine, texts)


def test_contractions_and_quotes_are_encoded_equally(engine):
    endings = ["s", "t", "re", "ve", "m", "ll", "d", "S", "x", "r", "v", "l", "'", "", "é", " s"]
    check(
        engine,
        [
            f"{left}'{end}{right}"
            for left in ("", "a", "1", "!", " ", "  ", "\n")
            for end in endings
            for right in ("", "b", " ", "'")
        ],
    )


def test_combining_marks_that_the_normaliser_changes_are_encoded_equally(engine):
    texts = [
        "e\u0301",
        "a\u0323\u0307",
        "a\u0307\u0323",
        "\u1100\u1161\u11a8",
        "\u212b",
        "\u2126",
        "\u212a",
        "\u037e",
        "\u0958",
    ]
    texts += [unicodedata.normalize("NFD", "Tiếng Việt, Ångström, 한국어, हिन्दी, עִבְרִית, ไทย")]
    check(
        engine,
        [
            f"{left}{text}{right}"
            for text in texts
            for left in ("", "x", " ", "  ")
            for right in ("", "y", " ", "\u0301")
        ],
    )


def test_added_tokens_in_words_and_normalised_text_are_encoded_equally(engine):
    tokens = ["<|endoftext|>", "<|padding|>", "KEYWORD", "\n\n\n", "[CLS]", "<|endoftext|", "\u212aEYWORD"]
    check(
        engine,
        [
            f"{left}{token}{right}"
            for token in tokens
            for left in ("", "a", "a ", "  ", "e\u0301")
            for right in ("", "b", " b", "   ")
        ],
    )
    check(engine, ["no token", "with <|endoftext|> inside", "none", "two <|padding|><|padding|>", "none"])


@pytest.mark.slow
def test_long_texts_without_spaces_are_encoded_equally(engine):
    chance = random.Random(5)
    letters = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20))
    check(
        engine,
        [letters, "a" * 100_000, "漢字" * 50_000, "=" * 100_000, "0123456789" * 10_000, "\t" * 50_000],
    )
    check(engine, [letters[:n] for n in range(1, 200)] + ["=" * n for n in range(1, 200)])


def test_control_characters_and_empty_texts_are_encoded_equally(engine):
    check(
        engine,
        ["", "\x00", "\x00\x00 a", "a\x1fb", "\x85", "\x1c\x1d", "", "\ufeffx", "\u200b \u200b", "\ufffd"],
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.text(alphabet=st.sampled_from("ab1!' \t\n  é漢\u0301\u00a0🙂'sLl"), max_size=60), max_size=5
    )
)
def test_random_texts_of_difficult_characters_are_encoded_equally(engine, texts):
    check(engine, texts)


@pytest.mark.slow
def test_difficult_pieces_around_multiples_of_64_bytes_are_encoded_equally(engine):
    """fastokens reads long texts 64 bytes at a time: each piece is put before, on and after these boundaries."""
    chance = random.Random(7)
    common = ["a", "word", "Letters", " ", " ", " the", "1", "2024", ".", ", ", "(", "x-y", "\n", "Sentence"]
    awkward = ["'s", "'ll", "'", " 'tis", "''", "  ", "   ", "     ", "\n\n", "\n  ", "\t", " \t ", "\r\n", "é",
               " é", "e\u0301", "\u00a0", "漢", "🙂", "!'t", "a" * 20, "=" * 70, "\x1f", "\x00", " \n", "\x7f"]  # fmt: skip
    texts = []
    for share in (0.02, 0.1, 0.5):
        for _ in range(700):
            pieces = chance.choices([common, awkward], [1 - share, share], k=chance.randrange(20, 120))
            texts.append("".join(chance.choice(kind) for kind in pieces))
    check(engine, texts)
    check(engine, ["a" * n + piece + "b c" * 40 for n in range(55, 70) for piece in awkward])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_random_texts_are_encoded_equally(engine, texts):
    check(engine, texts)


def test_contractions_with_long_s_and_kelvin_sign_are_encoded_equally(engine):
    """In a pattern that ignores case, the long s and the Kelvin sign can be a part of a contraction."""
    ends = [
        "\u017f",
        "\u017ft",
        "\u017fT A",
        "\u017fa\u017f",
        "re\u017f",
        "\u212a",
        "ll\u017f",
        "VE\u017f",
        "\u017f\u017f",
    ]
    check(
        engine,
        [
            f"{left}'{end}{right}"
            for left in ("", "a", " ", "A\u017f", "\u017f")
            for end in ends
            for right in ("", "b", "S ")
        ],
    )


def test_characters_of_later_unicode_versions_are_encoded_equally(engine):
    """A library with newer tables of Unicode would classify these characters as letters or marks."""
    codes = [
        *range(0x1AD2, 0x1AEB),
        0x1094A,
        *range(0x32000, 0x33480, 61),
        *range(0x2EBF0, 0x2EE5E, 31),
        0x1C89,
        0xA7CB,
        0x105C0,
    ]
    check(
        engine,
        [
            f"{left}{chr(code)}{right}"
            for code in codes
            for left in ("a", "'", "a'", " 1", "!")
            for right in ("", "s", "'s")
        ],
    )


@pytest.mark.slow
def test_threads_of_one_worker_share_an_engine():
    engine = TokenEngine(demo_tokenizer())
    chance = random.Random(5)
    words = [chance.randbytes(chance.randrange(2, 12)).hex() for _ in range(20_000)]
    texts = pa.array([" ".join(chance.choices(words, k=2_000)) for _ in range(100)], pa.large_string())
    expected = TokenEngine(demo_tokenizer(), is_exact=True).count(texts).tolist()
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(engine.count, [texts] * 8))
    assert [counts.tolist() for counts in results] == [expected] * 8


def test_texts_are_encoded_equally_in_small_batches(engine, monkeypatch):
    monkeypatch.setattr(engines, "BATCH_BYTES", 100)
    check(engine, ["", "", "a" * 99, "b", "", "long words " * 50, "'\u017f x", "", "c" * 100, "d e" * 30, ""])
    check(engine, [])
    check(engine, [""])


def test_slices_of_arrow_columns_are_counted_without_the_rows_around_them(engine):
    texts = ["skipped é", "one two", "", "e\u0301 three", "skipped <|endoftext|>"]
    column = pa.array(texts, pa.large_string()).slice(1, 3)
    exact = engine.reference.encode_batch_fast(texts[1:4], add_special_tokens=False)
    assert engine.count(column).tolist() == [len(encoding) for encoding in exact]


SLOW = [
    (models.WordLevel({"a": 0, "?": 1}, unk_token="?"), "its model is WordLevel"),
    (models.WordPiece({"a": 0, "?": 1}, unk_token="?"), "its model is WordPiece"),
    (models.Unigram([("a", -1.0), ("?", -2.0)], unk_id=1), "its model is Unigram"),
    (models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=1.0), "drops merges by chance"),
]


@pytest.mark.parametrize(("model", "reason"), SLOW, ids=[reason for _, reason in SLOW])
def test_unsupported_tokenizers_are_counted_by_tokenizers_with_a_reason(model, reason):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    engine = TokenEngine(tokenizer)
    assert reason in engine.why_slow
    assert reason in token_counter(tokenizer)
    check(engine, ["ab a b", "", "ab"])


CHANGES = {
    "Whitespace": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()),
    "prefix space": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "Lowercase": lambda t: setattr(t, "normalizer", normalizers.Lowercase()),
    "NFKC": lambda t: setattr(t, "normalizer", normalizers.NFKC()),
    "lstrip": lambda t: t.add_tokens([AddedToken("<mask>", lstrip=True)]),
    "single word": lambda t: t.add_tokens([AddedToken("fox", single_word=True)]),
    "truncation": lambda t: t.enable_truncation(3),
    "padding": lambda t: t.enable_padding(length=50),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_tokenizers_with_changed_settings_return_the_ids_of_tokenizers(change):
    tokenizer = demo_tokenizer()
    change(tokenizer)
    texts = [*engines.WORDS, "a <mask> b", "a  <mask>", "foxes fox", "", "ǅ ﬁ K"]
    check(TokenEngine(tokenizer), [*texts, *map(str.lower, texts), "two\nlines  "])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.string_view(), pa.int64()])
@pytest.mark.parametrize("is_exact", [False, True])
def test_arrays_of_other_types_than_large_string_raise_type_error(kind, is_exact):
    engine = TokenEngine(demo_tokenizer(), is_exact=is_exact)
    texts = pa.array([1, 2] if kind == pa.int64() else ["a b", "c d"], kind)
    for given_texts in (texts, pa.chunked_array([texts]), ["a b"]):
        with pytest.raises(TypeError, match="texts: expected one array of large_string, got"):
            engine.count(given_texts)
    assert engine.count(pa.array(["a b", "c d"], pa.large_string())).sum() > 0


def wrong_where(word):
    """Return a library that returns other tokens for texts with a word."""
    right = engines.encode_flat

    def flat(fast, strings):
        return right(fast, [text.replace(word, f"{word}!") for text in strings])

    return flat


def test_every_4096th_document_is_compared_with_the_reference(monkeypatch):
    monkeypatch.setattr(engines, "encode_flat", wrong_where("wrong"))
    texts = ["wrong" if i == 700 else "right" for i in range(2 * engines.COMPARED_EVERY)]
    engine = TokenEngine(demo_tokenizer())
    engine.encode(pa.array(texts, pa.large_string()))  # the wrong text is not in the sample
    for before in (0, 1, engines.COMPARED_EVERY - 1, engines.COMPARED_EVERY):
        engine = TokenEngine(demo_tokenizer())
        for text in texts[:before]:
            engine.encode(pa.array([text.replace("wrong", "right")], pa.large_string()))
        at = -before % engines.COMPARED_EVERY
        with pytest.raises(EngineDiffers):
            engine.encode(pa.array([*["right"] * at, "wrong", *["right"] * 5], pa.large_string()))


class PanicException(BaseException):
    """The type of a panic of Rust in Python, which is not a subclass of Exception."""


def test_texts_on_which_fastokens_panics_are_encoded_by_tokenizers(monkeypatch):
    engine, right = TokenEngine(demo_tokenizer()), engines.encode_flat

    def panicking(fast, strings):
        if any("panic" in text for text in strings):
            raise PanicException
        return right(fast, strings)

    monkeypatch.setattr(engines, "encode_flat", panicking)
    check(engine, ["a text", "a panic", ""])

    def interrupted(fast, strings):
        raise KeyboardInterrupt

    monkeypatch.setattr(engines, "encode_flat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.count(pa.array(["a"], pa.large_string()))


@pytest.fixture
def empty_cache():
    """Clear the cache of fast tokenizers before and after a test."""
    engines.fast_form.cache_clear()
    yield
    engines.fast_form.cache_clear()


def test_tokenizer_with_a_differing_probe_is_encoded_by_tokenizers(monkeypatch, empty_cache):
    monkeypatch.setattr(engines, "encode_flat", wrong_where("quick"))
    engine = TokenEngine(demo_tokenizer())
    assert 'fastokens returns other ids for "The quick' in engine.why_slow
    check(engine, ["so quick"])


def corpus_with(folder, wrong, right):
    corpus = Corpus(folder)
    texts = {f"w{i}": f"wrong {prose(f'w{i}')}" for i in range(wrong)} | {
        f"r{i}": prose(f"r{i}") for i in range(right)
    }
    write_rows(folder / "in/many.jsonl", rows(**texts))
    corpus.recipe["sources"] = [{"name": "many", "files": ["in/many.jsonl"]}]
    return corpus


def test_piece_with_a_differing_document_is_counted_again_by_tokenizers(tmp_path, monkeypatch, caplog):
    corpus = corpus_with(tmp_path, wrong=1, right=30)
    exact = build_here(corpus.load(storage=str(tmp_path / "before")))
    monkeypatch.setattr(engines, "encode_flat", wrong_where("wrong"))
    tokens = build_here(corpus.load())
    assert tokens == exact
    assert (
        "fastokens gives other tokens for 1 of its documents; all were counted by tokenizers" in caplog.text
    )


def test_source_with_too_many_differing_documents_stops_the_build_before_publishing(tmp_path, monkeypatch):
    corpus = corpus_with(tmp_path, wrong=2, right=30)
    monkeypatch.setattr(engines, "encode_flat", wrong_where("wrong"))
    recipe = corpus.load()
    with pytest.raises(WrongTokens, match=r"source many: 2 of 32 documents have other tokens by fastokens"):
        build_here(recipe)
    assert not recipe.folder.files("published")
    with pytest.raises(WrongTokens):  # also if all results exist already
        build_here(recipe)
    monkeypatch.setattr(ingest, "MAX_DIFFERING_SHARE", 0.5)
    monkeypatch.setenv("ZYDA_TOKENS", "exact")
    tokens = build_here(recipe)
    monkeypatch.undo()
    assert tokens == build_here(corpus.load(storage=str(tmp_path / "fast")))


LACKING = [
    models.WordLevel({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.WordPiece({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.Unigram([("a", -1.0), ("b", -2.0)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("model", LACKING, ids=lambda model: type(model).__name__)
def test_tokenizer_without_an_unknown_token_raises_a_one_line_error(tmp_path, model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "t.json"))
    with pytest.raises(BadRecipe, match=r"tokenizer: .*t\.json cannot be loaded: .*([Uu]nk|UNK)") as raised:
        load_tokenizer(str(tmp_path / "t.json"))
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(BadInput, match=r"the tokenizer cannot count a text: .*([Uu]nk|UNK)"):
        TokenEngine(tokenizer).count(pa.array(["a z"], pa.large_string()))
