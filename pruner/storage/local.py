"""The local disk as a store.

Implemented here and not with `obstore`, whose local store does not fsync and omits files named like `x#1` from
its listing (measured with 0.12). The atomic step is the same as there: a hard link, which fails if the name
exists.
"""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pruner.errors import ConflictError, StorageError
from pruner.storage.store import LargerError, NotFoundError, ObjectInfo, RefusedError, Store, check_path

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

STAGING = "staging"
"""Folder below the root for files that do not have their final name yet."""

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_NO_LINKS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_NO_PLACE = (errno.ENOTDIR, errno.ENOENT)
_NO_FOLDER = (
    "there is no folder and none can be made; name another place for the metadata table with index_uri "
    "(--index-uri)"
)


class LocalStore(Store):
    """The files below a folder of the local disk; the first write creates the folder."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._root = Path(uri)

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object: see `Store.get`."""
        with self._reading(path) as file:
            data = _read_up_to(file, max_bytes + 1)
        if len(data) > max_bytes:
            raise LargerError(f"{self.uri}/{path} is larger than the {max_bytes} bytes that are allowed")
        return data

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some ranges of an object: see `Store.get_ranges`."""
        with self._reading(path) as file:
            content = [os.pread(file, length, start) for start, length in ranges]
        if any(len(data) != length for data, (_, length) in zip(content, ranges, strict=True)):
            raise StorageError(f"{self.uri}/{path} is shorter than requested")
        return content

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object unless it exists: see `Store.put_if_absent`."""
        target = self._root / check_path(path)
        staged = self._root / STAGING / uuid.uuid4().hex
        with self._writing(path):
            _make_folder(target.parent)
            _make_folder(staged.parent)
            try:
                _write_durably(staged, data)
                # The name appears only now, for a file that is complete and on disk.
                os.link(staged, target)
            except FileExistsError:
                return False
            except FileNotFoundError:
                if not target.parent.is_dir():
                    raise
                raise ConflictError(
                    f"{self.uri}/{path} was removed by a vacuum while it was being written: "
                    "try again, and let vacuum wait longer than writers run"
                ) from None
            finally:
                staged.unlink(missing_ok=True)
            _sync_folder(target.parent)
        return True

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a unique name: see `Store.put_new`."""
        target = self._root / check_path(path)
        with self._writing(path):
            _make_folder(target.parent)
            _write_durably(target, data)
            _sync_folder(target.parent)

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        target = self._root / check_path(path)
        try:
            return _info(path, target.stat()) if target.is_file() else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"cannot look up {self.uri}/{path}: {error.strerror}") from None

    def infos(self, paths: Iterable[str]) -> dict[str, ObjectInfo]:
        """Look some objects up one by one, because a listing is not faster: see `Store.infos`."""
        infos = [self.info(path) for path in paths]
        return {info.path: info for info in infos if info is not None}

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        folder = self._root / check_path(prefix) if prefix else self._root
        try:
            infos = list(_walk(folder, f"{prefix}/" if prefix else "", after or "", ()))
        except OSError as error:
            where = f"{self.uri}/{prefix}" if prefix else self.uri
            if error.errno == errno.ENOTDIR:
                raise StorageError(f"cannot list {where}: {_NO_FOLDER}") from None
            raise StorageError(f"cannot list {where} completely: {error.strerror}") from None
        return sorted(infos)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects: see `Store.delete`."""
        folders: set[Path] = set()
        for path in paths:
            target = self._root / check_path(path)
            with self._writing(path):
                target.unlink(missing_ok=True)
            folders.add(target.parent)
        for folder in folders:
            if folder.is_dir():
                _sync_folder(folder)

    def remove_empty_folders(self) -> None:
        """Remove empty folders: see `Store.remove_empty_folders`."""
        for folder, _, _ in os.walk(self._root, topdown=False):
            try:
                Path(folder).rmdir()
            except OSError:
                continue  # not empty, which is not a failure

    @contextmanager
    def _reading(self, path: str) -> Generator[int]:
        try:
            file = os.open(self._root / check_path(path), os.O_RDONLY)
        except FileNotFoundError:
            raise NotFoundError(f"{self.uri}/{path} does not exist") from None
        except OSError as error:
            raise StorageError(f"cannot read {self.uri}/{path}: {error.strerror}") from None
        try:
            yield file
        except OSError as error:
            raise StorageError(f"cannot read {self.uri}/{path}: {error.strerror}") from None
        finally:
            os.close(file)

    @contextmanager
    def _writing(self, path: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise RefusedError(self._write_failure(path, error)) from None

    def _write_failure(self, path: str, error: OSError) -> str:
        if error.errno in _READ_ONLY:
            return (
                f"cannot write below {self.uri} ({error.strerror}): "
                "name a writable place for the metadata table with index_uri (--index-uri)"
            )
        if error.errno in _NO_LINKS:
            return (
                f"the file system of {self.uri} has no hard links, which atomic commits need: "
                "name another place for the metadata table with index_uri (--index-uri)"
            )
        if error.errno in _NO_PLACE:
            return f"cannot write below {self.uri}: {_NO_FOLDER}"
        return f"cannot write {self.uri}/{path}: {error.strerror}"


def _read_up_to(file: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    left = limit
    while left > 0:
        piece = os.read(file, min(left, 1 << 24))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _write_durably(target: Path, data: bytes) -> None:
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
        os.fsync(file)
    except BaseException:
        # Frees the space of a full disk, and no reader finds half a file.
        target.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, each durably: a file is only as durable as its path."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # from file systems that cannot sync a folder
            raise
    finally:
        os.close(file)


def _walk(folder: Path, prefix: str, after: str, above: tuple[tuple[int, int], ...]) -> Iterator[ObjectInfo]:
    """Yield the files in and below a folder; `above` holds its ancestors, to detect link cycles."""
    start = after[len(prefix) :].partition("/")[0] if after.startswith(prefix) else ""
    try:
        status = folder.stat()
        # Entries before `after` cost nothing more: a commit lists the last two of thousands of log entries.
        # "0" is the character after "/", so everything below a folder sorts before its name followed by "0".
        entries = [entry for entry in os.scandir(folder) if entry.name + "0" > start]
    except FileNotFoundError:
        return  # never existed, or removed since its parent was read
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        raise OSError(errno.ELOOP, f"the link {folder} leads into a folder above it")
    for entry in entries:
        path = prefix + _name(entry.name)
        if entry.is_dir():
            yield from _walk(folder / entry.name, path + "/", after, (*above, identity))
        elif path > after:
            try:
                yield _info(path, entry.stat())
            except FileNotFoundError:
                continue  # removed since the folder was read


def _name(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, f"the file name {name!r} is not UTF-8: rename the file") from None
    return name


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    etag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return ObjectInfo(path, status.st_size, status.st_mtime_ns, etag)
