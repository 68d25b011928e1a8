"""What finds rules about a request: how its command begins, how its host ends."""

from gateway.policy.action_request import ActionRequest, command_anchor, path_anchor, spellings
from gateway.policy.actions import Action
from gateway.policy.repositories import parse_repository


def test_anchors() -> None:
    assert ActionRequest(Action.COMMIT).anchors == ()
    assert ActionRequest(Action.ACCESS_NETWORK, host="a.b.x.test").anchors == ("x.test",)
    found = ActionRequest(Action.COMMIT, words=tuple("abcdef")).anchors
    assert found == tuple(command_anchor(tuple("abcdef"[:length])) for length in range(1, 5))
    assert command_anchor(tuple("abcdef")) == found[-1]
    assert ActionRequest(Action.DELETE_FILE, path="/A/b/").anchors == ("/a/b",)
    assert ActionRequest(Action.WRITE_OUTSIDE, path="/a/b").anchors == ()


def test_a_command_is_found_by_the_program_of_its_kind() -> None:
    found = ActionRequest(Action.COMMIT, words=("pip3.11", "install")).anchors
    assert {command_anchor(("pip",)), command_anchor(("pip3.11", "install"))} < set(found)
    assert spellings(("pip3", "x")) == (("pip3", "x"), ("pip", "x"))
    assert spellings(("pip", "x")) == (("pip", "x"),)
    assert spellings(()) == ()


def test_text() -> None:
    widget = parse_repository("Acme/Widget")
    request = ActionRequest(Action.DELETE_FILE, host="x.test", path="/A/b", repository=widget)
    assert request.text == "x.test\0/a/b/\0acme/widget"
    assert "\u00e9" in ActionRequest(Action.DELETE_FILE, path="/E\u0301").text


def test_what_is_not_known() -> None:
    assert ActionRequest(Action.COMMIT).unknown == ("host", "path", "repository")
    assert ActionRequest(Action.COMMIT, host="x.test", path="/").unknown == ("repository",)


def test_the_root_is_a_directory_too() -> None:
    assert path_anchor("/") == "/" == path_anchor("")
    assert path_anchor("/A/b/") == "/a/b"
