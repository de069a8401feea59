"""Loss of power, replayed: what SQLite writes and syncs is recorded below it, then cut short.

A VFS of our own is registered in the very library that Python's sqlite3 uses, by ctypes, and made
the default: every connection of the program goes through it, unchanged. It passes everything on to
the system's VFS, keeps a log of writes, truncations, syncs and deletions, and leaves out the real
sync, which only costs time here.

A crash at any place of that log leaves each file as its last sync left it, plus whatever the disk
chose to do with later writes: all of them, none, any of their 512-byte sectors, or garbage in them.

Not modelled: disks that lie about a sync, files that lose their name (SQLite syncs the folder of a
new file itself), damage to bytes that were not being written, two processes writing at once.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Crash", "Recording", "crashes", "record", "why_not"]

SECTOR = 512
_OK = 0

# Paths are passed on as pointers: SQLite keeps more before and after them than the name.
_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_Close = CFUNCTYPE(c_int, c_void_p)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(Structure):
    _fields_ = [
        ("version", c_int),
        ("file_size", c_int),
        ("max_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("others", c_void_p * 14),
    ]


class _Methods(Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("others", c_void_p * 13),
    ]


@dataclass
class Recording:
    """What reached the disk, in order: ("write", name, offset, bytes) and so on."""

    folder: Path
    log: list[tuple] = field(default_factory=list)
    running: bool = False

    def mark(self, what: object) -> None:
        """Note what the program has acknowledged by now."""
        self.log.append(("mark", "", what))


@dataclass(frozen=True)
class Crash:
    """The files after a loss of power, and the last thing acknowledged before it."""

    place: int
    mode: str
    mark: object
    files: dict[str, bytes]


class _Shim:
    """The VFS. One for ever: SQLite may hold a pointer to any part of it."""

    def __init__(self) -> None:
        # Symbols of a library's own dependencies are found through it.
        library = ctypes.CDLL(_sqlite3.__file__)
        self._register = library.sqlite3_vfs_register
        self._register.argtypes = [c_void_p, c_int]
        library.sqlite3_vfs_find.restype = c_void_p
        library.sqlite3_vfs_find.argtypes = [c_char_p]
        self._real = library.sqlite3_vfs_find(None)
        real = _Vfs.from_address(self._real)
        self._real_open = _Open(real.open)
        self._real_delete = _Delete(real.delete)
        self._callbacks = (_Open(self._open), _Delete(self._delete))
        self._vfs = _Vfs.from_buffer_copy(real)
        self._vfs.next = None
        self._vfs.name = b"power-loss"
        self._vfs.open, self._vfs.delete = (
            ctypes.cast(callback, c_void_p).value for callback in self._callbacks
        )
        self._methods: dict[int, tuple] = {}
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()
        self.recording: Recording | None = None

    def install(self) -> None:
        self._register(ctypes.addressof(self._vfs), 1)

    def remove(self) -> None:
        self._register(self._real, 1)

    def note(self, *entry: object) -> None:
        recording = self.recording
        if recording is not None and recording.running and entry[1] is not None:
            recording.log.append(entry)

    def _name(self, path: int | None) -> str | None:
        recording = self.recording
        if not path or recording is None:
            return None
        folder, name = os.path.split(os.fsdecode(ctypes.string_at(path)))
        return name if folder == str(recording.folder) else None

    def _open(self, _vfs, path, file, flags, out_flags) -> int:
        code = self._real_open(self._real, path, file, flags, out_flags)
        place = c_void_p.from_address(file)  # The first field of a file: its methods.
        if code == _OK and place.value:
            name = self._name(path)
            with self._lock:
                if place.value not in self._methods:
                    self._methods[place.value] = self._wrap(place.value)
                if name is not None:
                    self._names[file] = name
            self.note("open", name)
            place.value = ctypes.addressof(self._methods[place.value][0])
        return code

    def _delete(self, _vfs, path, sync_folder) -> int:
        self.note("delete", self._name(path))
        return self._real_delete(self._real, path, sync_folder)

    def _wrap(self, address: int) -> tuple:
        real = _Methods.from_address(address)
        close, write, truncate = _Close(real.close), _Write(real.write), _Truncate(real.truncate)

        def on_close(file) -> int:
            self._names.pop(file, None)
            return close(file)

        def on_write(file, data, size, offset) -> int:
            code = write(file, data, size, offset)
            name = self._names.get(file)
            if code == _OK and name is not None:
                self.note("write", name, offset, ctypes.string_at(data, size))
            return code

        def on_truncate(file, size) -> int:
            code = truncate(file, size)
            if code == _OK:
                self.note("truncate", self._names.get(file), size)
            return code

        def on_sync(file, _flags) -> int:
            self.note("sync", self._names.get(file))
            return _OK

        ours = _Methods.from_buffer_copy(real)
        callbacks = (_Close(on_close), _Write(on_write), _Truncate(on_truncate), _Sync(on_sync))
        ours.close, ours.write, ours.truncate, ours.sync = (
            ctypes.cast(callback, c_void_p).value for callback in callbacks
        )
        return ours, callbacks, close, write, truncate


_shim: _Shim | None = None


def why_not() -> str | None:
    """Return why loss of power cannot be replayed here, None if it can."""
    try:
        ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_register  # noqa: B018
    except (AttributeError, OSError):
        return "this Python's SQLite does not show its functions to ctypes"
    return None


@contextmanager
def record(folder: Path) -> Iterator[Recording]:
    """Send every connection through the shim; what is written to files of this folder is kept."""
    global _shim  # noqa: PLW0603
    _shim = _shim or _Shim()
    recording = Recording(folder.resolve(), running=True)
    _shim.recording = recording
    _shim.install()
    try:
        yield recording
    finally:
        _shim.remove()
        _shim.recording = None


def crashes(
    recording: Recording, count: int, seed: int, start: dict[str, bytes]
) -> Iterator[Crash]:
    """Cut the power at so many places, spread over the recording; files begin as `start`."""
    dice = random.Random(seed)
    log = recording.log
    places = sorted(dice.randrange(len(log) + 1) for _ in range(count))
    disk = _Disk({name: bytearray(content) for name, content in start.items()})
    mark: object = None
    done = 0
    for place in places:
        for entry in log[done:place]:
            if entry[0] == "mark":
                mark = entry[2]
            else:
                disk.apply(entry)
        done = place
        mode = dice.choice(["kept", "dropped", "torn", "torn", "garbled"])
        yield Crash(place, mode, mark, disk.after_crash(mode, dice))


class _Disk:
    """Files as their last sync left them, what was written since, and names just removed."""

    def __init__(self, durable: dict[str, bytearray]) -> None:
        self.durable = durable
        self.pending: dict[str, list[tuple]] = {name: [] for name in durable}
        self.removed: dict[str, bytearray] = {}

    def apply(self, entry: tuple) -> None:
        what, name, *rest = entry
        if what == "delete":
            if name in self.durable:
                self.removed[name] = self.durable.pop(name)
                self.pending.pop(name)
            return
        if name not in self.durable:
            self.removed.pop(name, None)
            self.durable[name], self.pending[name] = bytearray(), []
        if what == "sync":
            for change in self.pending[name]:
                _change(self.durable[name], *change)
            self.pending[name] = []
        elif what in ("write", "truncate"):
            self.pending[name].append((what, *rest))

    def after_crash(self, mode: str, dice: random.Random) -> dict[str, bytes]:
        files = {}
        keep = dice.choice([0.1, 0.5, 0.9])
        for name, durable in self.durable.items():
            content = bytearray(durable)
            for change in self.pending[name]:
                if mode == "kept":
                    _change(content, *change)
                elif mode == "dropped":
                    continue
                elif change[0] == "truncate":
                    if dice.random() < keep:
                        _change(content, *change)
                else:
                    for offset, part in _sectors(change[1], change[2]):
                        if dice.random() < keep:
                            _change(content, "write", offset, part)
                        elif mode == "garbled" and dice.random() < 0.2:
                            _change(content, "write", offset, dice.randbytes(len(part)))
            files[name] = bytes(content)
        if mode != "kept":
            for name, content in self.removed.items():
                if dice.random() < 0.5:
                    files.setdefault(name, bytes(content))
        return files


def _change(content: bytearray, what: str, *rest) -> None:
    if what == "truncate":
        (size,) = rest
        del content[size:]
        content.extend(bytes(size - len(content)))
    else:
        offset, data = rest
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        size = SECTOR - (offset + position) % SECTOR
        yield offset + position, data[position : position + size]
        position += size
