"""The one way to call git: nothing a repository says is ever executed.

A repository is a folder that others may have packed. Its configuration can name programs for
almost everything git does: filters, hooks, monitors, pagers, remotes that fetch missing objects.
So only a few commands are called here, none of which compares the contents of the work tree, and
they run without the caller's environment, without any transport, in a process group that is killed
when its time is over, when it has said too much, or when the caller dies.

Standard library only, and little of it: the hook of a session's start imports this.
"""
# pathlib and subprocess would cost a hook milliseconds:
# ruff: noqa: PTH113, PTH115, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import LiteralString

__all__ = [
    "Commit",
    "FileCommit",
    "changed_files",
    "count_commits",
    "find_program",
    "list_files",
    "list_root_commits",
    "read_commits",
    "read_file_history",
]

HOOK_SECONDS = 1.0
LIST_SECONDS = 10.0
LOG_SECONDS = 60.0
# Commits are read in pages: one that changes a hundred thousand files must not hide all others.
LOG_PAGE = 200
MAX_OUTPUT = 16 << 20
MAX_LISTING = 256 << 20
MAX_MEMORY_KB = 1 << 20
# A file whose time was changed and nothing else is read to find that out; not many, not large ones.
MAX_HASHED_FILES = 200
MAX_HASHED_BYTES = 1 << 20
# Of more files than this the first are compared: the answer only helps to order lines.
MAX_COMPARED = 20_000

_COMMANDS = frozenset(["diff-index", "log", "ls-files", "rev-list"])

# What may be known of the caller: where the user's own git configuration is, and whose it is.
_ENVIRONMENT = (
    "HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME", "SUDO_UID", "TMPDIR", "LD_LIBRARY_PATH",
    "DEVELOPER_DIR",
)  # fmt: skip
_SETTINGS = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",  # Not known to every git; the line above is.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_SSH_COMMAND": "false",
    "LC_ALL": "C",
}
_OPTIONS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.editor=:",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=:",
    "core.untrackedCache=false",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "log.mailmap=false",
    "log.showSignature=false",
    "maintenance.auto=false",
    "gc.auto=0",
    "protocol.allow=never",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=",
)

# The one that reads gets the end of its input when the caller is gone, however it went. The shell
# waits for both: a container may have no init that would.
_WATCHED: LiteralString = (
    "ulimit -d {memory} 2>/dev/null; ulimit -t {seconds} 2>/dev/null; exec 3<&0 </dev/null;"
    '"$@" 3<&- & git=$!;'
    "( read _ <&3; kill -9 0 ) >/dev/null & watch=$!;"
    "wait $git; code=$?; kill $watch; wait $watch; exit $code"
)


def list_root_commits(root: str) -> list[str]:
    """Return the first commits of all histories of a repository, sorted; [] if git cannot say.

    Args:
        root: A work tree's top folder, or a bare repository that is in no work tree.
    """
    bare = not os.path.lexists(os.path.join(root, ".git"))
    (output,) = _run(root, ["rev-list", "--max-parents=0", "--all"], bare=bare)
    words = (output or b"").decode("ascii", "replace").split()
    return sorted(word for word in words if len(word) in (40, 64))


def list_files(root: str, folder: str = "") -> list[str] | None:
    """Return the tracked and the untracked, not ignored files of a work tree; None: git cannot say.

    Names only, and not to be trusted: the index is a file of the repository like any other.

    Args:
        root: The work tree's top folder.
        folder: Only what is below this one, relative to the top; the names are relative to it.
    """
    command = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]
    below = f"{folder}/" if folder else ""
    (output,) = _run(
        root, [*command, below] if below else command, seconds=LIST_SECONDS, most=MAX_LISTING
    )
    if output is None:
        return None
    names = (os.fsdecode(name) for name in output.split(b"\0") if name)
    return list(dict.fromkeys(n[len(below) :] for n in names if n.startswith(below)))


