"""What a mixture is made of: the published files of its corpora, by source, and its tokenizer. All before work."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
from tokenizers import Tokenizer

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import REPUBLISHED, PublishedCorpus
from zyda_flows.tasks.errors import BadRecipe, Denied, ZydaError
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.mixing.mixture import Mixture, Part
from zyda_flows.tasks.quality.keep import fault
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.records import Record
from zyda_flows.tasks.storage.tables import footer_of
from zyda_flows.tasks.tokens.stored import load_tokenizer, store_tokenizer

WIDE = 65_500  # from this vocabulary on ids take four bytes: Megatron's readers differ between it and 65,536
GAP = range(WIDE, 65_537)


class PublishedFile(Record):
    """A published file of documents: of which corpus, by its number, and of which source."""

    corpus: int
    source: str
    artifact: Artifact


@dataclass(frozen=True)
class Encoding:
    """How documents become ids.

    digest: of the tokenizer. special_tokens: what those in texts become. width: bytes of an id. before, after: ids
    around each document.
    """

    digest: str
    special_tokens: SpecialAs
    vocabulary: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def width(self) -> int:
        return 2 if self.vocabulary < WIDE else 4

    @property
    def around(self) -> int:
        """The tokens that each document has besides its own."""
        return len(self.before) + len(self.after)


@dataclass(frozen=True)
class Inputs:
    """What a mixture is made of. corpora: as they were when it was planned. files: in their order."""

    mixture: Mixture
    corpora: tuple[PublishedCorpus, ...]
    files: tuple[PublishedFile, ...]
    encoding: Encoding

    @property
    def folder(self) -> Folder:
        return self.mixture.folder

    @property
    def corpus_folders(self) -> list[Folder]:
        """The folders of the corpora; none of a published folder that lies alone."""
        end = f"/{PUBLISHED}"
        return [Folder(one.url.removesuffix(end)) for one in self.corpora if one.url.endswith(end)]

    def salt(self, *words: object) -> int:
        """Return 64 bits that the seed and some words decide."""
        return salt_of(self.mixture.seed, *words)

    def draw_salt(self, corpus: int) -> int:
        """Return what decides what the documents of a corpus draw."""
        return self.salt("draw", self.corpora[corpus].label)

    def source_of(self, file: PublishedFile) -> str:
        """Return the folder of what is made of a file: corpora may have sources of one name."""
        return f"{self.corpora[file.corpus].label}/{file.source}"

    def labels(self) -> list[str]:
        return [corpus.label for corpus in self.corpora]

    def parts_of(self, file: PublishedFile) -> list[tuple[int, Part]]:
        """Return the parts that documents of a file may be of, by their numbers."""
        return [
            (number, part)
            for number, part in enumerate(self.mixture.parts)
            if (not part.corpora or self.corpora[file.corpus].label in part.corpora)
            and (not part.sources or file.source in part.sources)
        ]

    def is_counted(self, corpus: int) -> bool:
        """Return whether the token counts that a corpus publishes are those of the mixture."""
        return self.has_tokenizer_of(corpus) and not self.is_counted_otherwise(corpus)

    def has_tokenizer_of(self, corpus: int) -> bool:
        return self.corpora[corpus].manifest.tokenizer.get("digest") == self.encoding.digest

    def is_counted_otherwise(self, corpus: int) -> bool:
        """Return whether only the special tokens in texts are something else in the counts of a corpus."""
        became = self.corpora[corpus].manifest.tokenizer.get("special_tokens")
        return self.has_tokenizer_of(corpus) and became != self.encoding.special_tokens


def salt_of(*words: object) -> int:
    return int.from_bytes(sha256(repr(words).encode()).digest()[:8])


def inputs_of(mixture: Mixture) -> Inputs:
    """Find what a mixture is made of. Raises BadRecipe with every fault, and Denied."""
    mixture.folder.check_writable()
    if mixture.folder.exists(f"{PUBLISHED}/{MANIFEST}"):
        raise BadRecipe(
            f"storage, name: {mixture.folder.url}: a corpus lies there; give the mixture another place"
        )
    faults, corpora = list[str](), list[PublishedCorpus]()
    for url in mixture.corpora:
        try:
            corpora.append(PublishedCorpus.at(url))
            if corpora[-1].manifest.id_bits != BITS:
                faults.append(f"corpora: {url}: its doc_ids are of another version; build it again")
        except ZydaError as error:
            faults.append(f"corpora: {error}")
    labels = [corpus.label for corpus in corpora]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        faults.append(f"corpora: two are called {twice}; leave one out")
    try:
        encoding = encoding_of(mixture)
    except BadRecipe as error:
        faults += error.faults
    if faults:
        raise BadRecipe(*faults)
    files = [
        PublishedFile(corpus=number, source=source, artifact=artifact)
        for number, corpus in enumerate(corpora)
        for source in corpus.manifest.ledger.sources
        for artifact in corpus.artifacts(f"{source}/")
    ]
    inputs = Inputs(mixture, tuple(corpora), tuple(files), encoding)
    faults = part_faults(inputs)
    if faults:
        raise BadRecipe(*faults)
    return inputs


def encoding_of(mixture: Mixture) -> Encoding:
    """Load the tokenizer, and find the tokens around documents. Raises BadRecipe."""
    tokenizer = load_tokenizer(mixture.tokenizer)
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if vocabulary in GAP and "megatron" in mixture.formats:
        raise BadRecipe(
            f"tokenizer: a vocabulary of {vocabulary:,}, between {WIDE:,} and 65,536, where Megatron's readers "
            "take ids for two bytes or for four; leave out the format megatron"
        )
    around = {
        name: (token_id(tokenizer, name, token),) if token is not None else ()
        for name, token in (("begin", mixture.begin), ("end", mixture.end))
    }
    if mixture.packed and not around["end"]:
        raise BadRecipe("packed: sequences are filled with the token that ends a document; name it as `end`")
    digest = store_tokenizer(mixture.folder, mixture.tokenizer)
    return Encoding(
        digest, mixture.special_tokens, max(vocabulary, largest + 1), around["begin"], around["end"]
    )


def token_id(tokenizer: Tokenizer, name: str, token: str) -> int:
    """Return the id of a token. Raises BadRecipe where there is none."""
    found = tokenizer.token_to_id(token)
    if found is None:
        added = [one.content for one in tokenizer.get_added_tokens_decoder().values() if one.special]
        known = f"; its special tokens are {', '.join(added[:8])}" if added else ""
        raise BadRecipe(f"{name}: the tokenizer has no token {token!r}{known}")
    return int(found)


def part_faults(inputs: Inputs) -> list[str]:
    """Say what is wrong with the parts, by what is published."""
    known = {source for corpus in inputs.corpora for source in corpus.manifest.ledger.sources}
    faults = list[str]()
    for number, part in enumerate(inputs.mixture.parts):
        where = f"parts[{number}] {part.name}"
        faults += [f"{where}: there is no corpus {one}; there are {', '.join(inputs.labels())}"
                   for one in part.corpora if one not in inputs.labels()]  # fmt: skip
        faults += [f"{where}: there is no source {one}; there are {', '.join(sorted(map(str, known)))}"
                   for one in part.sources if one not in known]  # fmt: skip
        of_part = [file for file in inputs.files if any(number == one for one, _ in inputs.parts_of(file))]
        if not of_part and {*part.sources} <= known and {*part.corpora} <= {*inputs.labels()}:
            faults.append(f"{where}: there are no documents of it")
        if part.where is not None:
            faults += where_faults(inputs, where, part.where, of_part)
    return faults


def where_faults(inputs: Inputs, where: str, expression: str, files: Sequence[PublishedFile]) -> list[str]:
    """Say what is wrong with a condition over the columns of each source, once for each."""
    first = {(file.corpus, file.source): file for file in reversed(files)}
    faults = dict[str, None]()
    for file in first.values():
        if found := fault(expression, schema_of(inputs, file)):
            faults[f"{where}: where: source {file.source}: {found}"] = None
    return list(faults)


def schema_of(inputs: Inputs, file: PublishedFile) -> pa.Schema:
    """Return the published columns of a file. Raises Denied where it is not as it was published."""
    corpus = inputs.corpora[file.corpus]
    with corpus.reading():
        return footer_of(corpus.folder, file.artifact).schema.to_arrow_schema()


def expect_same(inputs: Inputs) -> None:
    """Raise Denied where a corpus was published anew since the mixture was planned."""
    for corpus in inputs.corpora:
        if not corpus.is_current():
            raise Denied(REPUBLISHED.format(url=corpus.url))
