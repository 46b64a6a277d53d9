"""The corpora and the tokenizer of the tests of mixtures."""

import pytest
from small_corpus import TOKENIZER
from small_mixtures import corpus_of
from tokenizers import Tokenizer


@pytest.fixture(scope="session")
def corpora(tmp_path_factory, compiled):
    """Return two published corpora: of scope `across` (several documents of a cluster are kept) and `global`."""
    folder = tmp_path_factory.mktemp("corpora")
    return [
        corpus_of(folder / "a", "small", documents=60),
        corpus_of(folder / "b", "second", documents=30, dedup={"scope": "global"}),
    ]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(TOKENIZER))
