"""Helpers of the tests with objects: a storage of their own on loopback, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Storage:
    """A running storage and the variables by which it is found."""

    port: int

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": "hunter2",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def files(self) -> Any:
        """What pyarrow sees of it."""
        from pyarrow import fs

        return fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            region="us-east-1",
            access_key="somebody",
            secret_key="hunter2",
            allow_bucket_creation=True,
        )

    def put(self, key: str, path: Path) -> None:
        with self.files.open_output_stream(key) as stream:
            stream.write(path.read_bytes())

    def read(self, key: str) -> bytes:
        with self.files.open_input_stream(key) as stream:
            return bytes(stream.readall())

    def keys(self, base: str) -> list[str]:
        from pyarrow import fs

        infos = self.files.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
        return sorted(info.path[len(base) + 1 :] for info in infos if info.type == fs.FileType.File)


@contextlib.contextmanager
def storage(*, closed: bool = False) -> Iterator[Storage]:
    """Run a storage; `closed`: one that knows nobody's keys."""
    more = {"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if closed else {}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | more,
    )
    assert process.stdout is not None
    try:
        yield Storage(int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()
