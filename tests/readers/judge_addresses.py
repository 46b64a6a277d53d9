"""Filter addresses with datatrove. The folder of the readers must be on the path.

python judge_addresses.py LISTS_AND_ADDRESSES ANSWERS. Both are JSON files. An answer is the broken rule, or null.
"""

import json
import sys
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters.url_filter import URLFilter
from tldextract import TLDExtract

if __name__ == "__main__":
    request = json.loads(Path(sys.argv[1]).read_text())
    rules = URLFilter(use_integrated_lists=False, **request["lists"])
    rules.tldextractor = TLDExtract(cache_dir=None, suffix_list_urls=())  # uses the list in its package
    answers = {}
    for address in request["addresses"]:
        result = rules.filter(Document(text="", id="", metadata={"url": address}))
        answers[address] = None if result is True else result[1]
    Path(sys.argv[2]).write_text(json.dumps(answers))
