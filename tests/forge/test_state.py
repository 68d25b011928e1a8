"""What belongs to what: a token reaches a repository only while all of its chain stands."""

from gateway.forge.server import Forge
from gateway.forge.state import State
from tests.fakes.forge import READ, AppClient


def test_a_token_reaches(forge: Forge, app: AppClient) -> None:
    forge.create_repository("acme/widget")
    forge.create_repository("acme/other")
    widget, other = forge.repositories.find("acme/widget"), forge.repositories.find("acme/other")
    assert widget is not None
    assert other is not None
    app.mint("acme/widget", READ)
    (token,) = forge.tokens.minted
    state = forge.state
    assert isinstance(state, State)
    assert state.reaches(token, widget)
    assert not state.reaches(token, other)
    widget.installed = False
    assert not state.reaches(token, widget)
    widget.installed = True
    forge.repositories.suspend("acme")
    assert not state.reaches(token, widget)
    forge.repositories.suspend("acme", suspended=False)
    forge.repositories.rename("acme/widget", "elsewhere/widget")
    assert not state.reaches(token, widget)
