"""A server of S3, to which feeds are delivered."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from support.shared_data import needs_package

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hidden7"  # noqa: S105 - of a server on loopback


@contextmanager
def s3_server() -> Iterator[tuple[dict[str, Any], Any]]:
    """Serve S3; yields the settings, and a client with a bucket ``bucket``."""
    needs_package("moto", "boto3")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key=SECRET,
    )
    # The servers of a process share their objects.
    with urlopen(f"{endpoint}/moto-api/reset", data=b""):  # noqa: S310 - on loopback
        pass
    client.create_bucket(Bucket="bucket")
    try:
        settings = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION_NAME": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        yield settings, client
    finally:
        client.close()
        server.stop()