def changed_files(root: str) -> list[str]:
    """Return the files with uncommitted changes, relative to the work tree; [] if git cannot say.

    Its index says what git last saw of each file, and the file system what is there now. To have
    git compare them would run the filters the repository names.
    """
    if not os.path.lexists(os.path.join(root, ".git")):
        return []
    deadline = time.monotonic() + HOOK_SECONDS
    index, staged, others = _run(
        root,
        ["ls-files", "-z", "--stage", "--debug"],
        ["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-ext-diff",
         "--no-textconv", "--ignore-submodules=all", "HEAD", "--"],
        ["ls-files", "-z", "--others", "--exclude-standard", "--directory",
         "--no-empty-directory"],
    )  # fmt: skip
    if index is None:
        return []
    changed: set[bytes] = set((others or b"").split(b"\0"))
    changed.update((staged or b"").split(b"\0")[1::2])
    top = os.fsencode(root.rstrip("/") + "/")
    written = _time_of(os.path.join(root, ".git", "index"))
    hashed = 0
    for number, entry in enumerate(_index_entries(index)):
        if number == MAX_COMPARED or time.monotonic() > deadline:
            break
        # Without a commit everything in the index is new.
        state = "changed" if staged is None else _compare(top, entry, written)
        if state == "unsure" and hashed < MAX_HASHED_FILES:
            hashed += 1
            state = "same" if _has_content(top, entry) else "changed"
        if state != "same":
            changed.add(entry[0])
    return sorted(os.fsdecode(name) for name in changed if name)


class Commit:
    """One commit: what its author wrote and which files it changed, as bytes were read.

    Attributes:
        time: When it was written, in seconds since 1970.
        files: Relative to the repository's top; None if there are too many to list.
    """

    __slots__ = ("author", "email", "files", "message", "sha", "time")

    def __init__(
        self, sha: str, time: int, author: str, email: str, message: str, files: list[str] | None
    ) -> None:
        self.sha = sha
        self.time = time
        self.author = author
        self.email = email
        self.message = message
        self.files = files


def count_commits(root: str, head: str, most: int | None = None) -> int:
    """Return how many commits lead to one, without merges; 0 if git cannot say.

    Args:
        root: A work tree's top folder, or a bare repository that is in no work tree.
        head: The commit, in full.
        most: Count no more than this.
    """
    if not _is_commit(head):
        return 0
    bare = not os.path.lexists(os.path.join(root, ".git"))
    limit = [] if most is None else [f"--max-count={most}"]
    command = ["rev-list", "--count", "--no-merges", *limit, head, "--"]
    (output,) = _run(root, command, seconds=LOG_SECONDS, bare=bare)
    number = (output or b"").strip()
    return int(number) if number.isdigit() else 0


def _is_commit(text: str) -> bool:
    return len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text)


def read_commits(root: str, head: str, most: int, skip: int = 0) -> Iterator[Commit]:
    """Yield the commits that lead to one, newest first and without merges; none if git cannot say.

    Trees are compared by name only: that asks for no filter, no driver and no file of the work
    tree. Nothing is looked up for a commit but what it contains itself.

    Args:
        root: A work tree's top folder, or a bare repository that is in no work tree.
        head: The commit to begin at, in full.
        most: How many at most.
        skip: How many of the newest are passed over.
    """
    if not _is_commit(head):
        return
    bare = not os.path.lexists(os.path.join(root, ".git"))
    # No message and no file name can contain what was not known when it was written.
    mark = os.urandom(12).hex()
    for start in range(0, most, LOG_PAGE):
        page = ["log", "-z", "--no-merges", "--no-color", "--no-decorate", "--encoding=UTF-8",
                f"--format=tformat:{mark}%H%x00%at%x00%an%x00%ae%x00%B", f"--skip={skip + start}",
                f"--max-count={min(LOG_PAGE, most - start)}"]  # fmt: skip
        names = ["--name-only", "--no-renames", "--no-ext-diff", "--no-textconv",
                 "--ignore-submodules=all", "-O/dev/null"]  # fmt: skip
        (output,) = _run(root, [*page, *names, head, "--"], seconds=LOG_SECONDS, bare=bare)
        listed = output is not None
        if output is None:
            (output,) = _run(
                root, [*page, "--no-patch", head, "--"], seconds=LOG_SECONDS, bare=bare
            )
        found = 0
        for block in (output or b"").split(mark.encode())[1:]:
            sha, at, author, email, message, *files = (
                part.decode("utf-8", "replace") for part in block.split(b"\0")
            )
            found += 1
            # A NUL ends the message and each name; before the first name is the end of a line.
            files = [name[not place :] for place, name in enumerate(files[:-1])]
            moment = int(at) if at.lstrip("-").isdigit() else 0
            yield Commit(sha, moment, author, email, message, files if listed else None)
        if found < min(LOG_PAGE, most - start):
            return


