"""Parquet files with encrypted columns."""

import base64

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import encryption
from small_corpus import build_here, rows, table_of, write_rows

from zyda_flows.tasks.errors import ZydaError


class Keys(encryption.KmsClient):
    """A store of keys that wraps nothing."""

    def wrap_key(self, key, name):
        return base64.b64encode(key)

    def unwrap_key(self, key, name):
        return base64.b64decode(key)


def encrypted(path, columns, *, plain=True):
    """Write documents of which some columns are encrypted, with a footer that anybody can read, or none."""
    asked = encryption.EncryptionConfiguration(
        "footer", column_keys={"column": columns}, plaintext_footer=plain
    )
    factory = encryption.CryptoFactory(lambda _: Keys())
    keys = factory.file_encryption_properties(encryption.KmsConnectionConfig(), asked)
    table = pa.table({"name": ["a", "b", "c"], "text": ["one", "two", "three"]})
    with pq.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table, 1)


def unsign(path):
    """Remove the signature from the footer of a file, which marks it as having encrypted columns."""
    content, signed = path.read_bytes(), pq.read_metadata(path).serialized_size
    size = int.from_bytes(content[-8:-4], "little")
    assert size > signed
    footer = content[-8 - size :][:signed]
    path.write_bytes(content[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [["text"], ["name"]])
@pytest.mark.parametrize("footer", ["plain", "unsigned", "encrypted"])
def test_encrypted_columns_raise_or_are_set_aside_without_aborting_the_process(corpus, columns, footer):
    encrypted(corpus.folder / "in/x.parquet", columns, plain=footer != "encrypted")
    if footer == "unsigned":
        unsign(corpus.folder / "in/x.parquet")
    write_rows(corpus.folder / "in/y.parquet", rows(fine="a fine text"))
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/x.parquet"}])
    with pytest.raises(
        ZydaError, match=r"source odd, file .*x\.parquet: cannot be read: .*encrypted"
    ) as raised:
        build_here(recipe)
    assert len(str(raised.value).splitlines()) == 1
    recipe = corpus.load(sources=[{"name": "odd", "files": "in/[xy].parquet"}], on_bad_rows="set_aside")
    assert build_here(recipe).of("ingest").documents == 1
    (aside,) = table_of(recipe, "set_aside")
    assert "encrypted" in aside["reason"]
