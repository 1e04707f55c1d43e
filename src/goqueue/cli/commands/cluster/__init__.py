"""`goqueue cluster`: the nodes, who leads what, how the cluster is doing, and changes of that."""

import typer

from goqueue.cli.command import command
from goqueue.cli.commands.cluster import balance, changes, moves, roll, upkeep, views

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Show the nodes and where partitions are; move leaders and replicas.",
)

command(app, "status")(views.status)
command(app, "nodes")(views.nodes)
command(app, "topics")(views.topics)
command(app, "leaders")(views.leaders)
command(app, "quorum")(views.quorum)
command(app, "coordinators")(views.coordinators)
command(app, "drain")(changes.drain)
command(app, "undrain")(changes.undrain)
command(app, "remove")(changes.remove)
command(app, "elect")(changes.elect)
command(app, "reassign")(moves.reassign)
command(app, "rebalance")(balance.rebalance)
command(app, "add")(balance.add)
command(app, "replace")(balance.replace)
command(app, "events")(upkeep.events)
command(app, "upgrade")(upkeep.upgrade)
command(app, "roll")(roll.roll)
