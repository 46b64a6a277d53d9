"""A built corpus for the tests."""

import pytest
from small_corpus import Corpus, build_here


@pytest.fixture
def built(tmp_path):
    corpus = Corpus(tmp_path)
    build_here(corpus.load())
    return corpus
