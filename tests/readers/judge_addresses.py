"""Ask datatrove's filter which addresses go: run with the readers on the path.

python judge_addresses.py LISTS_AND_ADDRESSES ANSWERS, both of them JSON.
"""

import json
import sys
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters.url_filter import URLFilter
from tldextract import TLDExtract

if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[1]).read_text())
    rules = URLFilter(use_integrated_lists=False, **asked["lists"])
    rules.tldextractor = TLDExtract(cache_dir=None, suffix_list_urls=())  # the list that it brings with it
    answers = {}
    for address in asked["addresses"]:
        found = rules.filter(Document(text="", id="", metadata={"url": address}))
        answers[address] = None if found is True else found[1]
    Path(sys.argv[2]).write_text(json.dumps(answers))
