"""The report as an HTML page: a single file without external resources, round_suffix can be printed."""

from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files

from jinja2 import Environment

from zyda_flows.flows.reporting import audit_plots, cluster_plots, plots
from zyda_flows.flows.reporting.report_about import ABOUT
from zyda_flows.flows.reporting.report_agreement import agreements
from zyda_flows.flows.reporting.report_comparison import comparison
from zyda_flows.flows.reporting.report_head import head, recipe_text
from zyda_flows.flows.reporting.report_judges import curves, judges, pairs, thresholds
from zyda_flows.flows.reporting.report_parts import Fact, Section, Table, Text, count
from zyda_flows.flows.reporting.report_passages import passages
from zyda_flows.flows.reporting.report_plan import taken
from zyda_flows.flows.reporting.report_semantic import semantic_pairs
from zyda_flows.tasks.accounts.audited import MEASURES
from zyda_flows.tasks.accounts.ledger import Ledger
from zyda_flows.tasks.accounts.ledger_summary import TokenPath, token_paths
from zyda_flows.tasks.lookup.report_findings import AuditFindings, Findings, RoundFindings, ShownCluster
from zyda_flows.tasks.publish.audits import SIMILARITIES
from zyda_flows.tasks.recipe.fields import Recipe

PAGE = "report.html"
MANY_ROWS = 30  # of a table that is collapsed at first
MOST_SOURCES = 8  # in a line


def page(recipe: Recipe, findings: Findings, chapters: Sequence[Section]) -> str:
    """Return the page with the sections of `sections`."""
    about = Fact("About this corpus", "duplicates in the form that papers use", link=ABOUT)
    first, *more = head(recipe, findings)
    return render_page(recipe.corpus, "report", [first, about, *more], recipe_text(findings), chapters)


def about_page(recipe: Recipe, findings: Findings, chapters: Sequence[Section]) -> str:
    """Return the page about the corpus, with the sections of `about_sections`."""
    head_of_about = [*head(recipe, findings)[:1], Fact("The report", "the last build", link=PAGE)]
    return render_page(recipe.corpus, "about this corpus", head_of_about, None, chapters)


def render_page(
    name: str, title: str, lines: list[Fact], recipe: Text | None, chapters: Sequence[Section]
) -> str:
    """Return a page with a head and sections."""
    template = Environment(autoescape=True).from_string(
        (files("zyda_flows.flows.reporting") / PAGE).read_text()
    )
    return template.render(
        name=name, title=title, head=lines, recipe=recipe, sections=chapters, many=MANY_ROWS
    )


def tokens(findings: Findings) -> Iterator[Section]:
    """Yield what remains of each source, as bars and as a table."""
    note = "Tokens at the start, and after each stage that removed or cut documents."
    yield Section("Tokens", [note], plots.funnel(findings.ledger), [table_of_ways(findings.ledger)])


def table_of_ways(ledger: Ledger) -> Table:
    """List documents and tokens of each source at the start and at the end, and tokens in between."""
    names = ["", "documents", "published", "tokens"]  # short, for the dashboard's column
    names += [*(f"after {stage}" for stage in ledger.stages_between), "published", "kept"]
    return Table(
        "By source", names, [cells(token_path) for token_path in token_paths(ledger)], has_total=True
    )


def cells(token_path: TokenPath) -> list[str]:
    kept = f"{token_path.end.tokens / token_path.start.tokens:.1%}" if token_path.start.tokens else ""
    left = (token_path.start, *token_path.between, token_path.end)
    return [
        token_path.source, count(token_path.start.documents), count(token_path.end.documents),
        *(count(counts.tokens) for counts in left), kept,
    ]  # fmt: skip


def composition(findings: Findings) -> Iterator[Section]:
    """Yield the share of each source in the tokens."""
    yield Section("Composition", ["The share of each source in the tokens."], plots.composition(findings))


def lengths(findings: Findings) -> Iterator[Section]:
    """Yield the lengths of the published documents."""
    notes = ["Tokens of each published document."]
    if not_drawn := findings.documents.not_drawn:
        notes.append(
            f"{count(not_drawn)} documents without tokens, or with more than a million, are not shown."
        )
    yield Section("Lengths", notes, plots.lengths(findings))


def rules(findings: Findings) -> Iterator[Section]:
    """Yield the shares of documents that each rule removed, if a rule removed any."""
    if not findings.rules:
        return
    note = (
        "The share of the documents of each source that a rule removed. A document counts for the first rule it "
        "broke; on the right, the share of them that broke another one, too, as far as that was looked at."
    )
    yield Section("Removals by rules", [note], cluster_plots.rules(findings))


def rounds(findings: Findings) -> Iterator[Section]:
    """Yield the sections of each round of deduplication."""
    for dedup_round in findings.rounds:
        yield from round_sections(dedup_round, findings)


