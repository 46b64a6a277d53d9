"""A snapshot read from an overloaded server, which forbids requests, is busy, breaks off or sends other parts."""

import gzip
import http.server
import random
import re
import threading
from collections import Counter

import fsspec
import pyarrow.parquet as pq
import pytest
from small_corpus import TOKENIZER, build_here
from web_archives import RECORDS, page

from zyda_flows.tasks.recipe.loading import load_recipe
from zyda_flows.tasks.sources import web_files
from zyda_flows.tasks.storage import failures, stores

LIST = "crawl-data/CC-MAIN-2024-99/warc.paths.gz"


class Crawl:
    """A server of files that fails a third of all requests, in different ways."""

    def __init__(self, files):
        self.files, self.chosen, self.did = files, random.Random(3), Counter()
        crawl = self

        class Answering(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.answer(with_body=False)

            def do_GET(self):
                self.answer(with_body=True)

            def answer(self, with_body):
                content = crawl.files.get(self.path.strip("/"))
                fault = crawl.fault(with_body=with_body)
                if content is None or fault in (403, 503, "later"):
                    status = 404 if content is None else 503 if fault == "later" else fault
                    return self.send(status, b"", {"Retry-After": 0} if fault == "later" else {}, with_body)
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                if asked is None:
                    return self.send(200, content, {}, with_body)
                first, last = int(asked[1]), min(int(asked[2]), len(content) - 1)
                start = first + 1 if fault == "other part" else first
                where = {"Content-Range": f"bytes {start}-{last}/{len(content)}"}
                self.send(206, content[first : last + 1], where, with_body, breaks=fault == "breaks off")
                return None

            def send(self, status, body, headers, with_body, breaks=False):
                self.send_response(status)
                for name, value in {"Content-Length": len(body), "ETag": '"one"', **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                if with_body:
                    self.wfile.write(body[: len(body) // 2] if breaks else body)
                self.close_connection = breaks

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"

    def fault(self, with_body):
        fault = None
        if self.chosen.random() < 0.34:
            fault = self.chosen.choice([403, 503, "later"] + ["breaks off", "other part"] * with_body)
            self.did[fault] += 1
        return fault


@pytest.fixture
def crawl(monkeypatch):
    monkeypatch.setattr(failures, "HOSTS_THAT_FORBID_WHEN_BUSY", {"127.0.0.1"})
    monkeypatch.setattr(failures, "USUAL_WAIT", 0.01)
    monkeypatch.setattr(stores, "LEAST_WAIT", 0.0)
    monkeypatch.setattr(stores, "SECONDS_BEFORE_ASKING_AGAIN", (0.0,) * 20)
    monkeypatch.setattr(web_files, "AHEAD", 1 << 11)
    names = [f"crawl-data/CC-MAIN-2024-99/segments/1/warc/{i:05d}.warc.gz" for i in range(6)]
    files = {
        name: b"".join(gzip.compress(one) for one in [*RECORDS, *(page(f"{i}-{j}") for j in range(20))])
        for i, name in enumerate(names)
    }
    made = Crawl({**files, LIST: gzip.compress("\n".join(names).encode())})
    yield made
    made.server.shutdown()
    made.server.server_close()
    fsspec.get_filesystem_class("http").clear_instance_cache()


def texts_of(folder, source):
    (folder / "recipe.yaml").write_text(
        f"name: {source[:4]}\nstorage: out\ntokenizer: {TOKENIZER}\nsources: [{{name: crawl, {source}}}]\n"
    )
    recipe = load_recipe(str(folder / "recipe.yaml"))
    build_here(recipe)
    table = pq.read_table(folder / f"out/{source[:4]}/published/crawl", columns=["text", "url", "warc_id"])
    return sorted(map(tuple, (row.values() for row in table.to_pylist())))


def test_corpus_does_not_depend_on_failures_of_the_server(crawl, tmp_path):
    for name, content in crawl.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    on_disk = texts_of(tmp_path, "files: 'crawl-data/**/*.warc.gz'")
    assert len(on_disk) > 100
    assert texts_of(tmp_path, f"commoncrawl: {{snapshot: CC-MAIN-2024-99, at: '{crawl.url}'}}") == on_disk
    assert set(crawl.did) == {403, 503, "later", "breaks off", "other part"}