class FileCommit:
    """One commit of a file: the first line of its message, and the file as it was after it."""

    __slots__ = ("data", "sha", "subject")

    def __init__(self, sha: str, subject: str, data: bytes) -> None:
        self.sha = sha
        self.subject = subject
        self.data = data


def read_file_history(
    root: str, since: str, head: str, path: str, most: int
) -> list[FileCommit] | None:
    """Return the commits after one that changed a file, newest first; None if git cannot say.

    A patch with all lines around it has the whole file: nothing but trees is compared.

    Args:
        root: The work tree's top folder.
        since: The commit after which they are, in full.
        head: The commit they lead to, in full.
        path: The file, relative to the top.
        most: How many at most, the oldest first of all.
    """
    if not _is_commit(since) or not _is_commit(head):
        return None
    names = ["log", "--no-merges", "--no-color", "--no-patch", "--format=tformat:%H",
             f"--max-count={10 * most}", f"{since}..{head}", "--", path]  # fmt: skip
    (listed,) = _run(root, names)
    if listed is None:
        return None
    wanted = listed.decode("ascii", "replace").split()[-most:]
    if not wanted:
        return []
    mark = os.urandom(12).hex()
    command = ["log", "--no-walk=unsorted", "--no-color", "--no-decorate", "--encoding=UTF-8",
               f"--format=tformat:{mark}%H%x00%s%x00", "--patch", "--unified=1000000", "--text",
               "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all",
               "-O/dev/null", *wanted, "--", path]  # fmt: skip
    (output,) = _run(root, command)
    if output is None:
        return None
    found = []
    for block in output.split(mark.encode())[1:]:
        sha, subject, patch = block.split(b"\0", 2)
        _, _, hunk = patch.partition(b"\n@@ ")
        lines = hunk.split(b"\n")[1:]
        if hunk and lines and not lines[-1]:
            lines.pop()
        # Some configurations leave out the blank before an empty line.
        after = [line[1:] for line in lines if not line or line[:1] in (b" ", b"+")]
        data = b"\n".join(after) + (b"\n" if after else b"")
        text = subject.decode("utf-8", "replace")
        found.append(FileCommit(sha.decode("ascii", "replace"), text, data))
    return found


# --- What the index says ------------------------------------------------------------------

_Entry = tuple[bytes, int, bytes, int, int, int]  # Path, mode, object, seconds, nanoseconds, size.
_SUBMODULE = b"160000"
_SKIPPED = 0x40000000 | 0x8000  # Not checked out; assumed to be unchanged.


def _index_entries(output: bytes) -> Iterator[_Entry]:
    """Yield the entries of `ls-files -z --stage --debug` of files that are to be compared."""
    import re

    entries = re.compile(
        rb"(\d+) ([0-9a-f]+) \d\t([^\0]+)\0  ctime: \d+:\d+\n  mtime: (\d+):(\d+)\n"
        rb"  dev: [^\n]*\n  uid: [^\n]*\n  size: (\d+)\tflags: ([0-9a-f]+)\n"
    )
    for found in entries.finditer(output):
        mode, name, path, seconds, nanoseconds, size, flags = found.groups()
        if mode != _SUBMODULE and not int(flags, 16) & _SKIPPED:
            yield path, int(mode, 8), name, int(seconds), int(nanoseconds), int(size)


def _time_of(file: str) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except OSError:
        return 1 << 63  # A worktree's index is elsewhere.


def _compare(top: bytes, entry: _Entry, written: int) -> str:
    path, mode, _, seconds, nanoseconds, size = entry
    try:
        found = os.lstat(top + path)
    except (OSError, ValueError):
        return "changed"
    kind = found.st_mode
    if stat.S_ISDIR(kind) or stat.S_ISLNK(kind) != (mode == 0o120000):
        return "changed"
    if stat.S_ISREG(kind) and bool(kind & 0o100) != (mode == 0o100755):
        return "changed"
    same_size = found.st_size & 0xFFFFFFFF == size
    if same_size and found.st_mtime_ns == seconds * 10**9 + nanoseconds < written:
        return "same"
    # A file that changes in the instant its index is written has the time of before. git marks it
    # by the size 0 when it writes the next index.
    return "unsure" if same_size or not size else "changed"


