"""What a build will take, forecast from listings, footers and a trial of its stages.

`plan` puts the forecast together. `run_trial` builds some `pieces` of the sources and tries their `models`; `trial`
keeps what that took. `sizes` estimates the sources from it, `workload` what stages take that go through the shards,
and `limits` what will not fit. Any other cost is stated by the stage itself (`tasks.stage.cost`).
"""
