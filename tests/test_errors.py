"""What is broken says what, and what to do about it."""

import pytest

from gateway.errors import AuditError, GatewayError, UsageError


@pytest.mark.parametrize("kind", [GatewayError, UsageError, AuditError])
def test_message_and_hint(kind: type[GatewayError]) -> None:
    error = kind("it is broken", "mend it")
    assert (error.message, error.hint, str(error)) == ("it is broken", "mend it", "it is broken (mend it)")
    assert isinstance(error, GatewayError)


@pytest.mark.parametrize("kind", [GatewayError, UsageError, AuditError])
def test_without_a_hint(kind: type[GatewayError]) -> None:
    error = kind("it is broken")
    assert (error.hint, str(error)) == ("", "it is broken")


def test_kinds_are_told_apart() -> None:
    with pytest.raises(AuditError):
        raise AuditError("no room")
    assert not issubclass(AuditError, UsageError)
    assert not issubclass(UsageError, AuditError)
