"""The honest table: whole, the same in README, and with a test behind every claim."""

import ast

import pytest

from gateway.doctor.boundaries import (
    BOUNDARIES,
    NATIVE,
    NONE,
    Boundary,
    Hold,
    Who,
    as_json,
    as_markdown,
    as_text,
)
from tests.source_tree import ROOT

# Boundary and how far it holds -> tests that show it, each with nothing but that boundary in the way.
PROOFS: dict[tuple[str, Hold], tuple[str, ...]] = {
    ("worktree", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_worktree",
        "tests/hostile/test_inside_the_wrap.py::test_nothing_is_written_in_other_modes",
        "tests/e2e/test_repository_untouched.py::test_a_run_leaves_no_trace",
    ),
    ("path confinement", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_path_confinement",
        "tests/hostile/test_inside_the_wrap.py::test_denied_names_are_not_written",
        "tests/hostile/test_inside_the_wrap.py::test_secrets_are_not_read",
        "tests/sandbox/test_attacks.py::test_no_route_gets_through",
    ),
    ("path confinement", Hold.SOFT): (
        "tests/sandbox/terminal/test_wrap.py::test_secrets_cannot_be_read",
        "tests/sandbox/terminal/test_wrap.py::test_names_are_the_persons_own",
    ),
    ("tool surface", Hold.SOFT): (
        "tests/e2e/test_layers.py::test_tool_surface",
        "tests/e2e/test_hook_inside.py::test_a_mode_that_only_reads_does_not_offer_what_changes",
        "tests/api/test_tool_call.py::test_the_tools_of_a_mode",
    ),
    ("guardrails", Hold.SOFT): (
        "tests/e2e/test_layers.py::test_guardrails",
        "tests/e2e/test_hook_inside.py::test_every_call_is_judged_and_recorded",
        "tests/e2e/test_hook_inside.py::test_any_other_harness",
    ),
    ("credentials", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_credentials",
        "tests/e2e/test_push_inside.py::test_the_token_inside_only_reads",
        "tests/e2e/test_push_inside.py::test_the_key_of_the_app_is_out_of_sight",
        "tests/e2e/test_push_tokens.py::test_who_sees_a_token",
    ),
    ("credentials", Hold.SOFT): (
        "tests/e2e/test_terminal_profile.py::test_secrets_stay_out_of_a_wrap",
        "tests/sandbox/terminal/test_environment.py::test_what_passes_into_a_wrap",
    ),
    ("push gate", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_push_gate",
        "tests/e2e/test_push_inside.py::test_settings_are_no_boundary",
        "tests/e2e/test_push.py::test_what_the_rules_say_is_what_happens",
    ),
    ("push gate", Hold.SOFT): ("tests/e2e/test_push.py::test_what_the_rules_say_is_what_happens",),
    ("egress", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_egress",
        "tests/e2e/test_wrap.py::test_nothing_is_reached_without_the_proxies",
        "tests/e2e/test_sessions.py::test_network_off",
    ),
    ("egress", Hold.SOFT): ("tests/e2e/test_curl.py::test_refusals_are_readable",),
    ("OS wrap", Hold.ENFORCED): (
        "tests/e2e/test_layers.py::test_os_wrap",
        "tests/hostile/test_inside_the_wrap.py::test_another_session_is_not_met",
        "tests/sandbox/terminal/test_wrap.py::test_own_state_is_hidden",
        "tests/sandbox/terminal/test_wrap.py::test_processes_of_the_host_are_not_seen",
    ),
}
NOTHING = Hold.NOT_AT_ALL


def claims() -> set[tuple[str, Hold]]:
    """What the table says of anybody, but for nothing."""
    cells = ((row.name, cell) for row in BOUNDARIES for cell in row.cells.values())
    return {(name, hold) for name, cell in cells for hold in (cell.native, cell.none) if hold is not NOTHING}


def test_every_claim_has_its_tests() -> None:
    assert claims() == PROOFS.keys()


@pytest.mark.parametrize("test", sorted({test for tests in PROOFS.values() for test in tests}))
def test_the_tests_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    assert any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def test_everybody_is_spoken_of() -> None:
    assert len({row.name for row in BOUNDARIES}) == len(BOUNDARIES) == 8
    assert all(tuple(row.cells) == tuple(Who) for row in BOUNDARIES)


@pytest.mark.parametrize("row", BOUNDARIES, ids=lambda row: row.name)
def test_nothing_is_enforced_without_a_wrap(row: Boundary) -> None:
    order = (Hold.NOT_AT_ALL, Hold.SOFT, Hold.ENFORCED)
    for cell in row.cells.values():
        assert cell.none is not Hold.ENFORCED
        assert order.index(cell.none) <= order.index(cell.native)
        assert (cell.under(NATIVE), cell.under(NONE)) == (cell.native, cell.none)
        assert cell.under("microvm") is cell.none


def test_readme_has_this_very_table() -> None:
    """`agent-gateway doctor --boundaries --markdown` prints it."""
    assert as_markdown() in (ROOT / "README.md").read_text("utf-8")


def test_text_of_one_backend() -> None:
    lines = as_text(NONE).splitlines()
    assert lines[0] == "what holds, under none:"
    assert lines[1].split("  ")[0] == "boundary"
    assert "enforced" not in as_text(NONE)


def test_text_of_both() -> None:
    (egress,) = (line for line in as_text().splitlines() if line.startswith("egress"))
    assert egress.split("  ")[0] == "egress"
    assert egress.count("enforced / soft") == 3


def test_json() -> None:
    row = next(one for one in as_json() if one["name"] == "egress")
    assert row["holds"] == {
        "Claude Code": {"native": "enforced", "none": "soft"},
        "ACP agent": {"native": "enforced", "none": "soft"},
        "harness bash": {"native": "enforced", "none": "soft"},
        "terminal": {"native": "not at all", "none": "not at all"},
    }
