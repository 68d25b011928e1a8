"""curl: every way through the gateway, every kind of transfer, and refusals that its user can read."""

import hashlib
import json

import pytest

from tests.fakes.authority import Authority
from tests.fakes.product import REFUSED, Product, was_refused, went_out
from tests.fakes.site import BLOCK, BLOCKS, LOOPBACKS, ORIGIN, ZIPPED, Site, large, large_digest, open_site

SIZE = BLOCKS * len(BLOCK)


@pytest.mark.parametrize("address", LOOPBACKS)
def test_every_way_out(product: Product, authority: Authority, address: str) -> None:
    with open_site(product, authority, address=address) as site:
        script = f"""
        set -e
        curl -sS {site.http}/hello?http
        curl -sS --cacert {site.authority} {site.https}/hello?https
        curl -sS -x "$ALL_PROXY" {site.http}/hello?socks
        curl -sS -x "$ALL_PROXY" --cacert {site.authority} {site.https}/hello?socks-tls
        curl -sS --proxytunnel {site.http}/hello?tunnel
        """
        done = product.run("sh", "-c", script)
    assert done.lines == [f"hello GET {way}" for way in ("http", "https", "socks", "socks-tls", "tunnel")]
    inner = went_out("connect", site.plain_target, inside=1) + went_out("socks", site.plain_target, inside=1)
    assert done.log == (
        went_out("http", site.plain_target)
        + went_out("connect", site.secure_target)
        + went_out("socks", site.secure_target)
        + inner
    )
    assert {record.get("address", address) for record in done.egress} == {address}
    assert [record["sni"] for record in done.egress if "sni" in record] == [ORIGIN, ORIGIN]


def test_refusals_are_readable(product: Product, site: Site) -> None:
    script = f"""
    curl -sS -o plain http://{site.refused_plain}/hello?secret=1; echo $?
    curl -sS -i https://{site.refused_secure}/hello >tunnel; echo $?
    curl -sS -x "$ALL_PROXY" https://{site.refused_secure}/hello; echo $?
    """
    done = product.run("sh", "-c", script)
    plain, tunnel, socks = done.lines
    assert (plain, tunnel != "0", socks) == ("0", True, "97")
    answer = json.loads((product.work / "plain").read_text())
    assert (answer["code"], answer["host"], answer["port"]) == ("not_listed", REFUSED, site.plain.port)
    assert f"This sandbox's network policy refused {REFUSED} port {site.plain.port}: " in answer["message"]
    assert f"--allow {REFUSED}" in answer["message"]
    head = (product.work / "tunnel").read_text()
    assert head.startswith("HTTP/1.1 403 ")
    assert "\nX-Agent-Gateway: deny; code=not_listed\n" in head
    assert "CONNECT tunnel failed, response 403" in done.stderr
    assert done.log == (
        was_refused("http", site.refused_plain)
        + was_refused("connect", site.refused_secure)
        + was_refused("socks", site.refused_secure)
    )
    assert (done.allowed, done.denied) == (0, 3)
    assert "secret" not in json.dumps(done.records)


def test_kinds_of_transfer(product: Product, site: Site) -> None:
    script = f"""
    set -e
    for page in hello zipped none; do set -- "$@" -o /dev/null {site.http}/$page; done
    curl -sS -w '%{{num_connects}} %{{http_code}}\\n' "$@"
    curl -sS -I {site.http}/large | grep -e ^HTTP -e ^Content-Length
    printf body | curl -sS --data-binary @- {site.http}/digest
    printf chunked | curl -sS -T - {site.http}/digest
    curl -sS -o zipped {site.http}/zipped
    curl -sS --compressed {site.http}/zipped | head -1
    """
    done = product.run("sh", "-c", script)
    assert [line.rstrip("\r") for line in done.lines] == [
        "1 200",
        "0 200",
        "0 404",
        "HTTP/1.1 200 OK",
        f"Content-Length: {SIZE}",
        f"4 {hashlib.sha256(b'body').hexdigest()}",
        f"7 {hashlib.sha256(b'chunked').hexdigest()}",
        "words that are said again and again",
    ]
    assert (product.work / "zipped").read_bytes() == ZIPPED
    assert done.log == went_out("http", site.plain_target, 8)
    assert site.plain.connections == 6
    asked = [(record["method"], record["path"]) for record in done.closed("http")]
    assert asked == [
        ("GET", "/hello"), ("GET", "/zipped"), ("GET", "/none"), ("HEAD", "/large"),
        ("POST", "/digest"), ("PUT", "/digest"), ("GET", "/zipped"), ("GET", "/zipped"),
    ]  # fmt: skip
    assert (done.allowed, done.denied) == (8, 0)


def test_large_bodies_both_ways(product: Product, site: Site) -> None:
    with open(product.work / "large", "wb") as file:
        file.writelines(large())
    script = f"""
    set -e
    for way in "{site.http}" "{site.https} --cacert {site.authority}" "{site.http} -x $ALL_PROXY"; do
        set -- $way
        url=$1; shift
        curl -sS "$@" -T large $url/digest
        curl -sS "$@" $url/large | cmp - large
    done
    """
    done = product.run("sh", "-c", script)
    (product.work / "large").unlink()
    assert done.lines == [f"{SIZE} {large_digest()}"] * 3
    for transport in ("http", "connect", "socks"):
        # Inside the SOCKS tunnels each request has a record of its own.
        up, down = (one for one in done.closed(transport) if transport != "socks" or "method" in one)
        assert SIZE <= up["bytes_up"] < SIZE * 1.01
        assert SIZE <= down["bytes_down"] < SIZE * 1.01
