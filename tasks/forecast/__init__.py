"""The forecast of a build's time and storage, from listings, footers and a trial of its stages.

`plan` computes the forecast. `run_trial` builds some `pieces` of the sources and runs their `models`; `trial`
stores the measurements. From them, `sizes` estimates the sources, `workload` the stages that process every shard,
and `limits` the resources that will not suffice. Every other stage states its cost itself (`tasks.stage.cost`).
"""
