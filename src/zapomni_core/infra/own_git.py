"""Git for what users start on a repository of their own: with transports, and still nothing run.

`infra/git.py` reads repositories of anyone, and talks to none. Here a user shares memories through
a repository that is theirs: commits, fetches and pushes. What they set up for themselves works:
their ssh, their credentials, their proxies. What the repository says is never run: its folder may
have been unpacked from an archive.

So the commands that commit and talk to remotes run in a repository that we made, with an own
configuration, which uses the objects and the index of the user's one. Of that one only names are
read (branch, remote, user) and one reference is set, with hooks switched off. Files of the work
tree are not passed through filters: they are written and read by us. No command here can rewrite
history: there is no reset, no rebase and no push that forces.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from zapomni_core.exceptions import ProcessingError, ValidationError
from zapomni_core.infra.git import find_program

__all__ = ["OwnRepository", "TreeFile", "anonymous_address"]

SECONDS: Final = 120.0
TRANSFER_SECONDS: Final = 900.0
ANONYMOUS_SECONDS: Final = 20.0
PROTOCOLS: Final = "file:git:http:https:ssh"
REMOTE: Final = "refs/sync/remote"
CHECKED: Final = "checked-remote"

_OPTIONS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.alternateRefsCommand=:",
    "core.autocrlf=false",
    "core.pager=cat",
    "core.editor=:",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "fetch.fsckObjects=true",
    "push.recurseSubmodules=no",
    "push.followTags=false",
    "push.gpgSign=false",
    "protocol.ext.allow=never",
)
# The programs at the other end of a remote that is a folder of this machine.
_AT_FOLDER: Final = (
    "git -c core.hooksPath=/dev/null -c core.alternateRefsCommand=: -c core.fsmonitor=false"
)
# Of git's own variables these are the user's, and not a repository's.
_KEPT: Final = frozenset(
    ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL",
     "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO", "GIT_TERMINAL_PROMPT"]
)  # fmt: skip

NO_REPOSITORY = (
    "This folder is not the top of a git repository of yours. Make one there: git init; "
    "git remote add origin ADDRESS"
)
DETACHED = "No branch is checked out in this repository. Check one out: git switch main"
MERGING = (
    "A merge, rebase or the like is under way in this repository. Finish it, or take it back: "
    "git merge --abort"
)
NO_NAME = (
    "Git does not know who you are, which commits need. Say so once: git config --global user.name "
    '"Your Name"; git config --global user.email you@example.org'
)


class TreeFile(NamedTuple):
    """A file of a commit."""

    mode: str
    oid: str


class OwnRepository:
    """A repository of the user's, and how memories are shared through it.

    Args:
        folder: The top of its work tree.
        private: A folder of ours, where the repository that talks to remotes is made.

    Raises:
        ValidationError: It is none, it has no branch checked out, or something is under way in it.
        ProcessingError: SYNC_004, there is no git.
    """

    def __init__(self, folder: Path, private: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        self._program = find_program(str(self.folder))
        if not self._program:
            raise ProcessingError("There is no git on this machine. Install it.", "SYNC_004")
        if not os.path.lexists(self.folder / ".git"):
            raise ValidationError(NO_REPOSITORY, "VAL_004")
        found = self._ask("rev-parse", "--absolute-git-dir", "--git-common-dir",
                          "--show-object-format", "--show-prefix")  # fmt: skip
        if found is None:
            raise ValidationError(NO_REPOSITORY, "VAL_004")
        git_dir, common, self.object_format, *_ = [*found.split("\n"), ""]
        self._git_dir = Path(git_dir)
        self._common = self.folder / common
        head = self._ask("symbolic-ref", "-q", "HEAD") or ""
        if not head.startswith("refs/heads/"):
            raise ValidationError(DETACHED, "VAL_004")
        self.head_ref = head
        self.branch = head.removeprefix("refs/heads/")
        under_way = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge")
        if any((self._git_dir / name).exists() for name in under_way):
            raise ValidationError(MERGING, "VAL_004")
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        self._private = private / f"{name}.git"
        if not (self._private / "HEAD").is_file():
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
            options = [f"--object-format={self.object_format}", "--bare", "--quiet", "--template="]
            self._run(
                [self._program, "init", *options, str(self._private)], self._environment(local=True)
            )
            self._private.chmod(0o700)

    # --- reading what the user set up -----------------------------------------------------

    def _ask(self, *command: str) -> str | None:
        """Return what a command says of the user's repository; None if it fails.

        Only commands that read names, and `update-ref`: they run nothing but hooks, which are off.
        """
        assert command[0] in ("config", "rev-parse", "symbolic-ref", "update-ref"), command[0]
        environment = self._environment(local=True)
        environment["GIT_CEILING_DIRECTORIES"] = str(self.folder.parent)
        done = self._run(
            [*self._call(), "-C", str(self.folder), *command], environment, check=False
        )
        return done.stdout.decode("utf-8", "replace").strip("\n") if done.returncode == 0 else None

    def head(self) -> str:
        """Return the commit that is checked out; "" if there is none yet."""
        return self._ask("rev-parse", "--verify", "-q", f"{self.head_ref}^{{commit}}") or ""

    def remote(self) -> tuple[str, str]:
        """Return the address of the remote and the name of its branch; "" if there is none."""
        names = [self._ask("config", "--get", f"branch.{self.branch}.remote"), "origin"]
        for name in filter(None, names):
            address = self._ask("config", "--get", f"remote.{name}.pushurl") or self._ask(
                "config", "--get", f"remote.{name}.url"
            )
            if address:
                merged = self._ask("config", "--get", f"branch.{self.branch}.merge") or ""
                branch = merged.removeprefix("refs/heads/") or self.branch
                return self._resolve(address), branch
        return "", ""

    def _resolve(self, address: str) -> str:
        """Return an address as it is meant in the user's repository."""
        if address.startswith("-") or re.match(r"[A-Za-z0-9+.-]+::", address):
            raise ValidationError(
                "The remote of this repository has an address that names a program. Use https, "
                "ssh or a folder.",
                "VAL_004",
            )
        if _is_folder(address):
            path = Path(address.removeprefix("file://")).expanduser()
            return str(path if path.is_absolute() else self.folder / path)
        return address

    def identity(self) -> tuple[str, str]:
        """Return the name and the address of the user, for commits.

        Raises:
            ValidationError: Git does not know them.
        """
        name = os.environ.get("GIT_AUTHOR_NAME") or self._ask("config", "--get", "user.name")
        email = os.environ.get("GIT_AUTHOR_EMAIL") or self._ask("config", "--get", "user.email")
        if not name or not email:
            raise ValidationError(NO_NAME, "VAL_004")
        forbidden = str.maketrans("", "", "<>\n\0")
        return name.translate(forbidden), email.translate(forbidden)

    # --- the remote -----------------------------------------------------------------------

    def find_remote_head(self, address: str, branch: str) -> str:
        """Return the commit of a remote's branch; "" if the remote has no such branch.

        Raises:
            ProcessingError: SYNC_001, it cannot be reached.
        """
        options = ["--upload-pack", f"{_AT_FOLDER} upload-pack"] if _is_folder(address) else []
        done = self._transfer("ls-remote", *options, "--", address, f"refs/heads/{branch}")
        return done.stdout.split(b"\t")[0].decode("ascii", "replace").strip()

    def fetch(self, address: str, branch: str) -> str:
        """Fetch a remote's branch, and return its commit."""
        options = ["--upload-pack", f"{_AT_FOLDER} upload-pack"] if _is_folder(address) else []
        self._transfer(
            "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
            "--refmap=", *options, "--", address, f"+refs/heads/{branch}:{REMOTE}",
        )  # fmt: skip
        return self._git("rev-parse", REMOTE).decode().strip()

    def push(self, address: str, branch: str, commit: str) -> bool:
        """Push a commit; False if the remote refuses, for instance as it has others by now."""
        options = ["--receive-pack", f"{_AT_FOLDER} receive-pack"] if _is_folder(address) else []
        done = self._transfer(
            "push", "--quiet", "--no-verify", *options, "--", address,
            f"{commit}:refs/heads/{branch}", check=False,
        )  # fmt: skip
        return done.returncode == 0

    def _transfer(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        done = self._run(
            [*self._call(), *command],
            self._environment(local=False),
            check=False,
            seconds=TRANSFER_SECONDS,
        )
        if check and done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").lower()
            refused = ("authentication failed", "permission denied", "could not read username",
                       "403", "401")  # fmt: skip
            why = "refused you" if any(one in said for one in refused) else "cannot be reached"
            raise ProcessingError(
                f"The remote of this repository {why}. Nothing was changed here.",
                "SYNC_001",
            )
        return done

    def is_public(self, address: str) -> bool:
        """Return whether anyone can read a remote: it answers without any credentials."""
        anonymous = anonymous_address(address)
        if anonymous is None:
            return False
        nowhere = self._private / "no-home"
        nowhere.mkdir(mode=0o700, exist_ok=True)
        names = ("PATH", "LANG", "http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY",
                 "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "GIT_SSL_CAINFO")  # fmt: skip
        environment = {name: os.environ[name] for name in names if name in os.environ} | {
            "HOME": str(nowhere),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "false",
            "GIT_ALLOW_PROTOCOL": "git:http:https",
            "GIT_DIR": str(self._private),
            "LC_ALL": "C",
        }
        command = [*self._call(), "-c", "credential.helper=", "ls-remote", "--", anonymous]
        try:
            done = self._run(command, environment, check=False, seconds=ANONYMOUS_SECONDS)
        except ProcessingError:
            return False
        return done.returncode == 0

    def is_checked(self, address: str) -> bool:
        """Return whether the user has pushed to this remote from here before."""
        try:
            known = (self._private / CHECKED).read_text(encoding="ascii")
        except OSError:
            return False
        return known == hashlib.sha256(address.encode()).hexdigest()

    def set_checked(self, address: str) -> None:
        """Note that the user pushes to this remote."""
        digest = hashlib.sha256(address.encode()).hexdigest()
        (self._private / CHECKED).write_text(digest, encoding="ascii")

    # --- commits --------------------------------------------------------------------------

    def tree(self, commit: str) -> dict[str, TreeFile]:
        """Return the files of a commit, by path; none if there is no commit."""
        if not commit:
            return {}
        found: dict[str, TreeFile] = {}
        for entry in self._git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            if entry:
                about, _, path = entry.partition(b"\t")
                mode, _, oid = about.decode("ascii").split(" ")
                found[os.fsdecode(path)] = TreeFile(mode, oid)
        return found

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Yield the contents of files of commits, in order."""
        asked = list(oids)
        if not asked:
            return
        output = self._git("cat-file", "--batch", given="".join(f"{o}\n" for o in asked).encode())
        start = 0
        for oid in asked:
            end = output.index(b"\n", start)
            _, kind, size = output[start:end].split(b" ")
            assert kind == b"blob", oid
            start = end + 1 + int(size) + 1
            yield output[end + 1 : start - 1]

    def blob_id(self, content: bytes) -> str:
        """Return the name that git has for a content."""
        make = hashlib.sha256 if self.object_format == "sha256" else hashlib.sha1
        return make(b"blob %d\0" % len(content) + content).hexdigest()

    def base(self, first: str, second: str) -> str:
        """Return the last common commit of two; "" if there is none."""
        if not first or not second:
            return ""
        done = self._run(
            [*self._call(), "merge-base", first, second], self._environment(local=True), check=False
        )
        return done.stdout.decode("ascii", "replace").strip()

    def commit(
        self,
        message: str,
        parents: Sequence[str],
        files: Mapping[str, bytes | TreeFile | None],
        when: int,
    ) -> str:
        """Make a commit of the first parent's files with these changes, and return its name.

        Args:
            message: What it says.
            parents: The commits before it; none: it is the first one.
            files: New contents by path, files of other commits, None for those that are removed.
            when: Seconds since 1970.
        """
        name, email = self.identity()
        reference = f"refs/sync/new-{os.getpid()}-{os.urandom(4).hex()}"
        who = f"{name} <{email}> {when} +0000"
        text = message.encode()
        parts = [
            f"commit {reference}\nmark :1\nauthor {who}\ncommitter {who}\n".encode(),
            b"data %d\n%b\n" % (len(text), text),
            *(f"{'merge' if number else 'from'} {parent}\n".encode()
              for number, parent in enumerate(parents)),
        ]  # fmt: skip
        for path, content in files.items():
            quoted = _quote(path)
            if content is None:
                parts.append(b"D %b\n" % quoted)
            elif isinstance(content, TreeFile):
                parts.append(f"M {content.mode} {content.oid} ".encode() + quoted + b"\n")
            else:
                parts.append(b"M 100644 inline %b\ndata %d\n" % (quoted, len(content)))
                parts += [content, b"\n"]
        parts.append(b"get-mark :1\ndone\n")
        made = self._git("fast-import", "--quiet", "--done", given=b"".join(parts))
        commit = made.decode("ascii", "replace").strip()
        self._git("update-ref", "-d", reference)
        return commit

    def check_out(self, commit: str, before: str, files: Mapping[str, TreeFile | None]) -> None:
        """Let the branch and the index have a commit, whose files are in the work tree already.

        Raises:
            ProcessingError: SYNC_004, something else was committed meanwhile.
        """
        none = "0" * len(commit)
        if (
            self._ask("update-ref", "-m", "zapomni sync", self.head_ref, commit, before or none)
            is None
        ):
            raise ProcessingError(
                "Something was committed to this repository meanwhile. Run it again.", "SYNC_004"
            )
        lines = [
            b"%b %b\t%b\0" % ((file.mode if file else "0").encode(),
                              (file.oid if file else none).encode(), os.fsencode(path))
            for path, file in files.items()
        ]  # fmt: skip
        if lines:
            self._git("update-index", "-z", "--index-info", given=b"".join(lines))

    # --- the process ----------------------------------------------------------------------

    def _git(self, *command: str, given: bytes = b"") -> bytes:
        """Run a command in our own repository over the user's objects and index."""
        environment = self._environment(local=True)
        return self._run([*self._call(), *command], environment, given=given).stdout

    def _call(self) -> list[str]:
        options = [part for option in _OPTIONS for part in ("-c", option)]
        return [self._program, "--no-pager", "--literal-pathspecs", *options]

    def _environment(self, *, local: bool) -> dict[str, str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name in _KEPT
        }
        # No program of the repository is found by its name.
        inside = f"{self.folder}/"
        paths = environment.get("PATH", os.defpath).split(os.pathsep)
        environment["PATH"] = os.pathsep.join(
            path
            for path in paths
            if path.startswith("/") and not f"{os.path.realpath(path)}/".startswith(inside)
        )
        environment |= {
            "GIT_ALLOW_PROTOCOL": "none" if local else PROTOCOLS,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
            "GIT_EDITOR": ":",
            "LC_ALL": "C",
        }
        if hasattr(self, "_private"):
            environment |= {
                "GIT_DIR": str(self._private),
                "GIT_OBJECT_DIRECTORY": str(self._common / "objects"),
                "GIT_INDEX_FILE": str(self._git_dir / "index"),
            }
        return environment

    def _run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        given: bytes = b"",
        check: bool = True,
        seconds: float = SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        if "-C" in command or command[1] == "init":
            ours = ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE")
            environment = {k: v for k, v in environment.items() if k not in ours}
        try:
            done = subprocess.run(  # noqa: S603 - the program is found outside of the repository
                command, env=dict(environment), input=given, capture_output=True, cwd="/",
                timeout=seconds, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProcessingError(
                "Git did not answer in time. Nothing is lost; run it again.",
                "SYNC_004",
                original_exception=error,
            ) from error
        if check and done.returncode != 0:
            raise ProcessingError(
                "Git could not do its part in this repository. Nothing is lost.",
                "SYNC_004",
            )
        return done


def _is_folder(address: str) -> bool:
    """Return whether an address is a folder of this machine, as git reads it."""
    if address.startswith("file://"):
        return True
    if "://" in address:
        return False
    before, colon, _ = address.partition(":")
    return not colon or "/" in before


def anonymous_address(address: str) -> str | None:
    """Return where anyone would read a remote, without a name or password; None: nowhere."""
    if _is_folder(address):
        return None
    if "://" not in address:
        host, _, path = address.rpartition("@")[2].partition(":")
        return f"https://{host}/{path.lstrip('/')}"
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme in ("http", "https", "git"):
        port = f":{parts.port}" if parts.port else ""
        return urlunsplit((parts.scheme, f"{host}{port}", parts.path, "", ""))
    return f"https://{host}{parts.path}"


def _quote(path: str) -> bytes:
    """Return a path as `fast-import` takes it."""
    raw = os.fsencode(path)
    return (
        b'"'
        + b"".join(
            b"\\%03o" % byte if byte < 0x20 or byte >= 0x7F or byte in b'"\\' else bytes([byte])
            for byte in raw
        )
        + b'"'
    )
