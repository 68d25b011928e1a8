"""What sessions may do apart from the lists: nothing with the network off, and nothing that another was permitted."""

from contextlib import ExitStack

from tests.fakes.product import Product, Running, was_refused, went_out
from tests.fakes.site import PAGES, Site
from tests.fakes.web import Web


def test_network_off(product: Product, site: Site) -> None:
    script = f"""
    curl -sS -o /dev/null -w '%{{http_code}}\\n' {site.http}/hello
    curl -sS -x "$ALL_PROXY" {site.http}/hello; echo "exit $?"
    """
    done = product.run("sh", "-c", script, options=("--no-network",))
    assert done.lines == ["403", "exit 97"]
    assert done.log == (
        was_refused("http", site.plain_target, code="network_off")
        + was_refused("socks", site.plain_target, code="network_off")
    )


# Waits for a word, then asks for both; the two sessions are at it at the same time.
BOTH = """
echo ready
read word
for host in one.test two.test; do
    curl -sS -o /dev/null -w "$host %{http_code}\\n" http://$host:$1/hello
done
read word
"""


def test_two_sessions_at_once(product: Product) -> None:
    names = ("one.test", "two.test")
    names = ("one.test", "two.test")
    with Web(PAGES) as web, ExitStack() as stack:
        # Both names can be reached, as far as the configuration goes, and neither is allowed by it.
        for name in names:
            product.reach(name, web.port)
        product.egress["allow"] = []
        sessions = {name: stack.enter_context(both(product, name, web.port)) for name in names}
        for session in sessions.values():
            assert session.hear() == "ready"
        for session in sessions.values():
            session.tell("go")
        heard = {name: [session.hear() for _ in names] for name, session in sessions.items()}
        done = {name: session.end() for name, session in sessions.items()}
    assert heard["one.test"] == ["one.test 200", "two.test 403"]
    assert heard["two.test"] == ["one.test 403", "two.test 200"]
    for own, other in (names, names[::-1]):
        assert {record["session"] for record in done[own].egress} == {f"session-{own}"}
        assert done[own].log == went_out("http", f"{own}:{web.port}") + was_refused(
            "http", f"{other}:{web.port}"
        )
        assert {record["rule"] for record in done[own].egress if record["host"] == own} == {"--allow"}


def both(product: Product, name: str, port: int) -> Running:
    """A session of this name that is allowed the host of the same name."""
    options = ("--allow", name, "--session", f"session-{name}")
    return product.start("sh", "-c", BOTH, "sh", str(port), options=options)
