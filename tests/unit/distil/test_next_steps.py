"""Next steps are found in the forms that agents use, and not in sentences that only resemble them."""

from __future__ import annotations

from hardwon.distil.next_steps import find_next_steps

# A message and the steps it states, in order.
STATED = (
    ("It works.\n\nNext: change the landing.", ["change the landing."]),
    ("TODO: write the changelog", ["write the changelog"]),
    ("Remaining: the docs and the tests.", ["the docs and the tests."]),
    ("What's left: rename the tail.", ["rename the tail."]),
    ("Next steps: run the wind tests.", ["run the wind tests."]),
    ("## Next steps\n\n1. Add the tail\n2. Paint it\n\nThat is all.", ["Add the tail", "Paint it"]),
    ("**What's left**\n- [x] the string\n- [ ] the tail of the kite", ["the tail of the kite"]),
    ("Still open:\n- the lamp is dim", ["the lamp is dim"]),
    ("Next up per PLAN.md: **the second kite**.", ["the second kite."]),
    (
        "Loose end: the commit is local; push whenever you're ready.",
        ["the commit is local; push whenever you're ready."],
    ),
    ("Try again:\n\n```bash\n./run.sh\n```\n", ["Try again: ./run.sh"]),
    ("I'd add tests for the tail next.", ["I'd add tests for the tail next."]),
    (
        "After the merge is deployed, rerun the workflow by hand.",
        ["After the merge is deployed, rerun the workflow by hand."],
    ),
    (
        "You should run `conda activate kite` in your terminal.",
        ["You should run `conda activate kite` in your terminal."],
    ),
    ("The page is ready to post.", ["The page is ready to post."]),
    ("The tail is not yet implemented.", ["The tail is not yet implemented."]),
    ("## Out of scope\n\n- Night flights need lamps.", ["Night flights need lamps."]),
    ("The branch is ready. Want me to open a PR for it?", ["Want me to open a PR for it?"]),
    ("If this still fails, we can build it outside.", ["If this still fails, we can build it outside."]),
    (
        "Three branches are left over. Want me to delete them?",
        ["Three branches are left over. Want me to delete them?"],
    ),
)
NOT_STATED = (
    "The kite is done and all tests pass.",
    "The remaining files are pre-existing changes unrelated to this fix.",
    "Next.js rewrites these requests:\n- all assets load on the first try",
    "Nothing else is left to do.",
    "Want me to explain it?",
    "Would you like me to continue?",
    "Let me know if you have questions.",
    "The worker was not deployed from that commit.",
    "Now let me continue with the remaining work.",
    "If the tail is out of scope, say so.",
    "Deferred loading works.",
    "Should the tail be done?",
    "Pending state is kept in:\n- the string",
    "The todo count is right: the tail todo is already done.",
    "All tests pass.\n\nReady to commit.",
    "Everything is ready for review.",
    "The PR body flags the longer string as a follow-up.",
    "Here's the check, with the one correction worth fixing before you file.",
)


def test_a_stated_step_is_found_in_every_form() -> None:
    for message, steps in STATED:
        assert [step.text for step in find_next_steps(message)] == steps, message


def test_a_sentence_that_only_resembles_a_step_is_ignored() -> None:
    for message in NOT_STATED:
        assert find_next_steps(message) == [], message


def test_firm_steps_come_before_offers_and_states() -> None:
    message = "Nothing is pushed. Want me to push the branch? You should run the wind tests first."
    steps = find_next_steps(message)
    assert steps[0].is_firm and steps[-1].is_state
    assert any(step.is_offer for step in steps)


def test_what_a_report_calls_uncommitted_is_no_step_and_a_recommendation_is() -> None:
    message = (
        "## Overview\n\nUncommitted additions: a `--storm` flag and a longer ribbon for the light kite.\n\n"
        "## Recommendation\n\nAddress the knot of the ribbon before merging."
    )
    assert [step.text for step in find_next_steps(message)] == ["Address the knot of the ribbon before merging."]
    assert [step.text for step in find_next_steps("The ribbon change is still uncommitted.")] != []
