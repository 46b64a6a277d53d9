"""The stack on one machine, and the deployments and schedules that Prefect can run."""
