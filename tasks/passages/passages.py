"""The stage that finds the repeated passages of all sources; the table of passages is published.

It reads the documents that all earlier stages kept, so that no owner of a passage is removed after it. Exempt
sources take no part.
"""

from collections.abc import Sequence
from functools import partial

from zyda_flows.tasks.dedup.preference import Preference, preference_of
from zyda_flows.tasks.ingest.source_plan import SourcePlan
from zyda_flows.tasks.passages.costs import passages_cost
from zyda_flows.tasks.passages.search import PassageSearch
from zyda_flows.tasks.passages.search_jobs import STAGE, VERSION, ShardToSearch, StoredTokenizer
from zyda_flows.tasks.passages.shards import ALL_PARTS, PassagesOfShard
from zyda_flows.tasks.passages.shards import VERSION as SHARDS_VERSION
from zyda_flows.tasks.recipe.fields import Recipe
from zyda_flows.tasks.recipe.passages import PassagePart, with_preference
from zyda_flows.tasks.recipe.rounds import Round
from zyda_flows.tasks.stage.fan_out import fan_out
from zyda_flows.tasks.stage.jobs import Job
from zyda_flows.tasks.stage.shared_files import JoinedTables, groups_of_shards, joined_by_group
from zyda_flows.tasks.stage.stage import stage
from zyda_flows.tasks.stage.verdicts import Trail, load_histories
from zyda_flows.tasks.storage.artifacts import Artifact, Manifest, stage_key
from zyda_flows.tasks.storage.facts import Facts
from zyda_flows.tasks.storage.records import digest_of

JOBS_OF_SHARD = 4  # of a part: fingerprints, which are repeated, contexts, and runs


class CutFacts(Facts):
    """The facts of the manifest: the tables of passages and of cut documents of each shard, by source."""

    cuts: dict[str, tuple[Artifact, ...]] = {}
    passages: dict[str, tuple[Artifact, ...]] = {}


class PassagesOfShards(JoinedTables):
    """The passages of shards that share a published file."""

    stage, version = STAGE, SHARDS_VERSION


def is_searched(recipe: Recipe, _: str) -> bool:
    return bool(recipe.passages)


def searched_parts(recipe: Recipe) -> tuple[PassagePart, ...]:
    """Return the parts of `passages`, with the preference of `dedup` where they have none of their own."""
    return with_preference(recipe.passages, recipe.rounds)


def settings_of(recipe: Recipe) -> str:
    return ALL_PARTS.dump_json(searched_parts(recipe), by_alias=True).decode()


def order_keys(recipe: Recipe, sources: Sequence[SourcePlan], order: Preference) -> dict[str, str]:
    """Return, for each source, a hash of the rank of its documents."""
    return {
        source.source: digest_of([int(order.rank[source.number]), source.number, source.listing])
        for source in sources
    }


def key(recipe: Recipe, trails: list[Trail], sources: Sequence[SourcePlan]) -> str:
    protected = [source.name for source in recipe.sources if source.protect]
    exempt = [source.name for source in recipe.sources if source.exempt]
    listed = [[source.source, source.number, source.listing] for source in sources]
    parameters = [settings_of(recipe), protected, exempt, listed, SHARDS_VERSION, recipe.published_mib]
    return stage_key(STAGE, VERSION, parameters, *(i for trail in trails for i in trail.identities))


@stage(
    STAGE,
    key,
    scope="corpus",
    inputs=("trails", "sources"),
    enabled=is_searched,
    published_as="passages",
    cost=passages_cost,
)
def passages(recipe: Recipe, trails: list[Trail], sources: Sequence[SourcePlan]) -> Manifest:
    """Find the repeated passages of all sources, and what is cut of each shard."""
    shards = shards_to_search(recipe, trails, sources)
    planned = len(shards) * (JOBS_OF_SHARD * len(recipe.passages) + 1)
    searches = [
        PassageSearch(recipe.folder, shards, part, number, planned).run()
        for number, part in enumerate(searched_parts(recipe) if shards else (), 1)
    ]
    jobs = [
        PassagesOfShard(
            recipe.folder,
            shard.source,
            shard,
            tuple(search.runs[number] for search in searches),
            settings_of(recipe),
            recipe.source(shard.source).protect,
        )
        for number, shard in enumerate(shards)
    ]
    made = fan_out(Job.__call__, jobs, stage=STAGE, source=None, planned=planned)
    cuts, found = dict[str, tuple[Artifact, ...]](), dict[str, tuple[Artifact, ...]]()
    files, run_jobs = list[Artifact](), partial(fan_out, Job.__call__, stage=STAGE, source=None)
    for source in dict.fromkeys(shard.source for shard in shards):
        own = [i for i, shard in enumerate(shards) if shard.source == source]
        cuts[source] = tuple(made[i].cuts for i in own)
        found[source] = tuple(made[i].passages for i in own)
        groups = groups_of_shards([shards[i].history.shard for i in own], recipe.published_mib)
        join = partial(PassagesOfShards, recipe.folder, source)
        files += joined_by_group(found[source], groups, join, run_jobs)
    return Manifest(
        stage=STAGE,
        artifacts=tuple(files),
        facts=CutFacts(cuts=cuts, passages=found).written(),
        intermediate=tuple(artifact.path for search in searches for artifact in search.intermediate),
    )


def shards_to_search(
    recipe: Recipe, trails: list[Trail], sources: Sequence[SourcePlan]
) -> list[ShardToSearch]:
    """Return the shards of all sources that take part, in the order of the trails."""
    order = preference_of(Round(recipe, 1), sources)
    keys, by_name = order_keys(recipe, sources, order), {source.source: source for source in sources}
    shards = list[ShardToSearch]()
    for trail in trails:
        if not recipe.source(trail.source).exempt:
            parameters = by_name[trail.source].parameters
            tokenizer = StoredTokenizer(parameters.tokenizer, parameters.special_tokens, parameters.is_exact)
            make = partial(
                ShardToSearch,
                source=trail.source,
                tokenizer=tokenizer,
                order=order,
                order_key=keys[trail.source],
            )
            shards += [make(history=history) for history in load_histories(recipe.folder, trail)]
    return shards
