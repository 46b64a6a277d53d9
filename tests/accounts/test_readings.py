"""The manifest has the true reading time of each file, and a changed manifest or file is found."""

import json
import os
from datetime import UTC, datetime, timedelta
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from small_corpus import (
    SHARED_BY_ALL,
    Corpus,
    build_here,
    contents,
    listed_files,
    shards_of,
    table_of,
    without_times,
    zyda_here,
)

from zyda_flows.flows.command.status import corpus_lines
from zyda_flows.tasks.accounts import readings
from zyda_flows.tasks.accounts.published import STAMPS, manifest_if_there, saved_stamps
from zyda_flows.tasks.accounts.published_stamps import (
    current_stamps,
    expect_manifest,
    stamps_of,
    write_stamps,
)
from zyda_flows.tasks.corpus.published_corpus import PublishedCorpus
from zyda_flows.tasks.errors import BadRecipe, Damaged, Denied
from zyda_flows.tasks.lookup.explain import explain
from zyda_flows.tasks.lookup.nearest import nearest
from zyda_flows.tasks.lookup.report_data import findings_of
from zyda_flows.tasks.planning.last_build import ledger_if_complete
from zyda_flows.tasks.storage import tables
from zyda_flows.tasks.storage.folder import Folder

MANIFEST = "published/manifest.json"


def ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


def as_if_read(folder, when):
    """Change the recorded reading times of the published files."""
    kept = saved_stamps(folder)
    table = stamps_of(folder, kept, [""])
    times = pc.if_else(pc.is_valid(table.column("checked_at")), when, None)
    write_stamps(folder, table.set_column(2, "checked_at", times), kept.manifests)


def times_in(folder):
    named = manifest_if_there(folder).accounts
    return {file.path: file.checked_at for file in (*listed_files(folder), *named)}


