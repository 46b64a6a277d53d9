"""A published corpus for the tests of ablation."""

import pytest
from small_corpus import TOKENIZER
from small_mixtures import corpus_of
from tokenizers import Tokenizer


@pytest.fixture(scope="session")
def small(tmp_path_factory, compiled):
    """Return a published corpus with the sources `good` and `other`, which share near-duplicates."""
    return corpus_of(tmp_path_factory.mktemp("ablation"), documents=60)


@pytest.fixture(scope="session")
def tokenizer():
    return Tokenizer.from_file(str(TOKENIZER))
