"""Verify the deny lists of a corpus, and the tables of addresses that they name: no build can make them again."""

from collections.abc import Iterator

from zyda_flows.tasks.documents.address_tables import REMEDY, table_path
from zyda_flows.tasks.documents.deny_list import requests_in
from zyda_flows.tasks.erasure.shard_search import lists_of_corpus
from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.recipe.fields import DENIED, Recipe


def faults_of_requests(recipe: Recipe) -> Iterator[str]:
    """Read the deny lists in the folder of a corpus and their tables; yield a sentence for each damaged file."""
    folder, tables = recipe.folder, set[str]()
    for file in lists_of_corpus(recipe):
        try:
            requests = [*requests_in(file, DENIED)]
        except BadInput as error:
            yield from error.faults
            continue
        tables |= {request.addresses_sha256 for request in requests if request.addresses_sha256}
    for digest in sorted(tables):
        path = table_path(digest)
        if difference := folder.difference(path, folder.size_of(path) or 0, digest):
            yield f"{folder.url}/{path} {difference}, but a deny list names it; {REMEDY}"
