"""`zyda down`: stop the stack on this machine."""

from zyda_flows.flows.command.terminal import say

EXAMPLES = ()


def down() -> None:
    """Stop the stack of `zyda up`: server, cluster and worker. Records of runs, schedules and settings are kept."""
    from zyda_flows.deployments.local import down as stop_stack  # late

    stop_stack(say)
