"""Objects in S3-compatible storage: what an `s3://` name means, and a local copy of each, fetched once.

Everything that is checked of a file (its footer, the zone of its stamps, the numbers of its rows) is checked of the copy, so an
object obeys the very rules of a file; messages name the object. A copy is kept under the object's name and fetched again when the
object's size or ETag says that it is another one.

Who connects, and where, is said by the environment alone: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE,
AWS_REGION, AWS_ENDPOINT_URL (or AWS_ENDPOINT_URL_S3).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from eloreplay.errors import EnvironmentFault, InputRefused, UsageFault

SCHEME = "s3://"
FOLDER_VARIABLE = "ELOREPLAY_OBJECTS_DIR"
MARKER = "eloreplay.json"
BLOCK_BYTES = 8 << 20
FETCHERS = 8
CONNECT_S, REQUEST_S = 10.0, 60.0
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_WILD = re.compile(r"[*?\[]")
_HINTS = {
    "ACCESS_DENIED": "the credentials of the environment (AWS_ACCESS_KEY_ID …, AWS_PROFILE) are wrong or may not do this",
    "INVALID_ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID is not known there",
    "SIGNATURE_DOES_NOT_MATCH": "AWS_SECRET_ACCESS_KEY is not the one of AWS_ACCESS_KEY_ID",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NETWORK_CONNECTION": "the storage cannot be reached: is AWS_ENDPOINT_URL right?",
}


def is_object(name: str) -> bool:
    """Whether an argument means objects, and no file."""
    return name.startswith(SCHEME)


def absolute(name: str) -> str:
    """The argument as it will still be found from another folder."""
    return name if is_object(name) else os.path.abspath(name)


def filesystem() -> Any:
    """The storage that the environment names.

    Raises:
        UsageFault: AWS_ENDPOINT_URL is no address.
    """
    from pyarrow import fs

    settings: dict[str, Any] = {"connect_timeout": CONNECT_S, "request_timeout": REQUEST_S}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc or "@" in parts.netloc:
            raise UsageFault("AWS_ENDPOINT_URL: an address such as https://s3.example:9000 is needed, without credentials")
        settings |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region or endpoint:
        settings["region"] = region or "us-east-1"
    with failures(SCHEME + "…"):
        return fs.S3FileSystem(**settings)


@contextlib.contextmanager
def failures(what: str) -> Iterator[None]:
    """Turn what goes wrong in the storage into an error in words, without anything secret.

    Raises:
        EnvironmentFault: no connection, no right, no bucket.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        text = " ".join(str(error).split())
        for name in _SECRETS:
            if os.environ.get(name):
                text = text.replace(os.environ[name], "***")
        found = re.search(r"AWS Error ([A-Z_0-9]+)", text)
        hint = _HINTS.get(found[1] if found else "", "")
        raise EnvironmentFault(f"{what}: {hint + ': ' if hint else ''}{text}") from None


