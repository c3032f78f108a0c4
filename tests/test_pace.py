"""A lab knows how fast the machine is, says so, and takes a workload that suits it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lablib import doctor, measure
from lablib import pace as pace_module
from lablib.model import load_model
from lablib.pace import SLOW_STEP_SECONDS, Pace, in_words, pace, pick

SetPace = Callable[[float], None]


@pytest.fixture
def set_pace(monkeypatch: pytest.MonkeyPatch) -> SetPace:
    monkeypatch.delenv("LABLIB_WORKLOAD", raising=False)

    def set_to(step_seconds: float) -> None:
        monkeypatch.setattr(pace_module, "pace", lambda: Pace(step_seconds))

    return set_to


def test_a_slow_machine_gets_the_small_workload_and_a_fast_one_the_large(set_pace: SetPace) -> None:
    set_pace(1.01 * SLOW_STEP_SECONDS)
    assert pick("large one", "small one") == "small one"
    set_pace(0.99 * SLOW_STEP_SECONDS)
    assert pick("large one", "small one") == "large one"


def test_the_choice_can_be_made_by_name_and_a_wrong_name_is_refused(
    set_pace: SetPace, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_pace(10 * SLOW_STEP_SECONDS)
    monkeypatch.setenv("LABLIB_WORKLOAD", "large")
    assert pick("large one", "small one") == "large one"
    monkeypatch.setenv("LABLIB_WORKLOAD", "huge")
    with pytest.raises(ValueError, match="LABLIB_WORKLOAD='huge' is neither 'large' nor 'small'"):
        pick("large one", "small one")


def test_a_lab_says_how_long_it_computes_and_that_it_took_the_smaller_workload(set_pace: SetPace) -> None:
    lab = next(lab for lab in doctor.LABS if lab.number == "03")
    set_pace(SLOW_STEP_SECONDS / 3)
    assert f"about {in_words(lab.steps * SLOW_STEP_SECONDS / 3)} in all" in doctor.ready("03")
    set_pace(3 * SLOW_STEP_SECONDS)
    said = doctor.ready("03")
    assert f"smaller workload this lab computes for about {in_words(3 * lab.small_steps * SLOW_STEP_SECONDS)}" in said
    assert f"LABLIB_WORKLOAD=large asks for the larger one, about {in_words(3 * lab.steps * SLOW_STEP_SECONDS)}" in said


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.1, "5 s"), (18, "20 s"), (88, "90 s"), (100, "2 minutes"), (340, "6 minutes")]
)
def test_durations_are_said_as_one_would_say_them(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.model
def test_the_stand_in_is_about_as_fast_as_the_model_it_stands_for() -> None:
    model = load_model()
    ratios = []
    for _ in range(5):  # side by side, since a machine's speed drifts
        pace.cache_clear()
        ratios.append(pace().step_seconds / measure.decode_seconds(model, 8, 128))
        if 0.5 < ratios[-1] < 2:
            return
    pytest.fail(f"stand-in and model differ by factors of {ratios}")
