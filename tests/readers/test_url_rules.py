"""The rules on addresses equal RefinedWeb's rules, in datatrove's published implementation.

`make test-readers` installs datatrove into the folder .readers. Without it these tests are skipped.
"""

import json
import os
import random
import subprocess
import sys
import tarfile
from collections import Counter
from itertools import chain, islice
from pathlib import Path

import pytest
from small_corpus import REPOSITORY

from zyda_flows.tasks.documents.url_rules import lists_of, plan_url_rules
from zyda_flows.tasks.recipe.steps.url_rules import UrlRules

READERS = REPOSITORY / ".readers"
ASSETS = READERS / "datatrove/assets"
pytestmark = pytest.mark.skipif(not ASSETS.is_dir(), reason="make test-readers installs datatrove")
THEIRS = {
    "domains": "extra_domains", "urls": "extra_urls", "words": "banned_words", "subwords": "banned_subwords",
    "soft_words": "soft_banned_words",
}  # fmt: skip
RULES = {
    "domain": "domains", "subdomain": "domains", "url": "urls", "hard_blacklisted": "words",
    "soft_blacklisted": "soft_words", "blacklisted_subword": "subwords", None: None,
}  # fmt: skip
LISTS = {
    "domains": ["casino.example.com", "bad.org", "pills.co.uk", "blog.host.net", "a.deep.host.net", "10.1.2.3",
                "xn--mller-kva.de", "under_score.io", "# note.org", "shop.example"],
    "urls": ["news.com/forum/adult", "news.com/a?id=7", "good.org/~user", "https://wiki.net/Page_One"],
    "words": ["xxx", "strip-club", "Hard Core", "4play", "# harmless"],
    "subwords": ["poker", "free porn", "Big-Bet", "sexex", "# innocent"],
    "soft_words": ["cheap", "hot", "girls", "Bonus Code", "18"],
}  # fmt: skip
HOSTS = ["casino.example.com", "example.com", "www.bad.org", "bad.org", "notbad.org", "bad.org.net", "pills.co.uk",
         "www.pills.co.uk", "co.uk", "blog.host.net", "x.blog.host.net", "host.net", "b.a.deep.host.net", "10.1.2.3",
         "10.1.2.4", "xn--mller-kva.de", "under_score.io", "news.com", "good.org", "wiki.net", "note.org", "hot-girls.net",
         "onlinepoker.net", "xxx.net", "shop.example", "a.shop.example", "example.org"]  # fmt: skip
PARTS = ["forum", "adult", "a", "~user", "Page_One", "xxx", "strip", "club", "stripclub", "hardcore", "hard-core",
         "4play", "free", "porn", "free-porn", "freeporn", "bigbet", "big.bet", "video_poker1", "cheap", "hot", "girls",
         "bonuscode", "bonus-code", "18", "harmless", "innocent", "news", "2024", "index.html", "%70oker", "a%20b",
         "cheapest", "shots", "the-hot-18", ""]  # fmt: skip


def plain_addresses(count, seed):
    """Return addresses in the normal form of browsers, without a scheme."""
    rng = random.Random(seed)
    addresses = [
        "news.com/forum/adult",
        "news.com/a?id=7",
        "good.org/~user",
        "wiki.net/Page_One",
        "example.org/",
    ]
    for _ in range(count):
        path = "/".join(rng.choices(PARTS, k=rng.randrange(4)))
        query = rng.choice(["", "", f"?id={rng.choice(PARTS)}", f"?q={rng.choice(PARTS)}&p=7"])
        addresses.append(f"{rng.choice(HOSTS)}/{path}{query}")
    return list(dict.fromkeys(addresses))


def write_lists(folder, lists):
    for kind, lines in lists.items():
        (folder / kind).write_text("".join(f"{line}\n" for line in lines))
    return lists_of(plan_url_rules(UrlRules(**{kind: str(folder / kind) for kind in lists})))


def ask_datatrove(folder, lists, addresses):
    """Return the rule of datatrove that each address breaks. datatrove compares addresses and lists as written."""
    urls = [line if "://" in line else f"https://{line}" for line in lists.get("urls", ())]
    datatrove_lists = {THEIRS[kind]: lines for kind, lines in {**lists, "urls": urls}.items() if lines}
    (folder / "asked.json").write_text(json.dumps({"lists": datatrove_lists, "addresses": addresses}))
    script, answers = Path(__file__).with_name("judge_addresses.py"), folder / "answers.json"
    environment = {**os.environ, "PYTHONPATH": str(READERS)}
    command = [sys.executable, "-P", script, folder / "asked.json", answers]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    return {address: RULES[rule] for address, rule in json.loads(answers.read_text()).items()}


