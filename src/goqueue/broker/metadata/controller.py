"""Who decides the metadata, and how this node knows what was decided.

The *controller* is the node that holds the term of the metadata's log.  It decides with a machine
that runs ahead of the log, as every host does.  Everybody looks at an image, which has what is
committed and nothing else.

    leading    ── append: Fenced ─────> following    another node decides; the image follows it
       ^   └───── append: Uncertain ──> waiting      nobody is known to lead: take a new term
       └─── the image has caught up ───────┘

In both cases the machine is dropped: it may be ahead of what the log will ever have.  The next one
is a copy of the image.

Who takes the term:

    open()                          this node, at once: it has the log to itself.  If it is fenced
                                    all the same it follows from then on: two nodes would take the
                                    term from each other for ever
    open_as_follower()              another node: this one has an image and no term
    open_as_follower(), claim(…)    one of several nodes: `goqueue.broker.cluster.election` says
                                    when.  Whatever ends its term, it follows again
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import structlog

from goqueue.broker.image import Image
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.metadata.consensus_journal import ConsensusJournal
from goqueue.cluster import Metadata, MetadataRecord
from goqueue.cluster.consensus import ConsensusLog, Entries, Index, Leadership, Snapshot, Term
from goqueue.model.errors import Fenced, GoQueueError, QuorumUnavailable
from goqueue.model.machine import Decision
from goqueue.runtime import Clock

RETRY_SECONDS: Final = 1.0
CATCH_UP_SECONDS: Final = 5.0  # with a log that this node alone may append to

ReplyT = TypeVar("ReplyT")
Apply = Callable[[Metadata, Any], None]  # a committed record to the image, and to what goes with it

_log = structlog.get_logger("goqueue.controller")


class Controller:
    def __init__(
        self,
        log: ConsensusLog,
        clock: Clock,
        make_machine: Callable[[], Metadata],
        apply: Apply,
        on_replaced: Callable[[Metadata, Metadata], None],
        on_followed: Callable[[], Awaitable[None]],
    ) -> None:
        """`on_replaced` is called with the image before and after a snapshot took its place,
        `on_followed` whenever the image has what another node decided."""
        self._log = log
        self._clock = clock
        self._make_machine = make_machine
        self._apply = apply
        self._on_replaced = on_replaced
        self._on_followed = on_followed
        self._led = asyncio.Event()
        self._lost = asyncio.Event()
        self._is_follower = False  # while it has not claimed the term
        self._has_claimed = False  # until the machine of that term is dropped
        self._position = Index(0)  # up to which the image has followed another node
        self._news = asyncio.Event()  # the image has changed, and not everybody was told
        self._moved = asyncio.Event()  # replaced whenever the position rises
        self._journal: ConsensusJournal  # of the last term that this node had
        self.host: MachineHost[Metadata]
        self.image: Image[Metadata]

    async def look(self) -> Metadata:
        """The metadata as it is, without taking the term from anybody."""
        machine, end, position = self._make_machine(), await self._log.end(), Index(0)
        async with contextlib.aclosing(self._log.follow(position)) as found:
            while position < end:
                each = await anext(found)
                for value in each.values:
                    machine.apply(machine.decode(value))
                position = each.index if isinstance(each, Snapshot) else each.next
        return machine

    async def open(self) -> None:
        """Take the term, and bring the machine to the end of the log."""
        machine = self._make_machine()
        self._journal = self._journal_of(await self._log.lead())
        self.host = MachineHost(machine, self._journal, self._clock)
        await self.host.open()
        self.image = self.host.keep_image(machine.copy(), self._apply)
        _log.info("controller", log=self._log.name, term=self.term, end=self._journal.end_offset)

    async def open_as_follower(self) -> None:
        """Bring the image to the end of a log that another node writes."""
        self._is_follower = True
        reason = Fenced("it follows another node")
        self._journal = ConsensusJournal.of_follower(self._log, reason)
        machine, end = self._make_machine(), await self._log.end()
        self.host = MachineHost(machine, self._journal, self._clock)
        self.image = self.host.keep_image(machine, self._apply)
        await self._follow(end)
        self._news.clear()  # nobody is there to be told yet
        _log.info("metadata followed", log=self._log.name, end=end)

    async def claim(self, after: Term) -> None:
        """Decide from now on, unless a term above `after` was taken; for a node that follows.

        Raises `Fenced` or `QuorumUnavailable`; then somebody else may claim the next one.
        """
        assert self.is_following, "it has the log to itself, or has claimed it already"
        lead = await self._log.lead(after)
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.wait_for(lead.end)
        except TimeoutError as error:
            raise QuorumUnavailable("the metadata cannot be read to its end") from error
        if self._position > lead.end:
            raise Fenced(f"term {lead.term} has ended: another node leads")
        self._has_claimed = True
        self._journal = self._journal_of(lead)
        self.host.resume(self.image.current.copy(), self._journal)
        self._led.set()
        self._wake_waiters()
        _log.info("controller", log=self._log.name, term=lead.term, end=lead.end)

    def step_down(self, reason: GoQueueError) -> None:
        """Decide no more."""
        self._journal.end_term(reason)

    @property
    def metadata(self) -> Metadata:
        """What is committed: to look at, not to decide by."""
        return self.image.current

    async def change(
        self, decide: Callable[[Metadata], Decision[MetadataRecord, ReplyT]]
    ) -> ReplyT:
        """As the host's `submit`; the image shows it when this returns."""
        reply = await self.host.submit(decide)
        self.image.catch_up()
        return reply

    @property
    def position(self) -> Index:
        """What the image shows is below."""
        return Index(self._journal.committed_end) if self.is_leading else self._position

    async def newest_end(self) -> Index:
        """Of the log, whoever leads it: the image may be older."""
        return await self._log.end()

    async def wait_for(self, end: Index) -> None:
        """Return when the image of a follower shows everything below `end`."""
        while self.position < end:
            await self._moved.wait()

    @property
    def is_leading(self) -> bool:
        return self._journal.error is None

    @property
    def is_following(self) -> bool:
        """Another node decides, or nobody."""
        return self._is_follower and not self._has_claimed

    @property
    def term(self) -> int:
        """The last one that this node had."""
        return self._journal.term

    @property
    def log(self) -> ConsensusLog:
        return self._log

    @property
    def journal(self) -> ConsensusJournal:
        return self._journal

    async def close(self) -> None:
        await self._journal.close()
        await self._log.close()

    # --- running ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow, or lead again, whenever a term has ended; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_news())
            while True:
                if self.is_following:
                    await self._follow_until_led()
                await self._lost.wait()
                self._lost.clear()
                self._drop_machine()
                if not self._is_follower:
                    await self._go_on()

    async def _follow_until_led(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._follow(None))
            await self._led.wait()
            following.cancel()
        self._led.clear()

    def _drop_machine(self) -> None:
        ended = self._journal
        self.image.await_commits_of(ended)  # whatever was not committed does not count
        self._position = Index(ended.committed_end)
        if self._is_follower:
            self._has_claimed = False
            assert ended.error is not None, "it has ended"
            _log.warning("not the controller any more", problem=str(ended.error))
            self._journal = ConsensusJournal.of_follower(self._log, ended.error, self._position)
            self.host.resume(self.image.current, self._journal)

    async def _go_on(self) -> None:
        ended = self._journal
        if isinstance(ended.error, Fenced):
            _log.error(
                "another node is the controller: this one only follows", problem=str(ended.error)
            )
            await self._follow(None)
        _log.error("the quorum did not answer: no changes of metadata", problem=str(ended.error))
        lead = await self._lead_again()
        await self._follow(lead.end)
        self._journal = self._journal_of(lead)
        self.host.resume(self.image.current.copy(), self._journal)
        _log.info("controller again", term=lead.term)

    async def _lead_again(self) -> Leadership:
        while True:
            with contextlib.suppress(QuorumUnavailable):
                return await self._log.lead()
            await self._clock.sleep(RETRY_SECONDS)

    async def _follow(self, end: Index | None) -> None:
        """Bring the image up to the end; without one, for ever.

        Waits for nobody: whoever is told may wait for a commit, and that for the next image.
        """
        if end is not None and self._position >= end:
            return
        async with contextlib.aclosing(self._log.follow(self._position)) as found:
            async for each in found:
                if self._has_claimed:
                    return  # the image has it from the journal
                self._note_position(self._show(each))
                self._news.set()
                await asyncio.sleep(0)
                if end is not None and self._position >= end:
                    return

    def _note_position(self, position: Index) -> None:
        self._position = position
        if self._is_follower:
            self._journal.note_followed(position)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _tell_news(self) -> None:
        """Of all that came meanwhile at once."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._on_followed()
            except GoQueueError as error:  # a full disk, say: they hear of it with the next change
                _log.error("metadata followed, not told to everybody", problem=str(error))

    def _show(self, seen: Snapshot | Entries) -> Index:
        if isinstance(seen, Entries):
            self.image.apply(seen.values)
            return seen.next
        before, machine = self.image.current, self._make_machine()
        for value in seen.values:
            machine.apply(machine.decode(value))
        self.image.replace(machine)
        if self._is_follower:  # its host has no machine that is ahead of the image
            self.host.resume(machine, self._journal)
        self._on_replaced(before, machine)
        return seen.index

    def _journal_of(self, lead: Leadership) -> ConsensusJournal:
        return ConsensusJournal(self._log, lead, self._lost.set)
