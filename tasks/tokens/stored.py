"""Load the tokenizer that a recipe names, and keep a copy of it with the corpus."""

from collections.abc import Callable
from logging import ERROR, getLogger
from pathlib import Path
from threading import Lock

from cachetools import LRUCache, cached
from tokenizers import Tokenizer

from zyda_flows.tasks.errors import BadRecipe, Damaged
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.log import warn
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.storage.artifacts import WORK
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import digest_of
from zyda_flows.tasks.tokens.engine import TokenEngine
from zyda_flows.tasks.tokens.trial import fault_of_tokenizer

EXACT_SETTING = "ZYDA_TOKENS"  # environment variable; with the value `exact`, tokenizers counts all tokens
UNKNOWN_TEXT = "zydaq \U0010fffd"
TOKENIZER = f"{WORK}/tokenizer-"


def load_tokenizer(name: str) -> Tokenizer:
    """Load a tokenizer from a tokenizer.json or from the hub. Raises BadRecipe if it cannot be loaded or used."""
    try:
        is_file = name.endswith(".json") or Path(name).is_file()
        path = Path(name) if is_file else path_on_hub(name)
        if (size := path.stat().st_size) > limits().tokenizer_bytes:
            raise ValueError(f"it has {size:,} bytes, expected at most {limits().tokenizer_bytes:,}")
        written = path.read_text(encoding="utf-8")
        if fault := fault_of_tokenizer(written):
            raise ValueError(fault)
        tokenizer = Tokenizer.from_str(written)
        tokenizer.encode(UNKNOWN_TEXT, add_special_tokens=False)  # fails without a token for unknown text
        return tokenizer
    except Exception as error:  # the library raises bare exceptions
        raise BadRecipe(
            f"tokenizer: {name} cannot be loaded: {error}; "
            "expected a tokenizer.json or the hub name of a repository with one"
        ) from error


def path_on_hub(name: str) -> Path:
    """Return the local path of the tokenizer.json of a repository on the hub, after downloading it."""
    from huggingface_hub import hf_hub_download  # imported late, because the import is slow

    # The library logs a warning for each retry and raises an error after the last. Its import sets the level.
    getLogger("huggingface_hub").setLevel(ERROR)
    return Path(hf_hub_download(name, "tokenizer.json"))


def store_tokenizer(
    folder: Folder, name: str, special_tokens: SpecialAs, tokenizer: Tokenizer | None = None
) -> str:
    """Write a copy of the tokenizer to the corpus, from which workers read it; return its digest.

    tokenizer: as `load_tokenizer` returned it, if it is loaded; its settings may be changed here.
    """
    loaded = tokenizer or load_tokenizer(name)
    text = loaded.to_str()
    digest = digest_of(text)
    if folder.read_if_there(tokenizer_path(digest)) != text.encode():
        folder.write(tokenizer_path(digest), text.encode())
    if reason := cached_engine(folder, digest, special_tokens, False, lambda: loaded).why_slow:
        warn(f"the tokens of {name} are counted slowly, by tokenizers: {reason}")
    return digest


def token_counter(tokenizer: Tokenizer) -> str:
    """Return which library counts a tokenizer's tokens here, and its speed on the machine of docs/speed.md."""
    reason = TokenEngine(tokenizer).why_slow
    if reason is None:
        return "counted by fastokens, about 100 MB/s of text a core, and checked against tokenizers"
    return f"counted by its own library (tokenizers), about 2 to 3 MB/s of text a core: {reason}"


def tokenizer_path(digest: str) -> str:
    return f"{TOKENIZER}{digest}.json"


def damaged_tokenizers(folder: Folder) -> list[str]:
    """Return the paths of stored tokenizers whose content is not that of their digest."""
    damaged = list[str]()
    for path in folder.files(WORK):
        try:
            if path.startswith(TOKENIZER) and path.endswith(".json"):
                stored_tokenizer(folder, path.removeprefix(TOKENIZER).removesuffix(".json"))
        except Damaged:
            damaged.append(path)
    return damaged


def stored_tokenizer(folder: Folder, digest: str) -> str:
    """Read a stored tokenizer. Raises Damaged if its content is not that of its digest."""
    path = tokenizer_path(digest)
    text = (folder.read_if_there(path) or b"").decode(errors="replace")
    if digest_of(text) != digest:
        raise Damaged(f"{folder.url}/{path} has another content than was written", path)
    return text


def engine_key(
    folder: Folder, digest: str, special_tokens: SpecialAs, is_exact: bool, _: Callable[[], Tokenizer]
) -> tuple[Folder, str, SpecialAs, bool]:
    return folder, digest, special_tokens, is_exact


@cached(LRUCache(maxsize=4), key=engine_key, lock=Lock())
def cached_engine(
    folder: Folder, digest: str, special_tokens: SpecialAs, is_exact: bool, load: Callable[[], Tokenizer]
) -> TokenEngine:
    """Return the engine of a stored tokenizer, which is loaded once for all shards that a process encodes."""
    return TokenEngine(load(), is_exact=is_exact, special_as_text=special_tokens == "text")


def stored_engine(
    folder: Folder, digest: str, special_tokens: SpecialAs, *, is_exact: bool = False
) -> TokenEngine:
    """Return the engine of the stored tokenizer of a corpus. Raises Damaged if the tokenizer has changed."""

    def load() -> Tokenizer:
        return Tokenizer.from_str(stored_tokenizer(folder, digest))

    return cached_engine(folder, digest, special_tokens, is_exact, load)