def rot(*paths):
    """Change a bit of a file under all its names; keep its size and time."""
    content = bytearray(paths[0].read_bytes())
    content[len(content) // 2] ^= 1
    for path in paths:
        before = path.stat()
        path.chmod(0o644)
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def changed(corpus, **more):
    """Return a recipe that keeps some published files and changes others."""
    corpus.recipe["sources"][1]["keep"] = "name <> 'middle_alone' and name <> 'twin_1'"
    return corpus.load(**more)


def paths_read(monkeypatch):
    read, digest_of = list[str](), Folder.digest_of
    monkeypatch.setattr(Folder, "digest_of", lambda self, path: read.append(path) or digest_of(self, path))
    return read


def test_manifest_has_no_times_but_the_reading_times_of_files(built):
    folder = built.load().folder
    began = {*times_in(folder).values()}
    assert all(
        timedelta() <= datetime.now(UTC) - datetime.fromisoformat(time) < timedelta(hours=1) for time in began
    )
    content = folder.read(MANIFEST)
    assert content.count(b'"checked_at"') == len(manifest_if_there(folder).named)
    assert b"checked_at" not in without_times(content)
    assert None not in times_in(folder).values()


def test_kept_files_keep_their_reading_times_and_new_files_are_read(built, monkeypatch):
    folder, old = built.load().folder, ago(10)
    as_if_read(folder, old)
    read = paths_read(monkeypatch)
    before = {file.path for file in listed_files(folder)}
    build_here(changed(built))
    times = times_in(folder)
    staying = before & times.keys()
    assert {"best", "worst", "clusters"} <= {path.split("/")[0] for path in staying}
    assert {times[path] for path in staying} == {old}
    new = [file for file in listed_files(folder) if file.path not in staying]
    assert all(file.checked_at > old for file in manifest_if_there(folder).named)
    assert all(file.checked_at > old for file in new)
    assert not [path for path in read if path.startswith("published/")]
    assert len(read) == len(new)


@pytest.mark.slow
@pytest.mark.parametrize(("days", "after"), [(40, "30d"), (0, "0m"), (3, "2d"), (15, "2w")])
def test_decayed_kept_file_is_found_by_its_age_and_published_again(built, days, after, caplog):
    recipe = changed(built, storage=str(built.folder / "right"))
    build_here(recipe)
    right = contents(recipe)
    folder = built.load().folder
    as_if_read(folder, ago(days))
    shard = next(shard for shard in shards_of(built.load(), "publish") if "/worst/" in shard.path)
    path = next(file.path for file in listed_files(folder) if file.sha256 == shard.digest)
    rot(*(built.folder / "out/small" / name for name in (f"published/{path}", shard.path)))
    recipe = changed(built, reread_after=after)
    build_here(recipe)
    assert f"{path} has another content than was written; it is published again" in caplog.text
    assert contents(recipe) == right
    assert min(times_in(folder).values()) > ago(0.1)


def test_file_with_an_old_reading_time_makes_the_corpus_incomplete(built, monkeypatch):
    recipe = built.load()
    folder, before = recipe.folder, recipe.folder.read(MANIFEST)
    as_if_read(folder, ago(29))
    assert ledger_if_complete(recipe) is not None
    as_if_read(folder, ago(31))
    assert ledger_if_complete(recipe) is None
    read = paths_read(monkeypatch)
    build_here(recipe)
    assert len(read) == len(listed_files(folder)) + len(manifest_if_there(folder).named)
    assert ledger_if_complete(recipe) is not None
    assert folder.read(MANIFEST) == before  # other corpora identify the corpus by its manifest
    as_if_read(folder, ago(31))
    assert ledger_if_complete(built.load(reread_after="8w")) is not None


def test_files_of_one_build_are_due_at_different_times():
    digests = [f"{i * 0x01000000:08x}" + "0" * 56 for i in range(256)]
    after = timedelta(days=30)

    def read(time):
        return pa.table({"sha256": digests, "checked_at": pa.array([time] * 256, pa.string())})

    counts = [len(readings.due_for_reading(read(ago(days)), after)) for days in (14, 20, 25, 31)]
    assert counts[0] == 0
    assert counts[-1] == 256
    assert 70 < counts[1] < 100
    assert 150 < counts[2] < 190
    assert len(readings.due_for_reading(read(None), after)) == 256
    assert len(readings.due_for_reading(read(ago(0)), timedelta())) == 256


@pytest.mark.parametrize(
    ("url", "stamp", "is_compared"),
    [
        ("s3://bucket/corpus", "3|ETag=abc", True),
        ("gs://bucket/corpus", "3|md5Hash=abc", True),
        ("gs://bucket/corpus", "3|updated=abc", False),
        ("/a/corpus", "3|mtime=1.5", False),
        ("memory://corpus", "3|created=abc", False),
    ],
)
def test_checksum_kept_by_a_store_counts_as_a_reading(url, stamp, is_compared):
    old = ago(20)
    known = {"path": ["a", "b", "c"], "stamp": [stamp] * 3, "now": [stamp, f"{stamp}d", None]}
    files = pa.table({**known, "checked_at": [old] * 3})
    first, *others = readings.times_checked(Folder(url), files).column("checked_at").to_pylist()
    assert (first > old) is is_compared
    assert others == [old, old]


def test_verify_saves_the_reading_times_of_undamaged_files(built):
    recipe = built.load()
    folder, old = recipe.folder, ago(20)
    before = folder.read(MANIFEST)
    as_if_read(folder, old)
    path = next(file.path for file in listed_files(folder) if file.path.startswith("best/"))
    (built.folder / "out/small/published" / path).unlink()
    assert zyda_here("verify", str(built.path)).returncode == 1
    table = stamps_of(folder, saved_stamps(folder), [""])
    checked = {row["path"]: row["checked_at"] for row in table.to_pylist() if row["path"] != "manifest.json"}
    assert checked.pop(path) == old
    assert min(checked.values()) > old
    assert folder.read(MANIFEST) == before
    build_here(changed(built))
    assert min(times_in(folder).values()) > old


def test_decayed_work_file_on_a_store_is_not_published(tmp_path):
    corpus = Corpus(tmp_path)
    recipe = corpus.load(storage="memory://of-rot")
    build_here(recipe)
    right, folder = contents(recipe), recipe.folder
    for path in [path for path in folder.files("work/publish") if path.endswith(".parquet")]:
        content = bytearray(folder.read(path))
        content[len(content) // 2] ^= 1
        folder.write(path, bytes(content))
    folder.delete("published")
    build_here(recipe)
    assert contents(recipe) == right


def with_another_digit(folder):
    """Change a digit of the manifest; keep its size and time."""
    path = folder / "out/small" / MANIFEST
    before, text = path.stat(), path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(text.replace(b'"tokens": 2391', b'"tokens": 2392'))
    assert path.read_bytes() != text
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_commands_refuse_a_manifest_with_a_changed_digit(built):
    recipe = built.load()
    before = contents(recipe)
    with_another_digit(built.folder)
    looks = (PublishedCorpus.of, findings_of, lambda recipe: nearest(recipe, "a text"))
    for look in (*looks, lambda recipe: explain(recipe, "0")):
        with pytest.raises(Denied, match=r"manifest\.json is not as it was published; zyda verify --repair"):
            look(recipe)
    _, line = islice(corpus_lines(str(built.path), None, None), 2)
    assert line.endswith(
        "published/manifest.json is not as it was published; zyda verify --repair repairs it"
    )
    assert zyda_here("verify", str(built.path)).returncode == 1
    assert ledger_if_complete(recipe) is None
    build_here(recipe)
    assert contents(recipe) == before
    assert ledger_if_complete(recipe) is not None


def test_manifest_of_a_build_that_died_while_publishing_is_accepted(built):
    recipe = built.load()
    folder = recipe.folder
    before, content = manifest_if_there(folder), folder.read(MANIFEST)
    expect_manifest(folder, content.replace(b'"tokens": 2391', b'"tokens": 2392'))
    assert manifest_if_there(folder) == before  # the build died before the folders were exchanged
    with_another_digit(built.folder)
    assert manifest_if_there(folder) != before  # the build died after that
    folder.write(MANIFEST, content.replace(b'"tokens": 2391', b'"tokens": 2393'))
    with pytest.raises(Damaged):
        manifest_if_there(folder)
    folder.delete(STAMPS)
    assert manifest_if_there(folder) is not None  # no stamps are saved


DAMAGES = {
    "cut": lambda content: content[:-30],
    "emptied": lambda _: b"",
    "changed": lambda content: b"PAR1" + bytes(len(content) - 8) + b"PAR1",
    "a bit": lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:],
}


@pytest.mark.slow
@pytest.mark.parametrize("place", ["removed", "clusters", "best", "middle", "bands", "audit"])
def test_commands_report_a_damaged_published_file_in_one_line(built, place):
    recipe = built.load()
    (row, *_) = table_of(recipe, "removed")
    paths = sorted((built.folder / "out/small/published" / place).rglob("*.parquet"))
    looks = {
        "explain": lambda: explain(recipe, str(row["doc_id"])),
        "report": lambda: findings_of(recipe),
        "find": lambda: nearest(recipe, SHARED_BY_ALL),
    }
    for name, damage in DAMAGES.items():
        contents = {path: path.read_bytes() for path in paths}
        for path, content in contents.items():
            path.unlink()
            path.write_bytes(damage(content))
        errors = [line for line in map(run_jobs, looks.values()) if line]
        assert errors or name == "a bit"  # the bit may be in an unread part
        assert all(line.endswith("zyda verify --repair repairs it") for line in errors)
        for path, content in contents.items():
            path.write_bytes(content)
        tables.FOOTERS.clear()
    for path in paths:
        path.unlink()
    assert any(paths[0].name in line for line in map(run_jobs, looks.values()))


def run_jobs(look):
    """Return the error of a call as a line; "" if it succeeds."""
    try:
        look()
    except Denied as error:
        (line,) = str(error).splitlines()
        return line
    return ""


@pytest.mark.parametrize("given", ["30", 30, "d", "1.5d", "30 days", "-1d", True, None, "99999d", "1y"])
def test_invalid_duration_is_reported_in_one_line(corpus, given):
    with pytest.raises(BadRecipe) as caught:
        corpus.load(reread_after=given)
    assert str(caught.value).count("\n") == 0
    assert "reread_after: a duration is expected: 90m, 12h, 30d, 8w" in str(caught.value)


def test_reread_after_does_not_change_the_corpus(built):
    assert "reread_after" not in json.loads(built.load().folder.read(MANIFEST))["recipe"]
    assert ledger_if_complete(built.load(reread_after="1d")) is not None
    assert current_stamps(built.load().folder)