def _has_content(top: bytes, entry: _Entry) -> bool:
    """Return whether a file has the content the index names, as no filter has seen it."""
    import hashlib

    path = top + entry[0]
    try:
        if entry[1] == 0o120000:
            data = os.readlink(path)
        else:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(path, flags), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return False
                data = file.read(MAX_HASHED_BYTES + 1)
    except (OSError, ValueError):
        return False
    if len(data) > MAX_HASHED_BYTES:
        return False
    make = hashlib.sha256 if len(entry[2]) == 64 else hashlib.sha1
    return make(b"blob %d\0" % len(data) + data).hexdigest().encode() == entry[2]


# --- The process --------------------------------------------------------------------------


def _run(
    root: str,
    *commands: list[str],
    seconds: float | None = None,
    most: int = MAX_OUTPUT,
    bare: bool = False,
) -> list[bytes | None]:
    """Return what each command writes; None if it fails, takes too long or writes too much."""
    if unknown := {command[0] for command in commands} - _COMMANDS:
        raise ValueError(f"git {min(unknown)} is not on the list of commands that run nothing")
    program = find_program(root)
    if not program:
        return [None] * len(commands)
    seconds = HOOK_SECONDS if seconds is None else seconds
    script = _WATCHED.format(memory=MAX_MEMORY_KB, seconds=int(seconds) + 1)
    arguments = ["/bin/sh", "-c", script, "sh"]
    arguments += [program, "--no-pager", "--literal-pathspecs", "-C", root]
    for option in (*_OPTIONS, "safe.bareRepository=" + ("all" if bare else "explicit")):
        arguments += ["-c", option]
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= _SETTINGS
    environment["PATH"] = os.path.dirname(program)
    # git looks into the folder it is given and into none above it.
    environment["GIT_CEILING_DIRECTORIES"] = os.path.dirname(root)
    if not bare:
        environment["GIT_WORK_TREE"] = root  # Whatever core.worktree says.
    running: list[_Git] = []
    try:
        for command in commands:
            # One by one: those that run must be ended if the next cannot start.
            running.append(_Git([*arguments, *command], environment))  # noqa: PERF401
        _read_all(running, time.monotonic() + seconds, most)
        return [git.answer() for git in running]
    except (OSError, ValueError):
        return [None] * len(commands)
    finally:
        for git in running:
            git.close()


def find_program(root: str) -> str:
    """Return git's path; never one inside of the repository, or relative to where we are."""
    inside = root.rstrip("/") + "/"
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        file = os.path.join(folder, "git")
        if not os.path.isabs(file) or not os.access(file, os.X_OK) or not os.path.isfile(file):
            continue
        if inside == "/" or not (
            file.startswith(inside) or os.path.realpath(file).startswith(inside)
        ):
            return file
    return ""


class _Git:
    """A running git with what it has written so far."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        import signal

        self.data = bytearray()
        self.is_whole = False
        watch, self._alive = os.pipe()
        self.output, written = os.pipe()
        try:
            self._pid = os.posix_spawn(
                command[0],
                command,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, watch, 0),
                    (os.POSIX_SPAWN_DUP2, written, 1),
                    (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
                ],
                setpgroup=0,
                # Python ignores it, and a git whose reader is gone must end.
                setsigdef=[signal.SIGPIPE],
            )
        except BaseException:
            os.close(self._alive)
            os.close(self.output)
            raise
        finally:
            os.close(watch)
            os.close(written)

    def answer(self) -> bytes | None:
        return bytes(self.data) if self.is_whole and self._end() == 0 else None

    def close(self) -> None:
        self._end()
        os.close(self._alive)
        os.close(self.output)

    def _end(self) -> int:
        """Kill it with all it started, and return its exit code."""
        import signal
        from contextlib import suppress

        if self._pid:
            # Until it is waited for, its group cannot be another's.
            with suppress(ProcessLookupError, PermissionError):  # macOS, if all of it has ended.
                os.killpg(self._pid, signal.SIGKILL)
            # One whose output is whole had ended before.
            self._code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            self._pid = 0
        return self._code


def _read_all(running: list[_Git], deadline: float, most: int) -> None:
    """Read what all write, until the last one ends or the time is over."""
    import select

    poll = select.poll()
    waiting = {git.output: git for git in running}
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    while waiting and (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            git = waiting[descriptor]
            block = os.read(descriptor, 1 << 16)
            git.data += block
            git.is_whole = not block
            if not block or len(git.data) > most:
                poll.unregister(descriptor)
                del waiting[descriptor]
