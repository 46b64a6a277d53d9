"""Test that a process loads the tokenizer of a corpus or of a mixture once."""

from small_corpus import TOKENIZER

from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens import stored
from zyda_flows.tasks.tokens.stored import store_tokenizer, stored_engine


def test_stored_tokenizer_is_not_loaded_again_in_the_same_process(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))
    digest = store_tokenizer(folder, str(TOKENIZER), "text")
    with monkeypatch.context() as patch:
        patch.setattr(stored, "Tokenizer", None)
        engine = stored_engine(folder, digest, "text")
        assert stored_engine(folder, digest, "text") is engine
    assert stored_engine(folder, digest, "control") is not engine
