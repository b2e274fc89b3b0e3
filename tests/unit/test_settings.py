"""A number out of any range is refused for every setting."""

from __future__ import annotations

import pytest

from hardwon import settings

NUMBERS = [setting for setting in settings.SETTINGS if type(setting.default) in (int, float)]


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), float("-inf"), 1e300], ids=str)
@pytest.mark.parametrize("setting", NUMBERS, ids=lambda setting: setting.name)
def test_a_number_out_of_any_range_is_a_fault_and_the_default_holds(setting: settings.Setting, value: float) -> None:
    fault = settings.find_fault(setting, value)
    assert fault is not None and setting.name in fault and len(fault) < 200
    resolved = settings.resolve_settings({setting.name: value})[setting.name]
    assert resolved == (0 if setting.name.startswith("caps.") else setting.default)