def fetch(arguments: list[str]) -> dict[Path, str]:
    """Local copies of the objects that names mean: path to the object's name. Prefixes mean `**/*.parquet` below, like folders.

    Raises:
        InputRefused: nothing there; an object that changes while it is fetched.
        EnvironmentFault: no connection, no right, no room.
        UsageFault: no folder for the copies.
    """
    storage, folder = filesystem(), _folder()
    keys: dict[str, int] = {}
    for argument in arguments:
        found = _expand(storage, argument)
        if not found:
            _insist_bucket(storage, argument)
            raise InputRefused(f"{argument}: no such object, no prefix with a .parquet object and no match; nothing was published")
        keys |= found
    home = hashlib.sha256(str(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")).encode()).hexdigest()
    with ThreadPoolExecutor(FETCHERS) as pool:
        paths = pool.map(lambda key: _copy_of(storage, key, folder / home[:8]), keys)
        return {path: SCHEME + key for path, key in zip(paths, keys, strict=True)}


def _folder() -> Path:
    asked = os.environ.get(FOLDER_VARIABLE)
    if asked:
        folder = Path(asked)
    else:
        from eloreplay.compiled import cache_folder

        cache = cache_folder()
        if cache is None:
            raise UsageFault(f"s3://…: objects are copied to a folder first: name one of yours in {FOLDER_VARIABLE}")
        folder = cache / "objects"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault(
            f"{folder}: {error.strerror}; {FOLDER_VARIABLE} names another folder for copies of objects"
        ) from None
    return folder.resolve()


def _expand(storage: Any, argument: str) -> dict[str, int]:
    """Keys (with the bucket) behind one name, and their sizes."""
    from pyarrow import fs

    name = argument[len(SCHEME) :].rstrip("/")
    if not name.partition("/")[0] or "//" in name:
        raise UsageFault(f"{argument}: s3://bucket, s3://bucket/prefix or s3://bucket/object.parquet is needed")
    with failures(argument):
        info = storage.get_file_info(name) if "/" in name else None
    if info is not None and info.type == fs.FileType.File:
        return {name: info.size}
    if not _WILD.search(name):
        return _listed(storage, argument, name, None)
    fixed = _WILD.split(name)[0].rpartition("/")[0]
    if not fixed:
        raise UsageFault(f"{argument}: a bucket's name has no wildcards")
    return _listed(storage, argument, fixed, _matcher(name))


def _insist_bucket(storage: Any, argument: str) -> None:
    from pyarrow import fs

    bucket = argument[len(SCHEME) :].partition("/")[0]
    with failures(argument):
        if storage.get_file_info(bucket).type == fs.FileType.NotFound:
            raise InputRefused(f"{argument}: there is no bucket {bucket!r}; nothing was published")


def _listed(storage: Any, argument: str, base: str, wanted: re.Pattern[str] | None) -> dict[str, int]:
    from pyarrow import fs

    with failures(argument):
        infos = storage.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = {info.path: info.size for info in infos if info.type == fs.FileType.File}
    # What was published there holds ratings, no games.
    ours = tuple(key.rpartition("/")[0] + "/" for key in files if key.rpartition("/")[2] == MARKER)
    found = {}
    for key, size in sorted(files.items()):
        if wanted is not None and wanted.fullmatch(key):
            found[key] = size
            continue
        names = key.split("/")
        folder = len(base.split("/"))
        if wanted is not None:
            # A wildcard may mean a prefix, of which all is meant, as of a folder.
            folder = next((at for at in range(1, len(names)) if wanted.fullmatch("/".join(names[:at]))), len(names))
        below = names[folder:]
        visible = below and not any(part.startswith((".", "_")) for part in below)
        if visible and key.endswith(".parquet") and not (ours and key.startswith(ours)):
            found[key] = size
    return found


def _matcher(name: str) -> re.Pattern[str]:
    """Wildcards as for files: `**` is any number of folders, `*` and `?` stay inside one; a dot at the start must be named."""
    parts = []
    for segment in name.split("/"):
        if segment == "**":
            parts.append(r"(?:(?!\.)[^/]+/)*")
            continue
        text = re.sub(
            r"\*|\?|\[!?[^\]]+\]|.",
            lambda found: {"*": "[^/]*", "?": "[^/]"}.get(
                found[0], found[0].replace("[!", "[^") if found[0][0] == "[" and len(found[0]) > 1 else re.escape(found[0])
            ),
            segment,
            flags=re.DOTALL,
        )
        parts.append((r"(?!\.)" if _WILD.match(segment) else "") + text + "/")
    return re.compile("".join(parts).removesuffix("/"), re.DOTALL)


def _copy_of(storage: Any, key: str, folder: Path) -> Path:
    shown = SCHEME + key
    place = folder / hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    copy, known = place / "object.parquet", place / "object.json"
    says = _says(storage, key)
    try:
        if json.loads(known.read_text(encoding="utf-8")) == says and copy.stat().st_size == says["size"]:
            return copy
    except (OSError, ValueError):
        pass
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place, prefix=".part-", delete=False) as part:
            try:
                _download(storage, key, part)
                if os.path.getsize(part.name) != says["size"] or _says(storage, key) != says:
                    raise InputRefused(f"{shown}: the object was replaced while it was fetched; nothing was published: run again")
                # Without what it says of an older copy in between: a killed fetch must not pass for a whole one.
                known.unlink(missing_ok=True)
                os.replace(part.name, copy)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(part.name)
                raise
        known.write_text(json.dumps(says), encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(f"{place}: the copy of {shown} cannot be written: {error.strerror}") from None
    return copy


def _says(storage: Any, key: str) -> dict[str, Any]:
    """What tells this version of the object from another."""
    with failures(SCHEME + key), storage.open_input_file(key) as stream:
        found = {str(name): bytes(value).decode("utf-8", "replace") for name, value in stream.metadata().items()}
        # A storage without ETags has the moment alone.
        version = {"etag": found["ETag"]} if found.get("ETag") else {"modified": found.get("Last-Modified")}
        return {"key": key, "size": stream.size(), **version}


def _download(storage: Any, key: str, part: Any) -> None:
    with failures(SCHEME + key):
        stream = storage.open_input_stream(key)
    with stream:
        while True:
            with failures(SCHEME + key):
                block = stream.read(BLOCK_BYTES)
            if not block:
                break
            part.write(block)
    part.flush()