def host_of(address):
    return address.partition("://")[2].partition("/")[0]


# Intended differences: (reason, condition on the address, our rule and the rule of datatrove), by name.
CLASSES = {
    "domains between": (
        "a domain takes all below it with it; they look at the host and at its registered domain alone",
        lambda address, ours, theirs: (
            ours[0] == "domains" and ours[1] in LISTS["domains"] and host_of(address).endswith("." + ours[1])
        ),
    ),
    "numbers": (
        "a host may be listed by its number, as UT1's are; they see no domain in one",
        lambda address, ours, theirs: ours == ("domains", "10.1.2.3") and host_of(address) == ours[1],
    ),
    "no public suffix": (
        "a domain is one without a suffix that is known today, too",
        lambda address, ours, theirs: ours == ("domains", "shop.example") and host_of(address) == ours[1],
    ),
    "below an address": (
        "an address takes those below it with it, and those that ask it for something; they want the same letters",
        lambda address, ours, theirs: (
            ours[0] == "urls" and address.removeprefix("https://").startswith(ours[1]) and theirs != "domains"
        ),
    ),
    "order": (
        "an address that breaks two rules goes by the strict one: subwords before soft words",
        lambda address, ours, theirs: (ours[0], theirs) == ("subwords", "soft_words"),
    ),
    "escapes": (
        "an escaped letter is that letter, as RFC 3986 has it",
        lambda address, ours, theirs: theirs is None and ours == ("subwords", "poker") and "%70oker" in address,
    ),
    "scheme": (
        "the s of https is in no word: https://exexample.org has no sexex",
        lambda address, ours, theirs: (
            theirs == "subwords" and "poker" not in address and "httpsex" in address.replace("://", "")
        ),
    ),
}  # fmt: skip


def test_plain_addresses_break_the_same_rules_except_intended_differences(tmp_path):
    lists = write_lists(tmp_path, LISTS)
    addresses = [
        f"https://{address}" for address in [*plain_addresses(6000, 1), "exexample.org/", "exexample.org/18"]
    ]
    expected = ask_datatrove(tmp_path, LISTS, addresses)
    equal, differences = Counter(), Counter()
    for address in addresses:
        ours, theirs = lists.broken_by(address) or (None, ""), expected[address]
        if ours[0] == theirs:
            equal[theirs] += 1
            continue
        names = [name for name, (_, holds) in CLASSES.items() if holds(address, ours, theirs)]
        assert len(names) == 1, (address, ours, theirs, names)
        differences[names[0]] += 1
    assert set(differences) == set(CLASSES), differences
    assert set(equal) == {*LISTS, None}
    assert min(equal.values()) > 2, equal
    assert equal[None] > 500


def with_host(change):
    return lambda address: f"https://{change(address.partition('/')[0])}/{address.partition('/')[2]}"


# Other notations of an address, for which datatrove sometimes has another answer, with the reason for our answer.
WAYS = {
    "by http": (lambda address: f"http://{address}", "the same page by another protocol"),
    "capitals in the host": (with_host(str.upper), "hosts are the same in capitals"),
    "capitals in the scheme": (lambda address: f"HTTPS://{address}", "so are schemes"),
    "dot behind the host": (with_host(lambda host: host + "."), "it is the same host"),
    "port": (with_host(lambda host: host + ":443"), "443 is what HTTPS has"),
    "user": (with_host(lambda host: "xxx:poker@" + host), "a name and password are no part of the address"),
    "host in percents": (
        with_host(lambda host: f"%{ord(host[0]):x}{host[1:]}"),
        "browsers decode them in hosts",
    ),
    "dots in the path": (with_host(lambda host: f"{host}/xxx/.."), "browsers resolve them"),
    "backslashes": (lambda address: f"https:\\\\{address}", "browsers take them as slashes"),
    "a tab inside": (lambda address: f"https://{address[:2]}\t{address[2:]}", "browsers take it away"),
    "spaces around": (lambda address: f"  https://{address} ", "browsers take them away"),
    "fragment": (lambda address: f"https://{address}#xxx", "what follows # is a place in the same page"),
    "no scheme": (lambda address: address, "an address in a list has none either"),
    "no protocol": (lambda address: f"//{address}", "protocol-relative"),
}


