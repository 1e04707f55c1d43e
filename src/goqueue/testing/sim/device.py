"""What a disk holds: what every process sees now, and what would survive if the power went.

A file's bytes and a directory's names are separate things, each made durable on its own:

    thing       now         since the last sync         made durable by
    ---------   ---------   -------------------------   --------------------------
    `Node`      `content`   `changes`: appends, cuts    `sync` of the file
    `Directory` `entries`   `Device.entry_changes`      `sync` of the directory

A node's durable content is not stored: it is `content` with its changes undone from the last to
the first, so an append costs one append.  A cut keeps the bytes it removed.

A new file is two things: bytes in its node, and a name in its directory.  A synced file whose
name was not synced is gone after power loss, as POSIX allows.

When the power goes (`Device.after_power_loss`), each node keeps any prefix of its changes, the
next one torn at any byte; each directory keeps any prefix of its changes.  A rename from one
directory to another is one change of both: it happened in both, or in neither.
"""

import errno
import functools
import posixpath
import random
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

PAGE_BYTES: Final = 4096
ROOM_BYTES: Final = 1 << 40


class Change(NamedTuple):
    number: int
    start: int  # where the bytes were appended, or the size that the file was cut to
    removed: bytes | None  # what a cut took away; None for an append
    lost: tuple[range, ...]  # `Node.lost` before
    replaced: bytes | None = None  # what was written over in place


