"""Find and check the inputs of a mixture: the published files of its corpora, and its tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
from tokenizers import Tokenizer

from zyda_flows.tasks.accounts.published import MANIFEST, PUBLISHED
from zyda_flows.tasks.corpus.published_corpus import REPUBLISHED, PublishedCorpus
from zyda_flows.tasks.errors import BadRecipe, Denied, ZydaError
from zyda_flows.tasks.ids import BITS
from zyda_flows.tasks.mixing.mixture import Mixture, Part, faults_with_lines
from zyda_flows.tasks.quality.keep import fault
from zyda_flows.tasks.recipe.values import SpecialAs
from zyda_flows.tasks.storage.artifacts import Artifact
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.storage.tables import Section, footer_of, sections_of
from zyda_flows.tasks.tokens.stored import load_tokenizer, store_tokenizer

WIDE_VOCABULARY = (
    65_500  # vocabulary from which ids have four bytes; Megatron's readers disagree up to 65,536
)
SECTION_BYTES = 256 << 20  # of text in a section of a published file
AMBIGUOUS_VOCABULARIES = range(WIDE_VOCABULARY, 65_537)


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A section of a published file of documents, with the number of its corpus and its source.

    A section has about SECTION_BYTES of text, because some tasks hold the texts of a section in memory.
    """

    corpus: int
    source: str
    artifact: Artifact
    section: Section

    @property
    def is_first(self) -> bool:
        return self.section[0] == 0


@dataclass(frozen=True)
class Encoding:
    """How documents become ids.

    digest: digest of the tokenizer. special_tokens: treatment of special tokens in texts. width: bytes of an id.
    before, after: ids that are added around each document.
    """

    digest: str
    special_tokens: SpecialAs
    vocabulary: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def width(self) -> int:
        return 2 if self.vocabulary < WIDE_VOCABULARY else 4

    @property
    def around(self) -> int:
        """The number of tokens that are added around each document."""
        return len(self.before) + len(self.after)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a mixture.

    corpora: as they were published when it was planned. files: in the order of corpora.
    """

    mixture: Mixture
    corpora: tuple[PublishedCorpus, ...]
    files: tuple[PublishedFile, ...]
    encoding: Encoding

    @property
    def folder(self) -> Folder:
        return self.mixture.folder

    @property
    def corpus_folders(self) -> list[Folder]:
        """The folders of the corpora, except for published folders without a corpus folder."""
        end = f"/{PUBLISHED}"
        return [Folder(corpus.url.removesuffix(end)) for corpus in self.corpora if corpus.url.endswith(end)]

    def salt(self, *words: object) -> int:
        """Return 64 bits from a hash of the seed and the words."""
        return salt_of(self.mixture.seed, *words)

    def draw_salt(self, corpus: int) -> int:
        """Return the salt of the draws of a corpus's documents."""
        return self.salt("draw", self.corpora[corpus].label)

    def cluster_salt(self, corpus: int) -> int:
        """Return the salt of the names of a corpus's clusters."""
        return salt_of("clusters", self.corpora[corpus].label)

    def source_of(self, file: PublishedFile) -> str:
        """Return the folder of a file's artifacts.

        It has the corpus's name, because sources of corpora can share names.
        """
        return f"{self.corpora[file.corpus].label}/{file.source}"

    def labels(self) -> list[str]:
        return [corpus.label for corpus in self.corpora]

    def parts_of(self, file: PublishedFile) -> list[tuple[int, Part]]:
        """Return the parts that can contain documents of a file, with their numbers."""
        return [
            (number, part)
            for number, part in enumerate(self.mixture.parts)
            if (not part.corpora or self.corpora[file.corpus].label in part.corpora)
            and (not part.sources or file.source in part.sources)
        ]

    def is_counted(self, corpus: int) -> bool:
        """Return whether the published token counts of a corpus hold for the mixture."""
        return self.has_tokenizer_of(corpus) and not self.is_counted_otherwise(corpus)

    def has_tokenizer_of(self, corpus: int) -> bool:
        return self.corpora[corpus].manifest.tokenizer.get("digest") == self.encoding.digest

    def is_counted_otherwise(self, corpus: int) -> bool:
        """Return whether a corpus has the mixture's tokenizer but treats special tokens in texts differently."""
        became = self.corpora[corpus].manifest.tokenizer.get("special_tokens")
        return self.has_tokenizer_of(corpus) and became != self.encoding.special_tokens


def salt_of(*words: object) -> int:
    return int.from_bytes(sha256(repr(words).encode()).digest()[:8])


def inputs_of(mixture: Mixture) -> Inputs:
    """Return the inputs of a mixture. Raises BadRecipe with every fault and its line, and Denied."""
    with faults_with_lines(mixture):
        return checked_inputs(mixture)


