"""What has to run for a flow, and how it ends: servers, locks, signals, runs whose process is gone."""
