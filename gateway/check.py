"""The dry runs behind `agent-gateway check`: what would be decided, by the same rules, with nothing recorded."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.allowlists import load_shipped
from gateway.authorizer import explain
from gateway.config import check_config, compile_egress, find_config, load_config
from gateway.errors import UsageError
from gateway.policy.decision import Decision
from gateway.policy.egress import EgressRequest, Transport
from gateway.policy.hosts import HostError, PortError, parse_literal, split_authority
from gateway.policy.lists import MAX_FILE, parse_list
from gateway.policy.problem import Problem
from gateway.policy.refusals import refusal_message, shown_host
from gateway.policy.wording import printable

_DEFAULT_PORT = 443


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """The decision for one host and port."""

    host: str
    port: int
    decision: Decision

    @property
    def allowed(self) -> bool:
        """Whether a connection would be tried."""
        return self.decision.allowed

    def as_json(self) -> dict[str, object]:
        """For scripts: the names of the audit record and of a refusal's body."""
        return {
            "host": self.host,
            "port": self.port if self.port >= 0 else None,
            "verdict": self.decision.verdict.value,
            "code": str(self.decision.code),
            "rule": self.decision.rule,
            "message": self.decision.reason
            if self.allowed
            else refusal_message(self.decision, self.host, self.port),
        }

    def as_text(self) -> str:
        """For people: verdict, code, target, rule, reason; printable, whatever was asked for."""
        code = f" {self.decision.code}" if self.decision.code else ""
        host = shown_host(self.host)
        target = f"[{host}]" if parse_literal(self.host) is not None and ":" in host else host
        port = f":{self.port}" if self.port >= 0 else ""
        return f"{self.decision.verdict.value}{code} {target}{port} ({self.decision.rule}): {self.decision.reason}"


def check_host(
    target: str, config_file: str | None, extras: Sequence[str], network: bool, environ: Mapping[str, str]
) -> HostAnswer:
    """The egress decision for NAME[:PORT] (port 443 unless named). ConfigError, UsageError."""
    lists = load_shipped()
    config = load_config(find_config(config_file, environ), lists)
    rules = compile_egress(config, lists, extras, network)
    request = _request(target)
    return HostAnswer(request.host, request.port, explain(rules, request))


def _request(target: str) -> EgressRequest:
    literal = parse_literal(target)
    if literal is not None and literal.version == 6:
        target = f"[{target}]"  # an IPv6 address alone may be written without brackets here
    try:
        host, port = split_authority(target, _DEFAULT_PORT)
    except PortError as error:
        host, port = error.host, error.port
    except HostError as error:
        return EgressRequest(Transport.CONNECT, target, -1, malformed=str(error))
    return EgressRequest(Transport.CONNECT, host, port)


def check_file(file: str | None, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """Every problem of a config file, or of a list (its name ends in .txt); without a name of the config that `run`
    would use. UsageError for an empty name."""
    if file is None:
        return check_config(find_config(None, environ), load_shipped())
    if not file:
        raise UsageError("the path of the file is empty", "name one, or leave it out")
    path = Path(file)
    return _check_list(path, printable(file)) if path.suffix == ".txt" else check_config(path, load_shipped())


def _check_list(path: Path, name: str) -> tuple[Problem, ...]:
    try:
        # A pipe would block; one byte more than allowed tells the parser that it is too long.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return (Problem(name, 0, "no file: name the list itself"),)
            return parse_list(file.read(MAX_FILE + 1), name).problems
    except OSError as error:
        return (Problem(name, 0, f"cannot be read: {error.strerror}"),)