def round_sections(dedup_round: RoundFindings, findings: Findings) -> Iterator[Section]:
    """Yield the sections about the clusters of a round."""
    ledger, stats = findings.ledger, dedup_round.clusters
    round_suffix = f", round {dedup_round.number}" if len(findings.rounds) > 1 else ""
    if stats is not None:
        note = f"{count(stats.documents)} documents are in {count(stats.clusters)} clusters."
        section = Section(f"Sizes of duplicate clusters{round_suffix}", [note])
        if few := cluster_plots.few_sizes(ledger, stats):
            section.tables = [Table("Clusters by size", few[0], few[1:])]
        else:
            section.plot = cluster_plots.cluster_sizes(ledger, stats)
        yield section
        note = (
            "Each field: clusters with documents of both sources; on the diagonal, all clusters that have "
            "documents of the source. The colour is the share of the row's clusters."
        )
        shown = len(cluster_plots.shown_sources(ledger, stats))
        fewer = [f"The {shown} sources with most clusters, of {count(len(ledger.sources))}."]
        notes = [note, *(fewer if shown < len(ledger.sources) else [])]
        plot = cluster_plots.shared_clusters(ledger, stats)
        yield Section(f"Clusters shared by sources{round_suffix}", notes, plot)
    if dedup_round.audit:
        yield from audit(dedup_round.audit, round_suffix)
    if dedup_round.largest:
        texts = [text_of_cluster(shown, is_open=not i) for i, shown in enumerate(dedup_round.largest)]
        note = "How the first document of each cluster begins, and the differences (- and +) of its last document."
        yield Section(f"The largest clusters{round_suffix}", [note], texts=texts)


def audit(findings: AuditFindings, round_suffix: str) -> Iterator[Section]:
    """Yield the sections about an audit."""
    sentence = findings.headline.sentence()
    notes = [f"{sentence} By length: the share of dissimilar pairs among pairs up to a number of characters."]
    unlike = [[f"up to {length:,}", f"{share:.1%}"] for length, share in findings.by_length]
    yield Section(
        f"Similarity of removed documents to the kept ones{round_suffix}",
        notes,
        audit_plots.unlike(findings),
        [Table("Dissimilar pairs by characters of the removed document", ["", "dissimilar"], unlike)],
    )
    below = [f"< {place}" for place in SIMILARITIES]
    names = ["", "pairs", *below, f"< {findings.headline.threshold:.2f}, the threshold"]
    rows = [
        [row.name, count(row.pairs), *(f"{share:.1%}" for share in row.below)] for row in findings.by_source
    ]
    title = f"Pairs below a {MEASURES[findings.headline.measure]}"
    table = Table(title, names, rows, has_total=len(rows) > 1)
    texts = [Text(pair.sentence(), (("", "\n".join(pair.lines[2:])),)) for pair in findings.worst]
    name = f"The removed documents that are least similar to the kept ones{round_suffix}"
    yield Section(name, [f"{count(findings.headline.pairs)} pairs were audited."], "", [table], texts)


def text_of_cluster(shown: ShownCluster, *, is_open: bool) -> Text:
    """Return the texts of one of the largest clusters."""
    cluster = shown.cluster
    most = sorted(cluster.sources.items(), key=lambda one: -one[1])
    sources = [f"{source} {count(documents)}" for source, documents in most[:MOST_SOURCES]]
    if other_sources := most[MOST_SOURCES:]:
        sources.append(
            f"{len(other_sources)} others {count(sum(documents for _, documents in other_sources))}"
        )
    summary = f"cluster {cluster.cluster_id}: {count(cluster.documents)} documents ({', '.join(sources)})"
    first, last = (f"{place.source}, {place.file}, row {place.row}" for place in (shown.first, shown.last))
    parts = [(first, shown.beginning)]
    if shown.lines:
        parts.append((f"from that to {last}", "\n".join(shown.lines)))
    return Text(summary, tuple(parts), is_open)


def labels(findings: Findings) -> Iterator[Section]:
    """Yield the labels of a quality model, and how they agree in a cluster, if documents have labels."""
    if not findings.documents.labels:
        return
    counts = findings.documents.different_labels
    several = sum(counts.values())
    mixed = several - counts.get(1, 0)
    clusters = f"clusters of round {findings.labels_round}" if len(findings.rounds) > 1 else "clusters"
    note = f"Of {count(several)} {clusters} with several labelled documents, {count(mixed)} have different labels."
    yield Section("Quality labels", [note], plots.labels(findings))


# A chapter yields no section if the corpus has nothing to show in it.
CHAPTERS: tuple[Callable[[Findings], Iterator[Section]], ...] = (
    tokens, comparison, composition, lengths, rules, rounds, semantic_pairs, passages, judges, curves, thresholds,
    pairs, labels, agreements, taken,
)  # fmt: skip


def sections(findings: Findings) -> Iterator[Section]:
    """Yield the sections of all chapters."""
    for chapter in CHAPTERS:
        yield from chapter(findings)
