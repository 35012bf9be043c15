"""A run into S3-compatible storage: first its files under a name of their own, then one small object that says which run it is.

    PREFIX/current.json               which run is in force, and its files; written last, by one PUT, which is atomic
    PREFIX/runs/000042-1f0c9b2a/…     the files of a run as in its folder; never changed once `current.json` has named them
    PREFIX/eloreplay.json             says that ratings lie here, so that nobody takes them for games

A run's prefix ends with a digest of its content: two folders that publish their run 42 to one place cannot write into each other's
files, and an upload that was interrupted is gone on with. Timeline files that the run in force has as well are copied inside the
storage and not sent again. They are not shared between runs: a run stays one prefix that any tool reads with one wildcard, and that
can be removed without asking who else needs it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from eloreplay.errors import EnvironmentFault, UsageFault
from eloreplay.objects import MARKER, SCHEME, failures, filesystem
from eloreplay.send_source import Part, Progress, RunFiles

CURRENT = "current.json"
#: Runs that stay, the one in force included.
KEPT = 3
BLOCK_BYTES = 8 << 20
PLAIN = ("manifest.json", "report.html")


class Place:
    """A prefix of a bucket."""

    def __init__(self, address: str) -> None:
        self.prefix = address[len(SCHEME) :].rstrip("/")
        self.shown = SCHEME + self.prefix
        self._storage = filesystem()

    def read(self, name: str) -> bytes | None:
        """An object's content, or None when it is not there."""
        from pyarrow import fs

        with failures(f"{self.shown}/{name}"):
            if self._storage.get_file_info(f"{self.prefix}/{name}").type != fs.FileType.File:
                return None
            with self._storage.open_input_stream(f"{self.prefix}/{name}") as stream:
                return bytes(stream.readall())

    def write(self, name: str, content: bytes) -> None:
        """Put a small object in its place, by one request."""
        with failures(f"{self.shown}/{name}"):
            # It is one request, made by `close`: the object is the old one until then and the new one from then on.
            stream = self._storage.open_output_stream(f"{self.prefix}/{name}")
            stream.write(content)
            stream.close()

    def sizes(self, folder: str) -> dict[str, int]:
        """Objects below a prefix that are whole, by the rest of their name, and their sizes."""
        from pyarrow import fs

        base = f"{self.prefix}/{folder}"
        with failures(f"{self.shown}/{folder}"):
            infos = self._storage.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
        return {info.path[len(base) + 1 :]: info.size for info in infos if info.type == fs.FileType.File}

    def upload(self, path: Path, name: str) -> None:
        """Send a file. Until it has been closed there is no object; should a failure leave a part as one, its size tells."""
        with failures(f"{self.shown}/{name}"), path.open("rb") as source:
            stream = self._storage.open_output_stream(f"{self.prefix}/{name}")
            while block := source.read(BLOCK_BYTES):
                stream.write(block)
            stream.close()

    def copy(self, old: str, new: str) -> bool:
        """Copy inside the storage; False when that cannot be done (the old object has gone, or is too large for one request)."""
        try:
            self._storage.copy_file(f"{self.prefix}/{old}", f"{self.prefix}/{new}")
        except OSError:
            return False
        return True

    def drop(self, folder: str) -> None:
        """Remove a prefix with all that is below."""
        with failures(f"{self.shown}/{folder}"):
            self._storage.delete_dir(f"{self.prefix}/{folder}")


def what_is_there(place: Place) -> dict[str, Any] | None:
    """The content of `current.json`, or None before the first run.

    Raises:
        UsageFault: it is not one of ours.
        EnvironmentFault: no connection, no right, no bucket.
    """
    content = place.read(CURRENT)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if isinstance(found, dict) and found["format"] == 1 and isinstance(found["files"], list):
            return found
    except (ValueError, KeyError):
        pass
    raise UsageFault(f"{place.shown}/{CURRENT}: not one that eloreplay made, so nothing here was touched: choose another prefix")


def folder_of(files: RunFiles) -> str:
    """Where a run's files go: its number and a digest of its content."""
    content = json.dumps([[part.name, part.sha256] for part in files.parts] + [files.manifest], sort_keys=True)
    return f"runs/{files.name}-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def listing(files: RunFiles, there: dict[str, Any] | None) -> dict[str, Any]:
    """What `current.json` will say."""
    folder = folder_of(files)
    kept = [name for name in (there or {}).get("kept", []) if isinstance(name, str) and name != folder]
    return {
        "format": 1,
        **files.facts(),
        "folder": folder,
        "kept": [folder, *kept][:KEPT],
        "files": [
            {"table": part.table, "name": part.name, "rows": part.rows, "bytes": part.path.stat().st_size, "sha256": part.sha256}
            for part in files.parts
        ],
    }


def known_parts(there: dict[str, Any] | None) -> dict[str, str]:
    """Digest of a file to the object that holds it already."""
    if there is None:
        return {}
    return {str(file["sha256"]): f"{there['folder']}/{file['name']}" for file in there["files"]}


def send(place: Place, files: RunFiles, there: dict[str, Any] | None, progress: Progress, everything: bool) -> list[Part]:
    """Bring a run to the storage and put it in force; returns the files that were sent.

    Raises:
        EnvironmentFault: no connection, no right; what is in force stays so.
    """
    content = listing(files, there)
    folder = content["folder"]
    whole = {} if everything else place.sizes(folder)
    known = {} if everything else known_parts(there)
    total, done = sum(part.rows for part in files.parts), 0
    sent: list[Part] = []
    for part in files.parts:
        if whole.get(part.name) != part.path.stat().st_size:
            old = known.get(part.sha256)
            if old is None or not place.copy(old, f"{folder}/{part.name}"):
                place.upload(part.path, f"{folder}/{part.name}")
                sent.append(part)
        done += part.rows
        progress("sending", done, total)
    for name in PLAIN:
        if (files.folder / name).exists():
            place.upload(files.folder / name, f"{folder}/{name}")
    _insist_whole(place, files, folder)
    if place.read(MARKER) is None:
        place.write(MARKER, b'{"format": 1}\n')
    place.write(CURRENT, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    return sent


def _insist_whole(place: Place, files: RunFiles, folder: str) -> None:
    """Every file stands there with its size, before anybody is sent to it."""
    whole = place.sizes(folder)
    for part in files.parts:
        if whole.get(part.name) != part.path.stat().st_size:
            raise EnvironmentFault(f"{place.shown}/{folder}/{part.name}: did not arrive whole; what was in force there still is")


def drop_old(place: Place, there: dict[str, Any] | None, files: RunFiles) -> None:
    """Remove the runs that are kept no longer; who still reads one has had two runs' time."""
    kept = listing(files, there)["kept"]
    for folder in (there or {}).get("kept", []):
        if isinstance(folder, str) and folder not in kept and folder.startswith("runs/") and ".." not in folder:
            place.drop(folder)
