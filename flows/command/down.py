"""`zyda down`: the end of the stack on this machine."""

from zyda_flows.flows.command.terminal import say

EXAMPLES = ()


def down() -> None:
    """Stop what `zyda up` started; runs and settings are kept for the next time."""
    from zyda_flows.deployments.local import down as stop_stack  # late

    stop_stack(say)