def test_other_notations_of_an_address_break_the_same_rule(tmp_path):
    lists = write_lists(tmp_path, LISTS)
    plain = [original for original in plain_addresses(400, 2) if not original.startswith("10.")]
    written = {name: [write(original) for original in plain] for name, (write, _) in WAYS.items()}
    theirs = ask_datatrove(
        tmp_path, LISTS, [f"https://{original}" for original in plain] + list(chain(*written.values()))
    )
    differs = Counter()
    for name, addresses in written.items():
        for original, address in zip(plain, addresses, strict=True):
            assert lists.broken_by(address) == lists.broken_by(f"https://{original}"), (name, address)
            differs[name] += theirs[address] != theirs[f"https://{original}"]
    assert set(WAYS) == set(+differs), differs


NO_ADDRESSES = ["mailto:xxx@bad.org", "javascript:xxx", "data:text/html,xxx", "xxx", "/xxx/poker", "https://", "http:///",
                "https://[xxx]/", "https://bad.org:99999/", "about:blank", "\x00", "?xxx"]  # fmt: skip


def test_other_addresses_break_no_rule(tmp_path):
    lists = write_lists(tmp_path, LISTS)
    assert [address for address in NO_ADDRESSES if lists.broken_by(address)] == []


def test_unicode_domains_equal_punycode_domains(tmp_path):
    listed = {"domains": ["müller.de", "Пример.рф", "*.faß.de"]}
    lists = write_lists(tmp_path, listed)
    in_punycode = {"domains": ["xn--mller-kva.de", "xn--e1afmkfd.xn--p1ai", "xn--fa-hia.de"]}
    addresses = [f"https://{host}/x" for host in [*in_punycode["domains"], "muller.de", "xn--e1afmkfd.de"]]
    expected = ask_datatrove(tmp_path, in_punycode, addresses)
    assert {address: (lists.broken_by(address) or [None])[0] for address in addresses} == expected
    assert lists.broken_by("https://www.MÜLLER.de/")[0] == "domains"


def shipped(most):
    """Return the lists in datatrove's package. most: number of lines of the two long lists."""
    files = {"words": "banned_words", "subwords": "banned_subwords", "soft_words": "soft_banned_words"}
    lists = {kind: (ASSETS / f"{name}.txt").read_text().split("\n")[:-1] for kind, name in files.items()}
    with tarfile.open(next(ASSETS.glob("url_filterblacklists*.tar.gz"))) as tar:
        for kind in ("urls", "domains"):
            lines = islice(tar.extractfile(kind), most)
            lists[kind] = [line.decode().strip() for line in lines]
    return lists


def test_lists_of_datatrove_are_read_like_datatrove(tmp_path):
    lists = shipped(20_000)
    ours = write_lists(tmp_path, lists)
    rng = random.Random(5)
    words = [
        line.lower() for kind in ("words", "subwords", "soft_words") for line in lists[kind] if line[0] != "#"
    ]
    paths = ["-".join(rng.choices([*words, "news", "of", "today"], k=3)).replace(" ", rng.choice(["", "-"]))
             for _ in range(3000)]  # fmt: skip
    addresses = [f"http://{rng.choice(lists['domains'])}/" for _ in range(500)]
    addresses += [f"https://{line}" for line in rng.sample(lists["urls"], 500)]
    addresses += [f"http://museum.de/{path}" for path in paths] + [
        f"http://{path}.de/" for path in paths[:500]
    ]
    theirs = ask_datatrove(tmp_path, lists, addresses)
    kinds = Counter()
    for address in addresses:
        rule = (ours.broken_by(address) or [None])[0]
        is_order = (rule, theirs[address]) == ("subwords", "soft_words")
        is_number = rule == "domains" and host_of(address).replace(".", "").isdigit()
        assert rule == theirs[address] or is_order or is_number, (address, rule, theirs[address])
        kinds[theirs[address]] += 1
    assert set(kinds) == {*LISTS, None}
