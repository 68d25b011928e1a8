"""A name server that answers from a table and remembers what it was asked."""

import asyncio
from ipaddress import ip_address

from gateway.policy.addresses import Address
from gateway.policy.egress import Code
from gateway.proxy.dialling import UpstreamError

LOOPBACK = ip_address("127.0.0.1")


class StubResolver:
    """Answers names with addresses. Every name leads to `default` unless `answers` has other ones for it.

    `answers[name]` is a list of answers, given one after the other; the last one stays. An empty answer is a failure.
    """

    def __init__(self, *default: str) -> None:
        self.default: tuple[Address, ...] = tuple(map(ip_address, default)) or (LOOPBACK,)
        self.answers: dict[str, list[tuple[Address, ...]]] = {}
        self.asked: list[str] = []
        self._held: set[str] = set()
        self._fault: Exception | None = None

    def break_down(self, fault: Exception) -> None:
        """Fails with this at every question."""
        self._fault = fault

    def hold(self, host: str) -> None:
        """Never answers for `host`."""
        self._held.add(host)

    def answer(self, host: str, *answers: tuple[str, ...]) -> None:
        """What `host` leads to, look-up by look-up."""
        self.answers[host] = [tuple(map(ip_address, addresses)) for addresses in answers]

    async def resolve(self, session_id: str, host: str) -> tuple[Address, ...]:
        """The next answer for `host`; UpstreamError(dns_failed) when it is empty."""
        self.asked.append(host)
        if self._fault is not None:
            raise self._fault
        if host in self._held:
            await asyncio.get_running_loop().create_future()
        answers = self.answers.get(host)
        if answers is None:
            return self.default
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if not answer:
            raise UpstreamError(Code.DNS_FAILED, f"{host} has no address")
        return answer
