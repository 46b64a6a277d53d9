"""Test the comparison of fetched dumps with the published checksums of their host."""

import bz2
import hashlib

import pytest
from small_corpus import Corpus

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.planning.fetching import Fetch
from zyda_flows.tasks.storage.folder import Folder

AT_ONCE = 3


def test_dump_is_compared_with_the_checksum_published_by_its_host(tmp_path):
    """The checksum list has the format of dumps.wikimedia.org: `latest`, too, lists names with the date."""
    page = (
        "<page><title>A</title><ns>0</ns><id>1</id><revision><id>7</id><text>a text</text></revision></page>"
    )
    dump = bz2.compress(f"<mediawiki>{page}</mediawiki>".encode())
    cases = [
        ("20260101", dump, None),
        ("latest", dump, None),
        ("20260201", dump[:40] + b"lost" + dump[44:], "SHA-1"),
    ]
    for date, content, fault in cases:
        folder = tmp_path / date
        folder.mkdir()
        (folder / f"xwiki-{date}-pages-articles.xml.bz2").write_bytes(content)
        (folder / f"xwiki-{date}-sha1sums.txt").write_text(
            f"{'0' * 40}  xwiki-20260101-stub.xml.gz\n"
            f"{hashlib.sha1(dump).hexdigest()}  xwiki-20260101-pages-articles.xml.bz2\n"
        )
        source = {"name": "wiki", "files": str(folder / "*.bz2"), "format": "wikipedia"}
        copied = Folder(str(tmp_path / f"copies-{date}"))
        fetched = Fetch(Corpus(folder).load(sources=[source]), copied)
        if fault is None:
            fetched.copy_all(AT_ONCE, lambda _: None)
            assert [file.read_bytes() for file in (tmp_path / f"copies-{date}").rglob("*.bz2")] == [content]
        else:
            with pytest.raises(BadRecipe, match=fault):
                fetched.copy_all(AT_ONCE, lambda _: None)