class Node:
    """A file without its name."""

    def __init__(self, content: bytearray) -> None:
        self.content = content
        self.changes: list[Change] = []
        self.lost: tuple[range, ...] = ()  # shown, but not on the device: a sync of them failed

    def append(self, number: int, data: Buffer) -> None:
        self.changes.append(Change(number, len(self.content), None, self.lost))
        self.content += data

    def cut(self, number: int, size: int) -> None:
        removed = bytes(self.content[size:])
        self.changes.append(Change(number, size, removed, self.lost))
        del self.content[size:]
        self.lost = tuple(range(each.start, min(each.stop, size)) for each in self.lost)

    def overwrite(self, number: int, start: int, data: Buffer) -> None:
        end = start + len(data)
        replaced = bytes(self.content[start:end])
        assert len(replaced) == len(data), "only what is there can be written over"
        self.changes.append(Change(number, start, None, self.lost, replaced))
        self.content[start:end] = data

    def sync(self) -> None:
        for change in self.changes:
            if change.replaced is not None:  # written again, and on the device now
                self._find_again(range(change.start, change.start + len(change.replaced)))
        self.changes.clear()

    def _find_again(self, found: range) -> None:
        rest = []
        for each in self.lost:
            rest.append(range(each.start, min(each.stop, found.start)))
            rest.append(range(max(each.start, found.stop), each.stop))
        self.lost = tuple(each for each in rest if each)

    def lose_changes(self) -> None:
        """A sync failed: the bytes still show, and never reach the device."""
        start = self._synced_size()
        if start < len(self.content):
            self.lost += (range(start, len(self.content)),)
        self.changes.clear()

    def after_power_loss(self, loss: "PowerLoss") -> "Node":
        kept = loss.count_kept(self.changes)
        survivor = Node(bytearray(self.content))
        survivor.lost = self.lost
        for change in reversed(self.changes[kept + 1 :]):
            survivor._undo(change)
        if kept < len(self.changes):
            survivor._tear(self.changes[kept], loss)
        if loss.holes:
            survivor._punch_holes(self._synced_size(), loss.random)
        survivor._forget_lost(loss.random)
        return survivor

    def _synced_size(self) -> int:
        """All bytes below were synced and never cut since."""
        resized = (change.start for change in self.changes if change.replaced is None)
        return min(resized, default=len(self.content))

    def _undo(self, change: Change) -> None:
        if change.replaced is not None:
            end = change.start + len(change.replaced)
            self.content[change.start : end] = change.replaced
        elif change.removed is None:
            del self.content[change.start :]
        else:
            self.content += change.removed
        self.lost = change.lost

    def _tear(self, change: Change, loss: "PowerLoss") -> None:
        if change.replaced is not None and loss.may_tear(change):
            written = change.start + loss.random.randint(0, len(change.replaced))
            end = change.start + len(change.replaced)
            self.content[written:end] = change.replaced[written - change.start :]
        elif change.removed is None and change.replaced is None and loss.may_tear(change):
            written = loss.random.randint(0, len(self.content) - change.start)
            del self.content[change.start + written :]
        else:
            self._undo(change)

    def _punch_holes(self, start: int, randomness: random.Random) -> None:
        """Pages reach the device in any order: the file has its size, and zeros between."""
        while start < len(self.content):
            end = min(len(self.content), (start // PAGE_BYTES + 1) * PAGE_BYTES)
            if randomness.random() < 0.5:
                self.content[start:end] = bytes(end - start)
            start = end

    def _forget_lost(self, randomness: random.Random) -> None:
        for each in reversed(self.lost):
            end = min(each.stop, len(self.content))
            if end == len(self.content) and randomness.random() < 0.5:
                del self.content[each.start :]
            elif each.start < end:
                self.content[each.start : end] = bytes(end - each.start)
        self.lost = ()


class Directory:
    def __init__(self, entries: "dict[str, Node | Directory] | None" = None) -> None:
        self.entries: dict[str, Node | Directory] = entries or {}
        self.synced: dict[str, Node | Directory] = dict(self.entries)  # on the device


class EntryChange(NamedTuple):
    """One step of the namespace: all of its assignments happen, or none does."""

    number: int
    assignments: tuple[tuple[Directory, str, Node | Directory | None], ...]

    def touches(self, directories: Iterable[Directory]) -> bool:
        return any(assigned[0] is each for assigned in self.assignments for each in directories)

    @property
    def directories(self) -> list[Directory]:
        return [assigned[0] for assigned in self.assignments]


class PowerLoss:
    """How the power goes: which changes had reached the device, drawn from `random`.

    `in_order`: the device took all changes of all files and directories in the order in which
    they were made.  Otherwise each file and each directory has a fate of its own.
    `holes`: the pages of what was not synced reached the device in any order.
    """

    def __init__(
        self, randomness: random.Random, last_number: int, *, in_order: bool, holes: bool
    ) -> None:
        self.random = randomness
        self.holes = holes
        self._cut = randomness.randint(0, last_number) if in_order else None

    def count_kept(self, changes: Sequence[Change | EntryChange]) -> int:
        """How many of a file's changes reached the device."""
        if self._cut is not None:
            return sum(change.number <= self._cut for change in changes)
        return self.random.choice((0, len(changes), self.random.randint(0, len(changes))))

    def may_tear(self, change: Change) -> bool:
        """Whether the device was at this change when the power went."""
        return self._cut is None or change.number == self._cut + 1

    def find_kept(self, changes: Sequence[EntryChange]) -> list[EntryChange]:
        """Those that reached the device: in each directory a prefix."""
        if self._cut is not None:
            return [change for change in changes if change.number <= self._cut]
        odds = self.random.choice((0.0, 1.0, self.random.random()))
        stopped: list[Directory] = []
        happened = []
        for change in changes:
            if change.touches(stopped) or self.random.random() >= odds:
                stopped += change.directories
            else:
                happened.append(change)
        return happened


class Device:
    """A tree of directories and files.  Raises `OSError` as the system calls do."""

    def __init__(self, root: Directory | None = None) -> None:
        self.root = root or Directory()
        self.room_bytes = ROOM_BYTES
        self.entry_changes: list[EntryChange] = []
        self._last_number = 0

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    # --- files --------------------------------------------------------------------------------

    def append(self, node: Node, data: Buffer) -> None:
        node.append(self.next_number(), data)
        self.room_bytes -= len(data)

    def overwrite(self, node: Node, start: int, data: Buffer) -> None:
        node.overwrite(self.next_number(), start, data)

    def truncate(self, node: Node, size: int) -> None:
        before = len(node.content)
        if size > before:
            node.append(self.next_number(), bytes(size - before))
        elif size < before:
            node.cut(self.next_number(), size)
        self.room_bytes -= size - before

    # --- names --------------------------------------------------------------------------------

    def find(self, path: str) -> Node | Directory:
        at: Node | Directory = self.root
        for name in split(path):
            at = _entry(at, name, path)
        return at

    def file(self, path: str) -> Node:
        found = self.find(path)
        if isinstance(found, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return found

    def directory(self, path: str) -> Directory:
        found = self.find(path)
        if isinstance(found, Node):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return found

    def place(self, path: str) -> tuple[Directory, str]:
        """The directory in which `path` is, or would be, and its name there."""
        parts = split(path)
        if not parts:
            raise FileExistsError(errno.EEXIST, "The root has no name", path)
        return self.directory("/".join(parts[:-1])), parts[-1]

    def link(self, path: str, node: Node | Directory) -> None:
        directory, name = self.place(path)
        self._change((directory, name, node))

    def unlink(self, path: str) -> None:
        node = self.file(path)
        directory, name = self.place(path)
        self._change((directory, name, None))
        self.room_bytes += len(node.content)

    def remove_directory(self, path: str) -> None:
        assert not self.directory(path).entries, f"{path} is not empty"
        directory, name = self.place(path)
        self._change((directory, name, None))

    def rename(self, source: str, target: str) -> None:
        from_directory, from_name = self.place(source)
        to_directory, to_name = self.place(target)
        node = _entry(from_directory, from_name, source)
        _refuse_inside_itself(source, target, node)
        old = to_directory.entries.get(to_name)
        if old is node:
            return
        _refuse_replacement(node, old, target)
        self._change((from_directory, from_name, None), (to_directory, to_name, node))
        if isinstance(old, Node):
            self.room_bytes += len(old.content)

    def sync_directory(self, directory: Directory) -> None:
        """Put the directory's changes on the device, and those that they stand on."""
        reached = [directory]
        due: list[EntryChange] = []
        rest: list[EntryChange] = []
        for change in reversed(self.entry_changes):
            if change.touches(reached):
                reached += change.directories
                due.append(change)
            else:
                rest.append(change)
        for change in reversed(due):
            for into, name, node in change.assignments:
                _assign(into.synced, name, node)
        self.entry_changes = rest[::-1]

    # --- power loss ---------------------------------------------------------------------------

    def after_power_loss(self, seed: int | str, *, in_order: bool, holes: bool) -> "Device":
        loss = PowerLoss(random.Random(seed), self._last_number, in_order=in_order, holes=holes)
        survivors: dict[Directory, dict[str, Node | Directory]] = {}
        for change in loss.find_kept(self.entry_changes):
            for directory, name, node in change.assignments:
                entries = survivors.setdefault(directory, dict(directory.synced))
                _assign(entries, name, node)
        return Device(_survivor(self.root, survivors, loss))

    def _change(self, *assignments: tuple[Directory, str, Node | Directory | None]) -> None:
        for directory, name, node in assignments:
            _assign(directory.entries, name, node)
        self.entry_changes.append(EntryChange(self.next_number(), assignments))


@functools.lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    """The names on the way to `path`.  A relative path starts at the root."""
    return tuple(part for part in posixpath.normpath(f"/{path}").split("/") if part)


def _entry(at: Node | Directory, name: str, path: str) -> Node | Directory:
    if isinstance(at, Node):
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
    found = at.entries.get(name)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    return found


def _assign(entries: dict[str, Node | Directory], name: str, node: Node | Directory | None) -> None:
    if node is None:
        entries.pop(name, None)
    else:
        entries[name] = node


def _refuse_inside_itself(source: str, target: str, node: Node | Directory) -> None:
    inside = split(target)[: len(split(source))] == split(source)
    if isinstance(node, Directory) and inside and split(source) != split(target):
        raise OSError(errno.EINVAL, "Invalid argument", target)


def _refuse_replacement(node: Node | Directory, old: Node | Directory | None, target: str) -> None:
    if isinstance(old, Directory) and isinstance(node, Node):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", target)
    if isinstance(old, Node) and isinstance(node, Directory):
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", target)
    if isinstance(old, Directory) and old.entries:
        raise OSError(errno.ENOTEMPTY, "Directory not empty", target)


def _survivor(
    directory: Directory,
    survivors: dict[Directory, dict[str, Node | Directory]],
    loss: PowerLoss,
) -> Directory:
    entries: dict[str, Node | Directory] = {}
    for name, node in survivors.get(directory, directory.synced).items():
        if isinstance(node, Directory):
            entries[name] = _survivor(node, survivors, loss)
        else:
            entries[name] = node.after_power_loss(loss)
    return Directory(entries)