def checked_inputs(mixture: Mixture) -> Inputs:
    """Return the inputs of a mixture. Raises BadRecipe with every fault, and Denied."""
    mixture.folder.check_writable()
    if mixture.folder.exists(f"{PUBLISHED}/{MANIFEST}"):
        raise BadRecipe(
            f"storage, name: {mixture.folder.url}: a corpus is stored there; choose another name or storage"
        )
    faults, corpora = list[str](), list[PublishedCorpus]()
    for url in mixture.corpora:
        try:
            corpora.append(PublishedCorpus.at(url))
            if corpora[-1].manifest.id_bits != BITS:
                faults.append(f"corpora: {url}: its doc_ids have another format; build it again")
        except ZydaError as error:
            faults.append(f"corpora: {error}")
    labels = [corpus.label for corpus in corpora]
    if twice := next((label for label in labels if labels.count(label) > 1), None):
        faults.append(f"corpora: two corpora have the name {twice}; remove one")
    try:
        encoding = encoding_of(mixture)
    except BadRecipe as error:
        faults += error.faults
    if faults:
        raise BadRecipe(*faults)
    files = [
        PublishedFile(corpus=number, source=source, artifact=artifact, section=section)
        for number, corpus in enumerate(corpora)
        for source in corpus.manifest.ledger.sources
        for artifact in corpus.artifacts(f"{source}/")
        for section in sections_of(artifact, SECTION_BYTES)
    ]
    inputs = Inputs(mixture, tuple(corpora), tuple(files), encoding)
    faults = part_faults(inputs)
    if faults:
        raise BadRecipe(*faults)
    return inputs


def encoding_of(mixture: Mixture) -> Encoding:
    """Load the tokenizer and look up the tokens around documents. Raises BadRecipe."""
    tokenizer = load_tokenizer(mixture.tokenizer)
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if vocabulary in AMBIGUOUS_VOCABULARIES and "megatron" in mixture.formats:
        raise BadRecipe(
            f"tokenizer: Megatron's readers disagree on the size of ids for a vocabulary between "
            f"{WIDE_VOCABULARY:,} and 65,536, and this one has {vocabulary:,}; remove the format megatron"
        )
    around = {
        name: (token_id(tokenizer, name, token),) if token is not None else ()
        for name, token in (("begin", mixture.begin), ("end", mixture.end))
    }
    if mixture.packed and not around["end"]:
        raise BadRecipe("packed: sequences are filled with the end-of-document token; set `end`")
    digest = store_tokenizer(mixture.folder, mixture.tokenizer, mixture.special_tokens, tokenizer)
    return Encoding(
        digest, mixture.special_tokens, max(vocabulary, largest + 1), around["begin"], around["end"]
    )


def token_id(tokenizer: Tokenizer, name: str, token: str) -> int:
    """Return the id of a token. Raises BadRecipe if the tokenizer has no such token."""
    number = tokenizer.token_to_id(token)
    if number is None:
        added = [entry.content for entry in tokenizer.get_added_tokens_decoder().values() if entry.special]
        known = f"; its special tokens are {', '.join(added[:8])}" if added else ""
        raise BadRecipe(f"{name}: the tokenizer has no token {token!r}{known}")
    return int(number)


def part_faults(inputs: Inputs) -> list[str]:
    """Return the faults of the parts with respect to the published corpora."""
    known = {source for corpus in inputs.corpora for source in corpus.manifest.ledger.sources}
    faults = list[str]()
    for number, part in enumerate(inputs.mixture.parts):
        where = f"parts[{number}] {part.name}"
        faults += [f"{where}: there is no corpus {label}; the corpora are {', '.join(inputs.labels())}"
                   for label in part.corpora if label not in inputs.labels()]  # fmt: skip
        faults += [f"{where}: there is no source {name}; the sources are {', '.join(sorted(map(str, known)))}"
                   for name in part.sources if name not in known]  # fmt: skip
        files = [
            file
            for file in inputs.files
            if any(number == part_number for part_number, _ in inputs.parts_of(file))
        ]
        if not files and {*part.sources} <= known and {*part.corpora} <= {*inputs.labels()}:
            faults.append(f"{where}: it has no documents")
        if part.where is not None:
            faults += where_faults(inputs, where, part.where, files)
    return faults


def where_faults(inputs: Inputs, where: str, expression: str, files: Sequence[PublishedFile]) -> list[str]:
    """Return the faults of a condition on the columns of each source."""
    first = {(file.corpus, file.source): file for file in reversed(files)}
    faults = dict[str, None]()
    for file in first.values():
        if message := fault(expression, schema_of(inputs, file)):
            faults[f"{where}: where: source {file.source}: {message}"] = None
    return list(faults)


def schema_of(inputs: Inputs, file: PublishedFile) -> pa.Schema:
    """Return the schema of a published file. Raises Denied if the file is damaged."""
    corpus = inputs.corpora[file.corpus]
    with corpus.reading():
        return footer_of(corpus.folder, file.artifact).schema.to_arrow_schema()


def expect_same(inputs: Inputs) -> None:
    """Raise Denied if a corpus was published again after the mixture was planned."""
    for corpus in inputs.corpora:
        if not corpus.is_current():
            raise Denied(REPUBLISHED.format(url=corpus.url))
