"""What the product raises when it is broken; a "no" is a `Decision`, never an exception."""


class GatewayError(Exception):
    """Something failed in or around the gateway. `hint` says what the operator can do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    @property
    def lines(self) -> tuple[str, ...]:
        """What to tell, line by line: a line end in a name that stands in a line does not end it."""
        return (str(self),)


class UsageError(GatewayError):
    """The command line or environment asks for something contradictory or unknown: exit status 2."""


class AuditError(GatewayError):
    """A record could not be written; whatever it was about must not happen."""
